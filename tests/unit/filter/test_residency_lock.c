/* Locking a filter in memory: as much as the budget and the limit allow; children, and
 * filters that grow. */
#include "tests/unit/filter/residency_support.h"

/* ---- locking ---- */

static void locks_within_the_budget(void **state)
{
    (void)state;
    const char *path = build_large();
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    uint64_t whole = round_up(commit_of(path).committed_bytes), budget = 64 << 20;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    assert_int_equal(budget, (64 << 20) - whole);
    assert_int_equal(locked_now(), whole);
    struct tamis_residency r = residency(f);
    assert_int_equal(r.n_resident, r.n_pages);
    budget = whole;
    assert_int_equal(tamis_filter_lock(f, &budget), 0); /* again costs nothing */
    assert_int_equal(budget, 0);
    assert_int_equal(locked_now(), whole);
    budget = (3 << 20) + page - 1; /* less: the rest is let go */
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    assert_int_equal(budget, page - 1);
    assert_int_equal(locked_now(), 3 << 20);
    budget = page - 1;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    assert_int_equal(budget, page - 1);
    assert_int_equal(locked_now(), 0);
    budget = whole;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    tamis_filter_close(f); /* and so ends the lock */
    assert_int_equal(locked_now(), 0);
}

static void a_part_is_read_and_no_more(void **state)
{
    (void)state;
    const char *path = build_large();
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    struct tamis_residency before = residency(f), after;
    uint64_t budget = HUGE_PAGE_BYTES + 65536; /* of the bits 64 KiB */
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    after = residency(f);
    assert_true(after.n_resident >= 65536 / page);
    if (before.n_resident < before.n_pages)
        assert_true(after.n_resident < after.n_pages / 2);
    tamis_filter_close(f);
}

static int lock_nothing(void *ctx)
{
    struct tamis_filter *f = ctx;
    uint64_t budget = 64 << 20;
    limit_locking(0);
    if (tamis_filter_lock(f, &budget) != EPERM || budget != 64 << 20 || locked_now())
        return 1;
    if (count_absent(f, keys, N_ASKED) != 0 || tamis_filter_warm(f, NULL, NULL) != 0)
        return 2;
    budget = 0;
    return tamis_filter_lock(f, &budget) == 0 ? 0 : 3;
}

/* It leaves no room for a second mapping: large reads all the same. */
static int lock_and_warm(void *ctx)
{
    struct tamis_filter *f = ctx;
    uint64_t whole = round_up(atomic_load(&f->view)->map.n_bytes), budget = whole;
    struct rusage before, after;
    limit_locking(whole);
    getrusage(RUSAGE_SELF, &before);
    if (tamis_filter_lock(f, &budget) != 0 || budget != 0 || locked_now() != whole)
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
        if (tamis_filter_lock(f, &budget) != ENOMEM || locked_now() != (1 << 20) + page)
            return 1;
        if (budget != (63 << 20) - page)
            return 2;
        budget = 64 << 20;
    }
    budget = 65536;
    if (tamis_filter_lock(f, &budget) != 0 || locked_now() != 65536)
        return 3;
    return count_absent(f, keys, N_ASKED) == 0 ? 0 : 4;
}

static void the_limit_is_told(void **state)
{
    (void)state;
    const char *path = build_large();
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    in_child(lock_and_warm, f);
    in_child(lock_nothing, f);
    in_child(lock_some, f);
    tamis_filter_close(f);
}

static int has_no_lock(void *ctx)
{
    return locked_now() != 0 || count_absent(ctx, keys, 1000) != 0;
}

static void a_child_has_no_lock(void **state)
{
    (void)state;
    struct tamis_filter *f = open_filter(build("small", 1000, 0.01));
    uint64_t budget = 1 << 20;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    in_child(has_no_lock, f);
    tamis_filter_close(f);
}

/* ---- growing ---- */

static void means_what_is_mapped_now(void **state)
{
    (void)state;
    const char *path = path_of("growing");
    uint64_t budget = 64 << 20;
    struct tamis_writer *w = create_writer(path, 0.001, 2, 1000);
    add_hashes(w, keys, 1000);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    uint64_t first = locked_now(), n_pages = residency(f).n_pages;
    assert_true(first >= n_pages * page);
    add_hashes(w, keys, 20000);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    struct tamis_residency r = residency(f); /* looks, and notices */
    assert_true(r.n_pages > 4 * n_pages);
    assert_int_equal(locked_now(), first); /* of the older mapping */
    budget = 64 << 20;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    uint64_t whole = round_up(commit_of(path).committed_bytes);
    assert_int_equal(locked_now(), whole); /* once */
    assert_int_equal(tamis_filter_warm(f, NULL, NULL), 0);
    r = residency(f);
    assert_int_equal(r.n_resident, r.n_pages);
    assert_int_equal(count_absent(f, keys, 20000), 0);
    tamis_filter_close(f);
    assert_int_equal(locked_now(), 0);
    assert_int_equal(tamis_writer_close(w), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_within_the_budget),
        cmocka_unit_test(a_part_is_read_and_no_more),
        cmocka_unit_test(the_limit_is_told),
        cmocka_unit_test(a_child_has_no_lock),
        cmocka_unit_test(means_what_is_mapped_now),
    };
    return cmocka_run_group_tests_name("residency: lock", tests, setup, teardown);
}
