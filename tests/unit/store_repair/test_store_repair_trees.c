/* Repair of a catalog whose trees make no sense: a leaf that lost a record, a node of
 * impossible length. And trees that do make sense. */
#include "tests/support/repair_support.h"

/* ---- a catalog that has forgotten a filter ---- */

/* Is this a leaf with such a key? */
static bool is_leaf_with(const uint8_t *page, const char *name, uint16_t *lower)
{
    uint16_t flags, node, key_bytes;
    memcpy(&flags, page + 10, 2);
    memcpy(lower, page + 12, 2);
    for (size_t i = 16; flags == 2 && i < *lower; i += 2) {
        memcpy(&node, page + i, 2);
        memcpy(&key_bytes, page + node + 6, 2);
        if (key_bytes == strlen(name) && memcmp(page + node + 8, name, key_bytes) == 0)
            return true;
    }
    return false;
}

enum harm { VANISHED, OUT_OF_ORDER, N_HARMS };

/* To every copy of the leaf, for older ones are in the file, too. */
static void harm_leaf(enum harm how)
{
    size_t n;
    uint16_t lower;
    const char *path = path_of("s/catalog.lmdb");
    uint8_t *bytes = file_read(path, &n);
    for (size_t at = 2 * 4096; at + 4096 <= n; at += 4096) {
        uint8_t *page = bytes + at;
        if (!is_leaf_with(page, "g", &lower) || lower < 16 + 4)
            continue;
        if (how == VANISHED) {
            lower = (uint16_t)(lower - 2);
            memcpy(page + 12, &lower, 2);
        } else {
            uint8_t pointer[2];
            memcpy(pointer, page + lower - 2, 2);
            memcpy(page + lower - 2, page + lower - 4, 2);
            memcpy(page + lower - 4, pointer, 2);
        }
    }
    file_write(path, bytes, n);
    free(bytes);
}

static void expect_damaged(const char *store)
{
    struct tamis_store *s;
    assert_int_equal(tamis_store_open(path_of(store), &s, NULL), TAMIS_ERR_DAMAGED);
}

/* LMDB sees nothing wrong with it. */
static void a_leaf_that_lost_a_record_is_no_good_catalog(void **state)
{
    (void)state;
    for (enum harm how = VANISHED; how < N_HARMS; how++) {
        struct tamis_store *s = store_abcg();
        const char *g = file_of(s, "s", "g");
        tamis_store_close(s);
        harm_leaf(how);
        expect_damaged("s");
        struct tamis_repair_report r = repair("s");
        SAW("rebuilt  catalog.lmdb");
        assert_true(r.rebuilt && !r.complete);
        assert_int_equal(r.n_segments, 4);
        assert_true(exists(g));
        assert_true(exists(path_of("s/quarantine/catalog.lmdb")));
        s = store_open("s");
        check_keys(s, "g", 300, 100);
        check_keys(s, "a", 0, 100);
        tamis_store_close(s);
        check_settled("s");
        remove_tree("s");
    }
}

/* ---- a node of impossible length ---- */

enum length { BEYOND_PAGE, OVERFLOW_BEYOND_FILE, OVERFLOW_OUTSIDE, N_LENGTHS };

/* The nodes of the segment "g". */
static void harm_length(enum length how)
{
    static const struct {
        uint32_t bytes;
        uint16_t flags;
        uint64_t first_page;
    } node[] = {{0x0fffffff, 0, 0}, {0x0fffffff, 1, 2}, {100, 1, 1000000}};
    size_t n;
    uint16_t lower, at;
    const char *path = path_of("s/catalog.lmdb");
    uint8_t *bytes = file_read(path, &n);
    for (uint8_t *page = bytes + 2 * 4096; page + 4096 <= bytes + n; page += 4096) {
        if (!is_leaf_with(page, "g", &lower))
            continue;
        for (size_t i = 16; i < lower; i += 2) {
            memcpy(&at, page + i, 2);
            if (page[at + 8] != 'g' || page[at + 9] == 'r')
                continue;
            memcpy(page + at, &node[how].bytes, 4);
            memcpy(page + at + 4, &node[how].flags, 2);
            if (node[how].flags)
                memcpy(page + at + 9, &node[how].first_page, 8);
        }
    }
    file_write(path, bytes, n);
    free(bytes);
}

/* LMDB would hand out such a record as it stands: whoever copied or summed it would
 * leave the mapping. Nobody asks LMDB before he has looked. */
static void a_node_of_impossible_length_is_no_record(void **state)
{
    (void)state;
    for (enum length how = BEYOND_PAGE; how < N_LENGTHS; how++) {
        struct tamis_store *s = store_abcg();
        tamis_store_close(s);
        harm_length(how);
        expect_damaged("s");
        struct tamis_repair_report r = repair("s");
        SAW("a page of its trees makes no sense");
        assert_true(r.rebuilt && !r.complete);
        s = store_open("s");
        check_keys(s, "g", 300, 100);
        check_keys(s, "a", 0, 100);
        tamis_store_close(s);
        check_settled("s");
        remove_tree("s");
    }
}

/* ---- trees that make sense ---- */

/* Trees of several levels, as LMDB splits and merges them: never called damaged. */
static void trees_that_grow_and_shrink_make_sense(void **state)
{
    enum { ROUNDS = 30, PUTS = 120 };
    char name[256], path[1100];
    struct tamis_diag diag = {0};
    (void)state;
    struct tamis_store *s = store_new("s");
    snprintf(path, sizeof path, "%s", path_of("s/catalog.lmdb"));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    uint64_t n = 0, dropped = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct tamis_edit *e = edit_new(s);
        for (int i = 0; i < PUTS; i++, n++) {
            snprintf(name, sizeof name, "%0*llx", n % 3 ? 16 : 250,
                     (unsigned long long)(n * UINT64_C(0x9E3779B97F4A7C15)));
            OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
        }
        for (; dropped < n * (uint64_t)(round % 6) / 6; dropped++) {
            snprintf(name, sizeof name, "%0*llx", dropped % 3 ? 16 : 250,
                     (unsigned long long)(dropped * UINT64_C(0x9E3779B97F4A7C15)));
            OK(tamis_edit_drop(e, name, strlen(name), NULL));
        }
        OK(tamis_edit_commit(e, NULL));
        if (catalog_file_scrub(fd, path, &diag) != 0)
            fail_msg("round %d: %s", round, diag.what);
    }
    close(fd);
    tamis_store_close(s);
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_leaf_that_lost_a_record_is_no_good_catalog, no_store),
        cmocka_unit_test_setup(a_node_of_impossible_length_is_no_record, no_store),
        cmocka_unit_test_setup(trees_that_grow_and_shrink_make_sense, no_store),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
