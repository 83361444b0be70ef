/* The list when something of ours fails, when the shim was not there, and when it is used
 * for another database: nothing reaches the engine, and no key is lost. */
#include "test.h"

#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>

namespace
{

/* From the next step of the shim on no file can be opened, until it says that it
 * failed: what RocksDB opens meanwhile is nothing. */
void LimitFiles(bool none)
{
    rlimit limit;
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
    limit.rlim_cur = none ? 0 : limit.rlim_max;
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
}

} // namespace

CASE(WithoutTheShim, "a time without the shim")
{
    rocksdb::Options options = QuietOptions();
    tamis::Segment old;
    {
        Engine engine;
        OpenEngine(&engine, options);
        OK(engine.db->Put(rocksdb::WriteOptions(), "first", "v"));
        Flush(&engine);
        old = Only(&engine).segment;
    }
    {
        Engine engine;
        OK(rocksdb::DB::Open(options, DbPath(), Families(options), &engine.families,
                             &engine.db));
        OK(engine.db->Put(rocksdb::WriteOptions(), "first", "w"));
        OK(engine.db->Put(rocksdb::WriteOptions(), "second", "v"));
        Flush(&engine);
        CompactAll(&engine);
    }
    /* A name that recurs, with the filter of another file. */
    Engine engine;
    Engine plain;
    OpenEngine(&plain, options, nullptr, false);
    std::map<std::string, Live> live = LiveFiles(&plain);
    EXPECT(live.size() == 1 && live.begin()->first != old.name, "it was compacted");
    tamis::Segment segment = live.begin()->second.segment;
    {
        tamis::Store store = OpenStore();
        tamis::Builder builder;
        tamis::Change change;
        struct tamis_store_info info;
        EXPECT(tamis_store_info(store.get(), &info, nullptr) == 0 &&
                   tamis::NewBuilder(info, 0, TAMIS_BLOOM, &builder, nullptr) == 0 &&
                   change.Begin(store.get(), TagOf(plain.db)) == 0 &&
                   change.Put({segment.name, old.binding}, builder.get()) == 0 &&
                   change.Commit() == 0,
               "the store cannot be changed");
    }
    ExpectReason(segment, "second", TAMIS_MISMATCH);
    /* From here on the shim knows the database, and asks the store. */
    EXPECT(!plain.filters->Ingest(plain.db, plain.Family(0), {"/nowhere"}, {}).ok(),
           "there is no such file");
    EXPECT(Passes(&plain, "second"), "LOST: the filter of another file is believed");
    plain.Close();
    OpenEngine(&engine, options);
    EXPECT(Listed() == std::vector<std::string>{segment.name},
           "the list is not reconciled");
    ExpectReason(segment, "second", TAMIS_NO_FILTER);
    EXPECT(Passes(&engine, "second") && Passes(&engine, "first"), "LOST");
}

CASE(FailuresOfOurs, "failures of ours")
{
    /* Keys that cannot be kept: the file has no filter. */
    EXPECT(setenv("TMPDIR", "/nowhere", 1) == 0, "no environment");
    tamis::RocksOptions ours;
    std::string complaints;
    ours.store = StorePath();
    ours.memory_limit = 1;
    bool no_files = false;
    ours.complain = [&](const std::string &line) {
        complaints += line + "\n";
        if (line.find("will be tried again") != std::string::npos)
            LimitFiles(false);
    };
    ours.step = [&](const char *step) {
        if (no_files && (!strcmp(step, "created") || !strcmp(step, "flushed")))
            LimitFiles(true);
    };
    rocksdb::Options options = QuietOptions();
    options.write_buffer_size = 64 << 20;
    Engine engine;
    engine.filters = tamis::RocksFilters::Open(ours);
    OK(engine.filters->Use(&options));
    OK(rocksdb::DB::Open(options, DbPath(), &engine.db));
    for (int i = 0; i < 100000; i++)
        OK(engine.db->Put(rocksdb::WriteOptions(), std::to_string(i), "v"));
    OK(engine.db->Flush(rocksdb::FlushOptions()));
    tamis::RocksCounts counts = engine.filters->Counts();
    EXPECT(counts.failed == 1 && counts.bare == 1 && counts.filters == 0,
           "%d failed, %d bare", int(counts.failed), int(counts.bare));
    EXPECT(complaints.find("without a filter") != std::string::npos, "%s",
           complaints.c_str());
    /* No descriptor is to be had: nothing can be listed, and the engine goes on. */
    no_files = true;
    OK(engine.db->Put(rocksdb::WriteOptions(), "more", "v"));
    OK(engine.db->Flush(rocksdb::FlushOptions()));
    counts = engine.filters->Counts();
    EXPECT(counts.unlisted == 1 && Listed().size() == 1, "%d unlisted, %zu listed",
           int(counts.unlisted), Listed().size());
    EXPECT(complaints.find("will be tried again") != std::string::npos, "%s",
           complaints.c_str());
    EXPECT(Passes(&engine, "more"), "LOST: more");
    /* When files can be opened again, the tables that were left out are listed. */
    no_files = false;
    OK(engine.db->Put(rocksdb::WriteOptions(), "yet more", "v"));
    OK(engine.db->Flush(rocksdb::FlushOptions()));
    EXPECT(engine.filters->Counts().unlisted == 0 && Listed().size() == 3,
           "what could not be listed was not tried again");
    /* No store at all. */
    ours.store = "/dev/null";
    rocksdb::Status s;
    engine.Close();
    engine.filters = tamis::RocksFilters::Open(ours, &s);
    EXPECT(!s.ok(), "/dev/null is no store");
    OK(engine.filters->Use(&options));
    OK(rocksdb::DB::Open(options, DbPath(), &engine.db));
    OK(engine.db->Put(rocksdb::WriteOptions(), "last", "v"));
    OK(engine.db->Flush(rocksdb::FlushOptions()));
    EXPECT(!engine.filters->Reconcile(engine.db).ok(), "no store is reconciled");
    EXPECT(Passes(&engine, "last"), "LOST: last");
}

