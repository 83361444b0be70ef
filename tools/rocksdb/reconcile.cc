/* The list made that of the live files: after the database was opened, and whenever
 * files may have come or gone without a word. */
#include "shim.h"

#include <unordered_set>

namespace tamis
{

using rocksdb::Status;

namespace
{

/* The live files of these families, by what they say of themselves; and those of other
 * families, of which nothing is known. */
Status LiveFiles(rocksdb::DB *db,
                 const std::vector<rocksdb::ColumnFamilyHandle *> &families,
                 std::map<std::string, Segment> *live)
{
    std::unordered_set<std::string> asked;
    for (rocksdb::ColumnFamilyHandle *family : families) {
        rocksdb::TablePropertiesCollection tables;
        Status s = db->GetPropertiesOfAllTables(family, &tables);
        if (!s.ok())
            return s;
        asked.insert(family->GetName());
        for (const auto &table : tables)
            (*live)[NameOf(table.first)] = {NameOf(table.first),
                                            BindingOf(*table.second)};
    }
    std::vector<rocksdb::LiveFileMetaData> files;
    db->GetLiveFilesMetaData(&files);
    for (const auto &file : files)
        if (asked.count(file.column_family_name) == 0)
            (*live)[NameOf(file.name)] = {NameOf(file.name), ""};
    return Status::OK();
}

} // namespace

/* Of an earlier opening nothing is on its way any more, and a file of the name may be
 * another one by now: the database was restored, or made anew. */
void RocksShim::ForgetOlder(const std::string &session)
{
    if (session_ == session)
        return;
    for (auto at = fresh_.begin(); at != fresh_.end();)
        at = at->second.compare(0, session.size() + 1, session + "/") == 0
                 ? std::next(at)
                 : fresh_.erase(at);
    session_ = session;
}

Status RocksShim::Reconcile(rocksdb::DB *db,
                            const std::vector<rocksdb::ColumnFamilyHandle *> &families)
{
    if (!IsOurs(db->GetName()))
        return Status::InvalidArgument("no store for " + db->GetName());
    std::unique_lock<std::shared_mutex> gate(gate_);
    std::map<std::string, Segment> live;
    std::string session;
    Status s = db->GetDbSessionId(session);
    if (s.ok())
        s = LiveFiles(db, families, &live);
    if (!s.ok())
        return s;
    Step("live");
    std::lock_guard<std::mutex> lock(mutex_);
    Change change;
    tamis_diag diag = {};
    Snapshot now = Now(store(), &diag);
    int err = now ? change.Begin(store()) : diag.code;
    /* What this shim has listed may be about to be live. */
    ForgetOlder(session);
    std::vector<std::string> keep;
    if (n_marks_)
        keep.push_back(kMark);
    for (const auto &one : fresh_)
        keep.push_back(one.first);
    for (const auto &one : live) {
        const Segment &segment = one.second;
        bool known = segment.binding.empty() && fresh_.count(segment.name);
        keep.push_back(segment.name);
        if (!err && !known && !IsListed(now, segment, nullptr))
            err = change.Put(segment, nullptr);
    }
    if (!err)
        err = change.Retain(keep);
    if (!err)
        err = change.Commit();
    struct tamis_store_info info;
    if (!err)
        err = tamis_store_info(store(), &info, &diag);
    /* The list is the engine's own: files in quarantine/ say no more. */
    struct tamis_confirm_options confirm = {};
    confirm.size = sizeof confirm;
    confirm.force = 1;
    if (!err && !info.complete)
        err = tamis_store_confirm(store(), &confirm, &diag);
    if (err)
        return Status::IOError(Words(err, diag.code ? diag : change.diag()));
    for (const auto &one : live)
        unlisted_.erase(one.first);
    Step("reconciled");
    return Status::OK();
}

} // namespace tamis
