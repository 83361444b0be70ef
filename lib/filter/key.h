/* Hashes of many keys at once, for builders; the public calls hash one. */
#ifndef TAMIS_FILTER_KEY_H
#define TAMIS_FILTER_KEY_H

#include "lib/tamis.h"

/* Hashes of n keys, of the bytes that they have. */
void hash_keys(uint64_t seed, const struct tamis_key *keys, size_t n, uint64_t *hashes);

/* ERR_RANGE unless the domain is NULL or one that tamis_domain_init() makes. */
int domain_check(const struct tamis_domain *domain, struct tamis_diag *diag);

#endif
