/* Makes the list that of the live files: after the database was opened, and whenever
 * files may have come or gone unreported. */
#include "shim.h"

#include <unordered_set>

namespace tamis
{

using rocksdb::Status;

struct RocksShim::LiveSet {
    std::string tag;
    std::map<std::string, Segment> files;

    Status Read(rocksdb::DB *db,
                const std::vector<rocksdb::ColumnFamilyHandle *> &families);
};

/* The live files of these families, by their properties; and the live files of other
 * families, of which nothing is known. */
Status
RocksShim::LiveSet::Read(rocksdb::DB *db,
                         const std::vector<rocksdb::ColumnFamilyHandle *> &families)
{
    std::unordered_set<std::string> asked;
    for (rocksdb::ColumnFamilyHandle *family : families) {
        rocksdb::TablePropertiesCollection tables;
        Status s = db->GetPropertiesOfAllTables(family, &tables);
        if (!s.ok())
            return s;
        asked.insert(family->GetName());
        for (const auto &table : tables)
            files[NameOf(table.first)] = {NameOf(table.first),
                                          BindingOf(tag, *table.second)};
    }
    std::vector<rocksdb::LiveFileMetaData> all;
    db->GetLiveFilesMetaData(&all);
    for (const auto &file : all)
        if (asked.count(file.column_family_name) == 0)
            files[NameOf(file.name)] = {NameOf(file.name), tag};
    return Status::OK();
}

/* Files of an earlier opening are no longer pending. The database may have been
 * restored or made anew, so a file of the name may be another one. */
void RocksShim::ForgetOlder(const std::string &session)
{
    if (session_ == session)
        return;
    for (auto at = fresh_.begin(); at != fresh_.end();)
        at = at->second.find("/" + session + "/") != std::string::npos
                 ? std::next(at)
                 : fresh_.erase(at);
    session_ = session;
}

/* The files that this shim has listed may be about to be live. */
std::set<std::string> RocksShim::Keep(const LiveSet &live) const
{
    std::set<std::string> keep;
    if (n_marks_)
        keep.insert(kMark);
    for (const auto &one : fresh_)
        keep.insert(one.first);
    for (const auto &one : live.files)
        keep.insert(one.first);
    return keep;
}

/* *left: the store has segments that are not this database's. */
int RocksShim::Bring(const LiveSet &live, const Snapshot &now, Change *change,
                     bool *left)
{
    const std::set<std::string> keep = Keep(live);
    int err = change->Begin(store(), live.tag, now);
    tamis_segment_info info;
    for (const auto &one : live.files) {
        const Segment &segment = one.second;
        bool known = !NamesFile(segment.binding) && fresh_.count(segment.name);
        if (err || known || IsListed(now, segment, nullptr))
            continue;
        err = change->Put(segment, nullptr);
    }
    *left = false;
    for (size_t i = 0; !err && tamis_snapshot_next(now.get(), &i); i++) {
        tamis_snapshot_segment(now.get(), i, &info);
        std::string name(reinterpret_cast<const char *>(info.name), info.name_bytes);
        if (keep.count(name))
            continue;
        *left |= !IsOf(live.tag, info);
        err = change->Drop(name);
    }
    return err ? err : change->Commit();
}

int RocksShim::BringAndConfirm(const LiveSet &live, const Snapshot &now,
                               std::string *words)
{
    Change change, again, *last = &change;
    tamis_diag diag = {};
    bool left;
    int err = Bring(live, now, last, &left);
    /* A pack's tombstones may be lost: a list that is complete makes them anew. */
    if (err == TAMIS_ERR_DAMAGED && tamis_snapshot_info(now.get()).complete &&
        !tamis_store_confirm(store(), nullptr, nullptr))
        err = Bring(live, now, last = &again, &left);
    if (!err && !left)
        err = tamis_mirror_confirm(store(), &diag);
    if (err)
        *words = Words(err, diag.code ? diag : last->diag());
    return err;
}

Status RocksShim::Reconcile(rocksdb::DB *db,
                            const std::vector<rocksdb::ColumnFamilyHandle *> &families)
{
    if (!IsOurs(db->GetName()))
        return Status::InvalidArgument("no store for " + db->GetName());
    if (!Serves(db))
        return Status::InvalidArgument(options_.store, refusal());
    std::unique_lock<std::shared_mutex> gate(gate_);
    std::string session, words;
    LiveSet live;
    live.tag = tag();
    Status s = db->GetDbSessionId(session);
    if (s.ok())
        s = live.Read(db, families);
    if (!s.ok())
        return s;
    Step("live");
    std::unique_lock<std::mutex> lock(mutex_);
    tamis_diag diag = {};
    Snapshot now = Now(store(), &diag);
    if (!now)
        return Status::IOError(Words(diag.code, diag));
    refusal_ = OtherOf(now, live.tag);
    if (!refusal_.empty()) {
        words = refusal_;
        lock.unlock();
        Complain(options_.store + ": " + words + ": no SST gets a filter");
        return Status::InvalidArgument(options_.store, words);
    }
    ForgetOlder(session);
    if (BringAndConfirm(live, now, &words))
        return Status::IOError(words);
    for (const auto &one : live.files)
        unlisted_.erase(one.first);
    Step("reconciled");
    return Status::OK();
}

} // namespace tamis
