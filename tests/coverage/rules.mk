#help make coverage      lines and branches of format/ and lib/ that the tests reach

.PHONY: deps-coverage coverage
deps-coverage: | deps-test
	$(call install,gcovr python3)

# gcc counts the branches of the code that it generates: two for each condition, one for
# each case. At -O0 these are those of the source. Threads share the counters, hence
# atomic: lost increments would make ways up.
COVERAGE_FLAGS := -O0 --coverage -fprofile-update=atomic

coverage: | deps-coverage
	@$(MAKE) --no-print-directory -j$$(nproc) B=$B/coverage COVERAGE=1 OPT='-O0 -g' \
	    SANITIZE='--coverage -fprofile-update=atomic' \
	    CPPFLAGS='-include tests/coverage/exit.h' $B/coverage/tamis tests
	@tests/coverage/coverage.sh $B/coverage

# The tests' own code is not counted, and not slowed down, except in the test of the
# headers.
ifdef COVERAGE
$B/tests/%.o $B/fuzz/%.o: BASE := $(filter-out $(COVERAGE_FLAGS),$(BASE)) -O2
$B/tests/unit/format/test_headers.o: BASE := $(BASE)
endif
