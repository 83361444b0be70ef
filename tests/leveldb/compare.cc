// LevelDB's own filter policy and ours in the same workload, db_bench's fillrandom and
// readmissing: the error measured on what LevelDB asked, the bytes, and the time of a
// read as a ratio. Two shapes of data: db_bench's own, some 35 keys a filter, and small
// values.
//
//   compare [--check] [--keys N] [--seed S]
//
// --check: a smaller database, and exit code 1 if a key is lost, an error is above its
// target, or the bytes are more than they should be. No time is judged.
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/options.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tamis_leveldb.hh"

namespace
{

const double target_error = 0.01;
const int their_bits = 10; // as LevelDB's documentation advises: about 1%

[[noreturn]] void die(const std::string &what)
{
    std::fprintf(stderr, "compare: %s\n", what.c_str());
    std::exit(4);
}

void need(const leveldb::Status &status)
{
    if (!status.ok())
        die(status.ToString());
}

// Around a policy: what it was asked, and what it made.
class Counted : public leveldb::FilterPolicy
{
  public:
    explicit Counted(const leveldb::FilterPolicy *inner) : inner_(inner)
    {
    }
    const char *Name() const override
    {
        return inner_->Name();
    }
    void CreateFilter(const leveldb::Slice *keys, int n, std::string *to) const override
    {
        size_t before = to->size();
        inner_->CreateFilter(keys, n, to);
        bytes += to->size() - before;
        n_keys += static_cast<uint64_t>(n);
        n_filters++;
    }
    bool KeyMayMatch(const leveldb::Slice &key,
                     const leveldb::Slice &filter) const override
    {
        bool may = inner_->KeyMayMatch(key, filter);
        n_asked++; // one thread reads
        n_maybe += may;
        return may;
    }
    mutable std::atomic<uint64_t> bytes{0}, n_keys{0}, n_filters{0};
    mutable uint64_t n_asked = 0, n_maybe = 0;

  private:
    std::unique_ptr<const leveldb::FilterPolicy> inner_;
};

struct Contestant {
    std::string name;
    std::unique_ptr<Counted> policy; // NULL: no filters
    std::string path;
    std::unique_ptr<leveldb::DB> db;
    double ns = 1e18; // of a read that finds nothing, the best round
    uint64_t n_lost = 0;

