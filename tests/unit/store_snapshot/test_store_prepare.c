/* Preparing snapshots: what is opened, read in and locked, in which order, and what is
 * told of the rest. */
#include "tests/support/store_support.h"

#include <pthread.h>
#include <sys/mman.h>

#include "tests/support/locked.h"
#include "lib/filter/view.h"

enum { FILTER_BYTES = 8192 }; /* of a few keys */

/* Is this address in a mapping that is locked? */
static bool is_locked(const void *at)
{
    unsigned long begin, end;
    char line[512];
    bool here = false, locked = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = (uintptr_t)at >= begin && (uintptr_t)at < end;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            locked = strstr(line, " lo") != NULL;
    }
    fclose(maps);
    return locked;
}

/* How many bytes of a segment's filter are locked, by pages of ours. */
static size_t locked_of(struct tamis_snapshot *snap, size_t i)
{
    struct tamis_filter *f = atomic_load(&snap->entries[i]->filter);
    size_t n = 0;
    if (!f)
        return 0;
    const struct mapping *m = &atomic_load(&f->view)->map;
    for (size_t at = 0; at < m->n_bytes; at += PAGE_BYTES)
        n += is_locked(m->base + at) ? PAGE_BYTES : 0;
    return n;
}

static bool is_open(struct tamis_snapshot *snap, size_t i)
{
    return atomic_load(&snap->entries[i]->filter) != NULL;
}

static void put_ranked(struct tamis_store *s, const char *name, uint32_t rank)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .rank = rank};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, name, rank * 10, 10, &opt));
    OK(tamis_edit_commit(e, NULL));
}

/* Three segments of rank 1, 2 and 3, made in another order. */
static struct tamis_store *three(void)
{
    struct tamis_store *s = store_new("s");
    put_ranked(s, "a", 3);
    put_ranked(s, "b", 1);
    put_ranked(s, "c", 2);
    return s;
}

static size_t page; /* of the machine's; where it is larger, filters fill no more */

static uint64_t mapped(void)
{
    return (FILTER_BYTES + page - 1) / page * page;
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

static void the_first_ranks_are_locked(void **state)
{
    struct tamis_prepare_report r;
    (void)state;
    struct tamis_store *s = three();
    struct tamis_prepare_options opt = {.size = sizeof opt,
                                        .lock_bytes = mapped() + page + page / 2};
    struct tamis_snapshot *snap = snapshot_of(s), *fresh;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 3 && r.lock_error == 0);
    assert_int_equal(r.locked_bytes, mapped() + page);
    assert_int_equal(r.warm_bytes, mapped() + page); /* what is locked is read */
    assert_int_equal(locked_of(snap, 0), FILTER_BYTES);
    assert_int_equal(locked_of(snap, 1), page < FILTER_BYTES ? page : FILTER_BYTES);
    assert_int_equal(locked_of(snap, 2), 0);
    /* A newer one takes the budget from older ones. */
    put_ranked(s, "d", 0);
    fresh = snapshot_of(s);
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    assert_int_equal(r.locked_bytes, mapped() + page);
    assert_int_equal(locked_of(fresh, 0), FILTER_BYTES);
    assert_int_equal(locked_of(fresh, 1), page < FILTER_BYTES ? page : FILTER_BYTES);
    assert_int_equal(locked_of(fresh, 2), 0);
    assert_int_equal(locked_of(fresh, 3), 0);
    opt.lock_bytes = 0; /* leaves them alone */
    opt.warm = 1;
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    assert_int_equal(r.locked_bytes, 0);
    assert_int_equal(r.warm_bytes, 4 * mapped());
    assert_int_equal(locked_of(fresh, 0), FILTER_BYTES);
    opt.lock_bytes = UINT64_MAX;
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    assert_int_equal(r.locked_bytes, 4 * mapped());
    assert_int_equal(locked_of(fresh, 3), FILTER_BYTES);
    tamis_snapshot_release(snap);
    tamis_snapshot_release(fresh);
    tamis_store_close(s);
}

