/* A store remembers which database it mirrors. Segments of another one, or of none, are
 * replaced or dropped only by force. */
#include "test.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <rocksdb/utilities/checkpoint.h>

namespace
{

namespace fs = std::filesystem;

std::string Second()
{
    return settings.dir + "/second";
}

void MakeDatabase(const std::string &path, const std::vector<std::string> &prefixes)
{
    Engine engine;
    OpenPlain(&engine, path);
    for (const std::string &prefix : prefixes)
        WriteSome(&engine, prefix);
}

/* Names, bindings and filters; and which files there are. */
std::string State()
{
    tamis::Store store = OpenStore();
    tamis::Snapshot now = tamis::Now(store.get(), nullptr);
    tamis_segment_info info;
    std::vector<std::string> parts;
    for (size_t i = 0; tamis_snapshot_next(now.get(), &i); i++) {
        EXPECT(tamis_snapshot_segment(now.get(), i, &info) == 0, "no segment");
        parts.push_back(
            std::string(reinterpret_cast<const char *>(info.name), info.name_bytes) +
            " " +
            std::string(reinterpret_cast<const char *>(info.binding),
                        info.binding_bytes) +
            " " + info.file);
    }
    for (const auto &file : fs::directory_iterator(StorePath() + "/filters"))
        parts.push_back(file.path().filename());
    std::sort(parts.begin(), parts.end());
    std::string all;
    for (const std::string &part : parts)
        all += part + "\n";
    return all;
}

/* A segment that no bridge has put. */
void PutByHand(const std::string &name, const std::string &binding = "")
{
    tamis::Store store = OpenStore();
    tamis_edit *edit;
    tamis_builder *builder;
    tamis_segment_options opt = {};
    opt.size = sizeof opt;
    opt.binding = binding.data();
    opt.binding_bytes = binding.size();
    EXPECT(tamis_edit_begin(store.get(), NULL, &edit, nullptr) == 0, "no edit");
    tamis_edit_drop(edit, name.data(), name.size(), nullptr, nullptr);
    EXPECT(tamis_edit_builder(edit, name.data(), name.size(), 0, &opt, &builder,
                              nullptr) == 0 &&
               tamis_builder_add_key(builder, "by hand", 7) == 0 &&
               tamis_edit_put(edit, builder, nullptr, nullptr) == 0,
           "no segment");
    tamis_builder_free(builder);
    EXPECT(tamis_edit_commit(edit, nullptr) == 0, "no commit");
}

const std::string Both(const std::string &options, const std::string &db)
{
    return options + " " + StorePath() + " " + db;
}

} // namespace

CASE(AnotherDatabase, "mirror: another database")
{
    MakeStore();
    MakeDatabase(DbPath(), {"a", "b"});
    MakeDatabase(Second(), {"c"});
    ExpectTool(0, "4 built");
    const std::string before = State();
    ExpectTool(3, "it mirrors another RocksDB database", Both("", Second()));
    ExpectTool(3, "it mirrors another RocksDB database", Both("--dry-run", Second()));
    EXPECT(State() == before, "it changed the store:\n%s", State().c_str());
    ExpectTool(0, "0 built, 4 kept");
    std::string said;
    EXPECT(Tool(Both("--force", Second()), &said) == 0, "%s", said.c_str());
    size_t n_named = 0;
    for (size_t at = 0;
         (at = said.find("(was of another RocksDB database)", at)) != said.npos; at++)
        n_named++;
    EXPECT(n_named == 4 && said.find("2 built, 0 kept") != said.npos &&
               said.find("  replaced  ") != said.npos &&
               said.find("  dropped   ") != said.npos,
           "what it replaces and drops is not named: %s", said.c_str());
    EXPECT(Listed().size() == 2, "%zu segments", Listed().size());
    ExpectTool(3, "it mirrors another RocksDB database");
    /* The same database elsewhere, and a copy of all its files. */
    fs::rename(Second(), settings.dir + "/moved");
    ExpectTool(0, "2 kept", Both("", settings.dir + "/moved"));
    fs::copy(settings.dir + "/moved", Second(), fs::copy_options::recursive);
    ExpectTool(0, "2 kept", Both("", Second()));
    EXPECT(Tool(Both("--json", Second()), &said) == 0 && said[0] == '{' &&
               said.find("\"kept\": 2") != said.npos &&
               said.find("\"identity\": \"rocksdb:") != said.npos,
           "%s", said.c_str());
    /* LevelDB's bridge has put it. */
    fs::remove_all(StorePath());
    MakeStore();
    PutByHand("000005.ldb", "leveldb:0123456789abcdef/1/0123456789abcdef");
    ExpectTool(3, "it mirrors a LevelDB database");
}

