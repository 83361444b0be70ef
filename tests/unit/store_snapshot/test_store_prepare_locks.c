/* Preparing snapshots: which segments are locked, within which limits, and until when.
 */
#include "tests/unit/store_snapshot/prepare_support.h"
#include "lib/filter/view.h"

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

/* Segments "a" to "l" in a pack, and "z" after it. */
static struct tamis_store *a_pack_and_a_file(int keep)
{
    struct tamis_store *s = store_new("s");
    struct tamis_pack_options opt = {.size = sizeof opt, .keep = keep};
    struct tamis_pack_report r;
    struct tamis_edit *e = edit_new(s);
    for (unsigned i = 0; i < 12; i++) {
        char name[] = {(char)('a' + i), 0};
        OK(put_keys(e, name, 1000 * i, 300, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, &opt, &r, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(r.n_packed, 12);
    tamis_snapshot_release(snap);
    put_ranked(s, "z", 9);
    return s;
}

/* The call for one segment takes the budget from a pack that has other segments. */
static void a_pack_without_a_target(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    (void)state;
    struct tamis_store *s = a_pack_and_a_file(0);
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 13 && r.lock_error == 0);
    uint64_t of_pack = r.locked_bytes - mapped();
    assert_true(of_pack > 0);
    assert_int_equal(locked_now(), of_pack + mapped());
    struct tamis_target t = tamis_snapshot_target(snap, 12);
    opt.targets = &t;
    opt.n_targets = 1;
    opt.lock_bytes = of_pack + page;
    least_unlocked = SIZE_MAX; /* the pack stays locked, and the rest is the budget */
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(r.lock_error, ENOMEM);
    assert_true(r.locked_bytes < of_pack + page);
    least_unlocked = 0;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 1 && r.lock_error == 0);
    assert_int_equal(r.locked_bytes, mapped());
    assert_int_equal(locked_now(), mapped());
    t = tamis_snapshot_target(snap, 0); /* one column is enough to keep it */
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(r.locked_bytes, of_pack);
    assert_int_equal(locked_now(), of_pack);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void pack_path(struct tamis_snapshot *snap, char path[4096])
{
    struct tamis_pack_place place;
    OK(tamis_snapshot_pack(snap, 0, NULL, &place));
    snprintf(path, 4096, "%s/", path_of("s/filters"));
    for (size_t i = 0; i < sizeof place.uuid; i++)
        snprintf(path + strlen(path), 3, "%02x", place.uuid[i]);
    strcat(path, ".tamis");
}

/* While a pack was missing, its segments' own files were locked in its place. */
static void a_pack_that_comes_back(void **state)
{
    struct tamis_prepare_report r;
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    char path[4096], away[4096];
    (void)state;
    struct tamis_store *s = a_pack_and_a_file(1);
    struct tamis_snapshot *snap = snapshot_of(s);
    pack_path(snap, path);
    snprintf(away, sizeof away, "%s", path_of("away"));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    OK(rename(path, away));
    s = store_open("s");
    snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_int_equal(locked_now(), 13 * mapped());
    OK(rename(away, path));
    put_ranked(s, "y", 10);
    struct tamis_snapshot *fresh = snapshot_of(s);
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    assert_int_equal(locked_now(), r.locked_bytes);
    assert_int_equal(locked_of(fresh, 0), 0);
    assert_int_equal(locked_of(fresh, 12), FILTER_BYTES);
    tamis_snapshot_release(snap);
    tamis_snapshot_release(fresh);
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_ranks_are_locked),     TEST(the_budget_is_for_all_of_them),
        TEST(what_cannot_be_unlocked),        TEST(a_filter_that_is_there_twice),
        TEST(a_pack_without_a_target),        TEST(a_pack_that_comes_back),
        TEST(the_limit_is_told_not_an_error), TEST(filters_of_the_callers),
    };
    page = (size_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests_name("store_prepare_locks", tests, NULL, NULL);
}
