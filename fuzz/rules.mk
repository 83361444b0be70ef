#help make fuzz-replay   every fuzz target over its corpus, and some mutations of it
#help make fuzz TIME=60 [TARGET=name]   each fuzz target with libFuzzer (clang) for so many seconds
#help make fuzz-minimize TARGET=name    merge what a search has found into the corpus

FUZZ_TARGETS := header record file keys ops store pack list
FUZZ_SHARED  := $(call obj,fuzz/support.c fuzz/stores.c fuzz/mutate.c $(wildcard tests/steps/*.c))
FUZZ_REPLAY  := $(FUZZ_TARGETS:%=$B/fuzz/replay_%)
TEST_PROGRAMS += $(FUZZ_REPLAY)

, := ,
# The key readers and what they call are the tools'.
FUZZ_TOOLS := $(call obj,tools/input/keys.c) $(TALK_OBJ)
$B/fuzz/fuzz_keys.o: INC_fuzz += $(INC_tools)
# The objects of a target beside its own file.
FUZZ_OF_pack := $(call obj,fuzz/pack/pack_hurt.c fuzz/pack/pack_spec.c)
FUZZ_OF_keys := $(FUZZ_TOOLS)
fuzz_objects = $B/fuzz/fuzz_$(1).o $(FUZZ_OF_$(1)) $(FUZZ_SHARED) $(LIB_OBJ)
fuzz_libs = $(LIBS) $(if $(filter keys,$(1)),-Wl$(,)--wrap=read -ljansson)

.SECONDEXPANSION:
$(FUZZ_REPLAY): $B/fuzz/replay_%: $B/fuzz/replay.o $$(call fuzz_objects,$$*)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(call fuzz_libs,$*)

.PHONY: fuzz-replay fuzz fuzz-minimize
MUTATIONS ?= 20
fuzz-replay: $(FUZZ_REPLAY)
	@fuzz/replay.sh $B $(MUTATIONS) $(FUZZ_TARGETS)

# ---- libFuzzer: the same objects, built by clang with counters in them ----------------

FUZZ_SANITIZE := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_B := build/libfuzzer
TIME ?= 60
TARGET ?= $(FUZZ_TARGETS)
fuzz_make = $(MAKE) --no-print-directory B=$(FUZZ_B) CC=clang OPT='-O1 -g' \
	SANITIZE='$(FUZZ_SANITIZE) -fsanitize=fuzzer-no-link'

$(FUZZ_TARGETS:%=$B/fuzz/search_%): $B/fuzz/search_%: $$(call fuzz_objects,$$*)
	$(call say,LD,$@)
	$(Q)$(CC) $(FUZZ_SANITIZE) -fsanitize=fuzzer -o $@ $^ $(call fuzz_libs,$*)

fuzz: | deps-test deps-clang
	@$(fuzz_make) $(TARGET:%=$(FUZZ_B)/fuzz/search_%)
	@fuzz/search.sh $(FUZZ_B) $(TIME) $(TARGET)

fuzz-minimize: | deps-test deps-clang
	@$(fuzz_make) $(TARGET:%=$(FUZZ_B)/fuzz/search_%)
	@fuzz/minimize.sh $(FUZZ_B) $(TARGET)

# ---- for tests of the command: a filter with bytes changed and its checksums right -----

$B/fuzz/hurt: $B/fuzz/hurt.o $(FUZZ_SHARED) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

TEST_PROGRAMS += $B/fuzz/hurt
cli: $B/fuzz/hurt
