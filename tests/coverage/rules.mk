#help make coverage      branches of format/ and lib/filter that the tests reach, file by file

.PHONY: deps-coverage coverage
deps-coverage: | deps-test
	$(call install,gcovr)

# Threads count in the same counters, hence atomic; -O0, so that branches are those of
# the source.
coverage: | deps-coverage
	@$(MAKE) B=$B/coverage OPT='-O0 -g' SANITIZE='--coverage -fprofile-update=atomic' \
	    CPPFLAGS='-include tests/coverage/exit.h' tests
	@tests/coverage/coverage.sh $B/coverage
