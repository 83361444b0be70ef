/* build/tamis-rocksdb, run on databases that were written without the shim. */
#include "test.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

int Tool(const std::string &arguments, std::string *said)
{
    std::string command = settings.tool + " " + arguments + " 2>&1";
    FILE *from = popen(command.c_str(), "r");
    EXPECT(from, "%s", command.c_str());
    said->clear();
    for (int c; (c = fgetc(from)) != EOF;)
        *said += char(c);
    int status = pclose(from);
    EXPECT(WIFEXITED(status), "%s: status %d: %s", command.c_str(), status,
           said->c_str());
    return WEXITSTATUS(status);
}

void ExpectTool(int code, const std::string &words, const std::string &arguments)
{
    std::string said;
    int got = Tool(arguments, &said);
    EXPECT(got == code && said.find(words) != std::string::npos,
           "tamis-rocksdb %s: exit %d, not %d; it said: %s; not: %s", arguments.c_str(),
           got, code, said.c_str(), words.c_str());
}

void MakeStore()
{
    tamis_open_options opt = {};
    opt.size = sizeof opt;
    opt.create = TAMIS_CREATE_NEW;
    tamis_store *made;
    EXPECT(tamis_store_open(StorePath().c_str(), &opt, &made, nullptr) == 0,
           "no store");
    tamis_store_close(made);
}

void OpenPlain(Engine *engine, const std::string &path)
{
    rocksdb::Options options = QuietOptions();
    OK(rocksdb::DB::Open(options, path, Families(options), &engine->families,
                         &engine->db));
}

void WriteSome(Engine *engine, const std::string &prefix)
{
    rocksdb::WriteOptions opt;
    std::vector<const rocksdb::Snapshot *> held;
    for (int i = 0; i < 1000; i++) {
        std::string key = prefix + std::to_string(i);
        OK(i % 5 == 1   ? engine->db->Delete(opt, key)
           : i % 5 == 2 ? engine->db->SingleDelete(opt, key)
           : i % 5 == 3 ? engine->db->Merge(opt, key, "v")
                        : engine->db->Put(opt, key, "v"));
        /* Versions of a key that a snapshot holds are in the SST, too. */
        if (i % 100 == 0)
            held.push_back(engine->db->GetSnapshot());
        if (i % 7 == 0)
            OK(engine->db->Merge(opt, key, "w"));
        if (i % 10 == 0)
            OK(engine->db->Delete(opt, key));
        OK(engine->db->Put(opt, engine->Family(1), key, "v"));
    }
    OK(engine->db->Flush(rocksdb::FlushOptions(), engine->families));
    for (const rocksdb::Snapshot *one : held)
        engine->db->ReleaseSnapshot(one);
}

namespace
{

std::string AnSst()
{
    for (const auto &file : fs::directory_iterator(DbPath()))
        if (file.path().extension() == ".sst")
            return file.path();
    EXPECT(false, "no SST");
}

} // namespace

