/* Tests of tools/rocksdb on the real library. Each case runs in a process of its own:
 * no thread of RocksDB or lock of a store may be in the one that forks. */
#ifndef TAMIS_TESTS_ROCKSDB_H
#define TAMIS_TESTS_ROCKSDB_H

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include "segment.h"
#include "tamis_rocksdb.h"

#define EXPECT(ok, ...)                                                                \
    do {                                                                               \
        if (!(ok)) {                                                                   \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                            \
            fprintf(stderr, __VA_ARGS__);                                              \
            fprintf(stderr, "\n");                                                     \
            _exit(1);                                                                  \
        }                                                                              \
    } while (0)
#define OK(call)                                                                       \
    do {                                                                               \
        rocksdb::Status ok_ = (call);                                                  \
        EXPECT(ok_.ok(), "%s: %s", #call, ok_.ToString().c_str());                     \
    } while (0)

/* ==== main.cc ================================================================= */

/* CASE(Name, "in words") { ... } lists itself. */
struct AsCase {
    AsCase(const char *name, void (*run)());
};
#define CASE(Name, words)                                                              \
    static void Name();                                                                \
    static AsCase listed##Name(words, Name);                                           \
    static void Name()

struct Settings {
    uint64_t keys, kills, seed;
    std::string dir;  /* of the case at hand, empty at first */
    std::string tool; /* build/tamis-rocksdb */
};
extern Settings settings;

/* Runs f in a child. Its status, as wait() has it; `kill_after_us`: not 0, then SIGKILL
 * so much later. */
int InChild(const std::function<void()> &f, unsigned kill_after_us = 0);

/* ==== engine.cc: a small database, with the shim ================================ */

struct Engine {
    std::shared_ptr<tamis::RocksFilters> filters;
    std::vector<rocksdb::ColumnFamilyHandle *>
        families; /* the first is the default one */
    rocksdb::DB *db = nullptr;
    std::string complaints;

    rocksdb::ColumnFamilyHandle *Family(size_t i)
    {
        return families[i];
    }
    void Close();
    ~Engine()
    {
        Close();
    }
};

/* Levels and files so small that a second's writing compacts. */
rocksdb::Options SmallOptions();
/* The same, and the database compacts only when it is told to. */
rocksdb::Options QuietOptions();
std::string DbPath();
std::string StorePath();
/* "default" and "other". */
std::vector<rocksdb::ColumnFamilyDescriptor> Families(const rocksdb::Options &options);
/* All of the family becomes one SST, also if it is one. */
void CompactAll(Engine *engine, size_t family = 0);
using StepFn = std::function<void(const char *)>;
/* Opens it with column families "default" and "other", the shim, and reconciles. */
void OpenEngine(Engine *engine, rocksdb::Options options, StepFn step = nullptr,
                bool reconcile = true, int ribbon_level = -1);

/* ==== check.cc: the store against the live files ================================= */

struct Live {
    tamis::Segment segment;
    std::string path;
    bool bare_by_right; /* range deletions */
    bool ingested;      /* the shim may have died before it had a filter */
};
/* The bindings of this database's segments begin with it. */
std::string TagOf(rocksdb::DB *db);
/* The files of a database that is open, by what they say of themselves. */
std::map<std::string, Live> LiveFiles(Engine *engine);

enum class Extra { kAllowed, kForbidden };
/* Every live file is listed under its binding (or, if it was ingested a moment ago, the
 * list says that it lacks something), has a filter if it may have one, and is MAYBE for
 * each of its keys, tombstones too; every version of a key that any SST has is MAYBE in
 * one that covers it. `extra`: may anything else be listed? */
void CheckStore(Engine *engine, Extra extra);
/* The store's answer for one key and SST. */
tamis_answer Ask(const tamis::Segment &segment, const std::string &key,
                 tamis_reason *why);
void ExpectReason(const tamis::Segment &segment, const std::string &key,
                  tamis_reason expected);
tamis::Store OpenStore();
/* The names in the store. */
std::vector<std::string> Listed();
/* The one live file. */
Live Only(Engine *engine);
void Flush(Engine *engine);
/* Does any table of the default family pass the filter for this key? */
bool Passes(Engine *engine, const std::string &key);

/* ==== offline.cc: build/tamis-rocksdb ============================================ */

/* Its exit code; all that it says into *said. */
int Tool(const std::string &arguments, std::string *said);
void ExpectTool(int code, const std::string &words,
                const std::string &arguments = StorePath() + " " + DbPath());
void MakeStore();
/* Opens it without the shim, and without compactions. */
void OpenPlain(Engine *engine, const std::string &path = DbPath());
/* One SST with all kinds of entries, one of the other family. */
void WriteSome(Engine *engine, const std::string &prefix);

#endif