    double error() const
    {
        return policy ? static_cast<double>(policy->n_maybe) /
                            static_cast<double>(std::max<uint64_t>(policy->n_asked, 1))
                      : 1;
    }
    double bits_per_key() const
    {
        return policy ? 8 * static_cast<double>(policy->bytes) /
                            static_cast<double>(policy->n_keys)
                      : 0;
    }
};

struct Shape {
    const char *name;
    size_t value_bytes;
    double most_bytes; // of ours, as a ratio to theirs at the same error or worse
};

struct Run {
    size_t n_keys;
    uint64_t seed;
    bool check;
    std::filesystem::path dir;
};

std::string key_of(uint64_t i)
{
    char key[32];
    std::snprintf(key, sizeof key, "%016llu", static_cast<unsigned long long>(i));
    return key;
}

void open(Contestant &c, bool create)
{
    leveldb::Options options;
    leveldb::DB *db;
    c.db.reset();
    options.create_if_missing = create;
    options.filter_policy = c.policy.get();
    need(leveldb::DB::Open(options, c.path, &db));
    c.db.reset(db);
}

// In random order; half of a value's bytes are random, so that it shrinks by half.
void fill(Contestant &c, const Shape &shape, const Run &run)
{
    std::mt19937_64 random(run.seed);
    std::vector<uint64_t> order(run.n_keys);
    std::string value(shape.value_bytes, 'x');
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    open(c, true);
    for (uint64_t i : order) {
        for (size_t k = 0; k < value.size() / 2; k++)
            value[k] = static_cast<char>(random());
        need(c.db->Put(leveldb::WriteOptions(), key_of(i), value));
    }
    c.db->CompactRange(nullptr, nullptr);
    open(c, false);
}

uint64_t count_lost(Contestant &c, const Run &run)
{
    uint64_t n_lost = 0;
    std::string value;
    for (size_t i = 0; i < run.n_keys; i++)
        n_lost += !c.db->Get(leveldb::ReadOptions(), key_of(i), &value).ok();
    return n_lost;
}

// db_bench's way: a key with a dot behind it is never there, and lies between others.
double read_missing(Contestant &c, const Run &run, uint64_t seed)
{
    std::mt19937_64 random(seed);
    std::string value;
    auto began = std::chrono::steady_clock::now();
    for (size_t i = 0; i < run.n_keys; i++)
        if (c.db->Get(leveldb::ReadOptions(), key_of(random() % run.n_keys) + ".",
                      &value)
                .ok())
            die("found a key that was never put");
    std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - began;
    return took.count() / static_cast<double>(run.n_keys);
}

void add(std::vector<Contestant> &all, const Run &run, const std::string &name,
         const leveldb::FilterPolicy *policy)
{
    Contestant c;
    c.name = name;
    if (policy)
        c.policy = std::make_unique<Counted>(policy);
    c.path = (run.dir / std::to_string(all.size())).string();
    all.push_back(std::move(c));
}

void print(const std::vector<Contestant> &all, const Shape &shape)
{
    std::printf("\n%s\n\n| filter | keys a filter | bits a key | error | ns a read, to "
                "none | lost |\n|---|---|---|---|---|---|\n",
                shape.name);
    for (const Contestant &c : all) {
        double keys = c.policy ? static_cast<double>(c.policy->n_keys) /
                                     static_cast<double>(c.policy->n_filters)
                               : 0;
        std::printf("| %s | %.1f | %.2f | %.3f%% | %.0f, %.2f | %llu |\n",
                    c.name.c_str(), keys, c.bits_per_key(), 100 * c.error(), c.ns,
                    c.ns / all[0].ns, static_cast<unsigned long long>(c.n_lost));
    }
}

int complaints(const std::vector<Contestant> &all, const Shape &shape)
{
    const Contestant &theirs = all[1], &ours = all[2], &same_bytes = all[3];
    int n = 0;
    auto complain = [&](bool bad, const std::string &what) {
        if (bad)
            std::fprintf(stderr, "compare: %s: %s\n", shape.name, what.c_str());
        n += bad;
    };
    for (const Contestant &c : all) {
        complain(c.n_lost != 0, c.name + " lost keys");
        complain(c.policy && c.policy->n_asked < 1000, c.name + " was not asked");
    }
    complain(ours.error() > target_error, "our error is above its target");
    complain(ours.bits_per_key() > shape.most_bytes * theirs.bits_per_key(),
             "our filters take too many bytes");
    complain(ours.error() > 2 * same_bytes.error() + 0.001,
             "LevelDB's own policy makes better use of as many bytes");
    return n;
}

int compare(const Shape &shape, const Run &run)
{
    std::vector<Contestant> all;
    add(all, run, "none", nullptr);
    add(all, run, "LevelDB's, 10 bits a key",
        leveldb::NewBloomFilterPolicy(their_bits));
    add(all, run, "tamis, 1%", new TamisFilterPolicy(target_error, run.seed));
    for (Contestant &c : all)
        fill(c, shape, run);
    int bits = static_cast<int>(all[2].bits_per_key() + 0.5);
    add(all, run, "LevelDB's, as many as tamis: " + std::to_string(bits),
        leveldb::NewBloomFilterPolicy(bits));
    fill(all[3], shape, run);
    for (Contestant &c : all)
        c.n_lost = count_lost(c, run);
    for (Contestant &c : all)
        if (c.policy)
            c.policy->n_asked = c.policy->n_maybe = 0;
    // By turns, so that a noisy machine is noisy for all.
    for (uint64_t round = 0; round < (run.check ? 2 : 5); round++)
        for (Contestant &c : all)
            c.ns = std::min(c.ns, read_missing(c, run, run.seed + round));
    print(all, shape);
    int n = complaints(all, shape);
    all.clear();
    std::filesystem::remove_all(run.dir);
    std::filesystem::create_directory(run.dir);
    return n;
}

} // namespace

int main(int argc, char **argv)
{
    Run run = {400000, 1, false, ""};
    bool sized = false;
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "--check") == 0)
            run.check = true;
        else if (std::strcmp(argv[i], "--keys") == 0 && i + 1 < argc)
            run.n_keys = std::strtoul(argv[++i], nullptr, 10), sized = true;
        else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            run.seed = std::strtoull(argv[++i], nullptr, 10);
        else {
            std::fprintf(stderr, "usage: compare [--check] [--keys N] [--seed S]\n");
            return 2;
        }
    }
    if (run.check && !sized)
        run.n_keys = 60000;
    std::string path =
        (std::filesystem::temp_directory_path() / "tamis-compare.XXXXXX").string();
    if (!mkdtemp(path.data()))
        die(path + ": cannot be made");
    run.dir = path;
    int n = 0;
    for (const Shape &shape :
         {Shape{"16-byte keys, 100-byte values, as db_bench has them", 100, 1.6},
          Shape{"16-byte keys, 8-byte values", 8, 1.15}})
        n += compare(shape, run);
    std::filesystem::remove_all(run.dir);
    return n && run.check ? 1 : 0;
}
