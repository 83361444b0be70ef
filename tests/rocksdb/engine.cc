/* A small database of two column families, wired as tamis_rocksdb.h says. */
#include "test.h"

#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>
#include <unistd.h>

namespace
{

/* The newest operand wins. */
class Newest : public rocksdb::AssociativeMergeOperator
{
  public:
    bool Merge(const rocksdb::Slice &, const rocksdb::Slice *,
               const rocksdb::Slice &value, std::string *out,
               rocksdb::Logger *) const override
    {
        *out = value.ToString();
        return true;
    }
    const char *Name() const override
    {
        return "test.Newest";
    }
};

} // namespace

std::string DbPath()
{
    return settings.dir + "/db";
}

std::string StorePath()
{
    return settings.dir + "/store";
}

rocksdb::Options SmallOptions()
{
    rocksdb::Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.write_buffer_size = 128 << 10;
    options.target_file_size_base = 128 << 10;
    options.max_bytes_for_level_base = 512 << 10;
    options.max_bytes_for_level_multiplier = 4;
    options.level0_file_num_compaction_trigger = 2;
    options.compression = rocksdb::kNoCompression;
    options.max_background_jobs = 2;
    options.merge_operator = std::make_shared<Newest>();
    rocksdb::BlockBasedTableOptions table;
    table.no_block_cache = true; /* a block that is looked at is a block that is read */
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return options;
}

rocksdb::Options QuietOptions()
{
    rocksdb::Options options = SmallOptions();
    options.disable_auto_compactions = true;
    return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(const rocksdb::Options &options)
{
    return {{rocksdb::kDefaultColumnFamilyName, options}, {"other", options}};
}

void CompactAll(Engine *engine, size_t family)
{
    rocksdb::CompactRangeOptions opt;
    opt.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    OK(engine->db->CompactRange(opt, engine->Family(family), nullptr, nullptr));
}

void OpenEngine(Engine *engine, rocksdb::Options options, StepFn step, bool reconcile,
                int ribbon_level)
{
    tamis::RocksOptions ours;
    ours.ribbon_level = ribbon_level;
    ours.store = StorePath();
    ours.step = std::move(step);
    ours.complain = [engine](const std::string &line) {
        engine->complaints += line + "\n";
    };
    engine->filters = tamis::RocksFilters::Open(ours);
    engine->filters->Use(&options).PermitUncheckedError();
    OK(rocksdb::DB::Open(options, DbPath(), Families(options), &engine->families,
                         &engine->db));
    if (reconcile)
        OK(engine->filters->Reconcile(engine->db, &engine->families));
}

void Engine::Close()
{
    for (rocksdb::ColumnFamilyHandle *family : families)
        OK(db->DestroyColumnFamilyHandle(family));
    families.clear();
    if (db)
        OK(db->Close());
    delete db;
    db = nullptr;
    filters.reset();
}
