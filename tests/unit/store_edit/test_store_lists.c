/* Lists in the hands of edits: a list has the life of its segment's record. */
#include "tests/support/store_lists.h"

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void remove_s(void)
{
    OK(nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS));
}

static void all_are_in(struct tamis_store *s, const char *name, uint64_t first,
                       uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        assert_int_equal(reason_of_hash(s, name, i), TAMIS_HIT);
}

/* The bit of the store comes with the first list. */
static void the_first_list_marks_the_store(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "plain", 0, 100);
    tamis_store_close(s);
    assert_true(meta_in("s").ro_compat == 0);
    s = store_open("s");
    put_listed(s, "a", 100, 200);
    assert_true(is_listed(s, "a") && !is_listed(s, "plain"));
    assert_true(is_there(list_of(s, "s", "a")));
    assert_int_equal(n_filter_files("s"), 3);
    all_are_in(s, "a", 100, 200);
    tamis_store_close(s);
    assert_true(meta_in("s").ro_compat == META_RO_COMPAT_LISTS);
    remove_s();
}

/* Swept is what no record names, and not a list. */
static void the_sweep_leaves_lists(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 200);
    const char *list = list_of(s, "s", "a");
    tamis_store_close(s);
    char orphan[700];
    snprintf(orphan, sizeof orphan, "%s/filters/%032d.tamis", path_of("s"), 1);
    file_write(orphan, "x", 1);
    s = store_open("s");
    tamis_edit_abort(edit_new(s)); /* sweeps */
    assert_true(is_there(list));
    assert_false(is_there(orphan));
    tamis_store_close(s);
    remove_s();
}

static void a_list_goes_with_its_segment(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 100);
    put_listed(s, "b", 0, 100);
    put_listed(s, "c", 0, 100);
    drop_segment(s, "a");
    assert_int_equal(n_filter_files("s"), 4);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_retain(e, &(struct tamis_name){"c", 1}, 1, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 2);
    assert_true(is_there(list_of(s, "s", "c")));
    /* Replaced: the new list, not the old one. */
    const char *before = list_of(s, "s", "c");
    e = edit_new(s);
    OK(tamis_edit_drop(e, "c", 1, NULL));
    put_listed_in(e, "c", 0, 300);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 2);
    assert_false(is_there(before));
    assert_true(is_there(list_of(s, "s", "c")));
    tamis_store_close(s);
    remove_s();
}

static void edits_that_end_leave_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 100);
    struct tamis_edit *e = edit_new(s);
    put_listed_in(e, "b", 0, 100);
    assert_int_equal(n_filter_files("s"), 4);
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 2);
    e = edit_new(s); /* the name is taken by the time of its commit */
    put_listed_in(e, "b", 0, 100);
    put_segment(s, "b", 0, 10);
    assert_int_equal(tamis_edit_commit(e, NULL), TAMIS_ERR_EXISTS);
    assert_int_equal(n_filter_files("s"), 3);
    tamis_store_close(s);
    remove_s();
}

/* Whatever call fails while a segment and its list are put: both or none. */
static void faults_leave_both_or_none(void **state)
{
    static const enum call calls[] = {CALL_PWRITE, CALL_FSYNC, CALL_FDATASYNC,
                                      CALL_RENAME};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 100);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (unsigned long nth = 1;; nth++) {
            struct tamis_edit *e = edit_new(s);
            struct tamis_segment_options opt = {.size = sizeof opt, .list_bits = 64};
            fail_once(calls[c], nth, ENOSPC);
            int rc = put_keys(e, "b", 0, 20000, &opt);
            bool failed = faults[calls[c]].n >= nth;
            fail_never();
            assert_int_equal(rc, failed ? ENOSPC : 0);
            tamis_edit_abort(e);
            assert_int_equal(n_filter_files("s"), 2);
            if (!failed)
                break;
        }
    tamis_store_close(s);
    remove_s();
}

static void pack(struct tamis_store *s)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, NULL, NULL, NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
}

static void unpack(struct tamis_store *s, uint32_t segment)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_unpack(e, snap, &segment, 1, NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
}

