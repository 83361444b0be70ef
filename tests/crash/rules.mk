#help make crash      200,000 disk states that a power cut could leave, and what becomes of them
#help make check-crash STATES=N SEED=S   the same, 10 million by default

CRASH_OBJ := $(call obj,$(wildcard tests/crash/*.c tests/crash/*/*.c tests/steps/*.c))
TEST_PROGRAMS += $B/tests/crash/explore
$B/tests/crash/explore: $(CRASH_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

STATES ?= 10000000
.PHONY: crash crash-brief check-crash
crash: $B/tests/crash/explore
	@$< --states 200000 --seed $(SEED)

# For make check; with these states tests/mutants/run.pl sees the planted bugs caught.
crash-brief: $B/tests/crash/explore
	@$< --states 20000 --seed $(SEED)
	@$< --workload failed-sync --states 8000 --seed $(SEED)

check-crash: $B/tests/crash/explore
	@$< --states $(STATES) --seed $(SEED)
