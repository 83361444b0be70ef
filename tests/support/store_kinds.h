/* Segments of every kind: how each is put, and what is then done to its file. */
#ifndef TAMIS_TESTS_STORE_KINDS_H
#define TAMIS_TESTS_STORE_KINDS_H

#include "store_support.h"

enum segment_kind {
    SEALED,
    BY_HASH, /* no key range */
    LARGE,   /* sealed, of many pages */
    RIBBON,
    GROWING,
    STAGES, /* sealed after it has grown */
    BARE,
    LOST,
    DAMAGED,
    UNREADABLE
};

/* The kind has no builder: then it is put. */
static UNUSED bool put_unbuilt(struct tamis_edit *e, const char *name,
                               enum segment_kind kind)
{
    if (kind == BARE)
        OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
    else if (kind == GROWING || kind == STAGES)
        OK(tamis_edit_put_growing(e, name, strlen(name), NULL, NULL, NULL));
    else
        return false;
    return true;
}

static UNUSED void add_to(struct tamis_builder *b, enum segment_kind kind,
                          const struct tamis_key *key)
{
    if (kind == BY_HASH)
        OK(tamis_builder_add_hashes(b, key->tag, &key->hash, 1));
    else
        OK(tamis_builder_add_key(b, key->bytes, key->n_bytes));
}

/* Zeros in place of bits: believed, they lose every key. */
static UNUSED void zero_page(const char *path, uint64_t page)
{
    static const uint8_t zeros[PAGE_BYTES];
    file_poke(path, page * PAGE_BYTES, zeros, sizeof zeros);
}

static UNUSED void hurt(struct tamis_store *s, const char *name, enum segment_kind kind)
{
    if (kind == LOST)
        OK(unlink(file_of(s, "s", name)));
    if (kind == DAMAGED)
        zero_page(file_of(s, "s", name), 1);
    if (kind == UNREADABLE)
        zero_page(file_of(s, "s", name), 0);
}

#endif
