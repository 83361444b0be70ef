/* Tests the shim with each kind of entry, order of keys and way into the database. */
#include "test.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <strings.h>
#include <thread>
#include <unistd.h>

#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/sst_file_writer.h>

namespace
{

std::string ExternalFile(const std::string &name, const rocksdb::Options &options,
                         const std::string &key)
{
    std::string path = settings.dir + "/" + name;
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    OK(writer.Open(path));
    OK(writer.Put(key + "1", "v"));
    OK(writer.Delete(key + "2"));
    OK(writer.Merge(key + "3", "v"));
    OK(writer.Finish());
    return path;
}

} // namespace

CASE(EveryKindOfEntry, "every kind of entry is a key")
{
    Engine engine;
    rocksdb::Options options = QuietOptions();
    options.enable_blob_files = true;
    options.min_blob_size = 100;
    OpenEngine(&engine, options);
    rocksdb::WriteOptions opt;
    OK(engine.db->Put(opt, "put", "v"));
    OK(engine.db->Put(opt, "", "the empty key"));
    OK(engine.db->Put(opt, std::string("nul\0\xff", 5), "v"));
    OK(engine.db->Put(opt, "blob", std::string(1000, 'b')));
    OK(engine.db->Delete(opt, "delete"));
    OK(engine.db->SingleDelete(opt, "single delete"));
    OK(engine.db->Merge(opt, "merge", "v"));
    OK(engine.db->Merge(opt, "merge", "w"));
    OK(engine.db->PutEntity(opt, engine.Family(0), "entity", {{"column", "v"}}));
    /* Versions that a snapshot holds are one key. */
    const rocksdb::Snapshot *snapshot = engine.db->GetSnapshot();
    OK(engine.db->Delete(opt, "put"));
    Flush(&engine);
    engine.db->ReleaseSnapshot(snapshot);
    Live live = Only(&engine);
    EXPECT(live.segment.name == tamis::NameOf(live.path), "the name");
    for (const char *key :
         {"put", "", "blob", "delete", "single delete", "merge", "entity"})
        ExpectReason(live.segment, key, TAMIS_HIT);
    ExpectReason(live.segment, std::string("nul\0\xff", 5), TAMIS_HIT);
    int absent = 0;
    for (int i = 0; i < 1000; i++)
        absent += Ask(live.segment, "no" + std::to_string(i), nullptr) == TAMIS_ABSENT;
    EXPECT(absent > 950, "%d of 1000 keys are absent", absent);
    ExpectReason({live.segment.name, "another/1"}, "put", TAMIS_MISMATCH);
    CheckStore(&engine, Extra::kForbidden);
    /* The other family's keys are in its own file. */
    OK(engine.db->Put(opt, engine.Family(1), "other", "v"));
    Flush(&engine);
    EXPECT(Listed().size() == 2, "two families are two segments");
    ExpectReason(live.segment, "other", TAMIS_NO_REASON);
    CheckStore(&engine, Extra::kForbidden);
    tamis::RocksCounts counts = engine.filters->Counts();
    EXPECT(counts.filters == 2 && counts.bare == 0 && counts.failed == 0, "the counts");
}

