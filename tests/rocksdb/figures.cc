/* How many SST reads the filters save. A database that has compacted; keys that are
 * absent, but lie between those that are there; for each the SSTs whose key range
 * covers it, which RocksDB without a filter reads. A second process, which has nothing
 * of RocksDB open, says from the mapped store which of them may hold the key; and
 * RocksDB itself asks in the same way before it opens a table (TableFilter()). */
#include "test.h"

#include <cstring>
#include <random>
#include <unistd.h>

#include <rocksdb/perf_context.h>

namespace
{

constexpr uint64_t N_ABSENT = 20000;

/* Even numbers are keys, odd ones are between them. */
std::string KeyOf(uint64_t i, bool present)
{
    char key[24];
    snprintf(key, sizeof key, "%016llx",
             (unsigned long long)(i * 0x9e3779b97f4a7c15u & ~1ull) | !present);
    return key;
}

void Fill(Engine *engine, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        OK(engine->db->Put(rocksdb::WriteOptions(), KeyOf(i, true),
                           std::string(50, 'v')));
        if (i % 16 == 0)
            OK(engine->db->Delete(rocksdb::WriteOptions(), KeyOf(i / 2, true)));
    }
    OK(engine->db->Flush(rocksdb::FlushOptions()));
    for (uint64_t busy = 1; busy; usleep(10000)) {
        uint64_t pending = 0;
        engine->db->GetIntProperty("rocksdb.num-running-compactions", &busy);
        engine->db->GetIntProperty("rocksdb.compaction-pending", &pending);
        busy += pending;
    }
    OK(engine->db->PauseBackgroundWork());
}

/* Runs in a process that maps the store and knows the keys alone. */
void AskTheStore(int to)
{
    tamis::Store store = OpenStore();
    tamis::Snapshot now = tamis::Now(store.get(), nullptr);
    tamis_domain domain = tamis_store_domain(store.get());
    uint64_t candidates = 0;
    for (uint64_t i = 0; i < N_ABSENT; i++) {
        std::string key = KeyOf(i, false);
        tamis_key k = tamis_key_of(&domain, key.data(), key.size());
        uint32_t segments[64];
        size_t n;
        tamis_query q = {};
        q.size = sizeof q;
        q.all = 1;
        q.keys = &k;
        q.n_keys = 1;
        q.candidates = segments;
        q.max_candidates = 64;
        q.n_candidates = &n;
        tamis_snapshot_query(now.get(), &q, nullptr);
        candidates += n;
    }
    EXPECT(write(to, &candidates, sizeof candidates) == sizeof candidates, "no pipe");
}

uint64_t Covering(Engine *engine)
{
    std::vector<rocksdb::LiveFileMetaData> files;
    engine->db->GetLiveFilesMetaData(&files);
    uint64_t n = 0;
    for (uint64_t i = 0; i < N_ABSENT; i++)
        for (const auto &file : files)
            n += KeyOf(i, false) >= file.smallestkey &&
                 KeyOf(i, false) <= file.largestkey;
    printf("       %zu SSTs; a key that is absent lies in the range of %.2f\n",
           files.size(), double(n) / double(N_ABSENT));
    return n;
}

/* Blocks of tables that RocksDB reads for them, by Get() or with TableFilter(). */
uint64_t BlocksRead(Engine *engine, bool filtered)
{
    rocksdb::SetPerfLevel(rocksdb::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    for (uint64_t i = 0; i < N_ABSENT; i++) {
        std::string key = KeyOf(i, false), end = key + '\0', value;
        if (!filtered) {
            EXPECT(engine->db->Get(rocksdb::ReadOptions(), key, &value).IsNotFound(),
                   "an absent key is there");
            continue;
        }
        rocksdb::Slice bound = end;
        rocksdb::ReadOptions opt;
        opt.table_filter = engine->filters->TableFilter(key);
        opt.iterate_upper_bound = &bound;
        std::unique_ptr<rocksdb::Iterator> it(engine->db->NewIterator(opt));
        it->Seek(key);
        EXPECT(!it->Valid() && it->status().ok(), "an absent key is there");
    }
    return rocksdb::get_perf_context()->block_read_count;
}

/* The same for keys that are there: none may be lost. */
void FindPresent(Engine *engine, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 1 + n / 20000) {
        std::string key = KeyOf(i, true), end = key + '\0', value;
        rocksdb::Slice bound = end;
        rocksdb::ReadOptions opt;
        opt.table_filter = engine->filters->TableFilter(key);
        opt.iterate_upper_bound = &bound;
        std::unique_ptr<rocksdb::Iterator> it(engine->db->NewIterator(opt));
        it->Seek(key);
        bool there = engine->db->Get(rocksdb::ReadOptions(), key, &value).ok();
        EXPECT(it->Valid() == there, "LOST: %s", key.c_str());
    }
}

} // namespace

CASE(ReadsSaved, "reads saved")
{
    int pipes[2], ready[2];
    EXPECT(pipe(pipes) == 0 && pipe(ready) == 0, "no pipe");
    /* Forked before RocksDB has threads; waits for the database to be there. */
    pid_t second = fork();
    if (second == 0) {
        char byte;
        close(ready[1]); /* so only the other process can write a word */
        EXPECT(read(ready[0], &byte, 1) == 1, "no word");
        AskTheStore(pipes[1]);
        _exit(0);
    }
    Engine engine;
    rocksdb::Options options = SmallOptions();
    options.write_buffer_size = options.target_file_size_base = 1 << 20;
    options.max_bytes_for_level_base = 4 << 20;
    OpenEngine(&engine, options);
    Fill(&engine, settings.keys);
    CheckStore(&engine, Extra::kForbidden);
    uint64_t covering = Covering(&engine), candidates = 0;
    EXPECT(write(ready[1], "", 1) == 1, "no pipe");
    EXPECT(read(pipes[0], &candidates, sizeof candidates) == sizeof candidates,
           "the second process failed");
    uint64_t plain = BlocksRead(&engine, false), filtered = BlocksRead(&engine, true);
    FindPresent(&engine, settings.keys);
    printf(
        "       the second process, by the store alone: %.3f SSTs a key, %.1f%% of the "
        "reads saved\n",
        double(candidates) / double(N_ABSENT),
        100 - 100.0 * double(candidates) / double(covering));
    printf(
        "       RocksDB: %.2f blocks a key by Get(), %.3f with TableFilter(): %.1f%% "
        "saved\n",
        double(plain) / double(N_ABSENT), double(filtered) / double(N_ABSENT),
        100 - 100.0 * double(filtered) / double(plain));
    EXPECT(candidates * 20 < covering, "the filters save too little");
    EXPECT(filtered * 20 < plain, "TableFilter() saves too little");
    OK(engine.db->ContinueBackgroundWork());
}
