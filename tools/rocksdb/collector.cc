/* Gathers the keys of each SST while RocksDB writes it. RocksDB makes one collector a
 * table, gives it every entry, and calls Finish() when it writes the properties. The
 * keys are complete then, but the file's name and identity are not known. So Finish()
 * leaves the keys with the shim, and their id in the SST's properties.
 * OnTableFileCreated has both, and joins them. RocksDB 7.8 calls Finish() again
 * whenever it wants the properties: the first call leaves the keys, each call writes
 * the id. */
#include "shim.h"

#include <random>

namespace tamis
{

const char kGathered[] = "tamis.gathered";

namespace
{

using rocksdb::Status;

/* RocksDB ignores statuses. Ours are OK: a missing filter is no failure. Without keys
 * (NULL) it does nothing: for a table outside the database, and when memory for more is
 * short. */
class Collector : public rocksdb::TablePropertiesCollector
{
  public:
    Collector(std::shared_ptr<RocksShim> shim, std::unique_ptr<Gathered> keys)
        : shim_(std::move(shim)), keys_(std::move(keys)), id_(keys_ ? keys_->id : "")
    {
    }

    Status AddUserKey(const rocksdb::Slice &key, const rocksdb::Slice &,
                      rocksdb::EntryType type, rocksdb::SequenceNumber,
                      uint64_t) override
    {
        if (!keys_)
            return Status::OK();
        keys_->n_entries++;
        if (type == rocksdb::kEntryRangeDeletion) {
            keys_->ranges = true;
            keys_->builder.reset();
        } else if (keys_->builder) {
            /* A lookup must find the key of an entry of any type here. */
            keys_->failure =
                tamis_builder_add_key(keys_->builder.get(), key.data(), key.size());
            if (keys_->failure)
                keys_->builder.reset();
        }
        return Status::OK();
    }

    Status Finish(rocksdb::UserCollectedProperties *properties) override
    {
        if (id_.empty())
            return Status::OK();
        shim_->Guarded("an SST has no filter: its properties", [&] {
            (*properties)[kGathered] = id_;
            if (keys_)
                shim_->HandOver(std::move(keys_));
        });
        return Status::OK();
    }

    rocksdb::UserCollectedProperties GetReadableProperties() const override
    {
        return {};
    }

    const char *Name() const override
    {
        return "tamis.Collector";
    }

  private:
    std::shared_ptr<RocksShim> shim_;
    std::unique_ptr<Gathered> keys_;
    const std::string id_;
};

class Factory : public rocksdb::TablePropertiesCollectorFactory
{
  public:
    explicit Factory(std::shared_ptr<RocksShim> shim) : shim_(std::move(shim))
    {
    }

    rocksdb::TablePropertiesCollector *
    CreateTablePropertiesCollector(Context context) override
    {
        rocksdb::TablePropertiesCollector *made = nullptr;
        /* A table of an SstFileWriter has no level, and no OnTableFileCreated. */
        bool own = context.level_at_creation != Context::kUnknownLevelAtCreation;
        shim_->Guarded("an SST has no filter", [&] {
            if (!own)
                return;
            if (std::unique_ptr<Gathered> keys =
                    shim_->Begin(context.level_at_creation))
                made = new Collector(shim_, std::move(keys));
        });
        /* RocksDB wants one in any case. */
        return made ? made : new Collector(nullptr, nullptr);
    }

    const char *Name() const override
    {
        return "tamis.CollectorFactory";
    }

  private:
    std::shared_ptr<RocksShim> shim_;
};

/* 64 random bits a process, and a number: no two tables have the same. */
std::string NewId()
{
    static const uint64_t process =
        uint64_t(std::random_device()()) << 32 | std::random_device()();
    static std::atomic<uint64_t> n;
    return std::to_string(process) + "-" + std::to_string(++n);
}

} // namespace

std::unique_ptr<Gathered> RocksShim::Begin(int level)
{
    if (!store_ || IsRefused())
        return nullptr;
    auto keys = std::make_unique<Gathered>();
    tamis_diag diag = {};
    keys->id = NewId();
    bool deep = options_.ribbon_level >= 0 && level >= options_.ribbon_level;
    keys->failure =
        NewBuilder(info_, options_.memory_limit, deep ? TAMIS_RIBBON : TAMIS_BLOOM,
                   &keys->builder, &diag);
    if (keys->failure)
        keys->words = Words(keys->failure, diag);
    return keys;
}

void RocksShim::HandOver(std::unique_ptr<Gathered> keys)
{
    Step("gathered");
    std::lock_guard<std::mutex> lock(mutex_);
    /* An id that is still there belongs to an unfinished table. */
    left_[std::this_thread::get_id()] = std::move(keys);
}

std::unique_ptr<Gathered> RocksShim::Take(const rocksdb::TableProperties &properties)
{
    auto id = properties.user_collected_properties.find(kGathered);
    std::lock_guard<std::mutex> lock(mutex_);
    auto at = left_.find(std::this_thread::get_id());
    if (at == left_.end())
        return nullptr;
    std::unique_ptr<Gathered> keys = std::move(at->second);
    left_.erase(at);
    bool same =
        id != properties.user_collected_properties.end() && id->second == keys->id;
    return same ? std::move(keys) : nullptr;
}

std::shared_ptr<rocksdb::TablePropertiesCollectorFactory>
NewCollectorFactory(std::shared_ptr<RocksShim> shim)
{
    return std::make_shared<Factory>(std::move(shim));
}

} // namespace tamis
