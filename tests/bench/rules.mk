#help make bench        speed against peers and the machine's own limits, a table: build/bench/bench.md (a quarter of an hour)
#help make bench-quick  the same figures of smaller filters, in minutes; both take SEED=S ONLY=REGEX

# Not among TEST_PROGRAMS: it links the peers. It measures the library as it is linked by
# others, the archive; format/geometry.o is for the loops by hand.
BENCH_OBJ := $(call obj,$(wildcard tests/bench/*.c tests/bench/*/*.c)) $B/tests/bench/peers/cxx.o $(INLINE_OBJ)
BENCH_DIR := $B/bench
CXX ?= g++

.PHONY: deps-bench bench bench-quick check-bench
deps-bench: | deps-build
	$(call install,g++ librocksdb-dev)

$(BENCH_OBJ): | deps-bench
$B/tests/bench/peers/cxx.o: tests/bench/peers/cxx.cc
	$(call cxx,-std=c++17 -fPIC -Wall -Wextra -Wconversion $(OPT) $(SANITIZE) $(WERROR) -I. -Ilib)

$B/tests/bench/bench: $(BENCH_OBJ) $B/format/geometry.o $B/format/integrity.o $B/libtamis.a | deps-bench $B/tamis
	$(call link_cxx,-lrocksdb $(LIBS))

ONLY ?=
# The filters are gone when it ends, unless it was killed. The last table stays until there
# is another.
bench_run = rm -rf $(BENCH_DIR).new && mkdir -p $(BENCH_DIR).new && \
    $B/tests/bench/bench $(1) --seed '$(SEED)' $(if $(ONLY),--only '$(ONLY)') --out $(BENCH_DIR).new; \
    code=$$?; [ $$code -le 1 ] || { rm -rf $(BENCH_DIR).new; exit $$code; }; \
    rm -rf $(BENCH_DIR) && mv $(BENCH_DIR).new $(BENCH_DIR) && cat $(BENCH_DIR)/bench.md && exit $$code

bench: $B/tests/bench/bench
	@$(call bench_run,)

bench-quick: $B/tests/bench/bench
	@$(call bench_run,--quick)

check-bench: $B/tests/bench/bench
	@tests/bench/check.sh $< $(BENCH_DIR)-check
