// The keys of one table, by LevelDB's own reader. A table in a database has internal
// keys: the user's key, then eight bytes of sequence number and type. Tombstones are
// keys, too: a filter without them would let an older value be found.
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "database.h"

namespace
{

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

ldb_result say(char *why, const std::string &what)
{
    std::snprintf(why, LDB_WHY_BYTES, "%s", what.c_str());
    return LDB_DAMAGED;
}

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