CASE(OfflineBuild, "offline")
{
    MakeStore();
    {
        Engine engine;
        OpenPlain(&engine);
        WriteSome(&engine, "a");
        WriteSome(&engine, "b");
        ExpectTool(6, "a process has it open");
        EXPECT(Listed().empty(), "it read a database that is open");
    }
    ExpectTool(0, "4 built, 0 kept, 0 without a filter, 0 dropped");
    {
        Engine engine;
        OpenPlain(&engine);
        CheckStore(&engine, Extra::kForbidden);
        OK(engine.db->DeleteRange(rocksdb::WriteOptions(), engine.Family(0), "c", "d"));
        OK(engine.db->Flush(rocksdb::FlushOptions()));
        CompactAll(&engine, 1);
    }
    /* Two of the other family have become one; a range deletion is a filter less. */
    ExpectTool(0, "1 built, 2 kept, 1 without a filter, 2 dropped");
    ExpectTool(0, "it has range deletions: listed without a filter");
    ExpectTool(0, "0 built, 3 kept, 1 without a filter, 0 dropped");
    /* Values in blob files are read by the database alone, where a merge wants them. */
    fs::remove_all(DbPath());
    {
        rocksdb::Options options = QuietOptions();
        rocksdb::WriteOptions opt;
        Engine engine;
        options.enable_blob_files = true;
        OK(rocksdb::DB::Open(options, DbPath(), &engine.db));
        OK(engine.db->Put(opt, "a", "v"));
        OK(engine.db->Delete(opt, "b"));
        OK(engine.db->Flush(rocksdb::FlushOptions()));
        OK(engine.db->Put(opt, "a", "v"));
        const rocksdb::Snapshot *held = engine.db->GetSnapshot();
        OK(engine.db->Merge(opt, "a", "w"));
        OK(engine.db->Flush(rocksdb::FlushOptions()));
        engine.db->ReleaseSnapshot(held);
    }
    ExpectTool(0, "1 built, 0 kept, 1 without a filter",
               "--force " + StorePath() + " " + DbPath());
    ExpectTool(0, "in a database only");
    fs::remove_all(DbPath());
    fs::remove_all(StorePath());
    {
        Engine engine;
        OpenPlain(&engine);
        WriteSome(&engine, "a");
    }
    MakeStore();
    ExpectTool(0, "2 built");
    /* The shim takes over what it built, as it is. */
    Engine engine;
    OpenEngine(&engine, QuietOptions());
    CheckStore(&engine, Extra::kForbidden);
}

/* A live table that is not there, whyever, would make its keys absent. */
CASE(OfflineMissing, "offline, a live table is missing")
{
    const std::string other = settings.dir + "/other",
                      hidden = settings.dir + "/hidden";
    MakeStore();
    {
        rocksdb::Options options = QuietOptions();
        options.create_if_missing = true;
        options.db_paths = {{DbPath(), 1}, {other, 1 << 30}}; /* the first is full */
        rocksdb::DB *db;
        OK(rocksdb::DB::Open(options, DbPath(), &db));
        OK(db->Put(rocksdb::WriteOptions(), "k", "v"));
        OK(db->Flush(rocksdb::FlushOptions()));
        rocksdb::CompactRangeOptions opt;
        opt.target_path_id = 1;
        opt.change_level = true;
        opt.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
        OK(db->CompactRange(opt, nullptr, nullptr));
        OK(db->Put(rocksdb::WriteOptions(), "only in the log", "v"));
        delete db;
    }
    const std::string both = StorePath() + " " + DbPath() + " " + other;
    ExpectTool(3, "name all directories of its db_paths");
    EXPECT(Listed().empty(), "it changed something");
    ExpectTool(0, "bytes of log: its keys are in no table", both);
    EXPECT(Listed().size() == 1, "one table");
    const fs::path sst = other + "/" + Listed()[0];
    EXPECT(fs::exists(sst), "the other directory has it");
    ExpectTool(3, "nothing was changed");
    fs::rename(sst, hidden);
    ExpectTool(3, "is live and not there", both);
    EXPECT(Listed().size() == 1, "it dropped what is live");
    /* Cut to nothing, the MANIFEST has nothing live; with a flipped bit, who knows. */
    for (const auto &file : fs::directory_iterator(DbPath()))
        if (file.path().filename().string().rfind("MANIFEST-", 0) == 0) {
            fs::copy_file(file.path(), hidden + "-manifest");
            std::fstream flip(file.path(), std::ios::in | std::ios::out);
            flip.seekp(20).put('\xee');
            flip.close();
            ExpectTool(3, "cannot be told", both);
            fs::resize_file(file.path(), 0);
            ExpectTool(3, "it has no edits", both);
            fs::rename(hidden + "-manifest", file.path());
            break;
        }
    /* LevelDB's databases have a CURRENT, too. */
    fs::rename(hidden, (DbPath() / sst.filename()).replace_extension(".ldb"));
    fs::remove(fs::path(DbPath()) / "IDENTITY");
    for (const auto &file : fs::directory_iterator(DbPath()))
        if (file.path().filename().string().rfind("OPTIONS-", 0) == 0)
            fs::remove(file.path());
    ExpectTool(3, "this is a LevelDB database: use tamis-leveldb", both);
    EXPECT(Listed().size() == 1, "it dropped what is live");
}

