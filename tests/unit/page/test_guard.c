/* The SIGBUS guard and readers (R15): pages that cannot be had say MAYBE, the others
 * answer as before, and no loss is taken for a good page. */
#include "tests/support/guard_support.h"

#include "lib/filter/view.h"

enum { N_KEYS = 60 * 1000, N_OTHERS = 20 * 1000 };
static uint64_t keys[N_KEYS], others[N_OTHERS];

static int set_up(void **state)
{
    random_hashes(keys, N_KEYS);
    random_hashes(others, N_OTHERS);
    return test_dir_create(state);
}

/* Nothing is lost; keys that have a page before `kept` are told to be absent as before,
 * those that have none never. */
static void check_cut(struct tamis_filter *f, const struct stage_desc *d, uint64_t kept)
{
    size_t n[2] = {0}, n_absent[2] = {0};
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    for (size_t i = 0; i < N_OTHERS; i++) {
        bool has_page = false;
        for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
            has_page |= page_in(&d->geometry, lane, others[i]) < kept;
        n[has_page]++;
        n_absent[has_page] += ask(f, others[i], NULL) == TAMIS_ABSENT;
    }
    assert_true(n[false] > 1000 && n[true] > 1000);
    assert_int_equal(n_absent[false], 0);
    assert_in_range(n_absent[true], n[true] * 8 / 10, n[true]);
}

static void test_sealed_cut_short(void **state)
{
    const char *path = path_of("sealed-cut");
    struct tamis_verify report;
    enum tamis_reason why;
    (void)state;
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    struct stage_desc *d = &c.stages[0];
    uint64_t n_pages = d->length / PAGE_BYTES, kept = n_pages / 3;

    struct tamis_filter *f = open_filter(path), *fresh = open_filter(path);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    cut(path, d->offset + kept * PAGE_BYTES);
    check_cut(f, d, kept);
    /* Found good before, and then lost; never looked at. */
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(ask(f, keys[i], &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_HIT);
        assert_int_equal(ask(fresh, keys[i], &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_DAMAGED);
    }
    /* Without digests no page can be checked. */
    assert_int_equal(count_absent(fresh, keys, N_KEYS), 0);
    assert_int_equal(count_absent(fresh, others, N_OTHERS), 0);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    assert_in_range(report.n_damaged, n_pages - kept, n_pages);
    tamis_filter_close(f);
    tamis_filter_close(fresh);
    /* And who opens it now is told at once. */
    assert_int_equal(tamis_filter_open(path, NULL, &f, NULL), TAMIS_ERR_DAMAGED);
}

static void test_digests_cut_off(void **state)
{
    const char *path = path_of("digests-cut");
    struct tamis_verify report;
    (void)state;
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    struct tamis_filter *f = open_filter(path);
    cut(path, c.stages[0].digests_offset);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(count_absent(f, others, N_OTHERS), 0);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(report.n_damaged, c.stages[0].length / PAGE_BYTES);
    tamis_filter_close(f);
}

/* One stage, all keys in it, no writer. */
static struct commit open_stage(const char *path)
{
    struct tamis_writer *w = create_writer(path, 0.01, 2, 2 * N_KEYS);
    add_hashes(w, keys, N_KEYS);
    assert_int_equal(tamis_writer_close(w), 0);
    struct commit c = commit_of(path);
    assert_int_equal(c.n_stages, 1);
    return c;
}

static void test_open_cut_short(void **state)
{
    const char *path = path_of("open-cut");
    struct tamis_verify report;
    (void)state;
    struct commit c = open_stage(path);
    struct stage_desc *d = &c.stages[0];
    struct tamis_filter *f = open_filter(path), *fresh = open_filter(path);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    uint64_t kept = report.n_pages / 3;
    cut(path, d->offset + kept * PAGE_BYTES);
    check_cut(f, d, kept);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);

    assert_int_equal(count_absent(fresh, keys, N_KEYS), 0);
    assert_int_equal(count_absent(fresh, others, N_OTHERS), 0); /* no floors */
    tamis_filter_close(f);
    tamis_filter_close(fresh);
}