/* A segment's filter may change its place: the list is of its hashes all the same. */
static void packing_keeps_lists(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    char name[8];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "p%02u", i);
        put_listed_in(e, name, i * 1000, 300);
    }
    OK(tamis_edit_commit(e, NULL));
    pack(s);
    struct record packed = record_in(s, "p03");
    assert_true(record_packed(&packed) && record_listed(&packed));
    assert_int_equal(n_filter_files("s"), 20 + 2);
    unpack(s, 3);
    struct record r = record_in(s, "p03");
    assert_true(!record_packed(&r) && record_listed(&r));
    assert_memory_equal(r.list_uuid, packed.list_uuid, UUID_BYTES);
    assert_true(r.list_digest == packed.list_digest);
    assert_true(is_there(list_of(s, "s", "p03")));
    all_are_in(s, "p03", 3000, 300);
    drop_segment(s, "p03");
    assert_int_equal(n_filter_files("s"), 19 + 2);
    tamis_store_close(s);
    remove_s();
}

/* ---- filters and lists from lists ---- */

static size_t index_of(const struct tamis_snapshot *snap, const char *name)
{
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    return t.slot - 1;
}

static int from_list(struct tamis_store *s, const char *name, double error,
                     struct tamis_diag *diag)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    int rc = tamis_edit_from_list(e, snap, index_of(snap, name), error, NULL, diag);
    if (rc)
        tamis_edit_abort(e);
    else
        rc = tamis_edit_commit(e, diag);
    tamis_snapshot_release(snap);
    return rc;
}

static void a_filter_from_its_list(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_segment_options opt = {.size = sizeof opt,
                                        .binding = "sst",
                                        .binding_bytes = 3,
                                        .rank = 4,
                                        .watermark = 9,
                                        .list_bits = 64};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 30000, &opt));
    OK(tamis_edit_commit(e, NULL));
    struct record before = record_in(s, "a");
    OK(from_list(s, "a", 1e-6, NULL));
    struct record now = record_in(s, "a");
    assert_true(now.file_bytes > before.file_bytes);
    assert_true(now.target_error == 1e-6);
    assert_memory_not_equal(now.uuid, before.uuid, UUID_BYTES);
    assert_memory_equal(now.list_uuid, before.list_uuid, UUID_BYTES);
    assert_int_equal(now.rank, 4);
    assert_int_equal(now.watermark, 9);
    assert_int_equal(now.keys, 30000);
    assert_int_equal(now.binding_bytes, 3);
    assert_true(now.has_range && now.last_bytes == before.last_bytes);
    assert_int_equal(n_filter_files("s"), 2);
    assert_true(is_there(list_of(s, "s", "a")));
    all_are_in(s, "a", 0, 30000);
    tamis_store_close(s);
    remove_s();
}

/* A list that is not the record's is never taken, whatever keys it has. */
static void not_from_another_list(void **state)
{
    char command[3000];
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 3000);
    put_listed(s, "b", 5000, 3000);
    put_segment(s, "plain", 0, 10);
    assert_int_equal(from_list(s, "plain", 0, &diag), TAMIS_ERR_NO_SEGMENT);
    assert_non_null(strstr(diag.what, "no list of its hashes"));
    snprintf(command, sizeof command, "cp %s %s", list_of(s, "s", "b"),
             list_of(s, "s", "a"));
    OK(system(command));
    assert_int_equal(from_list(s, "a", 0, &diag), TAMIS_ERR_MISMATCH);
    all_are_in(s, "a", 0, 3000);
    /* Nor a cut one. */
    struct tamis_segment_options cut = {.size = sizeof cut, .list_bits = 48};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "cut", 0, 100, &cut));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(from_list(s, "cut", 0, &diag), TAMIS_ERR_UNFIT);
    assert_non_null(strstr(diag.what, "48 bits"));
    tamis_store_close(s);
    remove_s();
}

/* Another process replaces the segment between the snapshot and the commit. */
static void not_over_a_newer_segment(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 3000);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s), *other = edit_new(s);
    OK(tamis_edit_from_list(e, snap, 0, 0, NULL, NULL));
    OK(tamis_edit_drop(other, "a", 1, NULL));
    put_listed_in(other, "a", 7000, 4000);
    OK(tamis_edit_commit(other, NULL));
    assert_int_equal(tamis_edit_commit(e, NULL), TAMIS_ERR_MISMATCH);
    tamis_snapshot_release(snap);
    all_are_in(s, "a", 7000, 4000);
    assert_int_equal(n_filter_files("s"), 2);
    assert_true(is_there(list_of(s, "s", "a")));
    tamis_store_close(s);
    remove_s();
}