CASE(OfflineBadInput, "offline, bad input")
{
    ExpectTool(2, "are wanted", "only-one");
    ExpectTool(2, "", "--what");
    ExpectTool(4, "", "--help >/dev/full");
    MakeStore();
    ExpectTool(5, "a\\x0ab: no such directory", StorePath() + " 'a\nb'");
    ExpectTool(5, "no such directory");
    fs::create_directory(DbPath());
    ExpectTool(3, "no RocksDB database: it has no CURRENT");
    std::ofstream(DbPath() + "/CURRENT") << "MANIFEST-000099\n";
    ExpectTool(3, "this is a LevelDB database: use tamis-leveldb");
    std::ofstream(DbPath() + "/IDENTITY") << "one";
    ExpectTool(3, "which tables are live cannot be told");
    fs::remove_all(DbPath());
    std::ofstream(DbPath()).close();
    ExpectTool(3, "no RocksDB database: it is no directory");
    fs::remove_all(DbPath());
    fs::remove_all(StorePath());
    {
        Engine engine;
        OpenPlain(&engine);
        WriteSome(&engine, "a");
    }
    ExpectTool(5, "'tamis init STORE' makes one");
    EXPECT(!fs::exists(StorePath()), "it made a store");
    MakeStore();
    ExpectTool(2, "no path", "'' " + DbPath());
    /* A limit of file sizes is an error, no signal. */
    settings.tool = "ulimit -f 8; " + settings.tool;
    ExpectTool(4, "File too large: raise the limit");
    settings.tool.erase(0, strlen("ulimit -f 8; "));
    ExpectTool(0, "2 built");
    /* A name twice is two files, of which the list would have one. */
    fs::copy(DbPath(), settings.dir + "/twin", fs::copy_options::recursive);
    ExpectTool(2, "two files of one name",
               StorePath() + " " + DbPath() + " " + settings.dir + "/twin");
    ExpectTool(0, "0 built, 2 kept, 0 without a filter, 0 dropped");
    /* As LevelDB named it: RocksDB opens it, so it is live. */
    fs::path as_ldb = fs::path(AnSst()).replace_extension(".ldb");
    fs::rename(AnSst(), as_ldb);
    ExpectTool(0, "0 built, 2 kept, 0 without a filter, 0 dropped");
    fs::rename(as_ldb, fs::path(as_ldb).replace_extension(".sst"));
    /* Files that are no tables, and a table that was damaged. */
    std::string sst = AnSst(), empty = DbPath() + "/999998.sst";
    std::ofstream(empty).close();
    ExpectTool(3, "999998.sst: cannot be read");
    std::ofstream(empty) << std::string(5000, 'x');
    ExpectTool(3, "0 built, 2 kept, 1 without a filter, 0 dropped");
    fs::remove(empty);
    ExpectTool(0, "0 built, 2 kept, 0 without a filter, 1 dropped");
    /* With its descriptors closed its words go nowhere, not into a file with their
     * numbers. */
    std::ofstream(DbPath() + "/999998.sst").close();
    std::string said, closed = StorePath() + " " + DbPath() + " >&- 2>&- ; true";
    Tool(closed, &said);
    EXPECT(fs::file_size(DbPath() + "/LOCK") == 0, "it wrote into LOCK");
    fs::remove(DbPath() + "/999998.sst");
    ExpectTool(0, "2 kept");
    /* A byte of a block in the middle: no filter is built of what can be read. */
    fs::remove_all(StorePath());
    MakeStore();
    std::fstream file(sst, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(fs::file_size(sst) / 2));
    file.put('\xee');
    file.close();
    ExpectTool(3, "cannot be read");
    ExpectTool(3, "1 kept, 1 without a filter");
    /* Cut short: nobody knows which file it is. */
    fs::resize_file(sst, fs::file_size(sst) / 2);
    ExpectTool(3, "1 kept, 1 without a filter");
    EXPECT(Listed().size() == 2, "both are listed");
}