CASE(TwoDatabases, "two databases, one store")
{
    Engine engine;
    rocksdb::Options options = QuietOptions();
    OpenEngine(&engine, options);
    OK(engine.db->Put(rocksdb::WriteOptions(), "ours", "v"));
    Flush(&engine);
    rocksdb::DB *other;
    OK(engine.filters->Use(&options));
    OK(rocksdb::DB::Open(options, settings.dir + "/other", &other));
    OK(other->Put(rocksdb::WriteOptions(), "theirs", "v"));
    OK(other->Flush(rocksdb::FlushOptions()));
    EXPECT(engine.complaints.find("use another one") != std::string::npos, "no word");
    EXPECT(!engine.filters->Reconcile(other).ok(), "it is not its store");
    OK(other->Close());
    delete other;
    CheckStore(&engine, Extra::kForbidden);
    /* The same one, spelt otherwise. */
    std::shared_ptr<tamis::RocksFilters> filters = engine.filters;
    engine.Close();
    engine.filters = filters;
    engine.complaints.clear();
    OK(rocksdb::DB::Open(options, DbPath() + "/", Families(options), &engine.families,
                         &engine.db));
    OK(engine.filters->Reconcile(engine.db, &engine.families));
    EXPECT(engine.complaints.empty(), "%s", engine.complaints.c_str());
}

/* A backup has its own file under a number that the shim has listed meanwhile. */
CASE(RestoredMeanwhile, "restored while the shim stays")
{
    namespace fs = std::filesystem;
    rocksdb::Options options = QuietOptions();
    const std::string backup = settings.dir + "/backup",
                      empty = settings.dir + "/empty";
    auto open = [&](Engine *engine) {
        OK(rocksdb::DB::Open(options, DbPath(), Families(options), &engine->families,
                             &engine->db));
    };
    auto write = [&](Engine *engine, const char *key) {
        open(engine);
        OK(engine->db->Put(rocksdb::WriteOptions(), engine->Family(1), key, "v"));
        OK(engine->db->Flush(rocksdb::FlushOptions(), engine->Family(1)));
    };
    Engine engine;
    open(&engine);
    engine.Close();
    fs::copy(DbPath(), empty, fs::copy_options::recursive);
    write(&engine, "restored");
    engine.Close();
    fs::rename(DbPath(), backup);
    fs::rename(empty, DbPath());
    tamis::RocksOptions ours;
    ours.store = StorePath();
    auto filters = tamis::RocksFilters::Open(ours);
    OK(filters->Use(&options));
    write(&engine, "gone");
    std::vector<std::string> listed = Listed();
    engine.Close();
    fs::remove_all(DbPath());
    fs::copy(backup, DbPath(), fs::copy_options::recursive);
    open(&engine);
    /* Nobody tells which files belong to the other family. */
    OK(filters->Reconcile(engine.db));
    std::vector<rocksdb::LiveFileMetaData> files;
    engine.db->GetLiveFilesMetaData(&files);
    EXPECT(files.size() == 1 && Listed() == listed &&
               tamis::NameOf(files[0].name) == listed[0],
           "the number does not recur");
    ExpectReason({listed[0], TagOf(engine.db)}, "restored", TAMIS_NO_FILTER);
}
