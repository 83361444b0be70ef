/* Segments with a list of their hashes, for tests of the store. */
#ifndef TAMIS_TESTS_STORE_LISTS_H
#define TAMIS_TESTS_STORE_LISTS_H

#include "store_support.h"

static UNUSED bool is_listed(struct tamis_store *s, const char *name)
{
    struct record r = record_in(s, name);
    return record_listed(&r);
}

static UNUSED void put_listed_in(struct tamis_edit *e, const char *name, uint64_t first,
                                 uint64_t n)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .watermark = 7, .list_bits = 64};
    OK(put_keys(e, name, first, n, &opt));
}

/* Segments p00 .. p19, as many as are worth a pack, with lists. */
static UNUSED struct tamis_store *twenty_listed(void)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    char name[8];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "p%02u", i);
        put_listed_in(e, name, i * 1000, 300);
    }
    OK(tamis_edit_commit(e, NULL));
    return s;
}

#endif
