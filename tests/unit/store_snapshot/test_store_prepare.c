/* Preparing snapshots: what is opened and read in, in which order, and what is told of
 * the rest. */
#include "tests/unit/store_snapshot/prepare_support.h"

#include <pthread.h>

static bool is_open(struct tamis_snapshot *snap, size_t i)
{
    return atomic_load(&snap->entries[i]->filter) != NULL;
}

static void opens_all_and_reads_none(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag = {.code = 1};
    (void)state;
    struct tamis_store *s = three();
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, NULL, &r, &diag));
    assert_true(r.n_open == 4 && r.n_skipped == 1 && r.n_failed == 0);
    assert_true(r.open_bytes >= 4 * mapped());
    assert_true(r.warm_bytes == 0 && r.locked_bytes == 0 && r.lock_error == 0);
    assert_int_equal(diag.code, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(is_open(snap, i), snap->entries[i]->state != RECORD_NO_FILTER);
    OK(tamis_snapshot_prepare(snap, NULL, NULL, NULL));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void only_what_is_listed(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_target t[5];
    (void)state;
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    put_ranked(s, "d", 9);
    struct tamis_snapshot *other = snapshot_of(s);
    t[0] = tamis_snapshot_target(snap, 1);
    t[1] = t[0];
    t[2] = tamis_snapshot_target(other, 0);
    assert_int_equal(tamis_snapshot_find(snap, "none", 4, NULL, 0, 0, &t[3]),
                     TAMIS_ERR_NO_SEGMENT);
    t[4] = (struct tamis_target){.slot = 4, .snapshot = t[0].snapshot};
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .targets = t, .n_targets = 5, .warm = 1};
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 1 && r.n_skipped == 3 && r.n_failed == 0);
    assert_int_equal(r.warm_bytes, mapped());
    assert_true(!is_open(snap, 0) && is_open(snap, 1) && !is_open(snap, 2));
    opt.n_targets = 0; /* none of them */
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 0 && r.n_skipped == 0);
    opt.targets = NULL;
    opt.n_targets = 1;
    assert_int_equal(tamis_snapshot_prepare(snap, &opt, &r, NULL), TAMIS_ERR_RANGE);
    opt.size = 3;
    assert_int_equal(tamis_snapshot_prepare(snap, &opt, &r, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_snapshot_prepare(NULL, NULL, &r, NULL), TAMIS_ERR_RANGE);
    tamis_snapshot_release(snap);
    tamis_snapshot_release(other);
    tamis_store_close(s);
}

/* ---- what is not there ---- */

static void segments_vanish(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = 1 << 20};
    (void)state;
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    const char *first = strstr(file_of(s, "s", "b"), "/filters/");
    drop_segment(s, "b");
    drop_segment(s, "a");
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(r.n_open == 1 && r.n_failed == 2 && r.n_unread == 0);
    assert_true(r.warm_bytes == mapped() && r.locked_bytes == mapped());
    assert_int_equal(diag.code, ENOENT);
    assert_non_null(strstr(diag.file, first)); /* of the two */
    enum tamis_reason why;
    struct tamis_key in = key_in(s, 15);
    in.bytes = NULL;
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &in, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_FILE_LOST);
    tamis_snapshot_release(snap);
    snap = snapshot_of(s); /* and now it is not listed */
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(r.n_open == 1 && r.n_failed == 0 && diag.code == 0);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void pages_vanish(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag;
    struct heard h = {0};
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .fn = hear, .ctx = &h};
    (void)state;
    if (page != PAGE_BYTES)
        return;
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, NULL, &r, NULL));
    assert_int_equal(truncate(file_of(s, "s", "b"), PAGE_BYTES), 0);
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(r.n_open == 3 && r.n_unread == 1 && r.n_failed == 0);
    assert_int_equal(r.warm_bytes, 2 * mapped());
    assert_true(h.n == 2 && h.done == h.total && h.total == 3 * mapped());
    assert_int_equal(diag.code, EIO);
    assert_non_null(strstr(diag.file, "/filters/"));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void tells_how_far_it_is(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_diag diag;
    struct heard h = {0};
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .fn = hear, .ctx = &h};
    (void)state;
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, &opt, &r, &diag));
    assert_true(h.n == 3 && h.done == h.total && h.total == 3 * mapped());
    h = (struct heard){.stop_at = 2};
    assert_int_equal(tamis_snapshot_prepare(snap, &opt, &r, &diag), ECANCELED);
    assert_int_equal(diag.code, ECANCELED);
    assert_true(h.n == 2 && r.n_open == 3 && r.warm_bytes == 2 * mapped());
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* ---- at the same time ---- */

struct preparer {
    struct tamis_store *store;
    struct tamis_key in;
    atomic_bool stop;
    atomic_size_t n;
};

static void *prepare_on(void *ctx)
{
    struct preparer *p = ctx;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = 2 * mapped()};
    while (!atomic_load(&p->stop)) {
        struct tamis_prepare_report r;
        struct tamis_snapshot *snap;
        struct tamis_target t;
        OK(tamis_snapshot_current(p->store, &snap, NULL));
        OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
        assert_int_equal(r.n_open + r.n_failed, tamis_snapshot_n_segments(snap));
        assert_true(r.locked_bytes <= opt.lock_bytes && r.n_unread == 0);
        OK(tamis_snapshot_find(snap, "c", 1, NULL, 0, 0, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &p->in, NULL), TAMIS_MAYBE);
        tamis_snapshot_release(snap);
        atomic_fetch_add(&p->n, 1);
    }
    return NULL;
}

static void threads_prepare_while_segments_come_and_go(void **state)
{
    pthread_t thread[2];
    (void)state;
    struct tamis_store *s = three();
    struct preparer p = {.store = s, .in = key_in(s, 25)};
    for (int i = 0; i < 2; i++)
        OK(pthread_create(&thread[i], NULL, prepare_on, &p));
    for (unsigned i = 0; i < 50 || atomic_load(&p.n) < 100; i++) {
        put_ranked(s, "new", 0);
        drop_segment(s, "new");
    }
    p.stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opens_all_and_reads_none),
        TEST(only_what_is_listed),
        TEST(segments_vanish),
        TEST(pages_vanish),
        TEST(tells_how_far_it_is),
        TEST(threads_prepare_while_segments_come_and_go),
    };
    page = (size_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests_name("store_prepare", tests, NULL, NULL);
}
