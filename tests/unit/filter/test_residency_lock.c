/* Locking a filter in memory: as much as the budget and the limit allow; children, and
 * filters that grow. */
#include "tests/unit/filter/residency_support.h"

/* ---- locking ---- */

TEST(locks_within_the_budget)
{
    const char *path = build_large();
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    uint64_t whole = round_up(commit_of(path).committed_bytes), budget = 64 << 20;
    IS(lock_within(f, &budget), 0);
    IS(budget, (64 << 20) - whole);
    IS(locked_now(), whole);
    struct tamis_residency r = residency(f);
    IS(r.n_resident, r.n_pages);
    budget = whole;
    IS(lock_within(f, &budget), 0); /* again costs nothing */
    IS(budget, 0);
    IS(locked_now(), whole);
    budget = (3 << 20) + page - 1; /* less: the rest is let go */
    IS(lock_within(f, &budget), 0);
    IS(budget, page - 1);
    IS(locked_now(), 3 << 20);
    budget = page - 1;
    IS(lock_within(f, &budget), 0);
    IS(budget, page - 1);
    IS(locked_now(), 0);
    budget = whole;
    IS(lock_within(f, &budget), 0);
    tamis_filter_close(f); /* and so ends the lock */
    IS(locked_now(), 0);
}

TEST(a_part_is_read_and_no_more)
{
    const char *path = build_large();
    make_cold(path);
    FILTER f = open_filter(path);
    struct tamis_residency before = residency(f), after;
    uint64_t budget = HUGE_PAGE_BYTES + 65536; /* of the bits 64 KiB */
    IS(lock_within(f, &budget), 0);
    after = residency(f);
    assert_true(after.n_resident >= 65536 / page);
    if (before.n_resident < before.n_pages)
        assert_true(after.n_resident < after.n_pages / 2);
}

static int lock_nothing(void *ctx)
{
    struct tamis_filter *f = ctx;
    uint64_t budget = 64 << 20;
    limit_locking(0);
    if (lock_within(f, &budget) != EPERM || budget != 64 << 20 || locked_now())
        return 1;
    if (count_absent(f, keys, N_ASKED) != 0 || tamis_filter_warm(f, NULL, NULL) != 0)
        return 2;
    budget = 0;
    return lock_within(f, &budget) == 0 ? 0 : 3;
}

/* It leaves no room for a second mapping: large reads all the same. */
static int lock_and_warm(void *ctx)
{
    struct tamis_filter *f = ctx;
    uint64_t whole = round_up(atomic_load(&f->view)->map.n_bytes), budget = whole;
    struct rusage before, after;
    limit_locking(whole);
    getrusage(RUSAGE_SELF, &before);
    if (lock_within(f, &budget) != 0 || budget != 0 || locked_now() != whole)
        return 1;
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_majflt - before.ru_majflt >= (long)(whole / page / 8))
        return 2;
    struct tamis_residency r;
    if (tamis_filter_residency(f, &r) != 0 || r.n_resident != r.n_pages)
        return 3;
    return count_absent(f, keys, N_ASKED) == 0 ? 0 : 4;
}

static int lock_some(void *ctx)
{
    struct tamis_filter *f = ctx;
    uint64_t budget = 64 << 20;
    limit_locking((1 << 20) + page);
    for (int i = 0; i < 2; i++) {
        if (lock_within(f, &budget) != ENOMEM || locked_now() != (1 << 20) + page)
            return 1;
        if (budget != (63 << 20) - page)
            return 2;
        budget = 64 << 20;
    }
    budget = 65536;
    if (lock_within(f, &budget) != 0 || locked_now() != 65536)
        return 3;
    return count_absent(f, keys, N_ASKED) == 0 ? 0 : 4;
}

TEST(the_limit_is_told)
{
    const char *path = build_large();
    make_cold(path);
    FILTER f = open_filter(path);
    in_child(lock_and_warm, f);
    in_child(lock_nothing, f);
    in_child(lock_some, f);
}

static int has_no_lock(void *ctx)
{
    return locked_now() != 0 || count_absent(ctx, keys, 1000) != 0;
}

TEST(a_child_has_no_lock)
{
    FILTER f = open_filter(build("small", 1000, 0.01));
    uint64_t budget = 1 << 20;
    IS(lock_within(f, &budget), 0);
    in_child(has_no_lock, f);
}

/* ---- growing ---- */

TEST(means_what_is_mapped_now)
{
    const char *path = path_of("growing");
    uint64_t budget = 64 << 20;
    WRITER w = create_writer(path, 0.001, 2, 1000);
    add_hashes(w, keys, 1000);
    OK(tamis_writer_commit(w, 1, NULL));
    struct tamis_filter *f = open_filter(path);
    IS(lock_within(f, &budget), 0);
    uint64_t first = locked_now(), n_pages = residency(f).n_pages;
    assert_true(first >= n_pages * page);
    add_hashes(w, keys, 20000);
    OK(tamis_writer_commit(w, 2, NULL));
    struct tamis_residency r = residency(f); /* looks, and notices */
    assert_true(r.n_pages > 4 * n_pages);
    IS(locked_now(), first); /* of the older mapping */
    budget = 64 << 20;
    IS(lock_within(f, &budget), 0);
    uint64_t whole = round_up(commit_of(path).committed_bytes);
    IS(locked_now(), whole); /* once */
    OK(tamis_filter_warm(f, NULL, NULL));
    r = residency(f);
    IS(r.n_resident, r.n_pages);
    IS(count_absent(f, keys, 20000), 0);
    tamis_filter_close(f);
    IS(locked_now(), 0);
}

RUN_TESTS(set_up, test_dir_remove)
