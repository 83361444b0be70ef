/* Lists in the hands of repair and backup: a list that is good stays with its segment,
 * and a bad one costs nothing else. */
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

static void all_are_in(struct tamis_store *s)
{
    for (uint64_t i = 0; i < 2000; i++) {
        assert_int_equal(reason_of_hash(s, "a", i), TAMIS_HIT);
        assert_int_equal(reason_of_hash(s, "b", 5000 + i), TAMIS_HIT);
    }
}

static void rot(const char *path)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 4096 + 100) == 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, 4096 + 100), 1);
    close(fd);
}

static const char *copied(const char *path)
{
    static char out[1200];
    snprintf(out, sizeof out, "%s/filters%s", path_of("b"), strrchr(path, '/'));
    return out;
}

static void good_lists_are_left(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    uint64_t n_orphans;
    OK(tamis_store_orphans(s, NULL, NULL, &n_orphans, NULL));
    assert_int_equal(n_orphans, 0);
    tamis_store_close(s);
    uint64_t before = tree_of("s");
    struct tamis_repair_report r = repair("s");
    assert_int_equal(n_done(&r), 0);
    assert_int_equal(seen.n, 0);
    assert_true(tree_of("s") == before);
    remove_tree("s");
}

static void a_bad_list_goes_alone(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    rot(list_of(s, "s", "a"));
    tamis_store_close(s);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_quarantined, 1);
    SAW("its list: 1 of");
    s = store_open("s");
    assert_true(!is_listed(s, "a") && is_listed(s, "b"));
    assert_int_equal(n_filter_files("s"), 4);
    all_are_in(s);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static void a_missing_list_is_forgotten(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(list_of(s, "s", "a")));
    tamis_store_close(s);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_rebuilt, 1);
    assert_int_equal(n_done(&r), 1);
    SAW("its list is missing");
    s = store_open("s");
    assert_true(!is_listed(s, "a") && is_listed(s, "b"));
    all_are_in(s);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* Files may be away for a while: a disk, a copy that is not done. */
static void a_list_stays_named_without_its_filter(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    OK(rename(file_of(s, "s", "a"), path_of("filter")));
    OK(rename(list_of(s, "s", "a"), path_of("list")));
    const char *filter = file_of(s, "s", "a"), *list = list_of(s, "s", "a");
    tamis_store_close(s);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(n_done(&r), 0);
    assert_int_equal(r.n_damaged, 1);
    SAW("its list is missing");
    OK(rename(path_of("filter"), filter));
    OK(rename(path_of("list"), list));
    s = store_open("s");
    assert_true(is_listed(s, "a"));
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* ---- the filter is damaged, too ---- */

/* A byte of the magic, or one of the first page behind the header. */
enum hurt { HURT_PAGE, HURT_MAGIC };
static void hurt(const char *path, enum hurt how)
{
    if (how == HURT_MAGIC)
        file_poke(path, 0, "X", 1);
    else
        rot(path);
}

static void put_cut(struct tamis_store *s, const char *name, uint32_t list_bits)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .kind = TAMIS_RIBBON, .list_bits = list_bits};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, name, 0, 5000, &opt));
    OK(tamis_edit_commit(e, NULL));
}

static void finding_is(const char *action, const char *path, const char *what)
{
    char words[700];
    snprintf(words, sizeof words, "%s a filters%s %s", action, strrchr(path, '/'),
             what);
    SAW(words);
}

