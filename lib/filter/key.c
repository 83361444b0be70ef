/* Hash domains and keys: the public face of format/hash.h. Keys are short: a call to
 * the hash costs as much as the hash, so here it is compiled in. */
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include "lib/filter/filter.h"
#include "format/hash.h"
#include "lib/io/io.h"

int tamis_domain_init(struct tamis_domain *domain, uint32_t hash_id, uint64_t seed)
{
    memset(domain, 0, sizeof *domain);
    if (!hash_id_known(hash_id))
        return TAMIS_ERR_RANGE;
    *domain = (struct tamis_domain){hash_id, seed, hash_domain_tag(hash_id, seed)};
    return 0;
}

int domain_check(const struct tamis_domain *d, struct tamis_diag *diag)
{
    if (d &&
        (!hash_id_known(d->hash_id) || d->tag != hash_domain_tag(d->hash_id, d->seed)))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "the domain is not valid");
    return 0;
}

int tamis_domain_random(struct tamis_domain *domain)
{
    uint64_t seed;
    io_calls.random(&seed, sizeof seed);
    return tamis_domain_init(domain, HASH_XXH3_64, seed);
}

struct tamis_key tamis_key_of(const struct tamis_domain *domain, const void *bytes,
                              size_t n_bytes)
{
    struct tamis_key key = {n_bytes ? bytes : "", n_bytes, 0, 0};
    /* A domain that nobody initialised hashes nothing: the zero tag matches none. */
    if (!hash_id_known(domain->hash_id))
        return key;
    key.hash = hash_key(domain->seed, bytes, n_bytes);
    key.tag = domain->tag;
    return key;
}

enum { AHEAD = 8 }; /* keys' bytes may lie anywhere */

int tamis_domain_hash(const struct tamis_domain *domain, const void *data,
                      const uint64_t *offsets, size_t n, uint64_t *hashes)
{
    const struct tamis_domain d = *domain;
    bool good = hash_id_known(d.hash_id);
    for (size_t i = 0; i < n && good; i++) {
        uint64_t begin = offsets[i], end = offsets[i + 1];
        good = begin <= end && end <= SIZE_MAX / 2;
        if (good)
            hashes[i] =
                hash_key(d.seed, (const uint8_t *)data + begin, (size_t)(end - begin));
    }
    if (!good)
        memset(hashes, 0, n * sizeof *hashes);
    return good ? 0 : TAMIS_ERR_RANGE;
}

void hash_keys(uint64_t seed, const struct tamis_key *keys, size_t n, uint64_t *hashes)
{
    for (size_t i = 0; i < n; i++) {
        const struct tamis_key *k = &keys[i];
        if (i + AHEAD < n)
            __builtin_prefetch(keys[i + AHEAD].bytes);
        hashes[i] = hash_key(seed, k->bytes, k->bytes ? k->n_bytes : 0);
    }
}
