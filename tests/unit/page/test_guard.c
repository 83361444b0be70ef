/* The SIGBUS guard and readers (R15): pages that cannot be had say MAYBE, the others
 * answer as before, and no loss is taken for a good page. */
#include "tests/support/filters.h"
#include "tests/support/guard_support.h"

enum { N_KEYS = 60 * 1000, N_OTHERS = 20 * 1000 };
static uint64_t keys[N_KEYS], others[N_OTHERS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS), random_hashes(others, N_OTHERS))

/* Nothing is lost; keys that have a page before `kept` are told to be absent as before,
 * those that have none never. */
static void check_cut(struct tamis_filter *f, const struct stage_desc *d, uint64_t kept)
{
    size_t n[2] = {0}, n_absent[2] = {0};
    IS(count_absent(f, keys, N_KEYS), 0);
    for (size_t i = 0; i < N_OTHERS; i++) {
        bool has_page = false;
        for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
            has_page |= page_in(&d->geometry, lane, others[i]) < kept;
        n[has_page]++;
        n_absent[has_page] += ask(f, others[i], NULL) == TAMIS_ABSENT;
    }
    assert_true(n[false] > 1000 && n[true] > 1000);
    IS(n_absent[false], 0);
    assert_in_range(n_absent[true], n[true] * 8 / 10, n[true]);
}

TEST_WITH_GUARD(test_sealed_cut_short)
{
    const char *path = path_of("sealed-cut");
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    struct stage_desc *d = &c.stages[0];
    uint64_t n_pages = d->length / PAGE_BYTES, kept = n_pages / 3;

    struct tamis_filter *f = open_filter(path), *fresh = open_filter(path);
    struct tamis_verify report = verified(f);
    cut(path, d->offset + kept * PAGE_BYTES);
    check_cut(f, d, kept);
    /* Found good before, and then lost; never looked at. */
    for (size_t i = 0; i < 100; i++) {
        IS(why_of(f, keys[i]), TAMIS_HIT);
        IS(why_of(fresh, keys[i]), TAMIS_DAMAGED);
    }
    /* Without digests no page can be checked. */
    IS(count_absent(fresh, keys, N_KEYS), 0);
    IS(count_absent(fresh, others, N_OTHERS), 0);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    assert_in_range(report.n_damaged, n_pages - kept, n_pages);
    tamis_filter_close(f);
    tamis_filter_close(fresh);
    /* And who opens it now is told at once. */
    reader_refused(path, NULL, TAMIS_ERR_DAMAGED);
}

TEST_WITH_GUARD(test_digests_cut_off)
{
    const char *path = path_of("digests-cut");
    build_filter(path, keys, N_KEYS);
    struct commit c = commit_of(path);
    FILTER f = open_filter(path);
    cut(path, c.stages[0].digests_offset);
    IS(count_absent(f, keys, N_KEYS), 0);
    IS(count_absent(f, others, N_OTHERS), 0);
    IS(damage_of(f).n_damaged, c.stages[0].length / PAGE_BYTES);
}

/* One stage, all keys in it, no writer. */
static struct commit open_stage(const char *path)
{
    struct tamis_writer *w = create_writer(path, 0.01, 2, 2 * N_KEYS);
    add_hashes(w, keys, N_KEYS);
    OK(tamis_writer_close(w));
    struct commit c = commit_of(path);
    IS(c.n_stages, 1);
    return c;
}

TEST_WITH_GUARD(test_open_cut_short)
{
    const char *path = path_of("open-cut");
    struct commit c = open_stage(path);
    struct stage_desc *d = &c.stages[0];
    FILTER f = open_filter(path), fresh = open_filter(path);
    struct tamis_verify report = verified(f);
    uint64_t kept = report.n_pages / 3;
    cut(path, d->offset + kept * PAGE_BYTES);
    check_cut(f, d, kept);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);

    IS(count_absent(fresh, keys, N_KEYS), 0);
    IS(count_absent(fresh, others, N_OTHERS), 0); /* no floors */
}