CASE(SegmentsOfOthers, "mirror: segments of others")
{
    MakeStore();
    MakeDatabase(DbPath(), {"a"});
    PutByHand("mine");
    ExpectTool(0, "2 built, 0 kept, 0 without a filter, 0 dropped; 2000 keys; 1 of no "
                  "database left alone");
    EXPECT(Listed().size() == 3 && Listed()[2] == "mine", "mine is gone");
    PutByHand(Listed()[0]);
    const std::string before = State();
    ExpectTool(3, "is of no database: drop it, or replace it by --force");
    EXPECT(State() == before, "it changed the store");
    std::string said;
    EXPECT(Tool(Both("--force", DbPath()), &said) == 0 &&
               said.find("  dropped   mine  (was of no database)") != said.npos &&
               said.find("  replaced  " + Listed()[0] + "  (was of no database)") !=
                   said.npos,
           "%s", said.c_str());
    EXPECT(Listed().size() == 2, "mine stays");
    /* The shim leaves it alone, too, and does not vouch for it. */
    PutByHand("mine");
    Engine engine;
    OpenEngine(&engine, QuietOptions());
    EXPECT(Listed().size() == 3, "mine is gone");
    CheckStore(&engine, Extra::kAllowed);
}

CASE(DryRun, "mirror: a dry run writes nothing")
{
    MakeStore();
    MakeDatabase(DbPath(), {"a"});
    const std::string empty = State();
    ExpectTool(0, "dry run: 2 tables: 2 built", Both("--dry-run", DbPath()));
    ExpectTool(0, "  built     0", Both("--dry-run", DbPath()));
    EXPECT(State() == empty, "a dry run wrote:\n%s", State().c_str());
    ExpectTool(0, "2 built");
    MakeDatabase(DbPath(), {"b"});
    {
        Engine engine;
        OpenPlain(&engine);
        CompactAll(&engine);
    }
    const std::string before = State();
    std::string said;
    EXPECT(Tool(Both("--dry-run", DbPath()), &said) == 0 &&
               said.find("2 built, 1 kept, 0 without a filter, 1 dropped") !=
                   said.npos &&
               said.find("  dropped   0") != said.npos,
           "%s", said.c_str());
    EXPECT(State() == before, "a dry run wrote");
    ExpectTool(0, "2 built, 1 kept, 0 without a filter, 1 dropped");
    ExpectTool(2, "--fpr 2", Both("--fpr 2", DbPath()));
    fs::remove_all(StorePath());
    MakeStore();
    ExpectTool(0, "3 built", Both("--fpr 0.01%", DbPath()));
    tamis::Snapshot now = tamis::Now(OpenStore().get(), nullptr);
    tamis_segment_info info;
    EXPECT(tamis_snapshot_segment(now.get(), 0, &info) == 0 && info.error < 0.0002,
           "an error of %g", info.error);
}

