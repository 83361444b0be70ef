/* tamis-rocksdb: filters for the SSTs of a database that is closed. It takes RocksDB's
 * own lock, so nobody writes meanwhile; SSTs never change, and each filter is bound to
 * its very file, so it stays right whatever comes later. All in one edit. */
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <getopt.h>
#include <map>

#include <rocksdb/env.h>

#include "../process.h"
#include "live.h"
#include "sst_keys.h"
#include "segment.h"

namespace
{

namespace fs = std::filesystem;
using tamis::Segment;

enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 2,
    EXIT_DAMAGE = 3,
    EXIT_IO = 4,
    EXIT_NONE = 5,
    EXIT_BUSY = 6
};

const char help[] =
    "Usage: tamis-rocksdb STORE DATABASE [DIRECTORY]...\n"
    "\n"
    "Makes the list of STORE that of the .sst files in DATABASE, the directory of\n"
    "a RocksDB database, and in the other DIRECTORYs of its db_paths: builds a\n"
    "filter for each that has none of that very file, tombstones included, and\n"
    "drops what is gone. All of it takes effect at once, or nothing, if a table is\n"
    "missing that the database has. What RocksDB has only in its log is in no file\n"
    "and in no segment; it says how much that is. The database must be closed; of\n"
    "one that is open take a checkpoint, whose files are the same. 'tamis init\n"
    "STORE' makes STORE.\n"
    "\n"
    "A file that cannot be filtered is listed without a filter, and said so in a\n"
    "line: it stays a candidate for each key. Exit: 0 done, 2 usage, 3 a file is\n"
    "damaged or of another comparator, or this is no database, 4 I/O, 5 no such\n"
    "store or database, 6 in use.\n"
    "\n"
    "  -h, --help       this\n"
    "  -V, --version    the version of tamis\n"
    "\n"
    "Example: tamis init filters && tamis-rocksdb filters /var/lib/app/db\n";

/* One line, whatever bytes a path has; as `tamis` writes them. */
__attribute__((format(printf, 1, 2))) void Complain(const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    std::string line = "tamis-rocksdb: ";
    for (const char *p = text; *p; p++) {
        char escaped[8];
        snprintf(escaped, sizeof escaped, *p >= ' ' && *p <= '~' ? "%c" : "\\x%02x",
                 uint8_t(*p));
        line += escaped;
    }
    fprintf(stderr, "%s\n", line.c_str());
}

struct Counts {
    unsigned built, kept, bare;
};

struct Work {
    tamis_store *store;
    struct tamis_store_info info;
    tamis::Snapshot before;
    tamis::Change change;
    Counts counts = {};
    int status = EXIT_DONE; /* the worst file's */
};

int StatusOf(int err)
{
    switch (err) {
    case 0:
        return EXIT_DONE;
    case TAMIS_ERR_RANGE: /* a path of no bytes */
        return EXIT_USAGE;
    case TAMIS_ERR_BUSY:
        return EXIT_BUSY;
    case TAMIS_ERR_NO_STORE:
        return EXIT_NONE;
    case TAMIS_ERR_NOT_TAMIS:
    case TAMIS_ERR_VERSION:
    case TAMIS_ERR_DAMAGED:
    case TAMIS_ERR_MISMATCH:
        return EXIT_DAMAGE;
    default:
        return EXIT_IO;
    }
}

/* ---- one file ---- */

/* Lists it without a filter. */
int PutBare(Work *w, const std::string &path, const Segment &segment,
            const std::string &why, int status)
{
    Complain("%s: %s: listed without a filter", path.c_str(), why.c_str());
    w->status = std::max(w->status, status);
    w->counts.bare++;
    return tamis::IsListed(w->before, segment, nullptr) && !segment.binding.empty()
               ? 0 /* it is so already */
               : w->change.Put(segment, nullptr);
}

std::string WordsOf(const rocksdb::Status &s)
{
    return s.getState() ? s.getState() : s.ToString();
}

