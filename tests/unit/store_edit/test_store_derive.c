/* Segments whose filters are made from those of others. */
#include "tests/support/store_support.h"

enum { N = 3000 };

/* "a" has the keys 0 .. N-1, "b" N/2 .. N+N/2-1; one edit each. */
static struct tamis_store *store_of_two(void)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, N, NULL));
    OK(put_keys(e, "b", N / 2, N, NULL));
    OK(tamis_edit_commit(e, NULL));
    return s;
}

static const size_t both[] = {0, 1};

static void check_range(struct tamis_store *s, const char *name, const char *first,
                        const char *last)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_segment_info info;
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    OK(tamis_snapshot_segment(snap, t.slot - 1, &info));
    if (first) {
        assert_non_null(info.first_key);
        assert_int_equal(info.first_key_bytes, strlen(first));
        assert_memory_equal(info.first_key, first, strlen(first));
        assert_int_equal(info.last_key_bytes, strlen(last));
        assert_memory_equal(info.last_key, last, strlen(last));
    } else {
        assert_null(info.first_key);
    }
    tamis_snapshot_release(snap);
}

/* Compares the list and the file of the segment "a". */
static void check_record(struct tamis_store *s, const struct tamis_segment_options *opt)
{
    struct tamis_segment_info info;
    struct tamis_filter_info file;
    struct tamis_filter *f;
    struct tamis_target t;
    struct tamis_key key = key_in(s, 1);
    enum tamis_reason why;
    struct tamis_snapshot *snap = snapshot_of(s);
    for (uint64_t ahead = 0; ahead < 2; ahead++) {
        tamis_snapshot_find(snap, "a", 1, opt->binding, opt->binding_bytes,
                            opt->watermark + ahead, &t);
        tamis_snapshot_probe(snap, &t, &key, &why);
        assert_int_equal(why, ahead ? TAMIS_BEHIND : TAMIS_HIT);
    }
    OK(tamis_snapshot_segment(snap, t.slot - 1, &info));
    assert_int_equal(info.rank, opt->rank);
    assert_true(info.error == 1e-4);
    OK(tamis_snapshot_filter(snap, t.slot - 1, &f, NULL));
    OK(tamis_filter_info(f, &file));
    assert_memory_equal(file.store_uuid, s->catalog->meta.store_uuid, UUID_BYTES);
    tamis_snapshot_release(snap);
}

static void union_replaces_its_sources(void **state)
{
    struct tamis_derive_report report;
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "sst", .rank = 3};
    (void)state;
    struct tamis_store *s = store_of_two();
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    opt.binding_bytes = 3;
    opt.watermark = 9;
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(tamis_edit_drop(e, "b", 1, NULL));
    /* The name of one of them. */
    OK(tamis_edit_derive(e, "a", 1, snap, both, 2,
                         &(struct tamis_derivation){.operation = TAMIS_UNION}, &opt,
                         &report, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    assert_in_range(report.keys, N * 14 / 10, N * 16 / 10);
    assert_int_equal(report.n_damaged, 0);
    for (uint64_t i = 0; i < N + N / 2; i++)
        assert_int_equal(reason_of(s, "a", i), TAMIS_HIT);
    assert_int_equal(reason_of(s, "b", 1), TAMIS_UNKNOWN_SEGMENT);
    assert_int_equal(reason_of(s, "a", 2 * N), ABSENT_HERE);
    assert_int_equal(n_filter_files("s"), 1);
    char last[32];
    snprintf(last, sizeof last, "%s", key_text(N + N / 2 - 1));
    check_range(s, "a", key_text(0), last);
    check_record(s, &opt);
    tamis_store_close(s);
}

static void intersection_and_folds(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_two();
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_derive(e, "i", 1, snap, both, 2,
                         &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                         NULL, NULL, NULL));
    OK(tamis_edit_derive(
        e, "f", 1, snap, &(size_t){0}, 1,
        &(struct tamis_derivation){.operation = TAMIS_SHRINK, .error = 0.5}, NULL, NULL,
        NULL));
    OK(tamis_edit_derive(
        e, "g", 1, snap, &(size_t){1}, 1,
        &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 1}, NULL, NULL,
        NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    for (uint64_t i = N / 2; i < N; i++) {
        assert_int_equal(reason_of(s, "i", i), TAMIS_HIT);
        assert_int_equal(reason_of(s, "f", i), TAMIS_HIT);
        assert_int_equal(reason_of(s, "g", i), TAMIS_HIT);
    }
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(reason_of(s, "f", i), TAMIS_HIT);
    tamis_store_close(s);
}

/* The range is over all of them, whichever comes first: here each end is in another
 * one than the last, and neither in the first. */
static void ranges_in_any_order(void **state)
{
    static const size_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {1, 0, 2}};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10), put_segment(s, "b", 20, 10),
        put_segment(s, "c", 40, 10);
    struct tamis_snapshot *snap = snapshot_of(s);
    char last[32];
    snprintf(last, sizeof last, "%s", key_text(49));
    for (size_t i = 0; i < 4; i++) {
        char name[] = {(char)('u' + i), 0};
        struct tamis_edit *e = edit_new(s);
        OK(tamis_edit_derive(e, name, 1, snap, orders[i], 3,
                             &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                             NULL, NULL));
        OK(tamis_edit_commit(e, NULL));
        check_range(s, name, key_text(0), last);
        for (uint64_t k = 0; k < 50; k += k % 10 == 9 ? 11 : 1)
            assert_int_equal(reason_of(s, name, k), TAMIS_HIT);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void put_texts(struct tamis_store *s, const char *name, const char *const *texts)
{
    struct tamis_builder *b;
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, name, strlen(name), 0, NULL, &b, NULL));
    for (; *texts; texts++)
        OK(tamis_builder_add_key(b, *texts, strlen(*texts)));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
}

