/* Repair with the catalog at hand: what becomes of files and records that are not what
 * they should be. */
#include "tests/support/repair_support.h"

static void a_healthy_store_is_left_alone(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_bound(s, "a", 0, 100, "A", 1);
    put_growing(s, "g");
    grow_keys(s, "g", 1000, 300, 5);
    tamis_store_close(s);
    uint64_t before = tree_of("s");
    struct tamis_repair_report r = repair("s");
    assert_int_equal(n_done(&r) + r.n_damaged, 0);
    assert_int_equal(r.n_segments, 2);
    assert_true(r.complete && !r.rebuilt);
    assert_int_equal(seen.n, 0);
    assert_true(tree_of("s") == before);
    remove_tree("s");
}

/* How a sealed filter's file can be no use any more. */
enum spoil { ROT, HEADER, SHORTER, EMPTY, FOREIGN, N_SPOILS };

static void spoil(const char *path, enum spoil how, const struct tamis_domain *d)
{
    switch (how) {
    case ROT:
        flip(path, PAGE_BYTES + 77);
        break;
    case HEADER:
        flip(path, 2048 + 100);
        break;
    case SHORTER:
        assert_int_equal(truncate(path, PAGE_BYTES + 1), 0);
        break;
    case EMPTY:
        assert_int_equal(truncate(path, 0), 0);
        break;
    case FOREIGN:
        assert_int_equal(unlink(path), 0);
        build_file(path, d, "a", NULL, NULL);
        break;
    case N_SPOILS:
        break;
    }
}

static void damaged_files_are_set_aside_and_their_records_stay(void **state)
{
    (void)state;
    for (enum spoil how = ROT; how < N_SPOILS; how++) {
        size_t n, m;
        struct tamis_store *s = store_new("s");
        struct tamis_domain d = tamis_store_domain(s);
        put_bound(s, "a", 0, 100, "A", 3);
        put_bound(s, "b", 100, 100, "B", 4);
        const char *file = file_of(s, "s", "a");
        struct record before = record_in(s, "a");
        tamis_store_close(s);
        spoil(file, how, &d);
        uint8_t *spoiled = file_read(file, &n);
        struct tamis_repair_report r = repair("s");
        SAW("quarantined a filters/");
        assert_int_equal(r.n_quarantined, 1);
        assert_int_equal(n_done(&r), 1);
        assert_int_equal(r.n_segments, 2);
        /* The file is what it was, in another place. */
        assert_false(exists(file));
        uint8_t *aside = file_read(aside_of("s", file), &m);
        assert_true(n == m && memcmp(spoiled, aside, n) == 0);
        free(spoiled);
        free(aside);
        s = store_open("s");
        struct record after = record_in(s, "a");
        assert_int_equal(after.state, RECORD_NO_FILTER);
        assert_int_equal(after.rank, 3);
        assert_int_equal(after.binding_bytes, 1);
        assert_int_equal(after.binding[0], 'A');
        assert_int_equal(after.watermark, before.watermark);
        assert_true(after.created == before.created && after.keys == before.keys);
        assert_int_equal(reason_of(s, "a", 5), TAMIS_NO_FILTER);
        assert_int_equal(reason_of(s, "a", 99999), TAMIS_NO_FILTER);
        assert_int_equal(everywhere(s, 99999), TAMIS_MAYBE);
        assert_int_equal(reason_of(s, "b", 99999), ABSENT_HERE);
        check_keys(s, "b", 100, 100);
        tamis_store_close(s);
        check_settled("s");
        remove_tree("s");
    }
}

/* A file that an earlier repair set aside under the same name stays. */
static void quarantine_keeps_what_it_has(void **state)
{
    size_t n;
    char second[1300];
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    const char *file = file_of(s, "s", "a");
    tamis_store_close(s);
    assert_int_equal(mkdir(path_of("s/quarantine"), 0777), 0);
    file_write(aside_of("s", file), "old", 3);
    flip(file, PAGE_BYTES + 8);
    repair("s");
    uint8_t *old = file_read(aside_of("s", file), &n);
    assert_true(n == 3 && memcmp(old, "old", 3) == 0);
    free(old);
    snprintf(second, sizeof second, "%s.1", aside_of("s", file));
    assert_true(exists(second));
    check_settled("s");
    remove_tree("s");
}

