/* Hash domains and keys: the public face of format/hash.h. */
#include "lib/internal.h"

int tamis_domain_init(struct tamis_domain *domain, uint32_t hash_id, uint64_t seed)
{
    memset(domain, 0, sizeof *domain);
    if (!hash_id_known(hash_id))
        return TAMIS_ERR_RANGE;
    *domain = (struct tamis_domain){hash_id, seed, hash_domain_tag(hash_id, seed)};
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

void tamis_keys_hash(const struct tamis_domain *domain, struct tamis_key *keys,
                     size_t n)
{
    enum { AHEAD = 8 }; /* their bytes may lie anywhere */
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(keys[i + AHEAD].bytes);
        keys[i] = tamis_key_of(domain, keys[i].bytes, keys[i].n_bytes);
    }
}

struct tamis_key tamis_key_of_hash(uint64_t tag, uint64_t hash)
{
    return (struct tamis_key){NULL, 0, hash, tag};
}