static void test_floors_cut_off(void **state)
{
    const char *path = path_of("floors-cut");
    struct tamis_verify report;
    enum tamis_reason why;
    (void)state;
    struct commit c = open_stage(path);
    struct tamis_filter *f = open_filter(path), *fresh = open_filter(path);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    cut(path, c.stages[0].floors_offset);
    /* Pages that were found good may be used. */
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    assert_int_equal(count_absent(fresh, others, N_OTHERS), 0);
    assert_int_equal(ask(fresh, keys[0], &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_DAMAGED);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    tamis_filter_close(f);
    tamis_filter_close(fresh);
}

static void test_cut_to_nothing(void **state)
{
    const char *path = path_of("nothing");
    struct tamis_verify report;
    enum tamis_reason why;
    (void)state;
    open_stage(path);
    struct tamis_filter *growing = open_filter(path);
    cut(path, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(growing, others[i], &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_UNREADABLE);
    }
    assert_int_not_equal(tamis_filter_verify(growing, &report, NULL), 0);
    tamis_filter_close(growing);

    build_filter(path_of("nothing-sealed"), keys, N_KEYS);
    struct tamis_filter *sealed = open_filter(path_of("nothing-sealed"));
    struct tamis_filter_info info;
    cut(path_of("nothing-sealed"), 0);
    assert_int_equal(count_absent(sealed, keys, N_KEYS), 0);
    assert_int_equal(count_absent(sealed, others, N_OTHERS), 0);
    assert_int_equal(tamis_filter_verify(sealed, &report, NULL), EIO);
    assert_int_equal(tamis_filter_info(sealed, &info), EIO);
    tamis_filter_close(sealed);
}

static void test_every_mode(void **state)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_FULL,
                                             TAMIS_CHECK_STRICT, TAMIS_CHECK_NONE};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const char *path = path_of("mode");
        struct tamis_filter_options opt = {.size = sizeof opt, .check = modes[i]};
        /* Strict digests two pages a probe. */
        size_t n = modes[i] == TAMIS_CHECK_STRICT ? N_KEYS / 10 : N_KEYS;
        struct tamis_filter *f;
        unlink(path);
        build_filter(path, keys, N_KEYS);
        assert_int_equal(tamis_filter_open(path, &opt, &f, NULL), 0);
        struct commit c = commit_of(path);
        /* In the middle of a page the rest of it becomes zeros, which only those see
         * who look at the page each time. */
        assert_int_equal(count_absent(f, keys, n), 0);
        cut(path, c.stages[0].offset + 2 * PAGE_BYTES +
                      (modes[i] == TAMIS_CHECK_STRICT ? 100 : 0));
        assert_int_equal(count_absent(f, keys, n), 0);

        tamis_filter_close(f);
    }
}

static void test_lost_page_of_open_stage(void **state)
{
    const char *path = path_of("one-page");
    struct tamis_verify report;
    enum tamis_reason why;
    (void)state;
    struct commit c = open_stage(path);
    struct stage_desc *d = &c.stages[0];
    struct tamis_filter *f = open_filter(path), *again;
    for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
        lose(atomic_load(&f->view)->stages[0].bits +
             page_in(&d->geometry, lane, others[0]) * PAGE_BYTES);
    assert_int_equal(ask(f, others[0], &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_DAMAGED);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(report.n_damaged, d->geometry.lanes);
    assert_int_equal(report.first_damaged,
                     d->offset + page_in(&d->geometry, 0, others[0]) * PAGE_BYTES);
    /* The loss is of this mapping only. */
    again = open_filter(path);
    assert_int_equal(ask(again, others[0], &why), TAMIS_ABSENT);
    assert_int_equal(tamis_filter_verify(again, &report, NULL), 0);
    tamis_filter_close(again);
    tamis_filter_close(f);
}

/* Found good first, and lost then: verify must not go by what was remembered. */
static void test_verify_does_not_trust_its_memory(void **state)
{
    const char *path = path_of("memory");
    struct tamis_verify report;
    (void)state;
    open_stage(path);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    lose(atomic_load(&f->view)->stages[0].bits);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(report.n_damaged, 1);
    tamis_filter_close(f);
}

static void test_growth_looks_afresh(void **state)
{
    const char *path = path_of("afresh");
    struct tamis_verify report;
    (void)state;
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    struct tamis_filter *f = open_filter(path);
    lose(atomic_load(&f->view)->stages[0].bits);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    add_hashes(w, keys + 500, 1500);
    assert_int_equal(count_absent(f, keys, 2000), 0);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    assert_true(report.n_pages > 1);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    assert_int_equal(tamis_writer_close(w), 0);
    tamis_filter_close(f);
}

/* The page that a reader of an open filter looks at first of all. */
static void test_lost_header_of_open_filter(void **state)
{
    const char *path = path_of("header");
    (void)state;
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    struct tamis_filter *f = open_filter(path);
    lose(atomic_load(&f->view)->live_sequence);
    assert_int_equal(count_absent(f, keys, 500), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    add_hashes(w, keys + 500, 2500); /* it still notices growth */
    assert_int_equal(count_absent(f, keys, 3000), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_GUARD(test_sealed_cut_short),
        TEST_WITH_GUARD(test_digests_cut_off),
        TEST_WITH_GUARD(test_open_cut_short),
        TEST_WITH_GUARD(test_floors_cut_off),
        TEST_WITH_GUARD(test_cut_to_nothing),
        TEST_WITH_GUARD(test_every_mode),
        TEST_WITH_GUARD(test_lost_page_of_open_stage),
        TEST_WITH_GUARD(test_verify_does_not_trust_its_memory),
        TEST_WITH_GUARD(test_growth_looks_afresh),
        TEST_WITH_GUARD(test_lost_header_of_open_filter),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
