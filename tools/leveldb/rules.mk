#help make leveldb      build/libtamis-leveldb.a (a filter policy) and build/tamis-leveldb (filters of a database's tables)
#help make check-leveldb   tests of both on LevelDB as Debian has it; bench-leveldb: its own policy beside ours; check-leveldb-planted: bugs it must catch

CXX ?= g++
LEVELDB_CXXFLAGS := -std=c++17 -pthread -fPIC -Wall -Wextra -Wshadow -Wconversion

LEVELDB_OBJ := $(patsubst %,$B/tools/leveldb/%.o,policy embedded crc32c)
LEVELDB_TOOL_OBJ := $(patsubst %,$B/tools/leveldb/%.o,fill directory database) \
    $(BRIDGE_OBJ)

.PHONY: leveldb deps-leveldb deps-check-leveldb check-leveldb check-leveldb-planted bench-leveldb
deps-leveldb: | deps-build
	$(call install,g++ libleveldb-dev)

deps-check-leveldb: | deps-test deps-leveldb
	$(call install,jq xxhash)

leveldb: $B/libtamis-leveldb.a $B/tamis-leveldb

$(LEVELDB_OBJ): | deps-leveldb
$B/libtamis-leveldb.a: $(LEVELDB_OBJ)
	$(archive)

$B/tools/leveldb/%.o: tools/leveldb/%.cc | deps-leveldb
	$(call cxx,$(LEVELDB_CXXFLAGS) $(OPT) $(SANITIZE) $(WERROR) -Ilib)

$B/tamis-leveldb: $(LEVELDB_TOOL_OBJ) $B/libtamis.a
	$(call link_cxx,$(LIBS) -lleveldb -ljansson)

# The tests see what the tools see, and the policy's own parts.
LEVELDB_INC := -Ilib -Itools/leveldb -DTAMIS_SOURCE_DIR='"$(CURDIR)"'
LEVELDB_TESTS := $(patsubst %,$B/tests/leveldb/%,test_policy test_database test_table compare database)
$B/tests/leveldb/%.o: tests/leveldb/%.cc | deps-leveldb
	$(call cxx,$(LEVELDB_CXXFLAGS) $(OPT) $(SANITIZE) $(WERROR) $(LEVELDB_INC))

$B/tests/leveldb/test_%.o: INC_tests := $(LEVELDB_INC)
$(patsubst %,$B/tests/leveldb/test_%.o,policy database table): | deps-check-leveldb
$B/tests/leveldb/test_%: $B/tests/leveldb/test_%.o $(LEVELDB_OBJ) $B/libtamis.a
	$(call link_cxx,$(LIBS) -lleveldb -lcmocka)

$B/tests/leveldb/test_table: $B/tools/leveldb/database.o

$B/tests/leveldb/%: $B/tests/leveldb/%.o $B/libtamis-leveldb.a $B/libtamis.a
	$(call link_cxx,$(LIBS) -lleveldb)

check-leveldb: $(LEVELDB_TESTS) all leveldb $B/tools/demo/blocks_leveldb | deps-check-leveldb
	@CC='$(CC)' SANITIZE='$(SANITIZE)' tests/leveldb/check.sh $B

check-leveldb-planted: check-leveldb
	@tests/engine_bugs.sh leveldb $B $(ONLY)

bench-leveldb: $B/tests/leveldb/compare
	@$< --seed $(SEED)
