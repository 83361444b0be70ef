#help make faults     every call that can fail fails, at its 1st, 2nd, ... occurrence; ONLY=point reruns one
#help make stops      threads are cancelled and processes stopped at every call that may block

FAULTS_OBJ := $(call obj,$(wildcard tests/faults/*.c tests/faults/*/*.c) tests/steps/damage.c tests/steps/harness.c tests/steps/model.c tests/steps/threads.c)
FAULTS_WRAP := $(addprefix -Wl$(,)--wrap=,$(shell tests/faults/calls.sh --wrapped))
TEST_PROGRAMS += $B/tests/faults/faults

# Public functions as macros, which note which one a thread is in.
$B/tests/faults/public.h: $B/libtamis.so tests/faults/rules.mk
	@mkdir -p $(@D)
	@nm -D --defined-only $< | sed -n 's/.* T \(tamis_[a-z0-9_]*\).*/\1/p' | awk ' \
	    { name[NR] = $$1; \
	      print "#define " $$1 "(...) PUBLIC(__COUNTER__, FN_" $$1 ", " $$1 "(__VA_ARGS__))" } \
	    END { print "enum public_function {"; for (i = 1; i <= NR; i++) print "FN_" name[i] ","; \
	          print "N_FUNCTIONS };"; printf "#define FUNCTIONS(X)"; \
	          for (i = 1; i <= NR; i++) printf " X(" name[i] ")"; print "" }' >$@.new
	@cmp -s $@.new $@ || cp $@.new $@
$(FAULTS_OBJ): INC_tests += -I$B/tests/faults
$(FAULTS_OBJ): | $B/tests/faults/public.h

$B/tests/faults/faults: $(FAULTS_OBJ) $(LIB_OBJ) tests/faults/calls.txt
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $(filter %.o,$^) $(FAULTS_WRAP) -Wl,-E $(LIBS)

ONLY ?=
.PHONY: faults faults-brief stops stops-brief stops-table check-calls
faults: $B/tests/faults/faults
	@$< $(if $(ONLY),--only $(ONLY))

# One fault a call, once, and not of all calls: for make check, and for slow builds.
faults-brief: $B/tests/faults/faults
	@$< --brief

stops: $B/tests/faults/faults
	@$< --stops $(if $(ONLY),--only $(ONLY))

# Not at all calls: for make check.
stops-brief: $B/tests/faults/faults
	@$< --stops --brief

# Takes over what the last run has seen.
stops-table:
	cp $B/tests/faults/stops.txt tests/faults

check-calls: $(LIB_OBJ)
	@tests/faults/calls.sh $^
