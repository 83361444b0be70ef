// Blocks that LevelDB reads for absent paths, with and without tamis. LevelDB counts no
// reads: an Env counts them that it is given.
// Usage: blocks_leveldb DIRECTORY LIST...; the directory gets two databases.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>

#include <memory>

#include "blocks.h"
#include "tamis_leveldb.hh"

// Reads of this thread: compactions read in another one.
static thread_local uint64_t n_reads;

static uint64_t blocks_read()
{
    return n_reads;
}

class CountedFile : public leveldb::RandomAccessFile
{
  public:
    explicit CountedFile(leveldb::RandomAccessFile *file) : file_(file)
    {
    }
    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice *result,
                         char *scratch) const override
    {
        n_reads++;
        return file_->Read(offset, n, result, scratch);
    }

  private:
    std::unique_ptr<leveldb::RandomAccessFile> file_;
};

// LevelDB reads a block of a table with one Read().
class CountingEnv : public leveldb::EnvWrapper
{
  public:
    CountingEnv() : EnvWrapper(leveldb::Env::Default())
    {
    }
    leveldb::Status NewRandomAccessFile(const std::string &name,
                                        leveldb::RandomAccessFile **file) override
    {
        leveldb::Status status = target()->NewRandomAccessFile(name, file);
        if (status.ok())
            *file = new CountedFile(*file);
        return status;
    }
};

// All paths are asked of a database whose tables are open: the present ones come first,
// and open them.
static demo::Asked fill_and_ask(const demo::Paths &paths, const std::string &name,
                                const leveldb::FilterPolicy *policy)
{
    CountingEnv env;
    std::unique_ptr<leveldb::Cache> none(leveldb::NewLRUCache(0));
    leveldb::Options options;
    options.create_if_missing = true;
    options.env = &env;
    options.block_cache = none.get();
    options.filter_policy = policy;
    leveldb::DB *opened;
    demo::need(leveldb::DB::Open(options, name, &opened));
    std::unique_ptr<leveldb::DB> db(opened);
    for (const auto &pair : paths.pairs)
        demo::need(db->Put(leveldb::WriteOptions(), pair.first, pair.second));
    db->CompactRange(nullptr, nullptr);
    return demo::ask(
        paths,
        [&](const std::string &path) {
            std::string value;
            leveldb::Status status = db->Get(leveldb::ReadOptions(), path, &value);
            if (!status.IsNotFound())
                demo::need(status);
            return status.ok();
        },
        blocks_read);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        demo::fail("usage: blocks_leveldb DIRECTORY LIST...");
    std::string dir = argv[1];
    demo::Paths paths = demo::read_lists(argc - 2, argv + 2);
    TamisFilterPolicy policy;
    std::printf(
        "   LevelDB %d.%d: %zu paths of the lists, compacted. LevelDB has no counter "
        "of reads.\n   Reads of its tables for %zu absent paths, counted by an Env "
        "that the demo gives\n   it; its block cache and its own filters are off:\n\n",
        leveldb::kMajorVersion, leveldb::kMinorVersion, paths.pairs.size(),
        paths.absent.size());
    demo::Asked without = fill_and_ask(paths, dir + "/leveldb.without", nullptr);
    demo::Asked with = fill_and_ask(paths, dir + "/leveldb.with", &policy);
    demo::report(paths, "without tamis", without, "with tamis' filter policy", with);
    return 0;
}
