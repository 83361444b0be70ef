/* For tests of packs that are made of keys: packers, and builders of numbered keys. */
#ifndef TAMIS_TESTS_PACKER_SUPPORT_H
#define TAMIS_TESTS_PACKER_SUPPORT_H

#include "tests/support/store_packs.h"

static UNUSED struct tamis_packer *packer_of(struct tamis_edit *e)
{
    struct tamis_packer *p;
    OK(tamis_edit_packer(e, NULL, &p, NULL));
    return p;
}

/* A builder of segment i with keys i * 1000 .. + n. */
static UNUSED struct tamis_builder *builder_of(struct tamis_store *s,
                                               struct tamis_edit *e, unsigned i,
                                               unsigned n, double error,
                                               uint64_t memory_limit)
{
    struct tamis_segment_options so = {.size = sizeof so,
                                       .rank = i % 7,
                                       .watermark = 100 + i,
                                       .binding = name_of(i),
                                       .binding_bytes = strlen(name_of(i)),
                                       .memory_limit = memory_limit};
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), error, &so, &b, NULL));
    for (unsigned k = 0; k < n; k++) {
        struct tamis_key key = key_in(s, i * 1000 + k % 900);
        add_to(b, i % 5 ? SEALED : BY_HASH, &key);
    }
    return b;
}

static UNUSED void take(struct tamis_packer *p, struct tamis_builder *b, int want)
{
    IS(tamis_packer_take(p, b, NULL), want);
    tamis_builder_free(b);
}

#endif
