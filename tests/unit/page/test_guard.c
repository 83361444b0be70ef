/* The SIGBUS guard and readers (R15): pages that cannot be had say MAYBE, the others
 * answer as before, and no loss is taken for a good page. */
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

/* One stage, all keys in it, no writer. */
static struct commit open_stage(const char *path)
{
    struct tamis_writer *w = create_writer(path, 0.01, 2, 2 * N_KEYS);
    add_hashes(w, keys, N_KEYS);
    OK(tamis_writer_close(w, NULL));
    struct commit c = commit_of(path);
    IS(c.n_stages, 1);
    return c;
}

/* Cut off after a third of the pages, or after all of them: then digests or floors are
 * gone, without which no page can be checked. Pages that were found good before may be
 * used, as far as they are there. */
TEST_WITH_GUARD(test_cut_short)
{
    for (int i = 0; i < 4; i++) {
        bool sealed = i % 2, all = i / 2;
        const char *path = path_of("cut");
        unlink(path);
        if (sealed)
            build_filter(path, keys, N_KEYS);
        struct commit c = sealed ? commit_of(path) : open_stage(path);
        struct stage_desc *d = &c.stages[0];
        uint64_t n_pages = d->length / PAGE_BYTES, kept = all ? n_pages : n_pages / 3;
        FILTER f = open_filter(path), fresh = open_filter(path);
        verified(f);
        cut(path, d->offset + kept * PAGE_BYTES);
        if (!all)
            check_cut(f, d, kept);
        IS(count_absent(f, keys, N_KEYS), 0);
        assert_in_range(count_absent(f, others, N_OTHERS), all ? N_OTHERS * 9 / 10 : 0,
                        N_OTHERS);
        IS(count_absent(fresh, keys, N_KEYS), 0);
        IS(count_absent(fresh, others, N_OTHERS), 0);
        for (size_t k = 0; k < 100; k++) {
            IS(why_of(f, keys[k]), TAMIS_HIT);
            IS(why_of(fresh, keys[k]), TAMIS_DAMAGED);
        }
        uint64_t least = !sealed ? 0 : all ? n_pages : n_pages - kept;
        assert_in_range(damage_of(f).n_damaged, least, n_pages);
        /* And who opens it now is told at once. */
        reader_refused(path, NULL, TAMIS_ERR_DAMAGED);
    }
}

TEST_WITH_GUARD(test_cut_to_nothing)
{
    const char *path = path_of("nothing");
    struct tamis_verify report;
    open_stage(path);
    FILTER growing = open_filter(path);
    cut(path, 0);
    for (int i = 0; i < 3; i++)
        IS(why_of(growing, others[i]), TAMIS_UNREADABLE);
    assert_int_not_equal(tamis_filter_verify(growing, &report, NULL), 0);

    build_filter(path_of("nothing-sealed"), keys, N_KEYS);
    FILTER sealed = open_filter(path_of("nothing-sealed"));
    struct tamis_filter_info info;
    cut(path_of("nothing-sealed"), 0);
    IS(count_absent(sealed, keys, N_KEYS), 0);
    IS(count_absent(sealed, others, N_OTHERS), 0);
    IS(tamis_filter_verify(sealed, &report, NULL), EIO);
    IS(tamis_filter_info(sealed, &info, NULL), EIO);
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
    struct commit c = open_stage(path);
    struct stage_desc *d = &c.stages[0];
    FILTER f = open_filter(path);
    for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
        lose(atomic_load(&f->view)->stages[0].bits +
             page_in(&d->geometry, lane, others[0]) * PAGE_BYTES);
    IS(why_of(f, others[0]), TAMIS_DAMAGED);
    IS(count_absent(f, keys, N_KEYS), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    struct tamis_verify report = damage_of(f);
    IS(report.n_damaged, d->geometry.lanes);
    IS(report.first_damaged,
       d->offset + page_in(&d->geometry, 0, others[0]) * PAGE_BYTES);
    /* The loss is of this mapping only. */
    FILTER again = open_filter(path);
    IS(ask(again, others[0], NULL), TAMIS_ABSENT);
    verified(again);
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
    WRITER w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    OK(tamis_writer_commit(w, 1, NULL));
    FILTER f = open_filter(path);
    lose(atomic_load(&f->view)->stages[0].bits);
    damage_of(f);
    add_hashes(w, keys + 500, 1500);
    IS(count_absent(f, keys, 2000), 0);
    assert_true(verified(f).n_pages > 1);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
}

/* The page that a reader of an open filter looks at first of all. */
TEST_WITH_GUARD(test_lost_header_of_open_filter)
{
    const char *path = path_of("header");
    WRITER w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    FILTER f = open_filter(path);
    lose(atomic_load(&f->view)->live_sequence);
    IS(count_absent(f, keys, 500), 0);
    assert_in_range(count_absent(f, others, N_OTHERS), N_OTHERS * 9 / 10, N_OTHERS);
    add_hashes(w, keys + 500, 2500); /* it still notices growth */
    IS(count_absent(f, keys, 3000), 0);
}

RUN_TESTS(set_up, test_dir_remove)
