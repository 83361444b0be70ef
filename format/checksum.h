/* The checksum of every record: XXH3-64 over all bytes before the checksum
 * field, which is always the last eight bytes (SPEC.md §2). The seed is 0
 * unless a section says otherwise. */
#ifndef TAMIS_FORMAT_CHECKSUM_H
#define TAMIS_FORMAT_CHECKSUM_H

#include "bytes.h"
#include <xxhash.h>

/* In integrity.c. By the widest instructions of this machine. */
uint64_t checksum_of(const void *record, size_t n_bytes, uint64_t seed);

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
