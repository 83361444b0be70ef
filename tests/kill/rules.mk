#help make kill       a writer killed 300 times while two readers ask, and what is lost
#help make check-kill CYCLES=N SEED=S   the same, 5,000 times by default

KILL_OBJ := $(call obj,$(wildcard tests/kill/*.c) tests/model/model.c)
TEST_PROGRAMS += $B/tests/kill/kill
$B/tests/kill/kill: $(KILL_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

CYCLES ?= 5000
.PHONY: kill kill-brief check-kill
kill: $B/tests/kill/kill
	@$< --cycles 300 --seed $(SEED)

kill-brief: $B/tests/kill/kill
	@$< --cycles 60 --seed $(SEED)

check-kill: $B/tests/kill/kill
	@$< --cycles $(CYCLES) --seed $(SEED)
