/* Key -> 64-bit hash. Named and numbered, because the hash IS the format: a
 * filter asked with another hash or seed would answer ABSENT for present keys
 * (SPEC.md §3). Keys are bytes; nothing here knows about characters. */
#ifndef TAMIS_FORMAT_HASH_H
#define TAMIS_FORMAT_HASH_H

#include "bytes.h"
#include <xxhash.h>

/* Before 0.8.0 XXH3 gave other hashes. At run time an older shared library makes every
 * checksum fail, which is XXH3 as well. */
#if XXH_VERSION_NUMBER < 800
#error "tamis needs xxHash 0.8.0 or later"
#endif

enum { HASH_XXH3_64 = 1 };

static inline bool hash_id_known(uint32_t id)
{
    return id == HASH_XXH3_64;
}

static inline uint64_t hash_key(uint64_t seed, const void *key, size_t n_bytes)
{
    /* An empty key may come as NULL; the hash must not see that. */
    return XXH3_64bits_withSeed(n_bytes ? key : "", n_bytes, seed);
}

/* The tag that travels with a hash: it stands for (id, seed), and is never 0, so
 * that a zeroed tag matches no filter. */
static inline uint64_t hash_domain_tag(uint32_t id, uint64_t seed)
{
    struct {
        struct le64 id, seed;
    } domain = {le64_of(id), le64_of(seed)};
    uint64_t tag = XXH3_64bits(&domain, sizeof domain);
    return tag ? tag : 1;
}

#endif
