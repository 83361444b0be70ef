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
    int failed; /* sticky error of an earlier call */
    uint64_t n_spooled;
    uint64_t *hashes;
    size_t n_hashes, capacity, limit;
    uint64_t last; /* the previous hash: equal neighbours are one key */
    uint64_t n_keys;
    struct key_range range;
};

#endif