/* Another process drops the segment, and attaches the same filter again. */
static void not_with_a_list_that_went(void **state)
{
    char command[3000];
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 100);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s), *theirs = edit_new(s);
    OK(tamis_edit_from_list(e, snap, 0, 1e-4, NULL, NULL));
    snprintf(command, sizeof command, "cp %s %s", file_of(s, "s", "a"), path_of("f"));
    OK(system(command));
    OK(tamis_edit_drop(theirs, "a", 1, NULL));
    OK(tamis_edit_commit(theirs, NULL));
    theirs = edit_new(s);
    OK(tamis_edit_attach(theirs, "a", 1, path_of("f"), NULL, NULL));
    OK(tamis_edit_commit(theirs, NULL));
    assert_int_equal(tamis_edit_commit(e, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "the segment has lost its list meanwhile"));
    assert_false(is_listed(s, "a"));
    assert_int_equal(n_filter_files("s"), 1);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_s();
}

/* A compaction: the output has all keys of the inputs, which go in the same edit. */
static void merged_segments(void **state)
{
    static const char *const inputs[] = {"a", "b", "c"};
    size_t segments[3];
    struct tamis_merge_report r;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 3000);
    put_listed(s, "b", 2000, 3000); /* 1000 of them are in a */
    put_listed(s, "c", 9000, 500);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < 3; i++) {
        segments[i] = index_of(snap, inputs[i]);
        OK(tamis_edit_drop(e, inputs[i], 1, NULL));
    }
    OK(tamis_edit_merge(e, "new", 3, snap, segments, 3, 0, NULL, &r, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    assert_int_equal(r.n_read, 6500);
    assert_int_equal(r.n_repeats, 1000);
    assert_int_equal(r.n_hashes, 5500);
    assert_int_equal(n_filter_files("s"), 2);
    struct record now = record_in(s, "new");
    assert_int_equal(now.keys, 5500);
    assert_true(record_listed(&now) && now.has_range);
    all_are_in(s, "new", 0, 5000);
    all_are_in(s, "new", 9000, 500);
    assert_int_equal(reason_of(s, "new", 8000), ABSENT_HERE);
    /* The new list is as good as any. */
    OK(from_list(s, "new", 1e-5, NULL));
    all_are_in(s, "new", 0, 5000);
    tamis_store_close(s);
    remove_s();
}

static void merges_that_fail_leave_nothing(void **state)
{
    size_t segments[] = {0, 1};
    uint8_t byte = 0;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_listed(s, "a", 0, 30000);
    put_listed(s, "b", 20000, 30000);
    struct tamis_snapshot *snap = snapshot_of(s);
    for (unsigned long nth = 1;; nth++) {
        struct tamis_edit *e = edit_new(s);
        fail_once(CALL_PWRITE, nth, ENOSPC);
        int rc =
            tamis_edit_merge(e, "new", 3, snap, segments, 2, 0.01, NULL, NULL, NULL);
        bool failed = faults[CALL_PWRITE].n >= nth;
        fail_never();
        assert_int_equal(rc, failed ? ENOSPC : 0);
        tamis_edit_abort(e);
        assert_int_equal(n_filter_files("s"), 4);
        if (!failed)
            break;
    }
    int fd = open(list_of(s, "s", "b"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 3 * 4096 + 8) == 1);
    byte ^= 2;
    assert_int_equal(pwrite(fd, &byte, 1, 3 * 4096 + 8), 1);
    close(fd);
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(
        tamis_edit_merge(e, "new", 3, snap, segments, 2, 0.01, NULL, NULL, NULL),
        TAMIS_ERR_DAMAGED);
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 4);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_s();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_list_marks_the_store),
        cmocka_unit_test(the_sweep_leaves_lists),
        cmocka_unit_test(a_list_goes_with_its_segment),
        cmocka_unit_test(edits_that_end_leave_nothing),
        TEST_WITH_FAULTS(faults_leave_both_or_none),
        cmocka_unit_test(packing_keeps_lists),
        cmocka_unit_test(a_filter_from_its_list),
        cmocka_unit_test(not_from_another_list),
        cmocka_unit_test(not_over_a_newer_segment),
        cmocka_unit_test(not_with_a_list_that_went),
        cmocka_unit_test(merged_segments),
        TEST_WITH_FAULTS(merges_that_fail_leave_nothing),
    };
    return cmocka_run_group_tests_name("store_lists", tests, test_dir_create,
                                       test_dir_remove);
}
