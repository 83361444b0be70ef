#help make rot EVERY=N SEED=S   files of every kind damaged in every way, one of N; no key is lost (EVERY=1: all)

ROT_OBJ := $(call obj,$(wildcard tests/rot/*.c tests/steps/*.c))
TEST_PROGRAMS += $B/tests/rot/rot
$B/tests/rot/rot: $(ROT_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

.PHONY: rot rot-brief
EVERY ?= 48
rot: $B/tests/rot/rot
	@$< --seed $(SEED) --every $(EVERY)

rot-brief: $B/tests/rot/rot
	@$< --seed $(SEED) --every 192