static void the_budget_is_for_all_of_them(void **state)
{
    struct tamis_prepare_report r;
    (void)state;
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(locked_now(), 3 * mapped());
    struct tamis_target t = tamis_snapshot_target(snap, 1);
    opt.targets = &t;
    opt.n_targets = 1;
    opt.lock_bytes = 2 * mapped();
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 1 && r.lock_error == 0);
    assert_int_equal(r.locked_bytes, mapped());
    assert_int_equal(locked_now(), mapped());
    assert_int_equal(locked_of(snap, 1), FILTER_BYTES);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void what_cannot_be_unlocked(void **state)
{
    struct tamis_prepare_report r;
    (void)state;
    if (page != PAGE_BYTES)
        return; /* filters of one page have no part */
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    least_unlocked = mapped(); /* in whole only */
    opt.lock_bytes = page;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(r.lock_error, ENOMEM);
    assert_int_equal(r.locked_bytes, page);
    assert_int_equal(locked_now(), page);
    least_unlocked = 0;
    opt.lock_bytes = UINT64_MAX;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    least_unlocked = SIZE_MAX; /* the second is in the way of the third */
    struct tamis_target t[2] = {tamis_snapshot_target(snap, 1),
                                tamis_snapshot_target(snap, 2)};
    opt.targets = t;
    opt.n_targets = 2;
    opt.lock_bytes = mapped() + page;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(r.lock_error, ENOMEM);
    assert_int_equal(r.locked_bytes, page); /* the first one is still locked */
    least_unlocked = 0;
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void a_filter_that_is_there_twice(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_domain d;
    struct tamis_snapshot *snap;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = mapped() + page};
    (void)state;
    OK(tamis_domain_init(&d, 1, 5));
    build_file(path_of("one"), &d, "one", NULL, NULL);
    build_file(path_of("two"), &d, "two", NULL, NULL);
    struct tamis_filter *one = open_filter(path_of("one"));
    struct tamis_filter *two = open_filter(path_of("two"));
    struct tamis_filter *f[] = {one, one, two, one};
    OK(tamis_snapshot_from_filters(f, 4, &snap));
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(r.n_open, 4);
    assert_int_equal(r.open_bytes, 2 * mapped());
    assert_int_equal(r.warm_bytes, 2 * mapped());
    assert_int_equal(r.locked_bytes, mapped() + page);
    assert_int_equal(locked_now(), mapped() + page);
    assert_int_equal(locked_of(snap, 0), FILTER_BYTES);
    tamis_snapshot_release(snap);
    tamis_filter_close(one);
    tamis_filter_close(two);
}

/* ---- limits ---- */

struct limited {
    struct tamis_snapshot *snap;
    rlim_t limit;
    int error;           /* what is told */
    size_t locked[3];    /* of each */
    uint64_t lock_bytes; /* wanted */
};

static int prepare_limited(void *ctx)
{
    const struct limited *l = ctx;
    struct tamis_prepare_report r;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .lock_bytes = l->lock_bytes, .warm = 1};
    uint64_t budget = 3 * mapped();
    struct tamis_filter *last;
    limit_locking(l->limit);
    /* The last one is in the way of the first. */
    if (tamis_snapshot_filter(l->snap, 2, &last, NULL) != 0)
        return 2;
    tamis_filter_lock(last, &budget);
    if (tamis_snapshot_prepare(l->snap, &opt, &r, NULL) != 0)
        return 3;
    if (r.n_open != 3 || r.warm_bytes != 3 * mapped() || r.lock_error != l->error)
        return 4;
    for (size_t i = 0; i < 3; i++)
        if (locked_of(l->snap, i) != l->locked[i])
            return 5;
    return 0;
}

static void the_limit_is_told_not_an_error(void **state)
{
    enum { WHOLE = FILTER_BYTES };
    (void)state;
    if (page != PAGE_BYTES)
        return; /* the numbers below are for pages of 4096 */
    struct tamis_store *s = three();
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, NULL, NULL, NULL)); /* opened by who may */
    struct limited cases[] = {
        {snap, 0, EPERM, {0, 0, 0}, 1 << 20},
        {snap, 4096, ENOMEM, {4096, 0, 0}, 1 << 20},
        {snap, WHOLE, ENOMEM, {WHOLE, 0, 0}, 1 << 20},
        {snap, WHOLE + 4096, ENOMEM, {WHOLE, 4096, 0}, 1 << 20},
        {snap, 3 * WHOLE, 0, {WHOLE, WHOLE, WHOLE}, 1 << 20},
        {snap, WHOLE, 0, {4096, 0, 0}, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        in_child(prepare_limited, &cases[i]);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* ---- what is not there ---- */

struct heard {
    unsigned n, stop_at;
    uint64_t done, total;
};

static int hear(void *ctx, uint64_t done, uint64_t total)
{
    struct heard *h = ctx;
    assert_true(done > h->done && done <= total && (!h->n || total == h->total));
    h->done = done;
    h->total = total;
    return ++h->n == h->stop_at;
}

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

static void filters_of_the_callers(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_domain d;
    struct tamis_filter *f[2];
    struct tamis_snapshot *snap;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = mapped()};
    (void)state;
    OK(tamis_domain_init(&d, 1, 5));
    build_file(path_of("one"), &d, "one", NULL, NULL);
    build_file(path_of("two"), &d, "two", NULL, NULL);
    f[0] = open_filter(path_of("one"));
    f[1] = open_filter(path_of("two"));
    OK(tamis_snapshot_from_filters(f, 2, &snap));
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 2 && r.warm_bytes == 2 * mapped());
    assert_int_equal(r.locked_bytes, mapped());
    assert_int_equal(locked_of(snap, 0), FILTER_BYTES);
    assert_int_equal(locked_of(snap, 1), 0);
    tamis_snapshot_release(snap);
    tamis_filter_close(f[0]);
    tamis_filter_close(f[1]);
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
        TEST(the_first_ranks_are_locked),
        TEST(the_budget_is_for_all_of_them),
        TEST(what_cannot_be_unlocked),
        TEST(a_filter_that_is_there_twice),
        TEST(the_limit_is_told_not_an_error),
        TEST(segments_vanish),
        TEST(pages_vanish),
        TEST(tells_how_far_it_is),
        TEST(filters_of_the_callers),
        TEST(threads_prepare_while_segments_come_and_go),
    };
    page = (size_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests_name("store_prepare", tests, NULL, NULL);
}
