/* SstFileReader's iterator is one of a database: it hides deleted keys. An iterator
 * with a lower bound of timestamps shows them, because it serves readers of a range of
 * time; keys whose timestamp has no bytes are all in that range. Its key is the
 * internal one, except for merges. The property "rocksdb.iterator.internal-key" is
 * always the user key, despite its name.
 *
 * RocksDB 7.8 works so, but does not promise it. So before a file with deletions is
 * believed, a file of known content is read the same way. If that does not show its
 * deletions, such files are refused. */
#include "sst_keys.h"

#include <rocksdb/env.h>
#include <rocksdb/iterator.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>

#include "segment.h"

namespace tamis
{

namespace
{

using rocksdb::Slice;
using rocksdb::Status;

/* The iterator reaches the next key of a merge only by merging. No value is used. */
class AnyMerge : public rocksdb::MergeOperator
{
  public:
    bool FullMergeV2(const MergeOperationInput &, MergeOperationOutput *) const override
    {
        return true;
    }
    const char *Name() const override
    {
        return "tamis.AnyMerge";
    }
};

Status EachKey(rocksdb::SstFileReader *reader,
               const std::function<void(const Slice &)> &fn)
{
    const Slice no_time;
    std::string key;
    rocksdb::ReadOptions opt;
    opt.verify_checksums = true;
    opt.fill_cache = false;
    opt.readahead_size = 2 << 20;
    opt.iter_start_ts = &no_time;
    std::unique_ptr<rocksdb::Iterator> it(reader->NewIterator(opt));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
        Status s = it->GetProperty("rocksdb.iterator.internal-key", &key);
        if (!s.ok())
            return s;
        fn(key);
    }
    return it->status();
}

rocksdb::Options Reading(rocksdb::Env *env, const rocksdb::Comparator *order)
{
    rocksdb::Options options;
    options.env = env;
    options.comparator = order;
    options.merge_operator = std::make_shared<AnyMerge>();
    return options;
}

/* One of each kind, in memory. */
bool ShowsDeletions()
{
    std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
    rocksdb::Options options = Reading(env.get(), rocksdb::BytewiseComparator());
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    std::string found;
    if (!writer.Open("/known.sst").ok() || !writer.Delete("a").ok() ||
        !writer.Put("b", "1").ok() || !writer.Merge("c", "2").ok() ||
        !writer.Delete("d").ok() || !writer.Merge("e", "3").ok() ||
        !writer.Delete("f").ok() || !writer.Finish().ok())
        return false;
    rocksdb::SstFileReader reader(options);
    Status s = reader.Open("/known.sst");
    if (s.ok())
        s = EachKey(&reader, [&](const Slice &key) { found += key.ToString(); });
    return s.ok() && found == "abcdef";
}

/* RocksDB's own comparator of the name in the properties; NULL: it has none. */
const rocksdb::Comparator *OrderOf(const std::string &name)
{
    for (const rocksdb::Comparator *order :
         {rocksdb::BytewiseComparator(), rocksdb::ReverseBytewiseComparator()})
        if (name == order->Name())
            return order;
    return nullptr;
}

} // namespace

Status SstKeys::Read(rocksdb::Env *env, const std::string &path,
                     const rocksdb::Comparator *order)
{
    reader_ = std::make_unique<rocksdb::SstFileReader>(Reading(env, order));
    Status s = reader_->Open(path);
    if (s.ok())
        properties_ = reader_->GetTableProperties();
    if (s.ok() && !properties_)
        s = Status::Corruption("it has no properties");
    return s;
}

Status SstKeys::Open(rocksdb::Env *env, const std::string &path,
                     const rocksdb::Comparator *order)
{
    Status s = Read(env, path, order ? order : rocksdb::BytewiseComparator());
    if (s.IsNotSupported()) /* a compression that is not there, and the like */
        return Status::Corruption(s.getState() ? s.getState() : s.ToString());
    if (!s.ok())
        return s;
    const std::string &name = properties_->comparator_name;
    if (!order)
        order = OrderOf(name);
    if (!order || name != order->Name())
        return Status::NotSupported("its comparator is '" + name +
                                    "', which only its program knows");
    if (const char *why = Unfit(*order))
        return Status::NotSupported(why);
    if (properties_->num_range_deletions > 0)
        return Status::NotSupported("it has range deletions");
    if (properties_->num_deletions > 0) {
        static const bool shows_deletions = ShowsDeletions();
        if (!shows_deletions)
            return Status::NotSupported("it has deletions, which this RocksDB hides");
    }
    return order == rocksdb::BytewiseComparator() ? s : Read(env, path, order);
}

Status SstKeys::Each(const std::function<void(const Slice &)> &fn)
{
    const rocksdb::TableProperties &p = *properties_;
    uint64_t n = 0;
    Status s = EachKey(reader_.get(), [&](const Slice &key) {
        n++;
        fn(key);
    });
    /* A key may have several entries, but not less than one. */
    if (s.ok() && (n > p.num_entries || (n == 0) != (p.num_entries == 0)))
        s = Status::Corruption("it has " + std::to_string(n) + " keys, of " +
                               std::to_string(p.num_entries) + " entries");
    return s;
}

} // namespace tamis
