#help make rot EVERY=N SEED=S   files of every kind damaged in every way, a sample; no key is lost
#help make check-rot SEED=S     the same with every bit and every length, some minutes

ROT_OBJ := $(call obj,$(wildcard tests/rot/*.c tests/steps/*.c))
TEST_PROGRAMS += $B/tests/rot/rot
$B/tests/rot/rot: $(ROT_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

.PHONY: rot rot-brief check-rot
EVERY ?= 48
rot: $B/tests/rot/rot
	@$< --seed $(SEED) --every $(EVERY)

rot-brief: $B/tests/rot/rot
	@$< --seed $(SEED) --every 192

check-rot: $B/tests/rot/rot
	@$< --seed $(SEED) --every 1
