/* A database that is killed at each step of the shim and of RocksDB between, and at any
 * moment; and what the store says of it then: as the dead process left it, and when it
 * was opened and reconciled. */
#include "test.h"

#include <atomic>
#include <cstring>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

#include <rocksdb/sst_file_writer.h>

namespace
{

/* In the order of a flush, a compaction, an ingestion and an opening. */
const char *const steps[] = {
    "gathered",        "created",  "built",     "listed",     "manifest written",
    "manifest synced", "flushed",  "compacted", "deleted",    "dropped",
    "ingesting",       "ingested", "live",      "reconciled",
};

struct Killer {
    std::string step; /* "": none */
    int n;            /* at its n-th time */
    std::atomic<int> seen{0};

    void At(const char *name)
    {
        if (step == name && ++seen == n)
            kill(getpid(), SIGKILL);
    }
};

/* Steps that only RocksDB sees. */
class ManifestListener : public rocksdb::EventListener
{
  public:
    explicit ManifestListener(Killer *killer) : killer_(killer)
    {
    }
    bool ShouldBeNotifiedOnFileIO() override
    {
        return true;
    }
    void OnFileWriteFinish(const rocksdb::FileOperationInfo &info) override
    {
        if (info.path.find("MANIFEST") != std::string::npos)
            killer_->At("manifest written");
    }
    void OnFileSyncFinish(const rocksdb::FileOperationInfo &info) override
    {
        if (info.path.find("MANIFEST") != std::string::npos)
            killer_->At("manifest synced");
    }

  private:
    Killer *killer_;
};

std::string RandomKey(std::mt19937_64 &random)
{
    char key[32];
    snprintf(key, sizeof key, "k%07u", unsigned(random() % (settings.keys * 3 / 10)));
    return key;
}

/* A file of some keys, written as one of the database, is put into it. */
void Ingest(Engine *engine, const std::string &prefix)
{
    rocksdb::Options options = engine->db->GetOptions(engine->Family(0));
    std::string path = settings.dir + "/external.sst";
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    OK(writer.Open(path));
    for (int i = 0; i < 100; i++)
        OK(i % 2 ? writer.Delete(prefix + std::to_string(100 + i))
                 : writer.Put(prefix + std::to_string(100 + i), "v"));
    OK(writer.Finish());
    OK(engine->filters->Ingest(engine->db, engine->Family(0), {path},
                               rocksdb::IngestExternalFileOptions()));
}

/* Writes until it is killed, or a fifth of the keys. */
void Write(uint64_t seed, const std::string &step, int n)
{
    Killer killer{step, n};
    std::mt19937_64 random(seed);
    rocksdb::Options options = SmallOptions();
    options.max_subcompactions = 2;
    options.listeners.push_back(std::make_shared<ManifestListener>(&killer));
    Engine engine;
    OpenEngine(&engine, options, [&](const char *name) { killer.At(name); });
    rocksdb::WriteOptions opt;
    for (uint64_t i = 0; i < settings.keys / 5; i++) {
        if (i % 3000 == 1000)
            Ingest(&engine, RandomKey(random) + "-");
        rocksdb::ColumnFamilyHandle *family = engine.Family(random() % 8 == 0);
        std::string key = RandomKey(random), value(20 + random() % 60, 'v');
        unsigned kind = random() % 16;
        if (kind < 10)
            OK(engine.db->Put(opt, family, key, value));
        else if (kind < 13)
            OK(engine.db->Delete(opt, family, key));
        else if (kind < 15)
            OK(engine.db->Merge(opt, family, "m" + key, value));
        else {
            /* A single delete is for keys that were put once. */
            std::string once = "s" + std::to_string(seed) + "-" + std::to_string(i);
            OK(engine.db->Put(opt, family, once, value));
            if (i % 3 == 0)
                OK(engine.db->Flush(rocksdb::FlushOptions(), family));
            OK(engine.db->SingleDelete(opt, family, once));
        }
    }
}

/* As it was left: nothing is written. */
void CheckAsLeft()
{
    Engine engine;
    OK(rocksdb::DB::OpenForReadOnly(SmallOptions(), DbPath(), Families(SmallOptions()),
                                    &engine.families, &engine.db));
    CheckStore(&engine, Extra::kAllowed);
}

void CheckReconciled()
{
    Engine engine;
    OpenEngine(&engine, QuietOptions());
    CheckStore(&engine, Extra::kForbidden);
    EXPECT(engine.complaints.empty(), "%s", engine.complaints.c_str());
}

void Check(const char *when)
{
    int left = InChild(CheckAsLeft);
    EXPECT(left == 0, "%s: as it was left", when);
    int reconciled = InChild(CheckReconciled);
    EXPECT(reconciled == 0, "%s: reconciled", when);
}

/* In one session, without reconciling: the list follows each compaction. */
void FollowsTheEngine()
{
    Engine engine;
    OpenEngine(&engine, SmallOptions());
    for (rocksdb::ColumnFamilyHandle *family : engine.families)
        OK(engine.db->CompactRange(rocksdb::CompactRangeOptions(), family, nullptr,
                                   nullptr));
    CheckStore(&engine, Extra::kForbidden);
}

} // namespace

CASE(KilledAtEachStep, "killed at each step")
{
    std::mt19937_64 random(settings.seed);
    unsigned n_killed = 0;
    int opened = InChild([] {
        Engine engine;
        OpenEngine(&engine, SmallOptions());
    });
    EXPECT(opened == 0, "the database was not made");
    for (const char *step : steps)
        for (int n : {1, 2, 5}) {
            uint64_t seed = random();
            bool once = strcmp(step, "live") == 0 || strcmp(step, "reconciled") == 0;
            if (once && n > 1)
                continue;
            int status = InChild([&] { Write(seed, step, n); });
            EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                   "step '%s' was not reached %d times: status %d", step, n, status);
            n_killed++;
            Check(step);
        }
    for (uint64_t i = 0; i < settings.kills; i++) {
        uint64_t seed = random();
        unsigned after = unsigned(20000 + random() % (settings.keys * 3 / 2)); /* us */
        int status = InChild([&] { Write(seed, "", 0); }, after);
        EXPECT(status == 0 || WIFSIGNALED(status), "status %d", status);
        n_killed += WIFSIGNALED(status);
        Check("at any moment");
    }
    EXPECT(InChild(FollowsTheEngine) == 0, "in one session");
    printf("       killed %u times, 0 lost\n", n_killed);
}
