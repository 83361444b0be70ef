#help make check-arch    format/, lib/ below the store and the goldens on s390x (big-endian) and aarch64, under qemu-user

# Tests that depend on the byte order and the machine's word. The other tests are the same
# C, and would take minutes under an emulator.
ARCHES := s390x aarch64
ARCH_TESTS := $(addprefix test_,format kernel identity commit commit_rules integrity record spec spec_rules \
    golden slots builder builder_order writer writer_open expectations recover failed_syncs losses open_damage)
ARCH_GOLDENS := make_golden make_ribbons make_lists
ARCH_LIB := $(FORMAT_SRC) $(FILTER_SRC)

# xxhash from its header alone, which is the same for every machine; cmocka stands in.
ARCH_INC := -Itests/arch/include -I. -Ilib -I$B/arch/include -DXXH_INLINE_ALL -DGOLDEN_WITHOUT_STORE=
$B/arch/include/xxhash.h: | deps-build
	@mkdir -p $(@D)
	@ln -sf /usr/include/xxhash.h $@

# A script of the test's own name runs it under the emulator.
define arch_rules
$B/arch/$(1)/%.o: %.c $B/arch/include/xxhash.h | deps-arch
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$(1)-linux-gnu-gcc $$(filter-out -fPIC,$$(BASE)) $$(ARCH_INC) \
	    -DTAMIS_SOURCE_DIR='"$$(CURDIR)"' -DTAMIS_BUILD_DIR='"$$(abspath $B/arch/$(1))"' -MMD -MP -c $$< -o $$@

$B/arch/$(1)/%.bin: $B/arch/$(1)/%.o $$(ARCH_LIB:%.c=$B/arch/$(1)/%.o)
	$$(call say,LD,$$@)
	$$(Q)$(1)-linux-gnu-gcc -static -pthread -o $$@ $$^ -lm

$(ARCH_GOLDENS:%=$B/arch/$(1)/tests/golden/%.bin): $B/arch/$(1)/tests/golden/handmade.o $B/arch/$(1)/tests/golden/image.o

$B/arch/$(1)/tests/exchange.bin: $B/arch/$(1)/tests/arch/exchange.o $$(ARCH_LIB:%.c=$B/arch/$(1)/%.o)
	$$(call say,LD,$$@)
	$$(Q)$(1)-linux-gnu-gcc -static -pthread -o $$@ $$^ -lm

$B/arch/$(1)/%: $B/arch/$(1)/%.bin
	@printf '#!/bin/sh\nexec qemu-$(1) %s "$$$$@"\n' '$$(abspath $$<)' > $$@ && chmod +x $$@

ARCH_PROGRAMS += $$(addprefix $B/arch/$(1)/tests/,$$(ARCH_TESTS) $$(addprefix golden/,$$(ARCH_GOLDENS)) exchange)
endef
# As unit_test in the Makefile: a folder for each room, the programs side by side.
define arch_test
$B/arch/$(1)/tests/$(notdir $(2)).bin: $B/arch/$(1)/$(2).o $$(ARCH_LIB:%.c=$B/arch/$(1)/%.o)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(1)-linux-gnu-gcc -static -pthread -o $$@ $$^ -lm
endef
ARCH_SRC := $(foreach s,$(TEST_SRC:.c=),$(if $(filter $(notdir $s),$(ARCH_TESTS)),$s))
ARCH_PROGRAMS :=
$(foreach a,$(ARCHES),$(eval $(call arch_rules,$(a)))$(foreach s,$(ARCH_SRC),$(eval $(call arch_test,$(a),$s))))
-include $(wildcard $B/arch/*/*/*.d $B/arch/*/*/*/*.d $B/arch/*/*/*/*/*.d)

$B/tests/arch/exchange: $B/tests/arch/exchange.o $(FILTER_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(FILTER_LIBS)

.PHONY: deps-arch check-arch
deps-arch: | deps-build
	$(call install,qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-aarch64-linux-gnu libc6-dev-arm64-cross)

check-arch: $(ARCH_PROGRAMS) $B/tests/arch/exchange
	@ARCHES='$(ARCHES)' tests/arch/arch.sh $B/arch $B/tests/arch/exchange $(ARCH_TESTS)
