/* Peers in C++: the filters of RocksDB, from Debian's library, and functions of the
 * standard library. */
#ifndef TAMIS_TESTS_BENCH_CXX_H
#define TAMIS_TESTS_BENCH_CXX_H

#include <stddef.h>
#include <stdint.h>

#include <tamis.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL, or why the filters of the installed version cannot be measured. */
const char *rocksdb_missing(void);

struct rocksdb_filter;
/* A builder, then a filter: by bits a key of a Bloom filter, or a Ribbon of the error
 * that such a one has. */
struct rocksdb_filter *rocksdb_new(int ribbon, double bits_per_key);
void rocksdb_add(struct rocksdb_filter *filter, const struct tamis_key *keys, size_t n);
void rocksdb_finish(struct rocksdb_filter *filter);
uint64_t rocksdb_bytes(const struct rocksdb_filter *filter);
void rocksdb_free(struct rocksdb_filter *filter);
/* Each hashes the bytes of the keys. One key a call; 32 a call, its most. */
size_t rocksdb_misses(const struct rocksdb_filter *filter, const struct tamis_key *keys,
                      size_t n);
size_t rocksdb_misses_32(const struct rocksdb_filter *filter,
                         const struct tamis_key *keys, size_t n);

void sort_numbers(uint64_t *numbers, size_t n);
/* std::merge(), then std::unique(); returns how many are left. */
size_t merge_numbers(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b,
                     uint64_t *out);

#ifdef __cplusplus
}
#endif

#endif
