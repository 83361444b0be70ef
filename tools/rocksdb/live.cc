/* The MANIFEST is a log of edits. RocksDB's public reader needs the comparators of all
 * families. So RocksDB checks every record (ListColumnFamilies()), and here the few
 * needed tags are read, as in db/log_format.h and db/version_edit.h of 7.8. An unknown
 * tag is an error unless RocksDB marks it as safe to ignore. */
#include "live.h"

#include <map>

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include "segment.h"
#include "sst_keys.h"

namespace tamis
{

namespace
{

using rocksdb::Slice;
using rocksdb::Status;

/* clang-format off */
enum : uint64_t {
    kComparator = 1, kLogNumber, kNextFile, kLastSequence, kCompactCursor, kDeletedFile,
    kNewFile, kPrevLog = 9, kMinLogToKeep,
    kNewFile2 = 100, kNewFile3 = 102, kNewFile4,
    kFamily = 200, kFamilyAdd, kFamilyDrop, kMaxFamily,
    kAtomicGroup = 300,
    kBlobFile = 400, kBlobGarbage,
    kSafeToIgnore = 1 << 13, /* followed by one text, but for these: */
    kDbId = kSafeToIgnore + 1, kOldBlobFile = kSafeToIgnore + 2, kOldBlobGarbage, kOldWal, kOldWalDeletion
};
/* clang-format on */

/* ---- one edit ---- */

/* Reads the fields behind a tag. A call returns false if its field is not there. */
bool Number(Slice *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && !in->empty(); shift += 7) {
        uint8_t byte = uint8_t((*in)[0]);
        in->remove_prefix(1);
        *out |= uint64_t(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

bool SkipNumbers(Slice *in, unsigned n)
{
    uint64_t number;
    while (n > 0 && Number(in, &number))
        n--;
    return n == 0;
}

bool Text(Slice *in, Slice *out)
{
    uint64_t length;
    if (!Number(in, &length) || length > in->size())
        return false;
    *out = Slice(in->data(), length);
    in->remove_prefix(length);
    return true;
}

bool SkipTexts(Slice *in, unsigned n)
{
    for (Slice text; n > 0; n--)
        if (!Text(in, &text))
            return false;
    return true;
}

/* Pairs of a tag and a text, up to the tag `end`. */
bool SkipFields(Slice *in, uint64_t end)
{
    for (uint64_t tag; Number(in, &tag);) {
        if (tag == end)
            return true;
        if (!SkipTexts(in, 1))
            return false;
    }
    return false;
}

struct Record {
    uint64_t family = 0, log = 0; /* 0: the log is what it was */
    bool dropped = false;
    std::vector<uint64_t> gone, made;
    Slice identity;

    bool Read(Slice in);
    bool ReadNewFile(uint64_t tag, Slice *in);
    bool ReadTag(uint64_t tag, Slice *in);
};

bool Record::ReadNewFile(uint64_t tag, Slice *in)
{
    uint64_t number;
    if (!SkipNumbers(in, 1) || !Number(in, &number)) /* its level */
        return false;
    made.push_back(number);
    /* The path; its size; the first and the last key, and sequence number. */
    return SkipNumbers(in, tag == kNewFile3 ? 2 : 1) && SkipTexts(in, 2) &&
           SkipNumbers(in, tag == kNewFile ? 0 : 2) &&
           (tag != kNewFile4 || SkipFields(in, 1));
}

bool Record::ReadTag(uint64_t tag, Slice *in)
{
    switch (tag) {
    case kLogNumber:
        return Number(in, &log);
    case kFamily:
        return Number(in, &family);
    case kDeletedFile:
        gone.push_back(0);
        return SkipNumbers(in, 1) && Number(in, &gone.back());
    case kNewFile:
    case kNewFile2:
    case kNewFile3:
    case kNewFile4:
        return ReadNewFile(tag, in);
    case kFamilyDrop:
        dropped = true;
        return true;
    case kNextFile:
    case kLastSequence:
    case kPrevLog:
    case kMinLogToKeep:
    case kMaxFamily:
    case kAtomicGroup:
        return SkipNumbers(in, 1);
    case kComparator:
    case kFamilyAdd:
        return SkipTexts(in, 1);
    case kCompactCursor:
        return SkipNumbers(in, 1) && SkipTexts(in, 1);
    case kBlobFile:
    case kOldBlobFile:
        return SkipNumbers(in, 3) && SkipTexts(in, 2) && SkipFields(in, 0);
    case kBlobGarbage:
    case kOldBlobGarbage:
        return SkipNumbers(in, 3) && SkipFields(in, 0);
    case kDbId:
        return Text(in, &identity);
    case kOldWal:
    case kOldWalDeletion:
        return false;
    default:
        return (tag & kSafeToIgnore) && SkipTexts(in, 1);
    }
}

bool Record::Read(Slice in)
{
    for (uint64_t tag; !in.empty();)
        if (!Number(&in, &tag) || !ReadTag(tag, &in))
            return false;
    return true;
}

/* ---- all of them ---- */

/* The next record of a log of blocks. Its fragments have a header of 7 bytes: checksum,
 * length, type. False at the end, which a kill may have left inside a record. */
bool NextRecord(const std::string &log, size_t *at, std::string *record)
{
    const size_t kBlock = 32768, kHeader = 7;
    enum { kFull = 1, kFirst, kMiddle, kLast };
    record->clear();
    for (;;) {
        if (kBlock - *at % kBlock < kHeader)
            *at += kBlock - *at % kBlock;
        if (*at >= log.size() || log.size() - *at < kHeader)
            return false;
        const uint8_t *p = reinterpret_cast<const uint8_t *>(log.data()) + *at;
        size_t n = p[4] | size_t(p[5]) << 8;
        if (p[6] < kFull || p[6] > kLast || log.size() - *at - kHeader < n)
            return false;
        if (p[6] == kFull || p[6] == kFirst)
            record->clear();
        record->append(log, *at + kHeader, n);
        *at += kHeader + n;
        if (p[6] == kFull || p[6] == kLast)
            return true;
    }
}

struct Family {
    std::set<uint64_t> files;
    uint64_t log = 0;
};

bool Apply(const std::string &log, std::map<uint64_t, Family> *families,
           std::string *identity)
{
    std::string record;
    for (size_t at = 0; NextRecord(log, &at, &record);) {
        Record change;
        if (!change.Read(record))
            return false;
        if (!change.identity.empty())
            *identity = change.identity.ToString();
        Family &family = (*families)[change.family];
        for (uint64_t number : change.gone)
            family.files.erase(number);
        family.files.insert(change.made.begin(), change.made.end());
        family.log = std::max(family.log, change.log);
        if (change.dropped)
            families->erase(change.family);
    }
    return true;
}

} // namespace

Status ReadLive(const std::string &db, Live *out)
{
    rocksdb::Env *env = rocksdb::Env::Default();
    std::vector<std::string> names;
    std::map<uint64_t, Family> families;
    std::string current, log, identity;
    Status s = rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), db, &names);
    if (s.ok())
        s = ReadFileToString(env, db + "/CURRENT", &current);
    if (s.ok()) {
        current.erase(std::min(current.find('\n'), current.size()));
        s = ReadFileToString(env, db + "/" + current, &log);
    }
    if (s.ok() && !Apply(log, &families, &identity))
        s = Status::NotSupported(current + ": it has an edit that is not known here");
    if (s.ok() && families.empty())
        s = Status::Corruption(current + ": it has no edits");
    *out = {};
    out->identity = identity;
    out->log = UINT64_MAX;
    for (const auto &one : families) {
        out->files.insert(one.second.files.begin(), one.second.files.end());
        out->log = std::min(out->log, one.second.log);
    }
    return s;
}

std::string IdentityOf(const std::string &db, const Live &live,
                       const std::vector<std::string> &paths)
{
    rocksdb::Env *env = rocksdb::Env::Default();
    std::string identity = live.identity;
    if (identity.empty() && ReadFileToString(env, db + "/IDENTITY", &identity).ok() &&
        !identity.empty() && identity.back() == '\n')
        identity.pop_back();
    std::map<uint64_t, std::string> by_number;
    for (const std::string &path : paths)
        by_number[strtoull(NameOf(path).c_str(), nullptr, 10)] = path;
    for (auto at = by_number.rbegin(); identity.empty() && at != by_number.rend();
         ++at) {
        SstKeys file;
        Status s = file.Open(env, at->second, nullptr);
        /* An SstFileWriter has no database. */
        if ((s.ok() || s.IsNotSupported()) && file.properties().db_id != "SST Writer")
            identity = file.properties().db_id;
    }
    return identity;
}

std::string Missing(const Live &live, const std::vector<std::string> &paths)
{
    std::set<std::string> found;
    for (const std::string &path : paths)
        found.insert(NameOf(path));
    for (uint64_t number : live.files) {
        const std::string name = NameOf(number);
        if (found.count(name))
            continue;
        return name + " is live and not there: name all directories of its db_paths, "
                      "or let RocksDB repair it";
    }
    return "";
}

} // namespace tamis
