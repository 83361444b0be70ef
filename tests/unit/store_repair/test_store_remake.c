/* Filters made anew from lists: those that are lost, damaged or wrong, and no others.
 */
#include "tests/support/repair_support.h"
#include "tests/support/store_lists.h"

static struct tamis_store *two_lists(void)
{
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 2000);
    put_listed(s, "b", 5000, 2000);
    put_segment(s, "plain", 9000, 100);
    return s;
}

static void a_and_b_have_their_keys(struct tamis_store *s)
{
    for (uint64_t i = 0; i < 2000; i++) {
        assert_int_equal(reason_of_hash(s, "a", i), TAMIS_HIT);
        assert_int_equal(reason_of_hash(s, "b", 5000 + i), TAMIS_HIT);
    }
}

static void zero_page_of(const char *path, uint64_t page)
{
    static const uint8_t zeros[PAGE_BYTES];
    file_poke(path, page * PAGE_BYTES, zeros, sizeof zeros);
}

/* How many were made. */
static uint64_t remake(struct tamis_store **s, int dry_run)
{
    tamis_store_close(*s);
    struct tamis_repair_report report;
    struct tamis_repair_options opt = {
        .size = sizeof opt, .dry_run = dry_run, .found = see};
    seen.n = 0;
    OK(tamis_store_repair(path_of("s"), &opt, &report, NULL));
    *s = store_open("s");
    return report.n_rebuilt;
}

static void good_filters_are_left(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    uint64_t before = tree_of("s");
    assert_int_equal(remake(&s, 0), 0);
    assert_true(tree_of("s") == before);
    tamis_store_close(s);
    remove_tree("s");
}

/* A dry run says the same, and changes nothing. */
static void lost_and_damaged_ones_come_back(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(file_of(s, "s", "a")));
    zero_page_of(file_of(s, "s", "b"), 1);
    zero_page_of(file_of(s, "s", "plain"), 1);
    uint64_t before = tree_of("s");
    struct record b = record_in(s, "b");
    tamis_store_close(s);
    s = store_open("s");
    assert_int_equal(remake(&s, 1), 2);
    assert_true(tree_of("s") == before);
    assert_int_equal(remake(&s, 0), 2);
    SAW("rebuilt a ");
    SAW("made anew from its list");
    a_and_b_have_their_keys(s);
    assert_true(is_listed(s, "a") && is_listed(s, "b"));
    struct record now = record_in(s, "b");
    assert_true(now.watermark == b.watermark && now.rank == b.rank &&
                now.keys == b.keys && now.target_error == b.target_error);
    assert_int_equal(remake(&s, 0), 0);
    tamis_store_close(s);
    remove_tree("s");
}

/* Segment a gets the list of b in the catalog, so its filter lacks what it must have.
 */
static void wrong_ones_are_found(void **state)
{
    uint8_t value[RECORD_MAX_BYTES];
    (void)state;
    struct tamis_store *s = two_lists();
    struct record a = record_in(s, "a"), b = record_in(s, "b");
    tamis_store_close(s);
    memcpy(a.list_uuid, b.list_uuid, UUID_BYTES);
    a.list_digest = b.list_digest;
    poke_catalog("s", "segments", "a", value, record_encode(&a, "a", 1, value));
    s = store_open("s");
    assert_int_equal(reason_of_hash(s, "a", 5000), TAMIS_NO_REASON);
    assert_int_equal(remake(&s, 0), 1);
    SAW("of the 2000 hashes of its list: made anew");
    for (uint64_t i = 5000; i < 7000; i++)
        assert_int_equal(reason_of_hash(s, "a", i), TAMIS_HIT);
    tamis_store_close(s);
    remove_tree("s");
}

/* A damaged list proves nothing, a cut one too little: filters stay as they are. */
static void bad_and_cut_lists_are_no_source(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    zero_page_of(list_of(s, "s", "a"), 1);
    OK(unlink(file_of(s, "s", "a")));
    struct tamis_edit *e = edit_new(s);
    struct tamis_segment_options opt = {.size = sizeof opt, .list_bits = 50};
    OK(put_keys(e, "cut", 0, 500, &opt));
    OK(tamis_edit_commit(e, NULL));
    OK(unlink(file_of(s, "s", "cut")));
    assert_int_equal(remake(&s, 1) + remake(&s, 0), 0);
    assert_int_equal(reason_of_hash(s, "a", 1), TAMIS_FILE_LOST);
    tamis_store_close(s);
    remove_tree("s");
}

