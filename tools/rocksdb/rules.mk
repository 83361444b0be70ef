#help make rocksdb    the RocksDB shim (libtamis-rocksdb.a) and build/tamis-rocksdb; installs librocksdb-dev

# C++ as RocksDB 7.8 wants it, with the C warnings that C++ has except -Wshadow: in tamis.h
# a struct and a function may share a name, as stat() in C.
CXXWARN := $(filter-out -Wstrict-prototypes -Wmissing-prototypes -Wshadow,$(WARN))
CXXBASE = -std=c++17 -D_GNU_SOURCE -pthread -fPIC $(OPT) $(SANITIZE) $(CXXWARN) $(WERROR) \
          $(CPPFLAGS) $(CXXFLAGS)
ROCKSDB_SRC := $(filter-out tools/rocksdb/main.cc,$(wildcard tools/rocksdb/*.cc))
ROCKSDB_OBJ := $(ROCKSDB_SRC:%.cc=$B/%.o) $B/tools/bridge/mirror.o

.PHONY: rocksdb deps-rocksdb
rocksdb: $B/libtamis-rocksdb.a $B/tamis-rocksdb

deps-rocksdb: | deps-build
	$(call install,g++ librocksdb-dev)

$B/tools/rocksdb/%.o: tools/rocksdb/%.cc | deps-rocksdb
	$(call cxx,$(CXXBASE) $(INC_tools))

$B/libtamis-rocksdb.a: $(ROCKSDB_OBJ)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$B/tamis-rocksdb: $B/tools/rocksdb/main.o $(BRIDGE_OBJ) $B/libtamis-rocksdb.a $B/libtamis.a
	$(call link_cxx,-lrocksdb $(LIBS) -ljansson)