static void check_goes_with_its_filter(uint32_t list_bits, enum hurt of_filter,
                                       enum hurt of_list)
{
    const char *why = of_list == HURT_MAGIC ? "its list: magic" : "its list: 1 of ";
    struct tamis_store *s = store_new("s");
    put_cut(s, "a", list_bits);
    const char *filter = file_of(s, "s", "a"), *list = list_of(s, "s", "a");
    tamis_store_close(s);
    hurt(filter, of_filter);
    hurt(list, of_list);
    struct tamis_repair_report r;
    OK(repair_code("s", 1, NULL, &r, NULL));
    finding_is("quarantined", list, why);
    r = repair("s");
    finding_is("quarantined", list, why);
    assert_int_equal(r.n_quarantined, 2);
    assert_int_equal(n_done(&r), 2);
    assert_true(exists(aside_of("s", list)) && exists(aside_of("s", filter)));
    assert_int_equal(n_filter_files("s"), 0);
    s = store_open("s");
    assert_int_equal(record_in(s, "a").state, RECORD_NO_FILTER);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* A list that no longer looks like one would be removed if it were taken for an
 * orphan. */
static void a_bad_list_goes_with_its_filter(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        check_goes_with_its_filter(i & 4 ? 30 : 64, i & 2 ? HURT_MAGIC : HURT_PAGE,
                                   i & 1 ? HURT_MAGIC : HURT_PAGE);
}

/* Nothing tells any more which segment it was, but for its damaged record. */
static void a_list_goes_with_its_record(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    const char *filter = file_of(s, "s", "a"), *list = list_of(s, "s", "a");
    tamis_store_close(s);
    hurt(filter, HURT_MAGIC);
    hurt(list, HURT_MAGIC);
    poke_record("s", "a", offsetof(struct record_disk, keys));
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_swept, 0);
    assert_true(exists(aside_of("s", list)) && exists(aside_of("s", filter)));
    check_settled("s");
    remove_tree("s");
}