/* A key that begins as another one does and is longer comes after it, at either end. */
static void ranges_of_prefixes(void **state)
{
    static const size_t orders[][2] = {{0, 1}, {1, 0}};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_texts(s, "a", (const char *const[]){"key", "keyring", NULL});
    put_texts(s, "b", (const char *const[]){"ke", "keyrings", NULL});
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < 2; i++) {
        char name[] = {(char)('u' + i), 0};
        struct tamis_edit *e = edit_new(s);
        OK(tamis_edit_derive(e, name, 1, snap, orders[i], 2,
                             &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                             NULL, NULL));
        OK(tamis_edit_commit(e, NULL));
        check_range(s, name, "ke", "keyrings");
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* A key that was added by hash may be any: the result's range is unknown. */
static void one_unknown_range_is_no_range(void **state)
{
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_of_two();
    struct tamis_domain d = tamis_store_domain(s);
    struct tamis_key key = tamis_key_of(&d, "zzz", 3);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "c", 1, 0, NULL, &b, NULL));
    OK(tamis_builder_add_hashes(b, d.tag, &key.hash, 1));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, "c", 1, NULL, 0, 0, &t));
    const size_t with[] = {0, t.slot - 1};
    e = edit_new(s);
    OK(tamis_edit_derive(e, "u", 1, snap, with, 2,
                         &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                         NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    check_range(s, "u", NULL, NULL);
    snap = snapshot_of(s);
    OK(tamis_snapshot_find(snap, "u", 1, NULL, 0, 0, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void refused(struct tamis_store *s, struct tamis_snapshot *snap,
                    const size_t *list, size_t n, int code)
{
    struct tamis_diag diag;
    struct tamis_edit *e = edit_new(s);
    size_t before = n_filter_files("s");
    struct tamis_derive_report report, nothing = {0};
    memset(&report, 0xff, sizeof report);
    assert_int_equal(
        tamis_edit_derive(e, "u", 1, snap, list, n,
                          &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                          &report, &diag),
        code);
    assert_memory_equal(&report, &nothing, sizeof report);
    assert_int_equal(diag.code, code);
    assert_true(diag.what[0] != 0);
    assert_int_equal(n_filter_files("s"), before);
    tamis_edit_abort(e);
}

/* A write that fails is told with the path of the file that would have been. */
static void failing_disk(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_of_two();
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(faults_on(NULL));
    fail_once(CALL_PWRITE, 1, EIO);
    assert_int_equal(
        tamis_edit_derive(e, "u", 1, snap, both, 2,
                          &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                          NULL, &diag),
        EIO);
    OK(faults_off(NULL));
    char want[600];
    snprintf(want, sizeof want, "%s/", path_of("s/filters"));
    assert_memory_equal(diag.file, want, strlen(want));
    assert_int_equal(n_filter_files("s"), 2);
    tamis_edit_abort(e);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void refusals(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_two();
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "c", 1, NULL, NULL));
    OK(tamis_edit_put_growing(e, "d", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s), *other;
    refused(s, snap, (size_t[]){0, 2}, 2, TAMIS_ERR_NO_SEGMENT);
    refused(s, snap, (size_t[]){0, 3}, 2, TAMIS_ERR_UNFIT);
    refused(s, snap, (size_t[]){0, 4}, 2, TAMIS_ERR_RANGE);
    refused(s, snap, both, 0, TAMIS_ERR_RANGE);
    refused(s, NULL, both, 2, TAMIS_ERR_RANGE);
    refused(s, snap, NULL, 2, TAMIS_ERR_RANGE);
    OK(tamis_snapshot_from_filters(NULL, 0, &other));
    refused(s, other, both, 2, TAMIS_ERR_MISMATCH);
    tamis_snapshot_release(other);
    e = edit_new(s);
    assert_int_equal(
        tamis_edit_derive(e, "a", 1, snap, both, 2,
                          &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                          NULL, NULL),
        TAMIS_ERR_EXISTS);
    assert_int_equal(tamis_edit_derive(e, "x", 1, snap, &(size_t){0}, 1,
                                       &(struct tamis_derivation){
                                           .operation = TAMIS_FOLD, .factor = 1 << 20},
                                       NULL, NULL, NULL),
                     TAMIS_ERR_UNFIT);
    tamis_edit_abort(e);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* A list that repair rebuilt may have a filter that never was that segment's: made part
 * of another one it would get a binding, and be believed. */
static void unconfirmed_lists_are_refused(void **state)
{
    (void)state;
    struct tamis_store *s = store_of_two();
    tamis_store_close(s);
    OK(unlink(path_of("s/catalog.lmdb")));
    OK(tamis_store_repair(path_of("s"), NULL, NULL, NULL));
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    refused(s, snap, both, 2, TAMIS_ERR_MISMATCH);
    tamis_snapshot_release(snap);
    OK(tamis_store_confirm_complete(s, NULL));
    snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_derive(e, "u", 1, snap, both, 2,
                         &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                         NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    assert_int_equal(reason_of(s, "u", 1), TAMIS_HIT);
    tamis_store_close(s);
}

/* Damage costs reads, in what is made of it too. */
static void damaged_pages_become_ones(void **state)
{
    struct tamis_derive_report report;
    struct tamis_segment_info info;
    uint8_t zeros[4096] = {0};
    char path[600];
    (void)state;
    struct tamis_store *s = store_of_two();
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_segment(snap, 0, &info));
    snprintf(path, sizeof path, "%s/%s", path_of("s"), info.file);
    file_poke(path, commit_of(path).stages[0].offset, zeros, sizeof zeros);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_derive(e, "u", 1, snap, both, 2,
                         &(struct tamis_derivation){.operation = TAMIS_UNION}, NULL,
                         &report, NULL));
    assert_int_equal(report.n_damaged, 1);
    /* The report tells the result though it is not made, and the diagnosis its source.
     */
    struct tamis_diag diag;
    assert_int_equal(tamis_edit_derive(e, "v", 1, snap, &(size_t){0}, 1,
                                       &(struct tamis_derivation){
                                           .operation = TAMIS_SHRINK, .error = 0.001},
                                       NULL, &report, &diag),
                     TAMIS_ERR_UNFIT);
    assert_true(report.error > 0.001 && report.n_damaged == 1);
    assert_string_equal(diag.file, path);
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    for (uint64_t i = 0; i < N + N / 2; i++)
        assert_int_equal(reason_of(s, "u", i), TAMIS_HIT);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(union_replaces_its_sources),
        TEST(intersection_and_folds),
        TEST(ranges_in_any_order),
        TEST(ranges_of_prefixes),
        TEST(one_unknown_range_is_no_range),
        TEST(refusals),
        TEST(failing_disk),
        TEST(unconfirmed_lists_are_refused),
        TEST(damaged_pages_become_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
