/* tamis-rocksdb: filters for the SSTs of a closed database, in one edit. It takes
 * RocksDB's own lock, so nobody writes meanwhile. SSTs never change, and each filter is
 * bound to its very file, so the filters stay right. */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include <rocksdb/env.h>

#include "../bridge/bridge.h"
#include "../talk/process.h"
#include "../talk/talk.h"
#include "live.h"
#include "segment.h"
#include "sst_keys.h"

namespace
{

namespace fs = std::filesystem;
using tamis::Segment;

const char help[] =
    "usage: tamis-rocksdb [OPTION]... STORE DATABASE [DIRECTORY]...\n"
    "\n"
    "Brings STORE (see 'tamis init') up to date with the .sst files of a closed\n"
    "RocksDB database, in DATABASE and in the other DIRECTORYs of its db_paths: a\n"
    "segment for each, with a filter of its keys, tombstones included. Drops the\n"
    "segments of deleted files. If the database is open, take a checkpoint. Keys\n"
    "that are only in RocksDB's log are in no segment. STORE knows the database by\n"
    "the identity that RocksDB gives it. A file that cannot be filtered is reported\n"
    "and listed without a filter: it stays a candidate for every key.\n"
    "\n";

struct Work {
    const bridge *b;
    std::vector<std::string> paths;
    std::string identity, tag;
    tamis_store *store;
    struct tamis_store_info info;
    tamis::Snapshot before;
    tamis::Change change;
    tamis::May may = tamis::May::kThis;
    bridge_report report = {};
    tamis_diag diag = {};
    int status = EXIT_DONE; /* the worst file's */
};

std::string WordsOf(const rocksdb::Status &s)
{
    return s.getState() ? s.getState() : s.ToString();
}

/* ---- may this store become this database's? ---- */

/* An earlier version mirrored one database in a store. A session belongs to one
 * database: if this one has a table of one such segment's session, all are its own. */
bool OldIsThis(const Work &w)
{
    std::set<std::string> sessions;
    for (const std::string &path : w.paths) {
        tamis::SstKeys file;
        rocksdb::Status s = file.Open(rocksdb::Env::Default(), path, nullptr);
        if ((s.ok() || s.IsNotSupported()) && file.properties().db_id == w.identity)
            sessions.insert(file.properties().db_session_id);
    }
    tamis_segment_info info;
    for (size_t i = 0; tamis_snapshot_next(w.before.get(), &i); i++)
        if (tamis_snapshot_segment(w.before.get(), i, &info) == 0 &&
            tamis_mirror_owner(w.tag.c_str(), &info) == MIRROR_OLD &&
            info.binding_bytes && sessions.count(tamis::OldSessionOf(info)))
            return true;
    return false;
}

int Admit(Work *w)
{
    mirror_survey survey;
    tamis_mirror_survey(w->before.get(), w->tag.c_str(), &survey);
    bool old = !w->b->force && survey.n[MIRROR_OLD] && OldIsThis(*w);
    w->may = w->b->force ? tamis::May::kAll
             : old       ? tamis::May::kThisOrOld
                         : tamis::May::kThis;
    int status = bridge_admit(w->b, w->before.get(), w->tag.c_str(), &survey, old);
    for (size_t i = 0; i < w->paths.size() && status == EXIT_DONE; i++) {
        tamis_segment_info info;
        if (tamis::Find(w->before, tamis::NameOf(w->paths[i]), &info) != SIZE_MAX)
            status = bridge_admit_replacing(w->b, w->tag.c_str(), &info);
    }
    return status;
}

/* ---- one file ---- */

/* One file, and what the store has under its name. */
struct File {
    std::string path;
    Segment segment;
    bool known; /* a segment of its name is listed */
    tamis_segment_info was;

