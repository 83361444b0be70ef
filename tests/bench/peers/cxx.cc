/* RocksDB's Bloom and Ribbon filters as its tables ask them, by strings, and parts of
 * the standard library (cxx.h).
 *
 * RocksDB's public header only forward-declares what builds and reads filters. Their
 * virtual functions are declared here, in the order in which the library has them. That
 * order was read from the tables of virtual functions of Debian's two libraries, 7.8 and
 * 9.10; other versions are not measured. */
#include "tests/bench/peers/cxx.h"

#include <algorithm>
#include <memory>
#include <string>

#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#if (ROCKSDB_MAJOR == 7 && ROCKSDB_MINOR == 8) ||                                      \
    (ROCKSDB_MAJOR == 9 && ROCKSDB_MINOR == 10)
#define KNOWN 1
#else
#define KNOWN 0
#endif

namespace rocksdb {

class FilterBitsBuilder {
  public:
    virtual ~FilterBitsBuilder() = default;
    virtual void AddKey(const Slice &key) = 0;
#if ROCKSDB_MAJOR >= 9
    virtual void AddKeyAndAlt(const Slice &key, const Slice &alt) = 0;
#endif
    virtual size_t EstimateEntriesAdded() = 0;
    virtual Slice Finish(std::unique_ptr<const char[]> *bits) = 0;
    virtual Slice Finish(std::unique_ptr<const char[]> *bits, Status *status) = 0;
    virtual Status MaybePostVerify(const Slice &bits) = 0;
    virtual size_t ApproximateNumEntries(size_t n_bytes) = 0;
};

class FilterBitsReader {
  public:
    virtual ~FilterBitsReader() = default;
    virtual bool MayMatch(const Slice &key) = 0;
    virtual void MayMatch(int n_keys, Slice **keys, bool *may_match) = 0;
};

} // namespace rocksdb

using rocksdb::Slice;

struct rocksdb_filter {
    std::unique_ptr<const rocksdb::FilterPolicy> policy;
    std::unique_ptr<rocksdb::FilterBitsBuilder> builder;
    std::unique_ptr<const char[]> memory;
    Slice bits;
    std::unique_ptr<rocksdb::FilterBitsReader> reader;
};

static Slice slice_of(const struct tamis_key &key)
{
    return Slice(static_cast<const char *>(key.bytes), key.n_bytes);
}

const char *rocksdb_missing(void)
{
    static const std::string why = "RocksDB is " + std::to_string(ROCKSDB_MAJOR) + "." +
                                   std::to_string(ROCKSDB_MINOR) +
                                   ", known are 7.8 and 9.10";
    return KNOWN ? nullptr : why.c_str();
}

struct rocksdb_filter *rocksdb_new(int ribbon, double bits_per_key)
{
    auto f = std::make_unique<rocksdb_filter>();
    rocksdb::BlockBasedTableOptions options;
    options.optimize_filters_for_memory = false;
    f->policy.reset(ribbon ? rocksdb::NewRibbonFilterPolicy(bits_per_key, -1)
                           : rocksdb::NewBloomFilterPolicy(bits_per_key));
    f->builder.reset(
        f->policy->GetBuilderWithContext(rocksdb::FilterBuildingContext(options)));
    return f.release();
}

void rocksdb_add(struct rocksdb_filter *f, const struct tamis_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f->builder->AddKey(slice_of(keys[i]));
}

void rocksdb_finish(struct rocksdb_filter *f)
{
    rocksdb::Status status;
    f->bits = f->builder->Finish(&f->memory, &status);
    f->builder.reset();
    f->reader.reset(f->policy->GetFilterBitsReader(f->bits));
}

uint64_t rocksdb_bytes(const struct rocksdb_filter *f)
{
    return f->bits.size();
}

void rocksdb_free(struct rocksdb_filter *f)
{
    delete f;
}

size_t rocksdb_misses(const struct rocksdb_filter *f, const struct tamis_key *keys,
                      size_t n)
{
    size_t misses = 0;
    for (size_t i = 0; i < n; i++)
        misses += !f->reader->MayMatch(slice_of(keys[i]));
    return misses;
}

size_t rocksdb_misses_32(const struct rocksdb_filter *f, const struct tamis_key *keys,
                          size_t n)
{
    enum { A_CALL = 32 }; /* the arrays on its stack have no more */
    Slice slices[A_CALL], *pointers[A_CALL];
    bool may_match[A_CALL];
    size_t misses = 0;
    for (size_t at = 0; at < n; at += A_CALL) {
        size_t some = std::min<size_t>(n - at, A_CALL);
        for (size_t i = 0; i < some; i++) {
            slices[i] = slice_of(keys[at + i]);
            pointers[i] = &slices[i];
        }
        f->reader->MayMatch(static_cast<int>(some), pointers, may_match);
        for (size_t i = 0; i < some; i++)
            misses += !may_match[i];
    }
    return misses;
}

/* ---- the standard library ---- */

void sort_numbers(uint64_t *numbers, size_t n)
{
    std::sort(numbers, numbers + n);
}

size_t merge_numbers(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b,
                     uint64_t *out)
{
    uint64_t *end = std::merge(a, a + n_a, b, b + n_b, out);
    return static_cast<size_t>(std::unique(out, end) - out);
}
