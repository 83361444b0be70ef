// Blocks that RocksDB reads for absent paths, with and without tamis, by its own
// counter. Usage: blocks_rocksdb DIRECTORY LIST...; the directory gets a database and a
// store.
#include <rocksdb/perf_context.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include "blocks.h"
#include "tamis_rocksdb.h"

// A database of some tables though it is small. No block cache: each block that is
// needed is read, and counted. RocksDB's own filters are off unless asked for.
static rocksdb::Options small_tables()
{
    rocksdb::Options options;
    rocksdb::BlockBasedTableOptions table;
    options.create_if_missing = true;
    options.write_buffer_size = options.target_file_size_base = 256 << 10;
    options.disable_auto_compactions = true; // one at the end, so that runs compare
    table.no_block_cache = true;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return options;
}

static uint64_t blocks_read()
{
    return rocksdb::get_perf_context()->block_read_count;
}

static bool found_by_get(rocksdb::DB *db, const std::string &path)
{
    std::string value;
    rocksdb::Status status = db->Get(rocksdb::ReadOptions(), path, &value);
    if (!status.IsNotFound())
        demo::need(status);
    return status.ok();
}

// DB::Get() asks no table filter, an iterator does.
static bool found_with_tamis(rocksdb::DB *db, const tamis::RocksFilters &filters,
                             const std::string &path)
{
    std::string end = path + '\0';
    rocksdb::Slice bound = end;
    rocksdb::ReadOptions options;
    options.table_filter = filters.TableFilter(path);
    options.iterate_upper_bound = &bound;
    std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
    it->Seek(path);
    demo::need(it->status());
    return it->Valid();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        demo::fail("usage: blocks_rocksdb DIRECTORY LIST...");
    std::string dir = argv[1];
    demo::Paths paths = demo::read_lists(argc - 2, argv + 2);

    tamis::RocksOptions ours;
    ours.store = dir + "/rocksdb.store";
    ours.complain = [](const std::string &line) { demo::fail(line); };
    rocksdb::Status status;
    auto filters = tamis::RocksFilters::Open(ours, &status);
    demo::need(status);
    rocksdb::Options options = small_tables();
    demo::need(filters->Use(&options));
    rocksdb::DB *opened;
    demo::need(rocksdb::DB::Open(options, dir + "/rocksdb", &opened));
    std::unique_ptr<rocksdb::DB> db(opened);
    demo::need(filters->Reconcile(db.get()));
    for (const auto &pair : paths.pairs)
        demo::need(db->Put(rocksdb::WriteOptions(), pair.first, pair.second));
    demo::need(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    demo::need(db->PauseBackgroundWork()); // the tables stay the same from here

    std::vector<rocksdb::LiveFileMetaData> tables;
    db->GetLiveFilesMetaData(&tables);
    std::printf(
        "   RocksDB %d.%d.%d: %zu paths of the lists, compacted, in %zu tables. "
        "Blocks that\n   it reads for %zu absent paths, by its own counter "
        "(block_read_count);\n   its block cache and its own filters are off:\n\n",
        ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH, paths.pairs.size(), tables.size(),
        paths.absent.size());
    rocksdb::SetPerfLevel(rocksdb::kEnableCount);
    demo::Asked without = demo::ask(
        paths, [&](const std::string &path) { return found_by_get(db.get(), path); },
        blocks_read);
    demo::Asked with = demo::ask(
        paths,
        [&](const std::string &path) {
            return found_with_tamis(db.get(), *filters, path);
        },
        blocks_read);
    demo::report(paths, "without tamis: Get()", without, "with tamis: TableFilter()",
                 with);
    demo::need(db->ContinueBackgroundWork());
    return 0;
}
