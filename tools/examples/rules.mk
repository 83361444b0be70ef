#help make examples        what a storage engine does with tamis, in four programs: build/examples/*
#help make check-examples  compiles them as they say, runs them, hurts them, and sees planted bugs caught

EXAMPLES := $(patsubst tools/examples/%.c,$B/examples/%,$(wildcard tools/examples/*.c))
$B/examples/lsm_embedded $B/examples/replay: $B/libtamis-filter.a
$B/examples/lsm_embedded $B/examples/replay: EXAMPLE_LIBS := $B/libtamis-filter.a $(FILTER_LIBS)
EXAMPLE_LIBS = $B/libtamis.a $(LIBS)

$B/examples/%: tools/examples/%.c lib/tamis.h $(wildcard lib/tamis/*.h) $B/libtamis.a
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 $(OPT) $(SANITIZE) $(WARN) $(WERROR) -Ilib -o $@ $< $(EXAMPLE_LIBS)

.PHONY: examples check-examples
examples: $(EXAMPLES)

check-examples: all | deps-test deps-clang
	@tests/examples.sh $B
