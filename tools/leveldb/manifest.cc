// The live tables of a database. LevelDB has no public reader of its MANIFEST except
// leveldb::DumpFile(), which verifies it and writes it in words. These words are read
// here. An unknown line counts as damage.
#include <leveldb/dumpfile.h>
#include <leveldb/env.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "database.h"

namespace
{

void say(char why[LDB_WHY_BYTES], const std::string &what)
{
    std::snprintf(why, LDB_WHY_BYTES, "%s", what.c_str());
}

bool begins(const std::string &line, const char *with, const char **rest)
{
    size_t n = std::strlen(with);
    *rest = line.c_str() + n;
    return line.compare(0, n, with) == 0;
}

struct Table {
    uint32_t level;
    uint64_t n_bytes;
    std::string range;
};

// Takes a dump line by line, and applies its edits.
class Edits : public leveldb::WritableFile
{
  public:
    leveldb::Status Append(const leveldb::Slice &text) override
    {
        pending_.append(text.data(), text.size());
        size_t from = 0, end;
        while ((end = pending_.find('\n', from)) != std::string::npos) {
            if (bad.empty() && !take(pending_.substr(from, end - from)))
                bad = pending_.substr(from, end - from);
            from = end + 1;
        }
        pending_.erase(0, from);
        return leveldb::Status::OK();
    }
    leveldb::Status Close() override
    {
        return leveldb::Status::OK();
    }
    leveldb::Status Flush() override
    {
        return leveldb::Status::OK();
    }
    leveldb::Status Sync() override
    {
        return leveldb::Status::OK();
    }

    std::map<uint64_t, Table> tables;
    std::string comparator, bad;
    bool named = false;
    uint64_t log = 0, previous_log = 0;

  private:
    bool take(const std::string &line)
    {
        const char *rest;
        if (begins(line, "  AddFile: ", &rest))
            return add(rest);
        // LevelDB 1.22 and earlier say DeleteFile.
        if (begins(line, "  RemoveFile: ", &rest) ||
            begins(line, "  DeleteFile: ", &rest))
            return remove(rest);
        if (begins(line, "  Comparator: ", &rest)) {
            comparator = rest;
            return named = true;
        }
        if (begins(line, "  LogNumber: ", &rest))
            return std::sscanf(rest, "%" SCNu64, &log) == 1;
        if (begins(line, "  PrevLogNumber: ", &rest))
            return std::sscanf(rest, "%" SCNu64, &previous_log) == 1;
        if (begins(line, "--- offset ", &rest))
            return line.size() > 14 &&
                   line.compare(line.size() - 14, 14, " VersionEdit {") == 0;
        return line == "}" || begins(line, "  NextFile: ", &rest) ||
               begins(line, "  LastSeq: ", &rest) ||
               begins(line, "  CompactPointer: ", &rest);
    }
    bool add(const char *rest)
    {
        Table t;
        uint64_t number;
        int at = 0;
        if (std::sscanf(rest, "%" SCNu32 " %" SCNu64 " %" SCNu64 " %n", &t.level,
                        &number, &t.n_bytes, &at) != 3 ||
            at == 0)
            return false;
        t.range = rest + at;
        return tables.emplace(number, t).second;
    }
    bool remove(const char *rest)
    {
        uint32_t level;
        uint64_t number;
        if (std::sscanf(rest, "%" SCNu32 " %" SCNu64, &level, &number) != 2)
            return false;
        auto at = tables.find(number);
        if (at == tables.end() || at->second.level != level)
            return false;
        tables.erase(at);
        return true;
    }

    std::string pending_;
};

// Reads the name in CURRENT; LDB_NONE if there is none.
ldb_result read_current(const std::string &directory, std::string *manifest, char *why)
{
    std::string text;
    leveldb::Status s = leveldb::ReadFileToString(leveldb::Env::Default(),
                                                  directory + "/CURRENT", &text);
    if (s.IsNotFound())
        return LDB_NONE;
    if (!s.ok()) {
        say(why, s.ToString());
        return LDB_FAILED;
    }
    if (text.size() < 2 || text.back() != '\n' ||
        text.compare(0, 9, "MANIFEST-") != 0 || text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos) {
        say(why, "CURRENT names no MANIFEST");
        return LDB_DAMAGED;
    }
    text.pop_back();
    *manifest = directory + "/" + text;
    return LDB_GOOD;
}

char *copy(const std::string &text)
{
    char *to = strdup(text.c_str());
    if (!to)
        throw std::bad_alloc();
    return to;
}

void give(const Edits &edits, struct ldb_list *list)
{
    list->comparator = copy(edits.comparator);
    list->log = edits.log;
    list->previous_log = edits.previous_log;
    list->tables = static_cast<ldb_table *>(
        std::calloc(edits.tables.size() + 1, sizeof *list->tables));
    if (!list->tables)
        throw std::bad_alloc();
    for (const auto &[number, t] : edits.tables) {
        list->tables[list->n] = {number, t.n_bytes, t.level, copy(t.range)};
        list->n++;
    }
}

ldb_result read_list(const std::string &directory, struct ldb_list *list, char *why)
{
    Edits edits;
    std::string manifest;
    ldb_result result = read_current(directory, &manifest, why);
    if (result != LDB_GOOD)
        return result;
    leveldb::Status s = leveldb::DumpFile(leveldb::Env::Default(), manifest, &edits);
    if (!s.ok()) {
        say(why, s.ToString());
        return s.IsNotFound() ? LDB_NONE : LDB_FAILED;
    }
    if (!edits.bad.empty() || !edits.named) {
        std::string name = manifest.substr(directory.size() + 1);
        say(why, name + (edits.bad.empty() ? ": names no comparator"
                                           : ": unknown or damaged: " + edits.bad));
        return LDB_DAMAGED;
    }
    give(edits, list);
    return LDB_GOOD;
}

} // namespace

enum ldb_result ldb_list_read(const char *directory, struct ldb_list *list,
                              char why[LDB_WHY_BYTES])
{
    *list = {};
    why[0] = '\0';
    try {
        return read_list(directory, list, why);
    } catch (const std::exception &e) {
        say(why, e.what());
        return LDB_FAILED;
    }
}

void ldb_list_free(struct ldb_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        std::free(list->tables[i].range);
    std::free(list->tables);
    std::free(list->comparator);
    *list = {};
}