int PutFile(Work *w, const std::string &path)
{
    tamis::SstKeys file;
    tamis::Builder builder;
    tamis_diag diag = {};
    Segment segment = {tamis::NameOf(path), ""};
    rocksdb::Status s = file.Open(rocksdb::Env::Default(), path, nullptr);
    if (!s.ok() && !s.IsNotSupported())
        return PutBare(w, path, segment, "cannot be read: " + WordsOf(s),
                       s.IsIOError() ? EXIT_IO : EXIT_DAMAGE);
    segment.binding = tamis::BindingOf(file.properties());
    bool sealed = false;
    if (!segment.binding.empty() && tamis::IsListed(w->before, segment, &sealed) &&
        sealed) {
        w->counts.kept++;
        return 0;
    }
    if (s.IsNotSupported())
        return PutBare(w, path, segment, WordsOf(s),
                       file.properties().num_range_deletions ? EXIT_DONE : EXIT_DAMAGE);
    if (segment.binding.empty())
        return PutBare(w, path, segment, "it has no session id: write it anew",
                       EXIT_DONE);
    int err = tamis::NewBuilder(w->info, 0, &builder, &diag);
    if (err)
        return err;
    s = file.Each([&](const rocksdb::Slice &key) {
        if (!err)
            err = tamis_builder_add_key(builder.get(), key.data(), key.size());
    });
    if (s.IsNotSupported()) /* the file is whole: merges of values in blob files */
        return PutBare(w, path, segment,
                       "RocksDB reads it in a database only: " + WordsOf(s), EXIT_DONE);
    if (!s.ok())
        return PutBare(w, path, segment, "cannot be read: " + WordsOf(s),
                       s.IsIOError() ? EXIT_IO : EXIT_DAMAGE);
    w->counts.built++;
    return err ? err : w->change.Put(segment, builder.get());
}

/* ---- all files ---- */

/* A list by names has one file of a name: the filter of another one would say ABSENT of
 * its keys. */
