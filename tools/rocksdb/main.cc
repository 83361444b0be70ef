/* tamis-rocksdb: answers ../bridge/fill.c for a closed RocksDB database. It takes
 * RocksDB's own lock, so no process writes. SSTs never change, and each filter is bound
 * to its very file, so filters stay right. */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include <rocksdb/env.h>

#include "../bridge/bridge.h"
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

struct Database {
    std::vector<std::string> paths;
    std::string identity;
    /* The file that is open: */
    tamis::SstKeys sst;
    Segment segment;
    std::string why;
};

Database *Of(bridge_run *r)
{
    return static_cast<Database *>(r->database);
}

std::string WordsOf(const rocksdb::Status &s)
{
    return s.getState() ? s.getState() : s.ToString();
}

/* ---- one file ---- */

void SetWhy(Database *d, bridge_table *t, const std::string &why, int status)
{
    d->why = why;
    t->why = d->why.c_str();
    t->status = status;
}

void CannotRead(Database *d, bridge_table *t, const rocksdb::Status &s)
{
    SetWhy(d, t, "cannot be read: " + WordsOf(s),
           s.IsIOError() ? EXIT_IO : EXIT_DAMAGE);
}

int OpenFile(bridge_run *r, size_t i, bridge_table *t)
{
    Database *d = Of(r);
    const std::string &path = d->paths[i];
    rocksdb::Status s = d->sst.Open(rocksdb::Env::Default(), path, nullptr);
    bool opens = s.ok() || s.IsNotSupported();
    d->segment = {tamis::NameOf(path),
                  opens ? tamis::BindingOf(r->tag, d->sst.properties()) : r->tag};
    t->path = path.c_str();
    t->name = d->segment.name.c_str();
    t->binding = d->segment.binding.c_str();
    if (!opens)
        CannotRead(d, t, s);
    else if (!s.ok())
        SetWhy(d, t, WordsOf(s),
               d->sst.properties().num_range_deletions ? EXIT_DONE : EXIT_DAMAGE);
    else if (!tamis::NamesFile(d->segment.binding))
        SetWhy(d, t, "it has no session id: write it anew", EXIT_DONE);
    return EXIT_DONE;
}

int AddKeys(bridge_run *r, bridge_table *t, tamis_builder *builder)
{
    Database *d = Of(r);
    uint64_t n_keys = 0;
    int err = 0;
    rocksdb::Status s = d->sst.Each([&](const rocksdb::Slice &key) {
        n_keys++;
        if (!err)
            err = tamis_builder_add_key(builder, key.data(), key.size());
    });
    if (s.IsNotSupported()) /* the file is whole: merges of values in blob files */
        SetWhy(d, t, "RocksDB reads it in a database only: " + WordsOf(s), EXIT_DONE);
    else if (!s.ok())
        CannotRead(d, t, s);
    else
        r->report.keys += n_keys;
    return err ? complain_add(err, r->b->store) : EXIT_DONE;
}

void CloseFile(bridge_run *r)
{
    Of(r)->sst = tamis::SstKeys();
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
int FindLive(bridge_run *r)
{
    Database *d = Of(r);
    const char *db = r->b->directories[0];
    tamis::Live live;
    rocksdb::Status s = tamis::ReadLive(db, &live);
    std::string why = s.ok() ? tamis::Missing(live, d->paths)
                             : "which tables are live cannot be told: " + WordsOf(s);
    if (why.empty()) {
        d->identity = tamis::IdentityOf(db, live, d->paths);
        tamis_mirror_tag(r->tag, "rocksdb", d->identity.data(), d->identity.size());
        r->report.log_bytes = bridge_log_bytes(db, live.log, live.log);
        if (d->identity.empty())
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

int List(bridge_run *r)
{
    Of(r)->paths.clear();
    int status = FindTables(*r->b, &Of(r)->paths);
    r->report.tables = Of(r)->paths.size();
    return status == EXIT_DONE ? FindLive(r) : status;
}

/* Holds RocksDB's lock while this runs; reports a faulty directory in a line. */
int LockDatabase(const std::string &db, rocksdb::FileLock **lock)
{
    int status = bridge_check_database(db.c_str(), true);
    if (status != EXIT_DONE)
        return status;
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
    status = store_open(b.store, &store);
    if (status == EXIT_DONE)
        status = LockDatabase(b.directories[0], &lock);
    static const bridge_engine engine = {List, OpenFile, AddKeys, CloseFile, true};
    Database database;
    if (status == EXIT_DONE)
        status = bridge_fill(&b, store, &engine, &database);
    tamis_store_close(store);
    if (lock && !rocksdb::Env::Default()->UnlockFile(lock).ok())
        say_line("%s: its lock stays until this process ends", b.directories[0]);
    return finish_output(status);
}