    const tamis_segment_info *Was() const
    {
        return known ? &was : nullptr;
    }
    /* Is it listed as exactly this file? */
    bool IsBound() const
    {
        return known && segment.binding.size() == was.binding_bytes &&
               memcmp(segment.binding.data(), was.binding, was.binding_bytes) == 0;
    }
    /* Its filter was built from this file, whichever database its binding names. */
    bool HasFilter() const
    {
        return known && was.state == TAMIS_SEGMENT_SEALED &&
               (tamis_mirror_same_file(&was, segment.binding.c_str()) ||
                tamis::IsOldBindingOf(was, segment.binding));
    }
};

/* Lists it without a filter. */
int PutBare(Work *w, const File &file, const std::string &why, int status)
{
    bridge_note("%s: %s: listed without a filter", file.path.c_str(), why.c_str());
    w->status = std::max(w->status, status);
    w->report.bare++;
    if (file.IsBound()) /* it is so already */
        return 0;
    bridge_changed(&w->report, file.known ? BRIDGE_REPLACED : BRIDGE_BARE,
                   file.segment.name.c_str(), file.Was());
    return w->b->dry_run ? 0 : w->change.Put(file.segment, nullptr);
}

int PutUnread(Work *w, const File &file, const rocksdb::Status &s)
{
    return PutBare(w, file, "cannot be read: " + WordsOf(s),
                   s.IsIOError() ? EXIT_IO : EXIT_DAMAGE);
}

int Build(Work *w, const File &file, tamis::SstKeys *sst)
{
    tamis::Builder builder;
    int err = 0;
    if (!w->b->dry_run)
        err = tamis::NewBuilder(w->info, 0, TAMIS_BLOOM, &builder, &w->diag);
    if (err)
        return err;
    uint64_t n_keys = 0;
    rocksdb::Status s;
    if (!w->b->dry_run)
        s = sst->Each([&](const rocksdb::Slice &key) {
            n_keys++;
            if (!err)
                err = tamis_builder_add_key(builder.get(), key.data(), key.size());
        });
    if (s.IsNotSupported()) /* the file is whole: merges of values in blob files */
        return PutBare(w, file, "RocksDB reads it in a database only: " + WordsOf(s),
                       EXIT_DONE);
    if (!s.ok())
        return PutUnread(w, file, s);
    w->report.built++;
    w->report.keys += n_keys;
    bridge_changed(&w->report,
                   file.known && !file.IsBound() && !file.HasFilter() ? BRIDGE_REPLACED
                                                                      : BRIDGE_BUILT,
                   file.segment.name.c_str(), file.Was());
    return err || w->b->dry_run ? err : w->change.Put(file.segment, builder.get());
}

/* Puts its filter again, under the binding of this database. */
bool PutAgain(Work *w, const File &file)
{
    if (!w->b->dry_run && w->change.PutAgain(file.segment))
        return false;
    w->report.kept++;
    bridge_changed(&w->report, BRIDGE_REBOUND, file.segment.name.c_str(), file.Was());
    return true;
}

int PutFile(Work *w, const std::string &path)
{
    tamis::SstKeys sst;
    File file = {path, {tamis::NameOf(path), w->tag}, false, {}};
    file.known = tamis::Find(w->before, file.segment.name, &file.was) != SIZE_MAX;
    rocksdb::Status s = sst.Open(rocksdb::Env::Default(), path, nullptr);
    if (!s.ok() && !s.IsNotSupported())
        return PutUnread(w, file, s);
    file.segment.binding = tamis::BindingOf(w->tag, sst.properties());
    if (file.HasFilter() && file.IsBound()) {
        w->report.kept++;
        return 0;
    }
    if (file.HasFilter() && PutAgain(w, file))
        return 0;
    if (s.IsNotSupported())
        return PutBare(w, file, WordsOf(s),
                       sst.properties().num_range_deletions ? EXIT_DONE : EXIT_DAMAGE);
    if (!tamis::NamesFile(file.segment.binding))
        return PutBare(w, file, "it has no session id: write it anew", EXIT_DONE);
    return Build(w, file, &sst);
}

/* ---- all files ---- */

/* A list by names has one file per name: the filter of another file would say ABSENT of
 * its keys. */
int RefuseTwins(const std::vector<std::string> &paths)
{
    std::map<std::string, std::string> first;
    for (const std::string &path : paths) {
        auto added = first.emplace(tamis::NameOf(path), path);
        if (!added.second)
            return complain(
                EXIT_USAGE,
                "%s and %s: two files of one name; the DIRECTORYs are those of one "
                "database, another one wants a store of its own",
                added.first->second.c_str(), path.c_str());
    }
    return EXIT_DONE;
}

/* The tables of these directories, by name. */
int FindTables(const bridge &b, std::vector<std::string> *paths)
{
    for (size_t i = 0; i < b.n_directories; i++) {
        const char *dir = b.directories[i];
        std::error_code error;
        for (fs::directory_iterator at(dir, error), end; !error && at != end;
             at.increment(error))
            if (at->path().extension() == ".sst" || at->path().extension() == ".ldb")
                paths->push_back(at->path());
        if (error)
            return complain(error == std::errc::no_such_file_or_directory ? EXIT_NONE
                                                                          : EXIT_IO,
                            "%s: %s", dir, error.message().c_str());
    }
    std::sort(paths->begin(), paths->end());
    return RefuseTwins(*paths);
}

/* Are all live tables among them? Without one the list would say ABSENT of its keys. */
int FindLive(Work *w)
{
    const char *db = w->b->directories[0];
    tamis::Live live;
    rocksdb::Status s = tamis::ReadLive(db, &live);
    std::string why = s.ok() ? tamis::Missing(live, w->paths)
                             : "which tables are live cannot be told: " + WordsOf(s);
    if (why.empty()) {
        w->identity = tamis::IdentityOf(db, live, w->paths);
        w->tag = tamis::TagOf(w->identity);
        w->report.log_bytes = live.log_bytes;
        if (w->identity.empty())
            why = "which database it is cannot be told: it has no IDENTITY; let "
                  "RocksDB open it once";
    }
    if (why.empty())
        return EXIT_DONE;
    /* If the MANIFEST of CURRENT is missing, the disk is not at fault. */
    bool failed = s.IsIOError() && !s.IsPathNotFound();
    return complain(failed ? EXIT_IO : EXIT_DAMAGE, "%s: %s; nothing was changed", db,
                    why.c_str());
}

/* Segments of other databases stay, unless --force is given. */
int DropOthers(Work *w)
{
    std::set<std::string> names;
    for (const std::string &path : w->paths)
        names.insert(tamis::NameOf(path));
    int err = 0;
    for (size_t i = 0; !err && tamis_snapshot_next(w->before.get(), &i); i++) {
        tamis_segment_info info = {};
        tamis_snapshot_segment(w->before.get(), i, &info);
        std::string name(reinterpret_cast<const char *>(info.name), info.name_bytes);
        if (names.count(name))
            continue;
        /* Without a name it may be any segment. */
        if (info.name == nullptr || !tamis::MayChange(w->tag, w->may, info)) {
            w->report.left++;
            continue;
        }
        bridge_dropped(&w->report, &info);
        err = w->b->dry_run ? 0 : w->change.Drop(name);
    }
    return err;
}

int Edit(Work *w)
{
    int err = w->b->dry_run ? 0 : w->change.Begin(w->store, w->tag, w->may, w->before);
    for (size_t i = 0; i < w->paths.size() && !err; i++)
        err = PutFile(w, w->paths[i]);
    if (!err)
        err = DropOthers(w);
    if (!err && !w->b->dry_run)
        err = w->change.Commit();
    /* Each file was compared with its segment, and no other segment is listed: files in
     * quarantine/ say no more. */
    struct tamis_confirm_options confirm = {};
    confirm.size = sizeof confirm;
    confirm.force = 1;
    tamis::Snapshot after;
    if (!err && !w->b->dry_run && !(after = tamis::Now(w->store, &w->diag)))
        err = w->diag.code;
    if (after && !tamis_snapshot_complete(after.get()) && !w->report.left)
        err = tamis_store_confirm(w->store, &confirm, nullptr);
    return err;
}

/* *overtaken: another process changed the segments meanwhile. */
int Attempt(const bridge &b, tamis_store *store, bool *overtaken)
{
    Work w = {};
    w.b = &b;
    w.store = store;
    w.report.bridge = &b;
    int status = FindTables(b, &w.paths);
    if (status == EXIT_DONE)
        status = FindLive(&w);
    if (status != EXIT_DONE)
        return status;
    w.report.tag = w.tag.c_str();
    w.report.tables = w.paths.size();
    int err = tamis_store_info(store, &w.info, &w.diag);
    if (b.error > 0)
        w.info.growth.error = b.error;
    if (!err) {
        w.before = tamis::Now(store, &w.diag);
        err = w.before ? 0 : w.diag.code;
    }
    if (!err)
        status = Admit(&w);
    if (!err && status == EXIT_DONE)
        err = Edit(&w);
    *overtaken = bridge_was_overtaken(err);
    if (err && !*overtaken)
        status = bridge_complain_error(err, w.diag.code ? &w.diag : &w.change.diag(),
                                       b.store);
    if (!err && status == EXIT_DONE) {
        bridge_print(&w.report);
        status = w.status;
    }
    bridge_report_free(&w.report);
    return status;
}

int Run(const bridge &b, tamis_store *store)
{
    for (int i = 0; i < BRIDGE_ATTEMPTS; i++) {
        bool overtaken = false;
        int status = Attempt(b, store, &overtaken);
        if (!overtaken)
            return status;
    }
    return complain(EXIT_BUSY,
                    "%s: another process changes these segments: try again when "
                    "it is done; nothing was changed",
                    b.store);
}

/* Holds RocksDB's lock while this runs; reports a faulty directory in a line. */
int LockDatabase(const std::string &db, rocksdb::FileLock **lock)
{
    std::error_code error;
    if (!fs::exists(db, error))
        return complain(EXIT_NONE, "%s: no such directory", db.c_str());
    if (!fs::is_directory(db, error))
        return complain(EXIT_DAMAGE, "%s: no RocksDB database: it is no directory",
                        db.c_str());
    if (!fs::exists(db + "/CURRENT", error))
        return complain(EXIT_DAMAGE, "%s: no RocksDB database: it has no CURRENT",
                        db.c_str());
    if (!tamis::IsRocksDb(db))
        return complain(EXIT_DAMAGE,
                        "%s: this is a LevelDB database: use tamis-leveldb; "
                        "nothing was changed",
                        db.c_str());
    rocksdb::Status s = rocksdb::Env::Default()->LockFile(db + "/LOCK", lock);
    if (s.ok())
        return EXIT_DONE;
    bool held = strstr(s.ToString().c_str(), strerror(EAGAIN)) != nullptr;
    return complain(
        held ? EXIT_BUSY : EXIT_IO, "%s: %s%s", db.c_str(), WordsOf(s).c_str(),
        held ? ": a process has it open; close it, or take a checkpoint" : "");
}

} // namespace

int main(int argc, char **argv)
{
    bridge b;
    tamis_store *store = nullptr;
    process_begin("tamis-rocksdb");
    int status = bridge_parse(argc, argv, help, SIZE_MAX, &b);
    if (status != EXIT_DONE)
        return status;
    rocksdb::FileLock *lock = nullptr;
    status = bridge_open(&b, &store);
    if (status == EXIT_DONE)
        status = LockDatabase(b.directories[0], &lock);
    if (status == EXIT_DONE)
        status = Run(b, store);
    tamis_store_close(store);
    if (lock && !rocksdb::Env::Default()->UnlockFile(lock).ok())
        bridge_note("%s: its lock stays until this process ends", b.directories[0]);
    return finish_output(status);
}
