/* Preparing snapshots: which segments are locked, in which limits, and until when. */
#include "tests/support/store_packs.h"
#include "tests/unit/store_snapshot/prepare_support.h"

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

TEST_IN_DIR(the_first_ranks_are_locked)
{
    struct tamis_prepare_report r;
    STORE s = three();
    struct tamis_prepare_options opt = {.size = sizeof opt,
                                        .lock_bytes = mapped() + page + page / 2};
    SNAPSHOT snap = snapshot_of(s), fresh;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 3 && r.lock_error == 0);
    IS(r.locked_bytes, mapped() + page);
    IS(r.warm_bytes, mapped() + page); /* what is locked is read */
    IS(locked_of(snap, 0), FILTER_BYTES);
    IS(locked_of(snap, 1), page < FILTER_BYTES ? page : FILTER_BYTES);
    IS(locked_of(snap, 2), 0);
    /* A newer one takes the budget from older ones. */
    put_ranked(s, "d", 0);
    fresh = snapshot_of(s);
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    IS(r.locked_bytes, mapped() + page);
    IS(locked_of(fresh, 0), FILTER_BYTES);
    IS(locked_of(fresh, 1), page < FILTER_BYTES ? page : FILTER_BYTES);
    IS(locked_of(fresh, 2), 0);
    IS(locked_of(fresh, 3), 0);
    opt.lock_bytes = 0; /* leaves them alone */
    opt.warm = 1;
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    IS(r.locked_bytes, 0);
    IS(r.warm_bytes, 4 * mapped());
    IS(locked_of(fresh, 0), FILTER_BYTES);
    opt.lock_bytes = UINT64_MAX;
    OK(tamis_snapshot_prepare(fresh, &opt, &r, NULL));
    IS(r.locked_bytes, 4 * mapped());
    IS(locked_of(fresh, 3), FILTER_BYTES);
}

TEST_IN_DIR(the_budget_is_for_all_of_them)
{
    struct tamis_prepare_report r;
    STORE s = three();
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    IS(locked_now(), 3 * mapped());
    struct tamis_target t = tamis_snapshot_target(snap, 1);
    opt.targets = &t;
    opt.n_targets = 1;
    opt.lock_bytes = 2 * mapped();
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 1 && r.lock_error == 0);
    IS(r.locked_bytes, mapped());
    IS(locked_now(), mapped());
    IS(locked_of(snap, 1), FILTER_BYTES);
}

TEST_IN_DIR(what_cannot_be_unlocked)
{
    struct tamis_prepare_report r;
    if (page != PAGE_BYTES)
        return; /* filters of one page have no part */
    STORE s = three();
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    least_unlocked = mapped(); /* in whole only */
    opt.lock_bytes = page;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    IS(r.lock_error, ENOMEM);
    IS(r.locked_bytes, page);
    IS(locked_now(), page);
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
    IS(r.lock_error, ENOMEM);
    IS(r.locked_bytes, page); /* the first one is still locked */
    least_unlocked = 0;
}

TEST_IN_DIR(a_filter_that_is_there_twice)
{
    struct tamis_prepare_report r;
    struct tamis_domain d;
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = mapped() + page};
    OK(tamis_domain_init(&d, 1, 5));
    build_file(path_of("one"), &d, "one", NULL, NULL);
    build_file(path_of("two"), &d, "two", NULL, NULL);
    FILTER one = open_filter(path_of("one"));
    FILTER two = open_filter(path_of("two"));
    SNAPSHOT snap;
    struct tamis_filter *f[] = {one, one, two, one};
    OK(tamis_snapshot_from_filters(f, 4, 0, &snap));
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    IS(r.n_open, 4);
    IS(r.open_bytes, 2 * mapped());
    IS(r.warm_bytes, 2 * mapped());
    IS(r.locked_bytes, mapped() + page);
    IS(locked_now(), mapped() + page);
    IS(locked_of(snap, 0), FILTER_BYTES);
}

/* The call for one segment takes the budget from a pack that has other segments. */
TEST_IN_DIR(a_pack_without_a_target)
{
    struct tamis_prepare_report r;
    struct tamis_prepare_options opt = {.size = sizeof opt, .lock_bytes = UINT64_MAX};
    STORE s = store_of("s", 12, 300);
    IS(pack_all(s).n_packed, 12);
    put_ranked(s, "z", 9);
    SNAPSHOT snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 13 && r.lock_error == 0);
    uint64_t of_pack = r.locked_bytes - mapped();
    assert_true(of_pack > 0);
    IS(locked_now(), of_pack + mapped());
    struct tamis_target t = found_in(snap, "z");
    opt.targets = &t;
    opt.n_targets = 1;
    opt.lock_bytes = of_pack + page;
    least_unlocked = SIZE_MAX; /* the pack stays locked, and the rest is the budget */
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    IS(r.lock_error, ENOMEM);
    assert_true(r.locked_bytes < of_pack + page);
    least_unlocked = 0;
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    assert_true(r.n_open == 1 && r.lock_error == 0);
    IS(r.locked_bytes, mapped());
    IS(locked_now(), mapped());
    t = found_in(snap, "s0"); /* one column is enough to keep it */
    OK(tamis_snapshot_prepare(snap, &opt, &r, NULL));
    IS(r.locked_bytes, of_pack);
    IS(locked_now(), of_pack);
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
    filter_lock_first(last, budget, &budget);
    if (tamis_snapshot_prepare(l->snap, &opt, &r, NULL) != 0)
        return 3;
    if (r.n_open != 3 || r.warm_bytes != 3 * mapped() || r.lock_error != l->error)
        return 4;
    for (size_t i = 0; i < 3; i++)
        if (locked_of(l->snap, i) != l->locked[i])
            return 5;
    return 0;
}

TEST_IN_DIR(the_limit_is_told_not_an_error)
{
    enum { WHOLE = FILTER_BYTES };
    if (page != PAGE_BYTES)
        return; /* the numbers below are for pages of 4096 */
    STORE s = three();
    SNAPSHOT snap = snapshot_of(s);
    OK(tamis_snapshot_prepare(snap, NULL, NULL, NULL)); /* opened by who may */
    struct limited cases[] = {
        {snap, 0, EPERM, {0, 0, 0}, 1 << 20},
        {snap, 4096, ENOMEM, {4096, 0, 0}, 1 << 20},
        {snap, WHOLE, ENOMEM, {WHOLE, 0, 0}, 1 << 20},
        {snap, WHOLE + 4096, ENOMEM, {WHOLE, 4096, 0}, 1 << 20},
        {snap, 3 * WHOLE, 0, {WHOLE, WHOLE, WHOLE}, 1 << 20},
        {snap, WHOLE, 0, {4096, 0, 0}, 4096},
    };
    for (size_t i = 0; i < N_OF(cases); i++)
        in_child(prepare_limited, &cases[i]);
}

int main(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    return run_listed_tests(NULL, NULL);
}