int RefuseTwins(const std::vector<std::string> &paths)
{
    std::map<std::string, std::string> first;
    for (const std::string &path : paths) {
        auto added = first.emplace(tamis::NameOf(path), path);
        if (added.second)
            continue;
        Complain("%s and %s: two files of one name; the DIRECTORYs are those of one "
                 "database, another one wants a store of its own",
                 added.first->second.c_str(), path.c_str());
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* The tables of these directories, by name. */
int Find(const std::vector<std::string> &dirs, std::vector<std::string> *paths)
{
    for (const std::string &dir : dirs) {
        std::error_code error;
        for (fs::directory_iterator at(dir, error), end; !error && at != end;
             at.increment(error))
            if (at->path().extension() == ".sst" || at->path().extension() == ".ldb")
                paths->push_back(at->path());
        if (error) {
            Complain("%s: %s", dir.c_str(), error.message().c_str());
            return error == std::errc::no_such_file_or_directory ? EXIT_NONE : EXIT_IO;
        }
    }
    std::sort(paths->begin(), paths->end());
    return RefuseTwins(*paths);
}

/* Is every live table among them? A list without one would say "absent" of its keys. */
int FindLive(const std::string &db, const std::vector<std::string> &paths,
             tamis::Live *live)
{
    rocksdb::Status s = tamis::ReadLive(db, live);
    std::string why = s.ok() ? tamis::Missing(db, *live, paths)
                             : "which tables are live cannot be told: " + WordsOf(s);
    if (why.empty())
        return EXIT_DONE;
    Complain("%s: %s; nothing was changed", db.c_str(), why.c_str());
    return s.IsIOError() ? EXIT_IO : EXIT_DAMAGE;
}

int Edit(Work *w, const std::vector<std::string> &paths)
{
    std::vector<std::string> names;
    int err = w->change.Begin(w->store);
    for (size_t i = 0; i < paths.size() && !err; i++) {
        names.push_back(tamis::NameOf(paths[i]));
        err = PutFile(w, paths[i]);
    }
    if (!err)
        err = w->change.Retain(names);
    if (!err)
        err = w->change.Commit();
    /* The list is the database's own: files in quarantine/ say no more. */
    struct tamis_confirm_options confirm = {};
    confirm.size = sizeof confirm;
    confirm.force = 1;
    if (!err && !w->info.complete)
        err = tamis_store_confirm(w->store, &confirm, nullptr);
    return err;
}

int Run(const std::string &store_path, const std::vector<std::string> &dirs)
{
    std::vector<std::string> paths;
    tamis_store *store;
    tamis_diag diag = {};
    Work w = {};
    tamis::Live live;
    int status = Find(dirs, &paths);
    if (status == EXIT_DONE)
        status = FindLive(dirs[0], paths, &live);
    if (status != EXIT_DONE)
        return status;
    int err = tamis_store_open(store_path.c_str(), &store, &diag);
    tamis::Store owner(err ? nullptr : store);
    if (!err)
        err = tamis_store_info(store, &w.info, &diag);
    if (!err) {
        w.store = store;
        w.before = tamis::Now(store, &diag);
        err = w.before ? Edit(&w, paths) : diag.code;
    }
    if (err) {
        const tamis_diag &said = diag.code ? diag : w.change.diag();
        Complain("%s%s%s%s; nothing was changed",
                 said.file[0] ? "" : store_path.c_str(), said.file[0] ? "" : ": ",
                 tamis::Words(err, said).c_str(),
                 err == TAMIS_ERR_NO_STORE ? ": 'tamis init' makes one" : "");
        return StatusOf(err);
    }
    size_t before = tamis_snapshot_n_segments(w.before.get()), dropped = 0;
    for (size_t i = 0; i < before; i++) {
        struct tamis_segment_info info;
        std::string name;
        if (tamis_snapshot_segment(w.before.get(), i, &info) == 0)
            name.assign(reinterpret_cast<const char *>(info.name), info.name_bytes);
        dropped += std::none_of(paths.begin(), paths.end(), [&](const std::string &p) {
            return tamis::NameOf(p) == name;
        });
    }
    printf("%u built, %u kept, %u without a filter, %zu dropped\n", w.counts.built,
           w.counts.kept, w.counts.bare, dropped);
    if (live.log_bytes)
        printf("%" PRIu64
               " bytes of log: what is in it is in no file and in no segment "
               "yet\n",
               live.log_bytes);
    return w.status;
}

/* Somebody may wait for what was printed: it is there, or it is an error. */
int FinishOutput(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    Complain("standard output: %s", strerror(errno));
    return status == EXIT_DONE ? EXIT_IO : status;
}

/* RocksDB's lock, as long as this runs; what is wrong with the directory, in a line. */
int LockDatabase(const std::string &db, rocksdb::FileLock **lock)
{
    std::error_code error;
    if (!fs::is_directory(db, error)) {
        Complain("%s: no such directory", db.c_str());
        return EXIT_NONE;
    }
    if (!fs::exists(db + "/CURRENT", error)) {
        Complain("%s: not a RocksDB database: it has no file CURRENT", db.c_str());
        return EXIT_DAMAGE;
    }
    rocksdb::Status s = rocksdb::Env::Default()->LockFile(db + "/LOCK", lock);
    if (s.ok())
        return EXIT_DONE;
    bool held = strstr(s.ToString().c_str(), strerror(EAGAIN)) != nullptr;
    Complain("%s: %s%s", db.c_str(), WordsOf(s).c_str(),
             held ? ": a process has it open; close it, or take a checkpoint" : "");
    return held ? EXIT_BUSY : EXIT_IO;
}

} // namespace

int main(int argc, char **argv)
{
    process_begin();
    const option options[] = {{"help", no_argument, nullptr, 'h'},
                              {"version", no_argument, nullptr, 'V'},
                              {nullptr, 0, nullptr, 0}};
    for (int o; (o = getopt_long(argc, argv, "hV", options, nullptr)) != -1;) {
        if (o == '?')
            return EXIT_USAGE;
        o == 'h' ? fputs(help, stdout) : printf("tamis-rocksdb %s\n", tamis_version());
        return FinishOutput(EXIT_DONE);
    }
    if (argc - optind < 2) {
        Complain("a store and a database are wanted: 'tamis-rocksdb --help'");
        return EXIT_USAGE;
    }
    const std::vector<std::string> dirs(argv + optind + 1, argv + argc);
    rocksdb::FileLock *lock = nullptr;
    int status = LockDatabase(dirs[0], &lock);
    if (status == EXIT_DONE)
        status = Run(argv[optind], dirs);
    if (lock && !rocksdb::Env::Default()->UnlockFile(lock).ok())
        Complain("%s: its lock stays until this process ends", dirs[0].c_str());
    return FinishOutput(status);
}
