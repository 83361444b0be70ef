#help make check-devices      the guard against SIGBUS on devices that fail: unreadable pages, full disks (root)

DEVICES_OBJ := $(call obj,$(wildcard tests/devices/*.c))
.PHONY: deps-devices check-devices
deps-devices: | deps-test
	$(call install,libfuse3-dev fuse3 e2fsprogs xfsprogs btrfs-progs)

$(DEVICES_OBJ): | deps-devices
$B/tests/devices/devices: $(DEVICES_OBJ) $(FILTER_OBJ) | deps-devices
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(FILTER_LIBS) -lfuse3 -lcmocka

check-devices: $B/tests/devices/devices $B/tamis
	@tests/unit.sh $<
