/* A builder from inside: shared by builder.c (keys in) and finish.c (filter out). */
#ifndef TAMIS_BUILDER_H
#define TAMIS_BUILDER_H

#include "lib/internal.h"

struct tamis_builder {
    struct tamis_domain domain;
    double error;
    uint8_t name[NAME_MAX_BYTES], binding[BINDING_MAX_BYTES], store_uuid[UUID_BYTES];
    size_t name_bytes, binding_bytes;
    uint64_t watermark;
    uint32_t rank;
    char *spool_dir;
    int spool_fd;
    int failed;                      /* sticky error of an earlier call */
    uint64_t n_spooled, spool_check; /* builder_check() of all of them, in order */
    bool spool_damaged;              /* found when they came back */
    uint64_t *hashes;
    size_t n_hashes, capacity, limit;
    uint64_t last; /* the previous hash: equal neighbours are one key */
    uint64_t n_keys;
    struct key_range range;
};

/* A running check of hashes that leave memory and are to come back. Each step is a
 * bijection, of the check and of the hash: one that is wrong is found for certain. */
static inline uint64_t builder_check(uint64_t check, const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check = geometry_next_lane(check ^ hashes[i]);
    return check;
}

#endif
