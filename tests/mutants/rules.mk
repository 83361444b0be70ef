#help make check-mutants  plants each bug of tests/mutants/planted: its test must fail (JOBS=N ONLY=regex LIST=1)
#help      DRAWN=1: mutants that tests killed once are killed still; DRAW=N SEED=S: N fresh ones, 30 CPU seconds each (CPU=N)
#help make check-planted  does each planted bug still fit the source, in one place?

JOBS ?= $(shell nproc)
.PHONY: check-mutants check-planted deps-mutants
deps-mutants: | deps-test
	$(call install,git perl-base)

check-mutants: | deps-mutants
	@perl tests/mutants/run.pl --jobs $(JOBS) --work $B/mutants $(if $(ONLY),--only '$(ONLY)') $(if $(LIST),--list) \
	    $(if $(DRAWN),--drawn) $(if $(DRAW),--draw $(DRAW) --seed $(SEED)) $(if $(RECORD),--record) $(if $(CPU),--cpu $(CPU))

check-planted: | deps-mutants
	@perl tests/mutants/planted.pl tests/mutants/planted tests/leveldb/planted tests/rocksdb/planted
