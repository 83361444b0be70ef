# The programs of engines.sh, one an engine. `make demo` builds them where the engine is.

.PHONY: demo-rocksdb demo-leveldb
demo-rocksdb: $B/tools/demo/blocks_rocksdb
demo-leveldb: $B/tools/demo/blocks_leveldb

$B/tools/demo/blocks_rocksdb.o: tools/demo/blocks_rocksdb.cc | deps-rocksdb
	$(call cxx,$(CXXBASE) -Ilib -Itools/rocksdb)

$B/tools/demo/blocks_leveldb.o: tools/demo/blocks_leveldb.cc | deps-leveldb
	$(call cxx,$(LEVELDB_CXXFLAGS) $(OPT) $(SANITIZE) $(WERROR) -Ilib -Itools/leveldb)

$B/tools/demo/blocks_rocksdb: $B/tools/demo/blocks_rocksdb.o $B/libtamis-rocksdb.a $B/libtamis.a
	$(call link_cxx,-lrocksdb $(LIBS))

$B/tools/demo/blocks_leveldb: $B/tools/demo/blocks_leveldb.o $B/libtamis-leveldb.a $B/libtamis.a
	$(call link_cxx,$(LIBS) -lleveldb)
