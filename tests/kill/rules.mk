#help make kill       writers killed 300 times at calls and at any moment, and what is lost
#help make check-kill CYCLES=N SEED=S   the same at every call, 5,000 times by default

KILL_OBJ := $(call obj,$(wildcard tests/kill/*.c tests/steps/*.c))
TEST_PROGRAMS += $B/tests/kill/kill
$B/tests/kill/kill: $(KILL_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

CYCLES ?= 5000
.PHONY: kill kill-brief check-kill
kill: $B/tests/kill/kill
	@$< --cycles 300 --seed $(SEED)

kill-brief: $B/tests/kill/kill
	@$< --cycles 60 --every 50 --seed $(SEED)

check-kill: $B/tests/kill/kill
	@$< --cycles $(CYCLES) --every 1 --seed $(SEED)
