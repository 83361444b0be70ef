// Databases for the tests of tamis-leveldb:
//
//   database fill DIR N        keys of any bytes, in random order, some put twice, a
//                              third deleted again; many small tables. Which tables
//                              depends on N alone, and all that are there are live
//   database other DIR         a database with a comparator of its own
//   database busy DIR          puts, deletes and compacts until it is killed; a line
//                              for each round
//   database flush DIR         moves what is in the log to a table
//   database keys DIR OUT T..  for each table T of DIR a file of its name in OUT: its
//                              user keys in hexadecimal, each once. Prints how many
//                              tombstones there are
//   database all DIR           the live keys, in hexadecimal
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/table.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <string>

namespace
{

void need(const leveldb::Status &s)
{
    if (!s.ok()) {
        std::cerr << "database: " << s.ToString() << "\n";
        std::exit(4);
    }
}

// As LevelDB's own, but for its name, which is all that a tool can know of it.
class Other : public leveldb::Comparator
{
  public:
    int Compare(const leveldb::Slice &a, const leveldb::Slice &b) const override
    {
        return a.compare(b);
    }
    const char *Name() const override
    {
        return "test.IgnoreCase";
    }
    void FindShortestSeparator(std::string *, const leveldb::Slice &) const override
    {
    }
    void FindShortSuccessor(std::string *) const override
    {
    }
};

// LevelDB writes tables and compacts in a thread of its own, and what a test finds
// would depend on how fast that is; a database that is closed meanwhile even leaves
// half a table. So a test that wants the same each time waits after each write.
class Waiting : public leveldb::EnvWrapper
{
  public:
    Waiting() : leveldb::EnvWrapper(leveldb::Env::Default())
    {
    }
    void Schedule(void (*work)(void *), void *arg) override
    {
        {
            std::lock_guard<std::mutex> hold(lock_);
            n_tasks_++;
        }
        target()->Schedule(Run, new Task{this, work, arg});
    }
    // A task schedules the next one, if there is more to do, before it ends.
    void Wait()
    {
        std::unique_lock<std::mutex> hold(lock_);
        ended_.wait(hold, [this] { return n_tasks_ == 0; });
    }

  private:
    struct Task {
        Waiting *env;
        void (*work)(void *);
        void *arg;
    };
    static void Run(void *arg)
    {
        std::unique_ptr<Task> task(static_cast<Task *>(arg));
        task->work(task->arg);
        std::lock_guard<std::mutex> hold(task->env->lock_);
        task->env->n_tasks_--;
        task->env->ended_.notify_all();
    }
    std::mutex lock_;
    std::condition_variable ended_;
    int n_tasks_ = 0;
};

Waiting *waiting()
{
    static Waiting env;
    return &env;
}

std::unique_ptr<leveldb::DB> open(const std::string &dir,
                                  const leveldb::Comparator *comparator)
{
    leveldb::Options options;
    leveldb::DB *db;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    options.max_file_size = 1 << 20;
    options.compression = leveldb::kNoCompression; // more tables
    options.env = waiting();
    if (comparator)
        options.comparator = comparator;
    need(leveldb::DB::Open(options, dir, &db));
    waiting()->Wait();
    return std::unique_ptr<leveldb::DB>(db);
}

// One to 25 bytes of any value, the empty key among them.
std::string key_of(uint64_t i)
{
    std::mt19937_64 random(i);
    std::string key;
    for (uint64_t n = i % 26; n; n--)
        key += static_cast<char>(random());
    return key;
}

void fill(leveldb::DB *db, uint64_t n, bool waits = true)
{
    std::mt19937_64 random(n);
    for (uint64_t i = 0; i < 2 * n; i++) {
        uint64_t k = random() % n;
        if (k % 3 == 0 && i > n)
            need(db->Delete({}, key_of(k)));
        else
            need(db->Put({}, key_of(k),
                         std::string(30, static_cast<char>('a' + i % 26))));
        if (waits)
            waiting()->Wait();
    }
}

void busy(const std::string &dir)
{
    auto db = open(dir, nullptr);
    for (uint64_t n = 1;; n++) {
        fill(db.get(), 2000 + n % 7, false);
        if (n % 3 == 0)
            db->CompactRange(nullptr, nullptr);
        std::cout << n << std::endl;
    }
}

std::string hex_of(const leveldb::Slice &key)
{
    std::string hex;
    for (size_t i = 0; i < key.size(); i++) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<uint8_t>(key[i]));
        hex += digits;
    }
    return hex;
}

uint64_t write_keys(const std::string &table, const std::string &out)
{
    leveldb::RandomAccessFile *opened;
    leveldb::Table *t;
    need(leveldb::Env::Default()->NewRandomAccessFile(table, &opened));
    std::unique_ptr<leveldb::RandomAccessFile> file(opened);
    need(leveldb::Table::Open({}, opened, std::filesystem::file_size(table), &t));
    std::unique_ptr<leveldb::Table> owner(t);
    std::unique_ptr<leveldb::Iterator> i(t->NewIterator({}));
    std::ofstream keys(out);
    std::string last = "none";
    uint64_t n_tombstones = 0;
    for (i->SeekToFirst(); i->Valid(); i->Next()) {
        leveldb::Slice key = i->key();
        n_tombstones += key[key.size() - 8] == 0;
        std::string hex = hex_of(leveldb::Slice(key.data(), key.size() - 8));
        if (hex != last)
            keys << hex << "\n";
        last = hex;
    }
    need(i->status());
    return n_tombstones;
}

void print_all(const std::string &dir)
{
    auto db = open(dir, nullptr);
    std::unique_ptr<leveldb::Iterator> i(db->NewIterator({}));
    for (i->SeekToFirst(); i->Valid(); i->Next())
        std::cout << hex_of(i->key()) << "\n";
    need(i->status());
}

} // namespace

int main(int argc, char **argv)
{
    static const Other other;
    std::string what = argc > 2 ? argv[1] : "", dir = argc > 2 ? argv[2] : "";
    if (what == "fill" && argc == 4)
        fill(open(dir, nullptr).get(), std::strtoull(argv[3], nullptr, 10));
    else if (what == "flush")
        open(dir, nullptr);
    else if (what == "other")
        fill(open(dir, &other).get(), 3000);
    else if (what == "busy")
        busy(dir);
    else if (what == "all")
        print_all(dir);
    else if (what == "keys" && argc > 3) {
        uint64_t n_tombstones = 0;
        for (int i = 4; i < argc; i++)
            n_tombstones +=
                write_keys(dir + "/" + argv[i], std::string(argv[3]) + "/" + argv[i]);
        std::cout << n_tombstones << "\n";
    } else
        return 2;
    return 0;
}
