/* The changes of the store's list, and how each fails: an SST whose filter cannot be
 * built is listed without one, and no failure reaches the engine. */
#include "shim.h"

#include "sst_keys.h"

namespace tamis
{

using rocksdb::Status;

const char kMark[] = "ingest";

void RocksShim::Complain(const std::string &line) const noexcept
{
    try {
        if (options_.complain)
            options_.complain("tamis: " + line);
    } catch (...) {
        /* A callback that complains may throw no further. */
    }
}

Status RocksShim::OpenStore()
{
    tamis_store *store = nullptr;
    tamis_diag diag = {};
    tamis_open_options opt = {};
    opt.size = sizeof opt;
    opt.create = TAMIS_CREATE_IF_MISSING;
    opt.growth.error = options_.error;
    int err = tamis_store_open(options_.store.c_str(), &opt, &store, &diag);
    store_.reset(store);
    if (!err)
        err = tamis_store_info(store, &info_, &diag);
    if (!err && info_.read_only)
        err = TAMIS_ERR_READ_ONLY;
    if (!err)
        return Status::OK();
    store_.reset();
    std::string words = (diag.file[0] ? "" : options_.store + ": ") + Words(err, diag);
    Complain(words + ": no SST gets a filter");
    return Status::IOError(words);
}

void RocksShim::Allow(const rocksdb::Comparator *order)
{
    std::lock_guard<std::mutex> lock(mutex_);
    allowed_[order->Name()] = order;
}

const rocksdb::Comparator *RocksShim::Order(const std::string &name)
{
    std::lock_guard<std::mutex> lock(mutex_);
    auto at = allowed_.find(name);
    return at == allowed_.end() ? nullptr : at->second;
}

/* Two databases may use the same names for different files. "db/" is
 * "db". */
static std::string WithoutSlash(std::string path)
{
    while (path.size() > 1 && path.back() == '/')
        path.pop_back();
    return path;
}

bool RocksShim::IsOurs(const std::string &name)
{
    const std::string db_name = WithoutSlash(name);
    std::unique_lock<std::mutex> lock(mutex_);
    if (db_name_.empty())
        db_name_ = db_name;
    const std::string ours = db_name_;
    lock.unlock();
    if (ours == db_name)
        return store_ != nullptr;
    Complain(db_name + ": the store is that of " + ours + ": use another one");
    return false;
}

bool RocksShim::Serves(const std::string &identity)
{
    if (!store_ || identity.empty())
        return false;
    const std::string tag = TagOf(identity);
    std::unique_lock<std::mutex> lock(mutex_);
    if (!tag_.empty())
        return tag_ == tag && refusal_.empty();
    tag_ = tag;
    tamis_diag diag = {};
    Snapshot now = Now(store(), &diag);
    const std::string words = refusal_ =
        now ? OtherOf(now, tag) : Words(diag.code, diag);
    lock.unlock();
    if (!words.empty())
        Complain(options_.store + ": " + words + ": no SST gets a filter");
    return words.empty();
}

bool RocksShim::Serves(rocksdb::DB *db)
{
    std::string identity;
    return db->GetDbIdentity(identity).ok() && Serves(identity);
}

std::string RocksShim::tag()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return refusal_.empty() ? tag_ : "";
}

std::string RocksShim::refusal()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return refusal_.empty() ? "the store is that of another database" : refusal_;
}

bool RocksShim::IsRefused()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return !refusal_.empty();
}

/* Nothing of another database is replaced or dropped. */
int RocksShim::BeginChange(Change *change)
{
    std::unique_lock<std::mutex> lock(mutex_);
    const std::string tag = tag_;
    lock.unlock();
    return change->Begin(store(), tag);
}

RocksCounts RocksShim::Counts()
{
    std::lock_guard<std::mutex> lock(mutex_);
    RocksCounts counts = counts_;
    counts.unlisted = unlisted_.size();
    return counts;
}

/* ---- one segment ---- */

int RocksShim::Put(const Segment &segment, tamis_builder *builder, std::string *words)
{
    Change change;
    int err = BeginChange(&change);
    if (!err)
        err = change.Put(segment, builder);
    if (!err) {
        Step("built");
        err = change.Commit();
    }
    if (err)
        *words = segment.name + ": " + Words(err, change.diag());
    return err;
}