TEST_WITH_GUARD(test_floors_cut_off)
{
    const char *path = path_of("floors-cut");
    struct commit c = open_stage(path);
    FILTER f = open_filter(path), fresh = open_filter(path);
    verified(f);
    cut(path, c.stages[0].floors_offset);
    /* Pages that were found good may be used. */
    IS(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    IS(count_absent(fresh, others, N_OTHERS), 0);
    IS(why_of(fresh, keys[0]), TAMIS_DAMAGED);
    damage_of(f);
}

TEST_WITH_GUARD(test_cut_to_nothing)
{
    const char *path = path_of("nothing");
    struct tamis_verify report;
    open_stage(path);
    struct tamis_filter *growing = open_filter(path);
    cut(path, 0);
    for (int i = 0; i < 3; i++) {
        IS(why_of(growing, others[i]), TAMIS_UNREADABLE);
    }
    assert_int_not_equal(tamis_filter_verify(growing, &report, NULL), 0);
    tamis_filter_close(growing);

    build_filter(path_of("nothing-sealed"), keys, N_KEYS);
    FILTER sealed = open_filter(path_of("nothing-sealed"));
    struct tamis_filter_info info;
    cut(path_of("nothing-sealed"), 0);
    IS(count_absent(sealed, keys, N_KEYS), 0);
    IS(count_absent(sealed, others, N_OTHERS), 0);
    IS(tamis_filter_verify(sealed, &report, NULL), EIO);
    IS(tamis_filter_info(sealed, &info), EIO);
}

TEST_WITH_GUARD(test_every_mode)
{
    static const enum tamis_check modes[] = {TAMIS_CHECK_LAZY, TAMIS_CHECK_FULL,
                                             TAMIS_CHECK_STRICT, TAMIS_CHECK_NONE};
    for (size_t i = 0; i < N_OF(modes); i++) {
        const char *path = path_of("mode");
        /* Strict digests two pages a probe. */
        size_t n = modes[i] == TAMIS_CHECK_STRICT ? N_KEYS / 10 : N_KEYS;
        unlink(path);
        build_filter(path, keys, N_KEYS);
        FILTER f = OPEN_AS(path, .check = modes[i]);
        struct commit c = commit_of(path);
        /* In the middle of a page the rest of it becomes zeros, which only those see
         * who look at the page each time. */
        IS(count_absent(f, keys, n), 0);
        cut(path, c.stages[0].offset + 2 * PAGE_BYTES +
                      (modes[i] == TAMIS_CHECK_STRICT ? 100 : 0));
        IS(count_absent(f, keys, n), 0);
    }
}

TEST_WITH_GUARD(test_lost_page_of_open_stage)
{
    const char *path = path_of("one-page");
    struct tamis_verify report;
    enum tamis_reason why;
    struct commit c = open_stage(path);
    struct stage_desc *d = &c.stages[0];
    FILTER f = open_filter(path), again;
    for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
        lose(atomic_load(&f->view)->stages[0].bits +
             page_in(&d->geometry, lane, others[0]) * PAGE_BYTES);
    IS(why_of(f, others[0]), TAMIS_DAMAGED);
    IS(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.n_damaged, d->geometry.lanes);
    IS(report.first_damaged,
       d->offset + page_in(&d->geometry, 0, others[0]) * PAGE_BYTES);
    /* The loss is of this mapping only. */
    again = open_filter(path);
    IS(ask(again, others[0], &why), TAMIS_ABSENT);
    OK(tamis_filter_verify(again, &report, NULL));
}

/* Found good first, and lost then: verify must not go by what was remembered. */
TEST_WITH_GUARD(test_verify_does_not_trust_its_memory)
{
    const char *path = path_of("memory");
    open_stage(path);
    FILTER f = open_filter(path);
    verified(f);
    lose(atomic_load(&f->view)->stages[0].bits);
    IS(damage_of(f).n_damaged, 1);
}

TEST_WITH_GUARD(test_growth_looks_afresh)
{
    const char *path = path_of("afresh");
    struct tamis_verify report;
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    OK(tamis_writer_commit(w, 1, NULL));
    FILTER f = open_filter(path);
    lose(atomic_load(&f->view)->stages[0].bits);
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    add_hashes(w, keys + 500, 1500);
    IS(count_absent(f, keys, 2000), 0);
    OK(tamis_filter_verify(f, &report, NULL));
    assert_true(report.n_pages > 1);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    OK(tamis_writer_close(w));
}

/* The page that a reader of an open filter looks at first of all. */
TEST_WITH_GUARD(test_lost_header_of_open_filter)
{
    const char *path = path_of("header");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    FILTER f = open_filter(path);
    lose(atomic_load(&f->view)->live_sequence);
    IS(count_absent(f, keys, 500), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    add_hashes(w, keys + 500, 2500); /* it still notices growth */
    IS(count_absent(f, keys, 3000), 0);
    OK(tamis_writer_close(w));
}

RUN_TESTS(set_up, test_dir_remove)