CASE(TheShimRefuses, "mirror: the shim refuses")
{
    MakeDatabase(DbPath(), {"a"});
    MakeStore();
    ExpectTool(0, "2 built");
    const std::string before = State();
    fs::rename(DbPath(), Second());
    {
        Engine engine;
        OpenEngine(&engine, QuietOptions(), nullptr, false);
        rocksdb::Status s = engine.filters->Reconcile(engine.db, &engine.families);
        EXPECT(s.IsInvalidArgument(), "it reconciled: %s", s.ToString().c_str());
        WriteSome(&engine, "b");
        EXPECT(!engine.filters->Reconcile(engine.db, &engine.families).ok(),
               "it reconciled");
        CompactAll(&engine);
        EXPECT(Passes(&engine, "nothing"), "a table is skipped");
        EXPECT(engine.complaints.find("it mirrors another RocksDB database") !=
                   std::string::npos,
               "%s", engine.complaints.c_str());
    }
    EXPECT(State() == before, "the shim changed the store of another database:\n%s",
           State().c_str());
    /* Its first word may be a flush, too. */
    fs::remove_all(DbPath());
    {
        Engine engine;
        OpenEngine(&engine, QuietOptions(), nullptr, false);
        WriteSome(&engine, "c");
        WriteSome(&engine, "d"); /* numbers that the other one does not have */
    }
    EXPECT(State() == before, "the shim changed the store of another database");
    fs::remove_all(DbPath());
    fs::rename(Second(), DbPath());
    Engine engine;
    OpenEngine(&engine, QuietOptions());
    CheckStore(&engine, Extra::kForbidden);
}

/* A change is decided from a snapshot. It touches no segment that was put later. */
CASE(OvertakenMeanwhile, "mirror: changed by others meanwhile")
{
    MakeStore();
    const std::string tag = tamis::TagOf("one"), other = tamis::TagOf("two");
    tamis::Store store = OpenStore();
    PutByHand("000001.sst", tag + "/S/1");
    PutByHand("000002.sst", tag + "/S/1");
    tamis::Change drop;
    EXPECT(drop.Begin(store.get(), tag) == 0 && drop.Drop("000001.sst") == 0 &&
               drop.Drop("000002.sst") == 0,
           "not dropped");
    PutByHand("000002.sst", other + "/S/1"); /* another process takes it over */
    const std::string before = State();
    EXPECT(drop.Commit() == TAMIS_ERR_MISMATCH, "it dropped what another one put");
    EXPECT(State() == before, "it changed something");
    tamis::Change again;
    EXPECT(again.Begin(store.get(), tag) == 0 &&
               again.Put({"000002.sst", tag + "/S/2"}, nullptr) == TAMIS_ERR_EXISTS,
           "it replaces what another one put");
    tamis::Change last;
    EXPECT(last.Begin(store.get(), tag) == 0 && last.Drop("000001.sst") == 0 &&
               last.Drop("000002.sst") == 0 && last.Commit() == 0,
           "not dropped");
    EXPECT(Listed() == std::vector<std::string>{"000002.sst"}, "the other's is gone");
}

/* A checkpoint has no IDENTITY until it is opened. */
CASE(Checkpoints, "mirror: checkpoints")
{
    MakeStore();
    const std::string one = settings.dir + "/one", two = settings.dir + "/two";
    {
        Engine engine;
        OpenPlain(&engine);
        rocksdb::Checkpoint *made;
        OK(rocksdb::Checkpoint::Create(engine.db, &made));
        std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
        WriteSome(&engine, "a");
        OK(checkpoint->CreateCheckpoint(one));
        WriteSome(&engine, "b");
        OK(checkpoint->CreateCheckpoint(two));
    }
    ExpectTool(0, "2 built", Both("", one));
    ExpectTool(0, "2 built, 2 kept", Both("", two));
    ExpectTool(0, "0 built, 4 kept");
    {
        Engine engine;
        OpenPlain(&engine, one); /* now it is a database of its own */
    }
    ExpectTool(3, "it mirrors another RocksDB database", Both("", one));
    ExpectTool(0, "0 built, 2 kept, 0 without a filter, 2 dropped",
               Both("--force", one));
    EXPECT(Listed().size() == 2, "%zu segments", Listed().size());
}