/* The layout of the segment's first stage says its kind. */
static bool is_ribbon(struct tamis_store *s, const char *name)
{
    return commit_of(file_of(s, "s", name)).stages[0].layout == LAYOUT_RIBBON;
}

/* A damaged ribbon comes back as one. Nothing says what a lost filter was. */
static void a_ribbon_stays_one(void **state)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .list_bits = 64, .kind = TAMIS_RIBBON};
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(file_of(s, "s", "b")));
    assert_int_equal(remake(&s, 0), 1);
    assert_false(saw("kind is unknown")); /* no ribbon was here */
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "r", 0, 20000, &opt));
    OK(tamis_edit_commit(e, NULL));
    zero_page_of(file_of(s, "s", "r"), 1);
    zero_page_of(file_of(s, "s", "a"), 1);
    assert_int_equal(remake(&s, 0), 2);
    assert_false(saw("kind is unknown"));
    assert_true(is_ribbon(s, "r") && !is_ribbon(s, "a"));
    OK(unlink(file_of(s, "s", "r")));
    assert_int_equal(remake(&s, 1), 1);
    SAW("if it was a ribbon, build it from its list with --kind ribbon");
    assert_int_equal(remake(&s, 0), 1);
    SAW("if it was a ribbon, build it from its list with --kind ribbon");
    assert_false(is_ribbon(s, "r"));
    tamis_store_close(s);
    remove_tree("s");
}

/* An older catalog was put back. A file that it does not name may be wanted: it goes to
 * quarantine, and the edit that makes a filter anew does not sweep it. */
static void what_nothing_names_is_kept(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    tamis_store_close(s);
    file_copy(path_of("s/catalog.lmdb"), path_of("older"));
    s = store_open("s");
    put_segment(s, "new", 20000, 100);
    const char *newer = file_of(s, "s", "new");
    OK(unlink(file_of(s, "s", "a")));
    tamis_store_close(s);
    file_copy(path_of("older"), path_of("s/catalog.lmdb"));
    struct tamis_repair_report r = repair("s");
    assert_true(r.n_rebuilt == 1 && r.n_quarantined == 1 && r.n_swept == 0);
    assert_true(exists(aside_of("s", newer)));
    s = store_open("s");
    a_and_b_have_their_keys(s);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static void another_store_is_left(void **state)
{
    static const uint8_t other[UUID_BYTES] = {1};
    struct tamis_repair_report r;
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(file_of(s, "s", "a")));
    tamis_store_close(s);
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, other, &r, NULL), TAMIS_ERR_MISMATCH);
    assert_true(n_done(&r) == 0 && tree_of("s") == before);
    remove_tree("s");
}

/* An edit that fails leaves the segment as it was, and the failure is told. */
static void a_full_disk_is_told(void **state)
{
    struct tamis_repair_options opt = {.size = sizeof opt, .found = see};
    struct tamis_repair_report report;
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(file_of(s, "s", "a")));
    tamis_store_close(s);
    seen.n = 0;
    fail_once(CALL_PWRITE, 1, ENOSPC);
    assert_int_equal(tamis_store_repair(path_of("s"), &opt, &report, NULL), ENOSPC);
    fail_never();
    assert_true(report.n_rebuilt == 0 && seen.n == 0);
    s = store_open("s");
    assert_int_equal(remake(&s, 0), 1);
    a_and_b_have_their_keys(s);
    tamis_store_close(s);
    remove_tree("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(good_filters_are_left, no_store),
        cmocka_unit_test_setup(lost_and_damaged_ones_come_back, no_store),
        cmocka_unit_test_setup(wrong_ones_are_found, no_store),
        cmocka_unit_test_setup(bad_and_cut_lists_are_no_source, no_store),
        cmocka_unit_test_setup(a_ribbon_stays_one, no_store),
        cmocka_unit_test_setup(what_nothing_names_is_kept, no_store),
        cmocka_unit_test_setup(another_store_is_left, no_store),
        TEST_WITH_FAULTS(a_full_disk_is_told),
    };
    return cmocka_run_group_tests_name("store_remake", tests, test_dir_create,
                                       test_dir_remove);
}
