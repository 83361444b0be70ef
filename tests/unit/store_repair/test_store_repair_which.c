/* Repair without a catalog: of which store, and of which version, are the files? */
#include "tests/support/shop/shop.h"

/* Both meta pages of the catalog: a number that no tree has. */
#define BAD_ROOTS "poke catalog 128 1 0 0 0 0 0 0 0; poke catalog 4224 1 0 0 0 0 0 0 0;"

TEST_OF_SCENES(which_store)
{
    static const struct scene_row rows[] = {
        {"filters of another store must be told apart",
         AGW, /* a name that s has, too */
         "stranger a 8000 10; lose catalog; mark",
         "fails MISMATCH repair; stays; repair uuid=own; says the filter of another "
         "store;"
         "is quarantined=1 segments=3; there aside:stranger;" HAS_AGW "confirm;"
         "why a 50 HIT 99999 ABSENT; settled"},
        /* However torn, its bytes say it. */
        {"what is left of the catalog says which store", AGW,
         "stranger x 8000 10; zero catalog 0 1", "repair; is quarantined=1 segments=3"},
        {"a store that the caller does not mean", AGW, "mark",
         "fails MISMATCH repair uuid=other; told and not of abcd0000; stays;"
         "zero catalog 0 1; mark; fails MISMATCH repair uuid=other;"
         "told no filter is of store abcd0000; told_not and others; stays;"
         "stranger a 8000 10; mark; fails MISMATCH repair uuid=other;"
         "told no filter is of store abcd0000; told and others; stays"},
        /* It makes no strangers of the filters. */
        {"a damaged catalog of another store", AGW,
         "stranger a 8000 10; lose stranger; copy =t/catalog.lmdb catalog; zero "
         "catalog 0 1;"
         "mark",
         "fails MISMATCH repair; told of another store than the filters; stays;"
         "repair uuid=own; is segments=3;" HAS_AGW},
        {"nothing to rebuild from", "close", "lose catalog; mark",
         "fails NO_STORE repair; told no filter says which store; stays; use none;"
         "fails NO_STORE repair; mkdir =dir; use dir; fails NO_STORE repair"},
        {"a newer store is left alone", AGW, "meta major=9; mark",
         "fails VERSION repair; stays"},
        /* The same with damaged trees: the bits are in the record that is left. */
        {"a newer store is not made anew", AGW,
         "meta incompat=0x10000000000;" BAD_ROOTS "mark",
         "fails VERSION repair; stays"},
        {"nor is one that others may read", AGW,
         "meta ro_compat=0x10000000000;" BAD_ROOTS "mark",
         "fails VERSION repair; stays"},
    };
    for (size_t i = 0; i < N_OF(rows); i++)
        play(rows[i].name, "%s; own_uuid; %s; %s", rows[i].made, rows[i].harm,
             rows[i].then);
    IS(repair_code("none", 0, NULL, NULL, NULL), TAMIS_ERR_NO_STORE);
}

/* The first record is there, but no page points to it. */
static void lose_pages_of_meta(const char *store)
{
    static const uint8_t zeros[16];
    char path[600];
    size_t n;
    snprintf(path, sizeof path, "%s/catalog.lmdb", path_of(store));
    FREED uint8_t *bytes = file_read(path, &n);
    for (size_t at = 0; at + PAGE_BYTES <= n; at += PAGE_BYTES)
        if (memmem(bytes + at, PAGE_BYTES, "store\x89TMS", 9))
            file_poke(path, at, zeros, sizeof zeros);
}

/* A name, a binding, bounds of a range: what a user gave is no record of ours. */
TEST_OF_SCENES(users_bytes_make_no_store_newer)
{
    static const char looks[] = "\x89TMS\r\n\x1a\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    uint8_t first[META_BYTES];
    scene("names and bindings that look like records");
    steps(AGW);
    struct tamis_store *s = shop.store;
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = looks, .binding_bytes = sizeof looks - 1};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, looks, 200, 10, &opt));
    BUILDER b = builder_in(e, "r", NULL);
    struct meta m = s->catalog->meta;
    m.ro_compat = UINT64_C(1) << 40;
    meta_encode(&m, first); /* whole, and with a good checksum */
    OK(tamis_builder_add_key(b, first, sizeof first));
    OK(tamis_builder_add_key(b, looks, sizeof looks - 1));
    OK(tamis_edit_put(e, b, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    steps(BAD_ROOTS);
    copy_tree("s", "without");
    lose_pages_of_meta("without");
    for (int i = 0; i < 2; i++) {
        steps("use %s; repair; is segments=5;" HAS_AGW, i ? "without" : "s");
        check_keys(shop.store, looks, 200, 10);
    }
}

RUN_TESTS(NULL, NULL)
