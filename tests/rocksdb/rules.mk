#help make check-rocksdb   the shim on the real RocksDB: killed at each step, checked, counted (KEYS=N KILLS=N SEED=S)

ROCKSDB_TEST_OBJ := $(patsubst %.cc,$B/%.o,$(wildcard tests/rocksdb/*.cc))

$B/tests/rocksdb/%.o: tests/rocksdb/%.cc | deps-rocksdb
	$(call cxx,$(CXXBASE) -Ilib -Itools/rocksdb)

$B/tests/rocksdb/rocksdb: $(ROCKSDB_TEST_OBJ) $B/libtamis-rocksdb.a $B/libtamis.a
	$(call link_cxx,-lrocksdb $(LIBS))

KILLS ?= 16
.PHONY: check-rocksdb
check-rocksdb: $B/tests/rocksdb/rocksdb $B/tamis-rocksdb $B/tools/demo/blocks_rocksdb | deps-test
	@BLOCKS=$(abspath $B)/tools/demo/blocks_rocksdb tests/unit.sh tests/demo/blocks.bats
	@CXX='$(CXX)' tests/rocksdb/readme.sh
	@$< --tool $B/tamis-rocksdb --kills $(KILLS) --seed $(SEED) $(if $(KEYS),--keys $(KEYS))

#help make check-rocksdb-planted   planted bugs of the shim, each of which check-rocksdb must find (ONLY=name)
.PHONY: check-rocksdb-planted
check-rocksdb-planted: check-rocksdb
	@tests/engine_bugs.sh rocksdb $B $(ONLY)
