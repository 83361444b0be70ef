// Shared by the demo's two engines: the paths that they are asked, and the table that
// they print. A program stops with exit status 1 if a path is lost.
#ifndef TAMIS_DEMO_BLOCKS_H
#define TAMIS_DEMO_BLOCKS_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace demo
{

constexpr size_t most_asked = 20000;

[[noreturn]] inline void fail(const std::string &why)
{
    std::fprintf(stderr, "demo: FAILED: %s\n", why.c_str());
    std::exit(1);
}

template <class Status> void need(const Status &status)
{
    if (!status.ok())
        fail(status.ToString());
}

struct Paths {
    std::vector<std::pair<std::string, std::string>>
        pairs;                                // path, its list: as written
    std::vector<std::string> present, absent; // as many of each are asked
};

// An absent path is a real one with an ending, so it lies between real ones, within the
// range of a table.
inline Paths read_lists(int n_lists, char **lists)
{
    Paths paths;
    std::set<std::string> distinct;
    std::string path;
    for (int i = 0; i < n_lists; i++) {
        std::ifstream list(lists[i]);
        while (std::getline(list, path)) {
            paths.pairs.emplace_back(path, lists[i]);
            distinct.insert(path);
        }
        if (!list.eof())
            fail(std::string("cannot read ") + lists[i]);
    }
    size_t step = distinct.size() / most_asked + 1, n = 0;
    for (const std::string &key : distinct) {
        if (n++ % step)
            continue;
        paths.present.push_back(key);
        paths.absent.push_back(key + ".tamis-demo-0");
        if (distinct.count(paths.absent.back()))
            fail("a package has *.tamis-demo-0");
    }
    if (paths.present.empty())
        fail("the lists are empty");
    return paths;
}

// The finds and reads of one way of asking.
struct Asked {
    size_t present = 0, absent = 0; // found
    uint64_t blocks = 0;            // read for the absent paths
};

// find(path) says whether it is there; blocks_read() counts since the program started.
template <class Find, class Blocks>
Asked ask(const Paths &paths, const Find &find, const Blocks &blocks_read)
{
    Asked asked;
    for (const std::string &path : paths.present)
        asked.present += find(path);
    uint64_t before = blocks_read();
    for (const std::string &path : paths.absent)
        asked.absent += find(path);
    asked.blocks = blocks_read() - before;
    return asked;
}

inline void row(const char *name, const Asked &asked, size_t n)
{
    std::printf("   %-34s %10llu %10.3f %12zu of %zu\n", name,
                static_cast<unsigned long long>(asked.blocks),
                static_cast<double>(asked.blocks) / static_cast<double>(n),
                asked.present, n);
}

inline void report(const Paths &paths, const char *without_name, const Asked &without,
                   const char *with_name, const Asked &with)
{
    size_t n = paths.present.size();
    std::printf("   %-34s %10s %10s   %s\n", "", "read", "a path",
                "present paths found");
    row(without_name, without, n);
    row(with_name, with, n);
    std::fflush(stdout);
    if (without.present != n || with.present != n)
        fail("a path that is there was not found");
    if (without.absent || with.absent)
        fail("a path that is absent was found");
    if (with.blocks >= without.blocks)
        fail("tamis saved no read");
}

} // namespace demo

#endif