CASE(RangeDeletions, "range deletions")
{
    Engine engine;
    OpenEngine(&engine, QuietOptions());
    rocksdb::WriteOptions opt;
    OK(engine.db->Put(opt, "a", "v"));
    OK(engine.db->DeleteRange(opt, engine.Family(0), "b", "y"));
    Flush(&engine);
    ExpectReason(Only(&engine).segment, "m", TAMIS_NO_FILTER);
    EXPECT(Passes(&engine, "m"), "the table that deletes m is skipped");
    CheckStore(&engine, Extra::kForbidden);
    EXPECT(engine.filters->Counts().failed == 0 && engine.complaints.empty(),
           "a range deletion is no failure: %s", engine.complaints.c_str());
    /* When compaction has applied it, there is a filter again. */
    OK(engine.db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    OK(engine.db->Put(opt, "n", "v"));
    Flush(&engine);
    OK(engine.db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    ExpectReason(Only(&engine).segment, "a", TAMIS_HIT);
    CheckStore(&engine, Extra::kForbidden);
}

namespace
{

/* Capitals and small letters are the same to it, or so it says: RocksDB's default. */
class NoCase : public rocksdb::Comparator
{
  public:
    int Compare(const rocksdb::Slice &a, const rocksdb::Slice &b) const override
    {
        int order = strncasecmp(a.data(), b.data(), std::min(a.size(), b.size()));
        return order ? order : int(a.size()) - int(b.size());
    }
    const char *Name() const override
    {
        return "test.NoCase";
    }
    void FindShortestSeparator(std::string *, const rocksdb::Slice &) const override
    {
    }
    void FindShortSuccessor(std::string *) const override
    {
    }
};

} // namespace

CASE(UnfitComparators, "comparators and timestamps that are refused")
{
    NoCase no_case;
    const rocksdb::Comparator *with_time = nullptr;
    OK(rocksdb::Comparator::CreateFromString(
        rocksdb::ConfigOptions(), "leveldb.BytewiseComparator.u64ts", &with_time));
    for (const rocksdb::Comparator *order :
         {static_cast<const rocksdb::Comparator *>(&no_case), with_time}) {
        Engine engine;
        rocksdb::Options options = QuietOptions();
        options.comparator = order;
        options.merge_operator.reset();
        std::shared_ptr<tamis::RocksFilters> probe =
            tamis::RocksFilters::Open({StorePath(), 0.01, 0, nullptr, nullptr});
        EXPECT(probe->Use(&options).IsNotSupported(), "%s is refused", order->Name());
        OpenEngine(&engine, options);
        if (order->timestamp_size())
            OK(engine.db->Put(rocksdb::WriteOptions(), "key", "12345678", "v"));
        else
            OK(engine.db->Put(rocksdb::WriteOptions(), "KEY", "v"));
        Flush(&engine);
        ExpectReason(Only(&engine).segment, "key", TAMIS_NO_FILTER);
        EXPECT(Passes(&engine, "key"), "its table is skipped");
        engine.Close();
        std::filesystem::remove_all(DbPath());
        std::filesystem::remove_all(StorePath());
    }
    /* The other order of RocksDB's own is fine. */
    Engine engine;
    rocksdb::Options options = QuietOptions();
    options.comparator = rocksdb::ReverseBytewiseComparator();
    OpenEngine(&engine, options);
    for (char c = 'a'; c <= 'z'; c++)
        OK(engine.db->Put(rocksdb::WriteOptions(), std::string(1, c), "v"));
    OK(engine.db->Delete(rocksdb::WriteOptions(), "tombstone"));
    Flush(&engine);
    for (const char *key : {"a", "m", "z", "tombstone"})
        ExpectReason(Only(&engine).segment, key, TAMIS_HIT);
}

CASE(Ingestion, "ingestion")
{
    Engine engine;
    rocksdb::Options options = QuietOptions();
    bool marked = false;
    OpenEngine(&engine, options, [&](const char *step) {
        std::vector<std::string> names;
        if (std::string(step) == "ingested")
            names = Listed();
        marked |= std::count(names.begin(), names.end(), "ingest") > 0;
    });
    rocksdb::IngestExternalFileOptions opt;
    OK(engine.filters->Ingest(
        engine.db, engine.Family(0),
        {ExternalFile("a", options, "a"), ExternalFile("b", options, "b")}, opt));
    EXPECT(marked, "the list did not say that it lacks something");
    std::vector<std::string> listed = Listed();
    EXPECT(listed.size() == 2 && listed[1] != "ingest", "the mark stays");
    CheckStore(&engine, Extra::kForbidden);
    OK(engine.db->IngestExternalFile({ExternalFile("c", options, "c")}, opt));
    EXPECT(Listed().size() == 3, "what was ingested directly is not listed");
    CheckStore(&engine, Extra::kForbidden);
    for (const char *key : {"a1", "a2", "b2", "b3", "c2"})
        EXPECT(Passes(&engine, key), "LOST: %s", key);
    /* Its number is another one than its writer's. */
    OK(engine.db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    CheckStore(&engine, Extra::kForbidden);
    /* Nothing is ingested: nothing is said. */
    EXPECT(!engine.filters->Ingest(engine.db, engine.Family(0), {"/nowhere"}, opt).ok(),
           "there is no such file");
    CheckStore(&engine, Extra::kForbidden);
}

/* The ingestion that ends first must not take the mark from the others. */
CASE(IngestionAtOnce, "ingestions at once")
{
    Engine engine;
    rocksdb::Options options = QuietOptions();
    std::atomic<int> unmarked(0);
    OpenEngine(&engine, options, [&](const char *step) {
        if (std::string(step) != "ingested")
            return;
        std::vector<std::string> names = Listed();
        unmarked += std::count(names.begin(), names.end(), "ingest") != 1;
    });
    std::vector<std::thread> threads;
    for (const std::string name : {"a", "b", "c"})
        threads.emplace_back([&engine, &options, name] {
            for (int i = 0; i < 25; i++)
                OK(engine.filters->Ingest(
                    engine.db, engine.Family(0),
                    {ExternalFile(name + std::to_string(i), options, name)}, {}));
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT(unmarked == 0, "%d files were shown, and the list did not say so",
           int(unmarked));
    EXPECT(engine.complaints.empty(), "%s", engine.complaints.c_str());
    CheckStore(&engine, Extra::kForbidden);
}

namespace
{

/* The kind of a segment's filter, as its file says (SPEC.md section 5). */
int KindOf(const std::string &name)
{
    enum { KIND_AT = 72 };
    tamis_segment_info info;
    unsigned char bytes[KIND_AT + 1] = {};
    tamis::Store store = OpenStore();
    tamis::Snapshot now = tamis::Now(store.get(), nullptr);
    EXPECT(tamis::Find(now, name, &info) != SIZE_MAX, "%s is not listed", name.c_str());
    std::string path = StorePath() + "/" + info.file;
    FILE *file = fopen(path.c_str(), "r");
    EXPECT(file && fread(bytes, 1, sizeof bytes, file) == sizeof bytes, "%s",
           path.c_str());
    fclose(file);
    return bytes[KIND_AT];
}

} // namespace

/* A flushed SST is at level 0, and has a Bloom filter. An SST that a compaction wrote
 * for level 1 has a ribbon, and no key of it is absent. */
CASE(RibbonsBelow, "ribbons below a level")
{
    Engine engine;
    OpenEngine(&engine, QuietOptions(), nullptr, true, 1);
    rocksdb::WriteOptions opt;
    for (int i = 0; i < 2000; i++)
        OK(engine.db->Put(opt, "key" + std::to_string(i), "v"));
    OK(engine.db->Delete(opt, "tombstone"));
    Flush(&engine);
    EXPECT(KindOf(Only(&engine).segment.name) == TAMIS_BLOOM, "level 0 has a ribbon");
    for (int i = 0; i < 10; i++)
        OK(engine.db->Put(opt, "key" + std::to_string(i), "w"));
    Flush(&engine);
    CheckStore(&engine, Extra::kForbidden);
    OK(engine.db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    Live live = Only(&engine);
    EXPECT(KindOf(live.segment.name) == TAMIS_RIBBON, "level 1 has no ribbon");
    for (int i = 0; i < 2000; i++)
        ExpectReason(live.segment, "key" + std::to_string(i), TAMIS_HIT);
    int absent = 0;
    for (int i = 0; i < 1000; i++)
        absent += Ask(live.segment, "no" + std::to_string(i), nullptr) == TAMIS_ABSENT;
    EXPECT(absent > 950, "%d of 1000 keys are absent", absent);
    CheckStore(&engine, Extra::kForbidden);
    EXPECT(engine.complaints.empty(), "%s", engine.complaints.c_str());
}
