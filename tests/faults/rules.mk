#help make faults     every call that can fail fails, at its 1st, 2nd, ... occurrence; ONLY=point reruns one

FAULTS_OBJ := $(call obj,$(wildcard tests/faults/*.c tests/faults/*/*.c tests/model/*.c))
FAULTS_WRAP := $(shell awk '$$2 == "fail" || $$2 == "pair" { print "-Wl,--wrap=" $$1 }' tests/faults/calls.txt)
TEST_PROGRAMS += $B/tests/faults/faults
$B/tests/faults/faults: $(FAULTS_OBJ) $(LIB_OBJ) tests/faults/calls.txt
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $(filter %.o,$^) $(FAULTS_WRAP) -Wl,-E $(LIBS)

ONLY ?=
.PHONY: faults faults-brief check-calls
faults: $B/tests/faults/faults
	@$< $(if $(ONLY),--only $(ONLY))

# One fault a call, once, and not of all calls: for make check, and for slow builds.
faults-brief: $B/tests/faults/faults
	@$< --brief

check-calls: $(LIB_OBJ)
	@tests/faults/calls.sh $^
