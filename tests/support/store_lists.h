/* Segments with a list of their hashes, for tests of the store. */
#ifndef TAMIS_TESTS_STORE_LISTS_H
#define TAMIS_TESTS_STORE_LISTS_H

#include "store_support.h"

/* The list file of a segment. */
static UNUSED const char *list_of(struct tamis_store *s, const char *store,
                                  const char *name)
{
    static char path[4][900];
    static unsigned next;
    char *p = path[next++ % 4], file[FILTER_NAME_BYTES];
    struct record r = record_in(s, name);
    assert_true(record_listed(&r));
    filter_file_name(r.list_uuid, file);
    snprintf(p, sizeof path[0], "%s/filters/%s", path_of(store), file);
    return p;
}

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

/* Keys first .. first + n - 1, and their list, in an edit of its own. */
static UNUSED void put_listed(struct tamis_store *s, const char *name, uint64_t first,
                              uint64_t n)
{
    struct tamis_edit *e = edit_new(s);
    put_listed_in(e, name, first, n);
    OK(tamis_edit_commit(e, NULL));
}

#endif
