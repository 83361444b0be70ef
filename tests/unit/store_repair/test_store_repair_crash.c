/* Repair after a crash: what a dead writer left is finished, and files that no record
 * names are swept or kept. */
#include "tests/support/repair_support.h"

/* ---- what a crash leaves ---- */

static void what_a_dead_writer_left_is_finished(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_g();
    grow_keys(s, "g", 0, 50, 1);
    const char *file = file_of(s, "s", "g");
    tamis_store_close(s);
    kill_writer("s", 50);
    assert_int_equal(commit_of(file).clean, 0);
    struct tamis_repair_report r = repair("s");
    SAW("finished g");
    assert_int_equal(n_done(&r), 1);
    struct commit c = commit_of(file);
    assert_int_equal(c.clean, 1);
    assert_int_equal(c.watermark, 9);
    s = store_open("s");
    check_keys(s, "g", 0, 150);
    assert_int_equal(reason_of(s, "g", 99999), ABSENT_HERE);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static void a_torn_slot_is_mirrored(void **state)
{
    (void)state;
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        for (int sealed = 0; sealed < 2; sealed++) {
            struct tamis_writer *w;
            struct tamis_store *s = store_of_g();
            grow_keys(s, "g", 0, 50, 1);
            const char *file = file_of(s, "s", "g");
            OK(tamis_store_writer(s, "g", 1, &w, NULL));
            if (sealed)
                OK(tamis_writer_seal(w, 2, NULL, NULL));
            OK(tamis_writer_close(w));
            tamis_store_close(s);
            flip(file, commit_slot_offset(slot) + 700);
            struct tamis_repair_report r = repair("s");
            assert_int_equal(r.n_finished, 1);
            assert_int_equal(n_done(&r), 1);
            s = store_open("s");
            check_keys(s, "g", 0, 50);
            assert_int_equal(reason_of(s, "g", 99999), ABSENT_HERE);
            tamis_store_close(s);
            check_settled("s");
            remove_tree("s");
        }
    }
}

/* Grown and sealed by somebody who had the file and not the catalog. */
static void growth_and_seals_are_followed(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_g();
    const char *file = file_of(s, "s", "g");
    struct tamis_writer *w = open_writer(file);
    add_keys(w, 0, 1000);
    OK(tamis_writer_commit(w, 5, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(record_in(s, "g").min_stages, 1);
    tamis_store_close(s);
    struct tamis_repair_report r = repair("s");
    SAW("grown, and the catalog did not know");
    assert_int_equal(n_done(&r), 1);
    check_settled("s");
    s = store_open("s");
    assert_true(record_in(s, "g").min_stages > 1);
    tamis_store_close(s);
    w = open_writer(file);
    OK(tamis_writer_seal(w, 6, NULL, NULL));
    OK(tamis_writer_close(w));
    r = repair("s");
    SAW("sealed, and the catalog did not know");
    assert_int_equal(n_done(&r), 1);
    s = store_open("s");
    assert_int_equal(record_in(s, "g").state, RECORD_SEALED);
    check_keys(s, "g", 0, 1000);
    tamis_store_close(s);
    check_settled("s");
    remove_tree("s");
}

static void what_nothing_names_is_swept(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    const char *b = file_of(s, "s", "b");
    char orphan[1000], temporary[1200];
    snprintf(orphan, sizeof orphan, "%s", b);
    file_copy(b, path_of("b"));
    drop_segment(s, "b");
    tamis_store_close(s);
    file_copy(path_of("b"), orphan); /* its unlink was lost */
    snprintf(temporary, sizeof temporary, "%s.0123abcd.tmp", orphan);
    file_write(temporary, "x", 1);
    file_write(path_of("s/filters/README"), "x", 1);
    file_write(path_of("s/catalog.lmdb.0123abcd.tmp"), "x", 1);
    struct tamis_repair_report r = repair("s");
    SAW("quarantined  filters/"); /* it may be wanted: nobody can tell */
    assert_true(exists(aside_of("s", orphan)));
    assert_int_equal(r.n_swept, 2);
    assert_int_equal(n_done(&r), 3);
    assert_int_equal(r.n_damaged, 0);
    SAW("noted  filters/README");
    assert_false(exists(orphan) || exists(temporary));
    assert_false(exists(path_of("s/catalog.lmdb.0123abcd.tmp")));
    assert_true(exists(path_of("s/filters/README")));
    check_settled("s");
    remove_tree("s");
}

/* An older catalog was put back: what it does not name may be all that there is of a
 * segment, whoever can read it. Only what never was a filter goes. */
static void orphans_that_cannot_be_read_are_kept(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
        bool kept;
    } cases[] = {
        {8, 2, true},   /* a newer version */
        {130, 0, true}, /* a name that rotted */
        {40, 77, true}, /* a UUID */
        {1, 'X', false},
    };
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    const char *a = file_of(s, "s", "a");
    tamis_store_close(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *to = path_of("s/filters/aaaaaaaaaaaa4aaa8aaaaaaaaaaaaaaa.tamis");
        file_copy(a, to);
        file_poke(to, cases[i].at, &cases[i].value, 1);
        struct tamis_repair_report r = repair("s");
        assert_int_equal(r.n_quarantined, cases[i].kept);
        assert_int_equal(r.n_swept, !cases[i].kept);
        assert_int_equal(exists(aside_of("s", to)), cases[i].kept);
        assert_false(exists(to));
        if (cases[i].kept)
            assert_int_equal(unlink(aside_of("s", to)), 0);
        check_settled("s");
    }
    remove_tree("s");
}

/* ---- orphans that may be wanted ---- */

static void orphans_of_another_store_are_kept(void **state)
{
    char to[1200];
    struct stat st;
    (void)state;
    struct tamis_store *s = store_new("s"), *t = store_new("t");
    put_segment(s, "a", 0, 100);
    put_segment(t, "x", 0, 100);
    const char *foreign = file_of(t, "t", "x");
    snprintf(to, sizeof to, "%s%s", path_of("s/filters"), strrchr(foreign, '/'));
    file_copy(foreign, to);
    tamis_store_close(s);
    tamis_store_close(t);
    /* Not while it can't be read, for then nobody knows whose it is. */
    assert_int_equal(stat(to, &st), 0);
    unreadable = st.st_ino;
    calls_before = io_calls;
    io_calls.pread = unreadable_pread;
    struct tamis_repair_report r = repair("s");
    io_calls = calls_before;
    assert_int_equal(n_done(&r), 0);
    assert_true(exists(to));
    r = repair("s");
    assert_int_equal(r.n_quarantined, 1);
    assert_true(exists(aside_of("s", to)));
    assert_false(exists(to));
    check_settled("s");
    remove_tree("s");
    remove_tree("t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_dead_writer_left_is_finished),
        cmocka_unit_test(a_torn_slot_is_mirrored),
        cmocka_unit_test(growth_and_seals_are_followed),
        cmocka_unit_test(what_nothing_names_is_swept),
        cmocka_unit_test(orphans_that_cannot_be_read_are_kept),
        cmocka_unit_test(orphans_of_another_store_are_kept),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