void RocksShim::PutOrBare(const Segment &segment, tamis_builder *builder)
{
    std::shared_lock<std::shared_mutex> gate(gate_);
    std::string words;
    int err = builder ? Put(segment, builder, &words) : 0;
    bool failed = err != 0;
    if (failed)
        Complain(words + ": listed without a filter");
    if (!builder || failed)
        err = Put(segment, nullptr, &words);
    if (err)
        Complain(words + ": not listed, will be tried again");
    else
        Step("listed");
    std::lock_guard<std::mutex> lock(mutex_);
    counts_.failed += failed;
    if (err) {
        unlisted_[segment.name] = segment;
        return;
    }
    (builder && !failed ? counts_.filters : counts_.bare)++;
    unlisted_.erase(segment.name);
    fresh_[segment.name] = segment.binding;
}

std::string RocksShim::Objection(const Segment &segment,
                                 const rocksdb::TableProperties &p,
                                 const Gathered *keys)
{
    if (!NamesFile(segment.binding))
        return "no session id and number";
    if (!Order(p.comparator_name))
        return "its comparator";
    if (!keys)
        return "its family is not watched";
    if (keys->ranges || p.num_range_deletions > 0)
        return "range deletions";
    return "";
}

void RocksShim::List(const Segment &segment, const rocksdb::TableProperties &p,
                     Gathered *keys)
{
    std::string why = Objection(segment, p, keys);
    if (!why.empty()) {
        PutOrBare(segment, nullptr);
        return;
    }
    /* RocksDB counts keys that it could not parse, but does not hand them over. */
    if (!keys->failure && keys->n_entries == p.num_entries) {
        PutOrBare(segment, keys->builder.get());
        return;
    }
    if (!keys->failure)
        keys->words = std::to_string(keys->n_entries) + " entries were gathered of " +
                      std::to_string(p.num_entries);
    else if (keys->words.empty())
        keys->words = tamis_strerror(keys->failure);
    Complain(segment.name + ": " + keys->words + ": listed without a filter");
    PutOrBare(segment, nullptr);
    std::lock_guard<std::mutex> lock(mutex_);
    counts_.failed++;
}

void RocksShim::ListIngested(rocksdb::DB *db, const std::string &path,
                             const rocksdb::TableProperties &p)
{
    Segment segment = {NameOf(path), BindingOf(tag(), p)};
    PutOrBare(segment, nullptr); /* it is visible */
    const rocksdb::Comparator *order = Order(p.comparator_name);
    if (!order || !NamesFile(segment.binding))
        return;
    SstKeys file;
    Builder builder;
    tamis_diag diag = {};
    int err = 0;
    Status s = file.Open(db->GetEnv(), path, order);
    if (s.IsNotSupported())
        return;
    if (s.ok())
        err = NewBuilder(info_, options_.memory_limit, TAMIS_BLOOM, &builder, &diag);
    if (s.ok() && !err)
        s = file.Each([&](const rocksdb::Slice &key) {
            if (!err)
                err = tamis_builder_add_key(builder.get(), key.data(), key.size());
        });
    if (s.ok() && !err)
        PutOrBare(segment, builder.get());
    else
        Complain(path + ": " + (s.ok() ? Words(err, diag) : s.ToString()) +
                 ": listed without a filter");
}

void RocksShim::Drop(const std::string &name)
{
    if (tag().empty())
        return; /* Reconcile() sees to it */
    std::shared_lock<std::shared_mutex> gate(gate_);
    Change change;
    int err = BeginChange(&change);
    if (!err)
        err = change.Drop(name);
    if (!err)
        err = change.Commit();
    if (err)
        Complain(name + ": " + Words(err, change.diag()) + ": deleted, but listed");
    Step("dropped");
    std::lock_guard<std::mutex> lock(mutex_);
    fresh_.erase(name);
    unlisted_.erase(name);
}

void RocksShim::Retry(const char *what, const char *step) noexcept
{
    Guarded(what, [&] {
        Step(step);
        std::unique_lock<std::mutex> lock(mutex_);
        const std::map<std::string, Segment> again =
            refusal_.empty() ? unlisted_ : std::map<std::string, Segment>();
        lock.unlock();
        for (const auto &one : again)
            PutOrBare(one.second, nullptr);
    });
}

void RocksShim::Mark(rocksdb::DB *db)
{
    const bool serves = Serves(db);
    std::lock_guard<std::mutex> lock(marking_);
    n_marks_++;
    if (serves)
        PutOrBare({kMark, tag()}, nullptr);
}

void RocksShim::Unmark()
{
    std::lock_guard<std::mutex> lock(marking_);
    if (--n_marks_ == 0 && store_)
        Drop(kMark);
}

} // namespace tamis
