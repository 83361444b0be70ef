#help make bench        speed against peers and the machine's own limits: build/bench/bench.{json,md}, *.svg (some 4 minutes on 2 cores)
#help make bench-quick  the same figures of smaller filters, in under a minute; both take SEED=S KEYS=N PART=name

# Not among TEST_PROGRAMS: it links the peers. It measures the library as it is linked by
# others, the archive; format/geometry.o is the comparators'.
BENCH_OBJ := $(call obj,$(wildcard tests/bench/*.c tests/bench/*/*.c)) $B/tests/bench/compare/peers.o $(INLINE_OBJ)
BENCH_WRAP := -Wl,--wrap=fsync,--wrap=fdatasync
BENCH_DIR := $B/bench
CXX ?= g++

.PHONY: deps-bench bench bench-quick check-bench
deps-bench: | deps-build
	$(call install,g++ libbloom-dev libleveldb-dev gnuplot-nox valgrind jq)

$(BENCH_OBJ): | deps-bench
$B/tests/bench/compare/peers.o: tests/bench/compare/peers.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=c++17 -fPIC -Wall -Wextra -Wshadow -Wconversion $(OPT) $(SANITIZE) $(WERROR) -I. -MMD -MP -c $< -o $@

$B/tests/bench/bench: $(BENCH_OBJ) $B/format/geometry.o $B/format/integrity.o $B/libtamis.a | deps-bench
	$(call say,LD,$@)
	$(Q)$(CXX) $(SANITIZE) -o $@ $^ $(BENCH_WRAP) $(LIBS) -ljansson -lbloom -lleveldb

KEYS ?=
PART ?=
# The filters are gone when it ends, but if it was killed. The last results go when there
# are others.
bench_run = rm -rf $(BENCH_DIR).new && mkdir -p $(BENCH_DIR).new && \
    $B/tests/bench/bench $(1) --seed '$(SEED)' $(if $(KEYS),--keys '$(KEYS)') $(if $(PART),--only '$(PART)') --out $(BENCH_DIR).new; \
    code=$$?; [ $$code -le 1 ] || { rm -rf $(BENCH_DIR).new; exit $$code; }; \
    rm -rf $(BENCH_DIR) && mv $(BENCH_DIR).new $(BENCH_DIR) || exit 2; \
    [ $$code -gt 1 ] || [ -n "$(PART)" ] || tests/bench/plots.sh $(BENCH_DIR) || code=2; \
    [ $$code -gt 1 ] || cat $(BENCH_DIR)/bench.md; exit $$code

bench: $B/tests/bench/bench $B/tamis
	@$(call bench_run,)

bench-quick: $B/tests/bench/bench $B/tamis
	@$(call bench_run,--quick)

check-bench: $B/tests/bench/bench $B/tamis
	@tests/bench/check.sh $< $(BENCH_DIR)-check