static void exchanged_files_are_both_set_aside(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    const char *a = file_of(s, "s", "a"), *b = file_of(s, "s", "b");
    tamis_store_close(s);
    assert_int_equal(rename(a, path_of("x")), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename(path_of("x"), b), 0);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_quarantined, 2);
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 150), TAMIS_NO_FILTER);
    assert_int_equal(reason_of(s, "b", 50), TAMIS_NO_FILTER);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static void an_older_copy_is_set_aside(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_g();
    grow_keys(s, "g", 0, 50, 1);
    const char *file = file_of(s, "s", "g");
    file_copy(file, path_of("old"));
    grow_keys(s, "g", 50, 2000, 2); /* several stages */
    tamis_store_close(s);
    file_copy(path_of("old"), file);
    struct tamis_repair_report r = repair("s");
    SAW("an older copy");
    assert_int_equal(r.n_quarantined, 1);
    s = store_open("s");
    assert_int_equal(reason_of(s, "g", 1000), TAMIS_NO_FILTER);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* A file that is missing may come back. */
static void the_record_of_a_lost_file_stays(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 100, 100);
    const char *file = file_of(s, "s", "a");
    tamis_store_close(s);
    assert_int_equal(rename(file, path_of("gone")), 0);
    uint64_t before = tree_of("s");
    struct tamis_repair_report r = repair("s");
    SAW("noted a filters/");
    assert_int_equal(n_done(&r), 0);
    assert_int_equal(r.n_damaged, 1);
    assert_true(tree_of("s") == before);
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 150), TAMIS_FILE_LOST);
    assert_int_equal(reason_of(s, "a", 1), TAMIS_FILE_LOST);
    assert_int_equal(rename(path_of("gone"), file), 0);
    tamis_store_close(s);
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 150), TAMIS_HIT);
    tamis_store_close(s);
    remove_tree("s");
}

static void a_growing_filter_with_a_lost_page_stays(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_g();
    grow_keys(s, "g", 0, 90, 1);
    const char *file = file_of(s, "s", "g");
    tamis_store_close(s);
    lose_page(file);
    struct tamis_repair_report r = repair("s");
    SAW("noted g filters/");
    SAW("pages fail their check");
    assert_int_equal(n_done(&r), 0);
    assert_int_equal(r.n_damaged, 1);
    s = store_open("s");
    check_keys(s, "g", 0, 90);
    grow_keys(s, "g", 90, 50, 2); /* and its writer goes on */
    check_keys(s, "g", 0, 140);
    tamis_store_close(s);
    remove_tree("s");
}

/* ---- damaged records ---- */

static void a_damaged_record_is_made_anew_from_its_file(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_bound(s, "a", 0, 100, "A", 0);
    put_bound(s, "b", 100, 100, "B", 1);
    tamis_store_close(s);
    poke_record("s", "a", offsetof(struct record_disk, keys));
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 500), TAMIS_UNREADABLE);
    tamis_store_close(s);
    struct tamis_repair_report r = repair("s");
    SAW("rebuilt a filters/");
    assert_int_equal(n_done(&r), 1);
    s = store_open("s");
    check_keys(s, "a", 0, 100);
    assert_int_equal(reason_of(s, "a", 500), ABSENT_HERE);
    assert_int_equal(record_in(s, "a").binding[0], 'A');
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* The UUID is what is damaged: the file of that name may be its own, or what a drop
 * left behind. Neither is believed, and none is removed. */
static void a_record_that_lost_its_file_has_no_filter(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_bound(s, "a", 0, 100, "A", 0);
    const char *file = file_of(s, "s", "a");
    tamis_store_close(s);
    poke_record("s", "a", offsetof(struct record_disk, uuid) + 3);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_rebuilt, 1);
    assert_int_equal(r.n_quarantined, 1);
    assert_false(exists(file));
    assert_true(exists(aside_of("s", file)));
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 500), TAMIS_NO_FILTER);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* The bytes of a damaged record name another segment's file: that one keeps it. */
static void a_damaged_record_takes_no_other_segments_file(void **state)
{
    uint8_t value[RECORD_MAX_BYTES];
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    struct record a = record_in(s, "a"), b = record_in(s, "b");
    const char *file_a = file_of(s, "s", "a"), *file_b = file_of(s, "s", "b");
    tamis_store_close(s);
    memcpy(a.uuid, b.uuid, sizeof a.uuid);
    size_t n = record_encode(&a, "a", 1, value);
    value[offsetof(struct record_disk, keys)] ^= 1;
    poke_catalog("s", "segments", "a", value, n);
    struct tamis_repair_report r = repair("s");
    assert_int_equal(r.n_rebuilt, 1);
    assert_true(exists(file_b));
    assert_false(exists(file_a)); /* an orphan now */
    s = store_open("s");
    assert_int_equal(reason_of(s, "a", 50), TAMIS_NO_FILTER);
    OK(tamis_store_confirm_complete(s, NULL)); /* whose record was a's? */
    assert_int_equal(reason_of(s, "b", 99999), ABSENT_HERE);
    check_keys(s, "b", 100, 100);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

/* ---- what is not repair's to touch ---- */

static void newer_formats_are_left_alone(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    const char *file = file_of(s, "s", "a");
    tamis_store_close(s);
    uint8_t major[2] = {9, 0};
    file_poke(file, offsetof(struct identity_disk, major), major, sizeof major);
    struct tamis_repair_report r = repair("s");
    SAW("noted a");
    assert_int_equal(n_done(&r), 0);
    assert_int_equal(r.n_unread, 1);
    assert_true(exists(file));
    remove_tree("s");
}

static void an_edit_under_way_is_waited_for_by_nobody(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, NULL));
    uint64_t before = tree_of("s");
    assert_int_equal(repair_code("s", 0, NULL, NULL, &diag), TAMIS_ERR_BUSY);
    assert_true(tree_of("s") == before);
    OK(tamis_edit_commit(e, NULL));
    repair("s"); /* the store may be open, and in use */
    check_keys(s, "a", 0, 10);
    tamis_store_close(s);
    remove_tree("s");
}

