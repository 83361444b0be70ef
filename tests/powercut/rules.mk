#help make check-powercut FS=ext4 STATES=N SEED=S   power cuts under ext4, xfs and btrfs (root; 5,000 states each)

# Not among TEST_PROGRAMS: `make check` needs neither root nor FUSE.
POWERCUT_COMMON := $(patsubst %,$B/tests/powercut/%.o,device host) $B/tests/crash/disk/disk.o
POWERCUT_OBJ := $(patsubst %,$B/tests/powercut/%.o,powercut life check replay) \
    $(call obj,$(wildcard tests/steps/*.c))

.PHONY: deps-powercut check-powercut
deps-powercut: | deps-build
	$(call install,libfuse3-dev e2fsprogs xfsprogs btrfs-progs)

$(POWERCUT_OBJ) $(POWERCUT_COMMON): | deps-powercut
$B/tests/powercut/powercut: $(POWERCUT_OBJ) $(POWERCUT_COMMON) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS) -lfuse3

check-powercut: STATES := $(if $(filter command line environment,$(origin STATES)),$(STATES),5000)
check-powercut: $B/tests/powercut/powercut
	@$< $(if $(FS),--fs $(FS)) --states $(STATES) --seed $(SEED)

#help make check-errors    a disk that answers EIO, loses what it was given, or is full (root; FS=ext4)
ERRORS_OBJ := $B/tests/powercut/errors.o \
    $(call obj,$(wildcard tests/steps/*.c))
$(ERRORS_OBJ): | deps-powercut
$B/tests/powercut/errors: $(ERRORS_OBJ) $(POWERCUT_COMMON) $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS) -lfuse3

.PHONY: check-errors
check-errors: $B/tests/powercut/errors $B/tamis
	@$< $(if $(FS),--fs $(FS))
