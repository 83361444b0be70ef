/* Makes the list that of the live files: after the database was opened, and whenever
 * files may have come or gone unreported. */
#include "shim.h"

#include <unordered_set>

namespace tamis
{

using rocksdb::Status;

/* The live files of these families, by their properties; and the live files of other
 * families, of which nothing is known. */
static Status ReadFiles(rocksdb::DB *db,
                        const std::vector<rocksdb::ColumnFamilyHandle *> &families,
                        const std::string &tag, Bindings *files)
{
    std::unordered_set<std::string> asked;
    for (rocksdb::ColumnFamilyHandle *family : families) {
        rocksdb::TablePropertiesCollection tables;
        Status s = db->GetPropertiesOfAllTables(family, &tables);
        if (!s.ok())
            return s;
        asked.insert(family->GetName());
        for (const auto &table : tables)
            (*files)[NameOf(table.first)] = BindingOf(tag, *table.second);
    }
    std::vector<rocksdb::LiveFileMetaData> all;
    db->GetLiveFilesMetaData(&all);
    for (const auto &file : all)
        if (asked.count(file.column_family_name) == 0)
            (*files)[NameOf(file.name)] = tag;
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

int RocksShim::Bring(const Bindings &live, const std::string &tag, const Snapshot &now,
                     tamis_diag *diag)
{
    /* The files that this shim has listed, or could not list, may be about to be live.
     * It knows more of them than RocksDB tells of families that nobody has named. */
    Bindings wanted(fresh_.begin(), fresh_.end());
    for (const auto &one : unlisted_)
        if (!NamesFile(one.second.binding) ||
            one.second.binding.find("/" + session_ + "/") != std::string::npos)
            wanted.emplace(one.first, one.second.binding);
    if (n_marks_)
        wanted[kMark] = tag;
    for (const auto &one : live)
        if (NamesFile(one.second) || !wanted.count(one.first))
            wanted[one.first] = one.second;
    std::vector<tamis_identity> files;
    for (const auto &one : wanted)
        files.push_back({one.first.data(), one.first.size(), one.second.data(),
                         one.second.size(), nullptr});
    bool only_ours = true;
    tamis_segment_info info;
    for (size_t i = 0; tamis_snapshot_next(now.get(), &i); i++) {
        tamis_snapshot_segment(now.get(), i, &info);
        std::string name(reinterpret_cast<const char *>(info.name), info.name_bytes);
        only_ours = only_ours && (wanted.count(name) || IsOf(tag, info));
    }
    int err = 0;
    for (int tries = 0; tries < 2; tries++) {
        Change change;
        err = change.Begin(store(), tag);
        if (!err)
            err = change.Reconcile(now, files);
        if (!err)
            err = change.Commit();
        *diag = change.diag();
        /* Does a segment stay? Its pack's tombstones may be lost: a list that is
         * complete makes them anew. */
        if ((err ? err != TAMIS_ERR_DAMAGED : !diag->what[0]) ||
            !tamis_snapshot_info(now.get()).complete ||
            tamis_store_confirm(store(), nullptr, nullptr))
            break;
    }
    return err || !only_ours ? err : tamis_mirror_confirm(store(), diag);
}

Status RocksShim::Reconcile(rocksdb::DB *db,
                            const std::vector<rocksdb::ColumnFamilyHandle *> &families)
{
    if (!IsOurs(db->GetName()))
        return Status::InvalidArgument("no store for " + db->GetName());
    if (!Serves(db))
        return Status::InvalidArgument(options_.store, refusal());
    std::unique_lock<std::shared_mutex> gate(gate_);
    std::string session;
    const std::string ours = tag();
    Bindings live;
    tamis_diag diag = {};
    Snapshot now = Now(store(), &diag); /* before it looks at the engine */
    if (!now)
        return Status::IOError(Words(diag.code, diag));
    Status s = db->GetDbSessionId(session);
    if (s.ok())
        s = ReadFiles(db, families, ours, &live);
    if (!s.ok())
        return s;
    Step("live");
    std::unique_lock<std::mutex> lock(mutex_);
    refusal_ = OtherOf(now, ours);
    if (!refusal_.empty()) {
        const std::string words = refusal_;
        lock.unlock();
        Complain(options_.store + ": " + words + ": no SST gets a filter");
        return Status::InvalidArgument(options_.store, words);
    }
    ForgetOlder(session);
    if (int err = Bring(live, ours, now, &diag))
        return Status::IOError(Words(err, diag));
    for (const auto &one : live)
        unlisted_.erase(one.first);
    Step("reconciled");
    return Status::OK();
}

} // namespace tamis
