# tamis: build, install what is missing, test. `make help` lists the targets.
#
# B names the build directory; the sanitizer builds are this same file run again
# with another B and other flags.

CC      ?= cc
B       ?= build
# lib/tamis.h has the version; its first number is that of the ABI.
VERSION := $(shell sed -n 's/^.define TAMIS_VERSION "\(.*\)"$$/\1/p' lib/tamis.h)
SONAME  := libtamis.so.$(firstword $(subst ., ,$(VERSION)))

OPT      ?= -O2 -g
SANITIZE ?=
WERROR   ?=
WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wundef -Wformat=2 \
        -Wswitch-enum -Wimplicit-fallthrough
# Constants are enumerators here, those of formulas too: clang 19 warns of them.
WARN += $(if $(findstring clang,$(CC)),-Wno-enum-float-conversion)
BASE := -std=c11 -D_GNU_SOURCE -pthread -fPIC -fvisibility=hidden $(OPT) $(SANITIZE) \
        $(WARN) $(WERROR) $(CPPFLAGS) $(CFLAGS)

FORMAT_SRC := $(wildcard format/*.c)
# Rooms of lib/ without LMDB, each above those before it; tests/rooms.sh has their arrows.
ROOMS      := io plan kernel kernel/list page filter sort list builder writer derive pack
FILTER_SRC := lib/error.c $(foreach r,$(ROOMS),$(wildcard lib/$r/*.c))
STORE_SRC  := $(wildcard lib/store/*.c lib/store/*/*.c)
# Rooms of the command, each above those before it; tests/layers_tools.sh has their arrows.
TOOL_ROOMS := talk input open output picture plan command file
TOOL_SRC   := tools/tamis.c $(foreach r,$(TOOL_ROOMS),$(wildcard tools/$r/*.c))
# A folder for each room; the programs lie side by side.
TEST_SRC   := $(wildcard tests/unit/*/test_*.c)
TESTS      := $(addprefix $B/tests/,$(notdir $(TEST_SRC:.c=)))

obj = $(patsubst %.c,$B/%.o,$(1))
FORMAT_OBJ := $(call obj,$(FORMAT_SRC))
FILTER_OBJ := $(FORMAT_OBJ) $(call obj,$(FILTER_SRC))
LIB_OBJ    := $(FILTER_OBJ) $(call obj,$(STORE_SRC))
TOOL_OBJ   := $(call obj,$(TOOL_SRC))
# How a tool talks to people: other programs than the command use it too.
TALK_OBJ   := $(call obj,$(wildcard tools/talk/*.c))
# Shared by tamis-leveldb and tamis-rocksdb.
BRIDGE_OBJ := $(patsubst %,$B/tools/bridge/%.o,command database fill mirror report) $B/tools/output/json.o $(TALK_OBJ)

FILTER_LIBS := -lxxhash -lm -pthread
LIBS        := -llmdb $(FILTER_LIBS)

# Each room sees only the rooms that it may see; `make check-layers` adds a grep.
INC_format :=
INC_lib    := -I.
INC_tools  := -Ilib
INC_tests  := -I. -Ilib -DTAMIS_SOURCE_DIR='"$(CURDIR)"' -DTAMIS_BUILD_DIR='"$(abspath $B)"'
INC_fuzz   := $(INC_tests)
room = $(firstword $(subst /, ,$(1)))

.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.PHONY: all help demo check check-all check-long clean format

all: $B/tamis $B/libtamis.a $B/libtamis.so $B/libtamis-filter.a

help:
	@echo "make            build/tamis, build/libtamis.{a,so}, build/libtamis-filter.a (no LMDB)"
	@echo "make demo       install what is missing, build, run the main job on real data"
	@echo "make check      install the test tools, build, test: three minutes on 2 cores"
	@echo "make check-all  the rest: clang, sanitizers, long forms, packages, engines: ten minutes"
	@echo "make check-long many states, kills, rot, mutants and planted bugs: a hundred minutes; as root, real disks too"
	@echo "make unit       only the unit tests of this build (TEST=name for one); unit-long: the long forms"
	@echo "make cli        only the command-line tests"
	@sed -n 's/^#help //p' $(RULES)
	@echo "make check-layers check-symbols check-docs check-debug   the rooms, the exports, the READMEs, gdb"
	@echo "make goldens    write the golden files anew into build/golden, to compare or to put into tests/golden."
	@echo "make compile_commands.json tags   for editors, in build/"
	@echo "make format clean"

define newline


endef
, := ,

# One line a file; V=1 shows the commands.
V ?=
Q := $(if $V,,@)
say = $(if $V,,@printf '  %-5s %s\n' $(1) $(2))

# ---- compile and link ---------------------------------------------------------

$B/%.o: %.c | deps-build
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE) $(INC_$(call room,$*)) -MMD -MP -c $< -o $@

# The library, and its half without LMDB, as one object. Test programs see the internals, so
# they link these and not the archives: half of the time that all objects take.
$B/whole/store.o: $(LIB_OBJ)
$B/whole/filter.o: $(FILTER_OBJ)
$B/whole/%.o:
	@mkdir -p $(@D)
	$(Q)$(CC) -r -nostdlib -o $@ $^

# One object, in which only tamis_* stays global: nothing of ours can collide with
# a name of the program that links it.
define archive
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)$(CC) -r -nostdlib -o $(@:.a=.part.o) $^
	$(Q)objcopy --localize-hidden $(@:.a=.part.o)
	@rm -f $@
	$(Q)$(AR) rcs $@ $(@:.a=.part.o)
endef

# A source in C++, compiled with these flags; a program with it, linked with these libraries.
define cxx
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(1) -MMD -MP -c $< -o $@
endef
define link_cxx
	$(call say,LD,$@)
	$(Q)$(CXX) $(SANITIZE) -o $@ $^ $(1)
endef

$B/libtamis.a: $B/whole/store.o
	$(archive)

$B/libtamis-filter.a: $B/whole/filter.o
	$(archive)

$B/libtamis.so.$(VERSION): $(LIB_OBJ) lib/tamis.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS) $(SANITIZE) -Wl,-soname,$(SONAME) -Wl,--version-script=lib/tamis.map \
	    -Wl,--as-needed -o $@ $(LIB_OBJ) $(LIBS)

# By this name it is linked, by the soname it is found when it runs.
$B/libtamis.so: $B/libtamis.so.$(VERSION)
	@ln -sf $(<F) $B/$(SONAME)
	@ln -sf $(SONAME) $@

$B/tamis: $(TOOL_OBJ) $B/libtamis.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(SANITIZE) -o $@ $(TOOL_OBJ) $B/libtamis.a $(LIBS) -ljansson

# Half of the time that -O2 takes. The library that they test, and probes that are inline,
# are compiled as everywhere.
QUICKLY := $(addprefix $B/,$(addsuffix /%.o,fuzz $(addprefix tests/,unit support/shop steps crash faults kill rot golden paper)))
$(QUICKLY): BASE := $(subst -O2,-Og,$(BASE))

# Unit tests of the filter half link no LMDB: that they pass shows that it needs none.
# They include cmocka.h, which deps-build does not install.
$(TEST_SRC:%.c=$B/%.o) $(call obj,$(wildcard tests/support/shop/*.c)): | deps-test
# A call within one object cannot be wrapped.
OF_OBJECTS := test_builder_check
$(OF_OBJECTS:%=$B/tests/%): TEST_WRAP := -Wl,--wrap=kernel_get,--wrap=fill_begin,--wrap=fill_end,--wrap=page_digest,--wrap=commit_encode,--wrap=identity_encode
# Loops over inline probes, for each processor that a caller's compiler may be told.
INLINE_OBJ := $(patsubst %,$B/tests/support/inline/%.o,plain avx2 avx512)
ifeq ($(shell uname -m),x86_64)
$B/tests/support/inline/avx2.o: BASE += -mavx2 -mbmi2
$B/tests/support/inline/avx512.o: BASE += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mbmi2
endif
$B/tests/test_inline $B/tests/test_store_inline $B/tests/test_blocks: $(INLINE_OBJ)
define unit_test
$B/tests/$(notdir $1): $B/$1.o $2 | deps-test
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(SANITIZE) -o $$@ $$(filter %.o %.a,$$^) $3 $$(TEST_WRAP) -lcmocka
endef
# The scenes of tests/support/shop as one member, which only programs that play them take.
$B/tests/support/shop.a: $(call obj,$(wildcard tests/support/shop/*.c))
	$(Q)$(CC) -r -nostdlib -o $(@:.a=.o) $^
	@rm -f $@
	$(Q)$(AR) rcs $@ $(@:.a=.o)
linked = $(if $(filter $(OF_OBJECTS),$(notdir $1)),$(FILTER_OBJ),$B/whole/filter.o)
$(foreach t,$(filter-out tests/unit/writer/test_interleavings_%,$(TEST_SRC:.c=)), \
    $(eval $(if $(findstring /store_,$(dir $t)),$(call unit_test,$t,$B/whole/store.o $B/tests/support/shop.a,$$(LIBS)), \
        $(call unit_test,$t,$(call linked,$t),$$(FILTER_LIBS)))))

# Two copies of the library for one process, as a plugin and its host have them.
$B/tests/plugin_%.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS) $(SANITIZE) -o $@ $(LIB_OBJ) $(LIBS)
$B/tests/test_store_copies: $B/tests/plugin_a.so $B/tests/plugin_b.so $B/libtamis.so

# Objects with the places at which a test holds threads; no other program has them.
SYNC_SRC := $(shell grep -lw SYNC_POINT $(FILTER_SRC))
SYNC_OBJ := $(filter-out $(call obj,$(SYNC_SRC)),$(FILTER_OBJ)) $(SYNC_SRC:lib/%.c=$B/sync/%.o)
$B/sync/%.o: lib/%.c | deps-build
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(BASE) -DTAMIS_SYNC_POINTS $(INC_lib) -MMD -MP -c $< -o $@

$B/tests/test_interleavings_%: $B/tests/unit/writer/test_interleavings_%.o $(SYNC_OBJ) | deps-test
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(FILTER_LIBS) -lcmocka

-include $(wildcard $B/*/*.d $B/*/*/*.d $B/*/*/*/*.d)

# ---- what must be installed -----------------------------------------------------

define install
	@there=" $$(dpkg-query -W -f='$${Package}:$${db:Status-Status} ' $(1) 2>/dev/null)"; \
	missing=""; for p in $(1); do \
	    case $$there in *" $$p:installed "*) ;; *) missing="$$missing $$p" ;; esac; \
	done; \
	if [ -n "$$missing" ]; then \
	    sudo=""; [ "$$(id -u)" = 0 ] || sudo="sudo "; \
	    if ! command -v apt-get >/dev/null || { [ -n "$$sudo" ] && ! command -v sudo >/dev/null; }; then \
	        echo "tamis needs these packages, by their Debian names; please have them installed:$$missing" >&2; exit 2; fi; \
	    echo "installing what is missing: $${sudo}apt-get install$$missing"; \
	    $$sudo env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes flock -o /var/lib/dpkg sh -c "apt-get update -q >/dev/null && apt-get install -q -y --no-install-recommends$$missing >/dev/null" </dev/null || exit 2; \
	fi
endef

.PHONY: deps-build deps-test deps-clang deps-debug
deps-build:
	$(call install,gcc libc6-dev binutils liblmdb-dev libxxhash-dev libjansson-dev)

deps-test: | deps-build
	$(call install,libcmocka-dev bats g++ strace jq libxml2-utils)

deps-clang: | deps-build
	$(call install,clang libclang-rt-dev llvm)

deps-debug: | deps-test
	$(call install,gdb)

# ---- test programs with a directory of their own ---------------------------------

# Each adds its programs to TEST_PROGRAMS, and its targets with a "#help" line each.
TEST_PROGRAMS :=
SEED ?= 1
RULES := $(wildcard tests/*/rules.mk fuzz/rules.mk tools/*/rules.mk)
include $(RULES)

# ---- the two commands of the README ---------------------------------------------

demo: all
	@tools/demo/demo.sh $B/tamis $B/demo

check: deps-test
	@tests/check.sh

# No test runs in both in the same form.
check-all: deps-test deps-clang deps-check-install deps-bench deps-paper deps-check-leveldb deps-rocksdb deps-debug
	@tests/check_all.sh

# The longest first, so that none is left alone at the end.
LONGEST := test_packs_alike test_store_wide test_list_pages test_error_rates test_open test_pack \
           test_builder_check test_plan_store test_writer_threads test_sealed_damage \
           output/picture store/pack_refused size/plan_store store/grow output/json \
           store/meanwhile input/keys damage/signals
longest_first = $(filter $1,$(LONGEST)) $(filter-out $(LONGEST),$1)

check-long: deps-test deps-powercut deps-arch deps-mutants deps-check-leveldb deps-rocksdb
	@tests/check_long.sh

# Some tests hold what these write against the files in tests/golden.
GOLDEN_MAKERS := $B/tests/golden/make_golden $B/tests/golden/make_packs \
    $B/tests/golden/make_ribbons $B/tests/golden/make_lists

# All test programs of this build, built but not run.
.PHONY: tests
tests: $(TESTS) $(GOLDEN_MAKERS) $(TEST_PROGRAMS)

.PHONY: unit unit-long unit-again unit-threads unit-kernel cli check-layers check-symbols check-docs check-debug goldens
$B/tests/test_golden: | $(GOLDEN_MAKERS)
unit: $(patsubst %,$B/tests/%,$(or $(TEST),$(call longest_first,$(notdir $(TESTS)))))
	@tests/unit.sh $^

# Programs that do more with TAMIS_TEST_LONG=1.
LONG_TESTS := test_blocks test_error_rates test_estimate test_list_pages test_pack \
              test_packs_alike test_plan_store test_sealed_damage \
              test_store_copy test_store_pack test_store_wide test_writer_threads
unit-long: $(LONG_TESTS:%=$B/tests/%)
	@TAMIS_TEST_LONG=1 tests/unit.sh $^

# For a second compiler and for sanitizers. Statistics of fixed seeds are left out: they
# would come to the same numbers. So is a store of 65,736 segments.
STATISTICS := test_error_rates test_estimate test_plan_store test_store_wide
unit-again: $(patsubst %,$B/tests/%,$(call longest_first,$(filter-out $(STATISTICS),$(notdir $(TESTS)))))
	@tests/unit.sh $^

# The tests with threads and processes, for TSan.
THREADED := test_writer_threads test_guard_many test_store_edit test_store_snapshot \
            test_process test_store_backup_meanwhile \
            test_store_prepare test_partition test_builder_check test_pack_threads \
            test_store_pack_threads test_store_many_at_once test_store_stats_threads \
            test_never_waits test_settle test_store_replaced test_store_names \
            test_store_looks test_interleavings_floors \
            test_interleavings_growth test_interleavings_alone test_interleavings_quick \
            test_alone test_store_balance test_store_unmapped
unit-threads: $(patsubst %,$B/tests/%,$(call longest_first,$(THREADED)))
	@tests/unit.sh $^

# Tests that probe and add, for a kernel that this machine would not choose: KERNEL=name.
PROBING := test_batch test_builder test_builder_check test_partition \
           test_sealed_damage test_open_damage test_refresh test_writer_threads \
           test_store_many test_blocks test_packs_alike test_packs_lanes \
           test_alone test_quick
unit-kernel: $(patsubst %,$B/tests/%,$(call longest_first,$(PROBING)))
	@TAMIS_KERNEL=$(KERNEL) tests/unit.sh $^

# They wait for the disk and for each other half of the time: so one more than there are cores.
CLI := $(patsubst tests/cli/%.bats,%,$(wildcard tests/cli/*/*.bats))
# Sanitizers take memory of their own.
CLI := $(filter-out $(if $(SANITIZE),output/memory),$(CLI))
cli: $B/tamis | deps-test
	@TAMIS=$(abspath $B/tamis) JOBS=$$(($$(nproc) + 1)) tests/unit.sh $(patsubst %,tests/cli/%.bats,$(call longest_first,$(CLI)))

check-layers: all | deps-test
	@tests/layers.sh
	@tests/rooms.sh $B
	@tests/layers_tools.sh
	@tests/bats_checks.sh

check-symbols: all
	@tests/symbols.sh $B
	@tests/circles.sh $(LIB_OBJ) $(TOOL_OBJ)

check-debug: $B/tamis | deps-debug
	@tests/debug.sh $B

check-docs: all
	@CC='$(CC)' SANITIZE='$(SANITIZE)' tests/readme.sh $B

goldens: $(GOLDEN_MAKERS)
	@rm -rf $B/golden
	@mkdir -p $B/golden/packs $B/golden/ribbons $B/golden/lists
	$B/tests/golden/make_golden $B/golden
	$B/tests/golden/make_packs $B/golden/packs
	$B/tests/golden/make_ribbons $B/golden/ribbons
	$B/tests/golden/make_lists $B/golden/lists

$(GOLDEN_MAKERS): %: %.o $B/tests/golden/handmade.o $B/tests/golden/image.o $B/whole/store.o
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

# For editors: clangd looks into build/ by itself. $(file) writes it, a line for each source.
define one_command
{"directory": "$(CURDIR)", "file": "$1", "command": "$(CC) $(subst ",\",$(BASE) $(INC_$(call room,$1)) $(INC_rooms)) -c $1"}
endef
INC_rooms := $(patsubst %,-I%,tools tools/leveldb $B/tests/faults)
SOURCES := $(wildcard $(foreach r,format lib tools tests fuzz,$r/*.c $r/*/*.c $r/*/*/*.c))
.PHONY: compile_commands.json tags
compile_commands.json: $B/compile_commands.json
$B/compile_commands.json: $(SOURCES) Makefile
	@mkdir -p $B
	$(file >$@,[$(foreach f,$(SOURCES),$(if $(filter-out $(firstword $(SOURCES)),$f),$(,))$(newline)$(call one_command,$f))$(newline)])

# In vim: set tags=build/tags
tags:
	@command -v ctags >/dev/null || { echo "make tags needs ctags: sudo apt-get install universal-ctags" >&2; exit 2; }
	@mkdir -p $B
	ctags -f $B/tags --tag-relative=yes -R format lib tools tests fuzz

format:
	$(call install,clang-format)
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf build
