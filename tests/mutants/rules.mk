#help make check-mutants  planted bugs, and mutants made by machine: which test catches which
#help      JOBS=N ONLY=regex PERCENT=P (of the mutants; 40) LIST=1 AGAIN=1 (last survivors) QUICK=1
#help make check-planted  does each planted bug still fit the source, in one place?

JOBS    ?= $(shell nproc)
PERCENT ?= 40
.PHONY: check-mutants check-planted deps-mutants
deps-mutants: | deps-test
	$(call install,git perl-base)

check-mutants: | deps-mutants
	@perl tests/mutants/run.pl --jobs $(JOBS) --percent $(PERCENT) $(if $(ONLY),--only '$(ONLY)') \
	    $(if $(LIST),--list) $(if $(AGAIN),--again) $(if $(QUICK),--quick) $(if $(TRUST),--trust) $(if $(KIND),--$(KIND))

check-planted: | deps-mutants
	@perl tests/mutants/planted.pl tests/mutants/planted tests/leveldb/planted tests/rocksdb/planted