static void a_writer_at_work_is_left_alone(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = store_of_g();
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    OK(tamis_writer_add_key(w, key_text(0), strlen(key_text(0))));
    OK(tamis_writer_commit(w, 3, NULL));
    struct tamis_repair_report r = repair("s");
    assert_int_equal(n_done(&r) + r.n_damaged, 0);
    flip(file_of(s, "s", "g"), 5); /* even if its header is damaged just now */
    r = repair("s");
    assert_int_equal(n_done(&r), 0);
    flip(file_of(s, "s", "g"), 5);
    OK(tamis_writer_close(w));
    tamis_store_close(s);
    remove_tree("s");
}

/* ---- dry runs ---- */

static void a_dry_run_says_the_same_and_changes_nothing(void **state)
{
    struct tamis_repair_report dry, wet;
    static char said[256][700];
    (void)state;
    struct tamis_store *s = store_new("s");
    for (uint64_t i = 0; i < 5; i++)
        put_segment(s, (char[]){(char)('a' + i), 0}, i * 10, 10);
    put_growing(s, "g");
    grow_keys(s, "g", 0, 50, 1);
    const char *a = file_of(s, "s", "a");
    flip(a, PAGE_BYTES + 9);
    flip(file_of(s, "s", "b"), 300);
    assert_int_equal(unlink(file_of(s, "s", "c")), 0);
    file_write(path_of("s/filters/00112233445566778899aabbccddeeff.tamis"), "x", 1);
    file_write(path_of("s/catalog.lmdb.01234567.tmp"), "x", 1);
    tamis_store_close(s);
    poke_record("s", "e", offsetof(struct record_disk, keys));
    kill_writer("s", 50);
    for (int lost = 0; lost < 2; lost++) {
        if (lost)
            assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
        uint64_t before = tree_of("s");
        OK(repair_code("s", 1, NULL, &dry, NULL));
        assert_true(tree_of("s") == before);
        size_t n = seen.n;
        memcpy(said, seen.text, sizeof said);
        copy_tree("s", "t");
        OK(repair_code("t", 0, NULL, &wet, NULL));
        assert_int_equal(seen.n, n);
        for (size_t i = 0; i < n; i++)
            assert_string_equal(seen.text[i], said[i]);
        assert_memory_equal(&dry, &wet, sizeof dry);
        assert_true(wet.n_quarantined >= 2 && wet.n_swept >= 1 && wet.n_finished == 1 &&
                    wet.n_rebuilt >= 1);
        check_settled("t");
    }
    remove_tree("s");
    remove_tree("t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_store_is_left_alone),
        cmocka_unit_test(damaged_files_are_set_aside_and_their_records_stay),
        cmocka_unit_test(quarantine_keeps_what_it_has),
        cmocka_unit_test(exchanged_files_are_both_set_aside),
        cmocka_unit_test(an_older_copy_is_set_aside),
        cmocka_unit_test(the_record_of_a_lost_file_stays),
        cmocka_unit_test(a_growing_filter_with_a_lost_page_stays),
        cmocka_unit_test(a_damaged_record_is_made_anew_from_its_file),
        cmocka_unit_test(a_record_that_lost_its_file_has_no_filter),
        cmocka_unit_test(a_damaged_record_takes_no_other_segments_file),
        cmocka_unit_test(newer_formats_are_left_alone),
        cmocka_unit_test(an_edit_under_way_is_waited_for_by_nobody),
        cmocka_unit_test(a_writer_at_work_is_left_alone),
        cmocka_unit_test(a_dry_run_says_the_same_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
