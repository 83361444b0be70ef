/* The checksum of every record: XXH3-64 over all bytes before the checksum
 * field, which is always the last eight bytes (SPEC.md §2). The seed is 0
 * unless a section says otherwise. */
#ifndef TAMIS_FORMAT_CHECKSUM_H
#define TAMIS_FORMAT_CHECKSUM_H

#include "bytes.h"
#include <xxhash.h>

enum { CHECKSUM_SHORT = 240 }; /* XXH3 has no use for wide instructions up to here */

/* In integrity.c: XXH3_64bits_withSeed(), by the widest instructions of this machine. */
uint64_t checksum_long(const void *bytes, size_t n_bytes, uint64_t seed);

static inline uint64_t checksum_of(const void *record, size_t n_bytes, uint64_t seed)
{
    n_bytes -= sizeof(struct le64);
    return n_bytes > CHECKSUM_SHORT ? checksum_long(record, n_bytes, seed)
                                    : XXH3_64bits_withSeed(record, n_bytes, seed);
}

static inline void checksum_set(void *record, size_t n_bytes, uint64_t seed)
{
    struct le64 sum = le64_of(checksum_of(record, n_bytes, seed));
    memcpy((uint8_t *)record + n_bytes - sizeof sum, &sum, sizeof sum);
}

static inline bool checksum_good(const void *record, size_t n_bytes, uint64_t seed)
{
    struct le64 sum;
    memcpy(&sum, (const uint8_t *)record + n_bytes - sizeof sum, sizeof sum);
    return le64_get(sum) == checksum_of(record, n_bytes, seed);
}

#endif