/* A record without a filter cannot name a list, and this one makes no filter. */
static void a_cut_list_goes_with_its_filter(void **state)
{
    const char *why = "its list: the segment's filter is quarantined, and a list of 30 "
                      "bits makes none";
    struct tamis_repair_report r;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_cut(s, "a", 30);
    const char *filter = file_of(s, "s", "a"), *list = list_of(s, "s", "a");
    tamis_store_close(s);
    rot(filter);
    OK(repair_code("s", 1, NULL, &r, NULL));
    finding_is("quarantined", list, why);
    r = repair("s");
    finding_is("quarantined", list, why);
    assert_true(r.n_quarantined == 2 && n_done(&r) == 2);
    assert_true(exists(aside_of("s", list)) && exists(aside_of("s", filter)));
    s = store_open("s");
    assert_int_equal(record_in(s, "a").state, RECORD_NO_FILTER);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* A repair without a meta record makes no filter from a list. The next one does. */
static void a_whole_list_keeps_its_filter(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    const char *filter = file_of(s, "s", "a"), *list = list_of(s, "s", "a");
    tamis_store_close(s);
    rot(filter);
    uint8_t noise[META_BYTES] = {1, 2, 3};
    poke_catalog("s", "meta", "store", noise, sizeof noise);
    struct tamis_repair_report r = repair("s");
    assert_true(r.rebuilt && r.n_quarantined == 0);
    finding_is("noted", filter, "1 of ");
    SAW("left, for its list may make it anew");
    assert_true(exists(list) && exists(filter));
    r = repair("s");
    SAW("made anew from its list");
    s = store_open("s");
    assert_true(is_listed(s, "a"));
    OK(tamis_store_confirm_complete(s, NULL));
    all_are_in(s);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* Another segment's list is no damage of its own file, but it is not the one. */
static void a_strange_list_is_not_believed(void **state)
{
    char command[3000];
    (void)state;
    struct tamis_store *s = two_lists();
    snprintf(command, sizeof command, "cp %s %s", list_of(s, "s", "b"),
             list_of(s, "s", "a"));
    OK(system(command));
    tamis_store_close(s);
    repair("s");
    SAW("its list: ");
    s = store_open("s");
    assert_true(!is_listed(s, "a") && is_listed(s, "b"));
    tamis_store_close(s);
    remove_tree("s");
}

/* Which filter a list goes with only the catalog knows. A segment of which nothing but
 * the list is left is listed all the same: it has keys. */
static void lists_without_a_catalog(void **state)
{
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(file_of(s, "s", "b")));
    tamis_store_close(s);
    OK(unlink(path_of("s/catalog.lmdb")));
    struct tamis_repair_report r = repair("s");
    assert_true(r.rebuilt && !r.complete);
    assert_int_equal(r.n_quarantined, 2);
    SAW("a list: nothing says");
    s = store_open("s");
    assert_int_equal(n_filter_files("s"), 2);
    assert_false(is_listed(s, "a"));
    OK(tamis_store_confirm_complete(s, NULL));
    assert_int_equal(reason_of(s, "a", 1), TAMIS_HIT);
    assert_int_equal(reason_of(s, "b", 5001), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(s, "plain", 9001), TAMIS_HIT);
    tamis_store_close(s);
    remove_tree("s");
}

/* ---- backup ---- */

static void copy_s(struct tamis_backup_report *report)
{
    struct tamis_store *s = store_open("s");
    seen.n = 0;
    OK(tamis_store_backup(s, path_of("b"), see, NULL, report, NULL));
    tamis_store_close(s);
}

static void backups_have_lists(void **state)
{
    struct tamis_backup_report report;
    (void)state;
    struct tamis_store *s = two_lists();
    const char *list = list_of(s, "s", "a");
    tamis_store_close(s);
    copy_s(&report);
    assert_int_equal(report.n_segments, 3);
    assert_int_equal(report.n_files, 5);
    assert_int_equal(report.n_damaged + report.n_left, 0);
    size_t n;
    uint8_t *bytes = file_read(list, &n);
    file_has(copied(list), bytes, n);
    free(bytes);
    s = store_open("b");
    assert_true(is_listed(s, "a") && is_listed(s, "b"));
    all_are_in(s);
    tamis_store_close(s);
    assert_true(meta_in("b").ro_compat & META_RO_COMPAT_LISTS);
    repair("b");
    assert_int_equal(seen.n, 0);
    remove_tree("s");
    remove_tree("b");
}

static void backups_leave_lost_lists(void **state)
{
    struct tamis_backup_report report;
    (void)state;
    struct tamis_store *s = two_lists();
    OK(unlink(list_of(s, "s", "a")));
    OK(unlink(file_of(s, "s", "b")));
    tamis_store_close(s);
    copy_s(&report);
    assert_int_equal(report.n_segments, 3);
    assert_int_equal(report.n_left, 2);
    SAW("its segment is without a list there");
    s = store_open("b");
    assert_false(is_listed(s, "a"));
    assert_true(is_listed(s, "b")); /* repair can make its filter anew there */
    assert_int_equal(reason_of(s, "b", 5000), TAMIS_FILE_LOST);
    for (uint64_t i = 0; i < 2000; i++)
        assert_int_equal(reason_of_hash(s, "a", i), TAMIS_HIT);
    tamis_store_close(s);
    assert_int_equal(n_filter_files("b"), 3);
    remove_tree("s");
    remove_tree("b");
}

static void backups_copy_rot_as_it_is(void **state)
{
    struct tamis_backup_report report;
    (void)state;
    struct tamis_store *s = two_lists();
    rot(list_of(s, "s", "a"));
    tamis_store_close(s);
    copy_s(&report);
    assert_int_equal(report.n_damaged, 1);
    assert_int_equal(report.n_left, 0);
    repair("b");
    SAW("its list: 1 of");
    remove_tree("s");
    remove_tree("b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(good_lists_are_left, no_store),
        cmocka_unit_test_setup(a_bad_list_goes_alone, no_store),
        cmocka_unit_test_setup(a_missing_list_is_forgotten, no_store),
        cmocka_unit_test_setup(a_list_stays_named_without_its_filter, no_store),
        cmocka_unit_test_setup(a_bad_list_goes_with_its_filter, no_store),
        cmocka_unit_test_setup(a_list_goes_with_its_record, no_store),
        cmocka_unit_test_setup(a_cut_list_goes_with_its_filter, no_store),
        cmocka_unit_test_setup(a_whole_list_keeps_its_filter, no_store),
        cmocka_unit_test_setup(a_strange_list_is_not_believed, no_store),
        cmocka_unit_test_setup(lists_without_a_catalog, no_store),
        cmocka_unit_test_setup(backups_have_lists, no_store),
        cmocka_unit_test_setup(backups_leave_lost_lists, no_store),
        cmocka_unit_test_setup(backups_copy_rot_as_it_is, no_store),
    };
    return cmocka_run_group_tests_name("store_repair_lists", tests, test_dir_create,
                                       test_dir_remove);
}
