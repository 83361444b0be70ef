// The live tables of a database, and the keys of one table, by LevelDB's own readers.
#include <leveldb/dumpfile.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "database.h"

namespace
{

ldb_result say(char *why, const std::string &what, ldb_result result = LDB_DAMAGED)
{
    std::snprintf(why, LDB_WHY_BYTES, "%s", what.c_str());
    return result;
}

// ---- the MANIFEST. LevelDB has no public reader of it except leveldb::DumpFile(),
// which verifies it and writes it in words. These words are read here. An unknown line
// counts as damage. ----

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
    if (!s.ok())
        return say(why, s.ToString(), LDB_FAILED);
    if (text.size() < 2 || text.back() != '\n' ||
        text.compare(0, 9, "MANIFEST-") != 0 || text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos)
        return say(why, "CURRENT names no MANIFEST");
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
    if (!s.ok())
        return say(why, s.ToString(), s.IsNotFound() ? LDB_NONE : LDB_FAILED);
    if (!edits.bad.empty() || !edits.named) {
        std::string name = manifest.substr(directory.size() + 1);
        return say(why,
                   name + (edits.bad.empty() ? ": names no comparator"
                                             : ": unknown or damaged: " + edits.bad));
    }
    give(edits, list);
    return LDB_GOOD;
}

// ---- a table. In a database it has internal keys: the user's key, then eight bytes of
// sequence number and type. Tombstones are keys, too: a filter without them would let
// an older value be found. ----

// A file in memory: the verified bytes are those that are read, even if the file
// changes meanwhile.
class Memory : public leveldb::RandomAccessFile
{
  public:
    Memory(const void *bytes, size_t n) : all_(static_cast<const char *>(bytes), n)
    {
    }
    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice *result,
                         char *) const override
    {
        size_t from = offset < all_.size() ? static_cast<size_t>(offset) : all_.size();
        size_t left = all_.size() - from;
        *result = leveldb::Slice(all_.data() + from, n < left ? n : left);
        return leveldb::Status::OK();
    }

  private:
    leveldb::Slice all_;
};

struct InternalKey {
    leveldb::Slice user;
    uint64_t sequence;
    unsigned type; // 0: a tombstone; 1: a value
};

bool decode(const leveldb::Slice &bytes, InternalKey *key)
{
    if (bytes.size() < 8)
        return false;
    uint64_t tail = 0;
    for (size_t i = 1; i <= 8; i++)
        tail = tail << 8 | static_cast<uint8_t>(bytes[bytes.size() - i]);
    *key = {leveldb::Slice(bytes.data(), bytes.size() - 8), tail >> 8,
            static_cast<unsigned>(tail & 0xFF)};
    return key->type <= 1;
}

// In the words of the MANIFEST's dump.
std::string words(const InternalKey &key)
{
    std::string text = "'";
    for (size_t i = 0; i < key.user.size(); i++) {
        char c = key.user[i], hex[8];
        std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<uint8_t>(c));
        text += c >= ' ' && c <= '~' ? std::string(1, c) : hex;
    }
    return text + "' @ " + std::to_string(key.sequence) + " : " +
           std::to_string(key.type);
}

// Keeps the last key and checks that the next one is behind it: by bytes, then the
// youngest version first.
class Order
{
  public:
    bool next(const InternalKey &key, bool *is_new)
    {
        int by_bytes = begun_ ? leveldb::Slice(user_).compare(key.user) : -1;
        if (by_bytes > 0 || (by_bytes == 0 && key.sequence >= sequence_))
            return false;
        if (!begun_)
            first = words(key);
        *is_new = by_bytes != 0;
        user_.assign(key.user.data(), key.user.size());
        sequence_ = key.sequence;
        type_ = key.type;
        return begun_ = true;
    }
    std::string range() const
    {
        return begun_ ? first + " .. " + words({user_, sequence_, type_}) : "no keys";
    }

  private:
    std::string first, user_;
    uint64_t sequence_ = 0;
    unsigned type_ = 0;
    bool begun_ = false;
};

ldb_result read_keys(const Memory &file, size_t n_bytes, const char *range,
                     ldb_key_fn *fn, void *ctx, char *why)
{
    leveldb::Options options;
    leveldb::ReadOptions reads;
    leveldb::Table *opened = nullptr;
    options.paranoid_checks = reads.verify_checksums = true;
    leveldb::Status s =
        leveldb::Table::Open(options, const_cast<Memory *>(&file), n_bytes, &opened);
    if (!s.ok())
        return say(why, s.ToString());
    std::unique_ptr<leveldb::Table> table(opened);
    std::unique_ptr<leveldb::Iterator> i(table->NewIterator(reads));
    Order order;
    for (i->SeekToFirst(); i->Valid(); i->Next()) {
        InternalKey key;
        bool is_new;
        if (!decode(i->key(), &key))
            return say(why, "a key that is not LevelDB's, or newer");
        if (!order.next(key, &is_new))
            return say(why, "its keys are not in bytewise order");
        if (is_new && fn(ctx, key.user.data(), key.user.size()) != 0)
            return LDB_STOPPED;
    }
    // The iterator skips a block that it could not read.
    if (!i->status().ok())
        return say(why, i->status().ToString());
    if (order.range() != range)
        return say(why, "its keys are not those that the MANIFEST lists it with");
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
        return say(why, e.what(), LDB_FAILED);
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

enum ldb_result ldb_table_keys(const void *bytes, size_t n_bytes, const char *range,
                               ldb_key_fn *fn, void *ctx, char why[LDB_WHY_BYTES])
{
    why[0] = '\0';
    try {
        Memory file(bytes, n_bytes);
        return read_keys(file, n_bytes, range, fn, ctx, why);
    } catch (const std::exception &e) {
        // A damaged footer may give a length that no memory can hold.
        return say(why, std::string("damaged: ") + e.what());
    }
}
