#help make crash      200,000 disk states that a power cut could leave, and what becomes of them
#help make check-crash STATES=N SEED=S   the same, 10 million by default

CRASH_OBJ := $(call obj,$(wildcard tests/crash/*.c))
TEST_PROGRAMS += $B/tests/crash/explore
$B/tests/crash/explore: $(CRASH_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

STATES ?= 10000000
.PHONY: crash check-crash
crash: $B/tests/crash/explore
	@$< --states 200000 --seed $(SEED)

check-crash: $B/tests/crash/explore
	@$< --states $(STATES) --seed $(SEED)
