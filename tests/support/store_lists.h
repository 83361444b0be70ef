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

static UNUSED void pack_once_more(struct tamis_store *s, enum tamis_repack repack)
{
    const struct tamis_pack_options opt = {.size = sizeof opt, .repack = repack};
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, &opt, NULL, NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
}

static UNUSED void pack(struct tamis_store *s)
{
    pack_once_more(s, TAMIS_REPACK_NONE);
}

#endif
