/* Files of the first draft of the format: none is read, and nothing is removed from a
 * directory that has one. */
#include "tests/support/filters.h"
#include "tests/support/store_support.h"

#define DRAFT_FILTER "\x89TAM\r\n\x1a\n"
#define DRAFT_DEAD   "\x89TPD\r\n\x1a\n"
#define DRAFT_STORE  "\x89TST\r\n\x1a\n"

TEST(a_filter_says_so)
{
    static const size_t sizes[] = {8, 100, PAGE_BYTES, 3 * (size_t)PAGE_BYTES};
    for (size_t i = 0; i < N_OF(sizes); i++) {
        uint8_t bytes[3 * PAGE_BYTES] = DRAFT_FILTER;
        struct tamis_filter *f;
        struct tamis_diag diag;
        file_write(path_of("file"), bytes, sizes[i]);
        IS(tamis_filter_open(path_of("file"), NULL, &f, &diag), TAMIS_ERR_VERSION);
        assert_string_equal(diag.what,
                            "magic: first draft of the format, make it anew");
    }
}

/* As a whole: the catalog's first record is of the first draft. */
TEST(a_store_says_so)
{
    uint8_t meta[META_BYTES] = DRAFT_STORE;
    static const char *const gone[] = {"nothing", "old/catalog.lmdb-lock"};
    struct tamis_store *s = store_new("old");
    put_segment(s, "a", 0, 100);
    tamis_store_close(s);
    poke_catalog("old", "meta", "store", meta, sizeof meta);
    for (size_t i = 0; i < 3; i++) {
        uint8_t noise[2 * PAGE_BYTES];
        struct tamis_diag diag;
        memset(noise, 0x55, sizeof noise);
        if (i == 2) /* LMDB's own meta pages: the catalog is lost */
            file_poke(path_of("old/catalog.lmdb"), 0, noise, sizeof noise);
        else
            unlink(path_of(gone[i]));
        uint64_t before = tree_of("old/filters");
        if (i < 2) {
            IS(tamis_store_open(path_of("old"), NULL, &s, &diag), TAMIS_ERR_VERSION);
            assert_non_null(strstr(diag.what, "make it anew with 'tamis init'"));
        }
        IS(tamis_store_repair(path_of("old"), NULL, NULL, &diag), TAMIS_ERR_VERSION);
        assert_non_null(strstr(diag.what, "first draft of the format"));
        IS(tree_of("old/filters"), before);
    }
}

/* One file among others that no record names. */
TEST(nothing_is_removed)
{
    static const char *const heads[] = {DRAFT_FILTER, DRAFT_DEAD};
    static const char *const ends[] = {"tamis", "dead"};
    for (size_t i = 0; i < N_OF(heads); i++) {
        char store[8], path[64];
        struct tamis_diag diag;
        uint8_t bytes[PAGE_BYTES] = {0};
        uint64_t n_orphans;
        snprintf(store, sizeof store, "s%zu", i);
        snprintf(path, sizeof path, "%s/filters/%032d.tamis", store, 1);
        tamis_store_close(store_new(store));
        file_write(path_of(path), bytes, sizeof bytes); /* an orphan, of none */
        snprintf(path, sizeof path, "%s/filters/%032d.%s", store, 2, ends[i]);
        memcpy(bytes, heads[i], 8);
        file_write(path_of(path), bytes, sizeof bytes);
        snprintf(path, sizeof path, "%s/filters", store);
        uint64_t before = tree_of(path);
        struct tamis_store *s = store_open(store);
        tamis_edit_abort(edit_new(s)); /* the first one sweeps */
        IS(tamis_store_orphans(s, NULL, NULL, &n_orphans, &diag), TAMIS_ERR_VERSION);
        tamis_store_close(s);
        IS(tamis_store_repair(path_of(store), NULL, NULL, &diag), TAMIS_ERR_VERSION);
        assert_non_null(strstr(diag.what, "first draft of the format"));
        snprintf(path, sizeof path, "%s/catalog.lmdb", store);
        unlink(path_of(path));
        IS(tamis_store_repair(path_of(store), NULL, NULL, &diag), TAMIS_ERR_VERSION);
        snprintf(path, sizeof path, "%s/filters", store);
        IS(tree_of(path), before);
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
