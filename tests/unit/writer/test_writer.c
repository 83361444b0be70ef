/* A writer's life: create, add, commit, grow, seal; readers in the same process see
 * every add at once; and what each step costs in flushes. */
#include "tests/support/support.h"

enum { N_KEYS = 200 * 1000 };
static uint64_t *keys;

static int set_up(void **state)
{
    keys = malloc(N_KEYS * sizeof *keys);
    random_hashes(keys, N_KEYS);
    return keys ? test_dir_create(state) : -1;
}

static int tear_down(void **state)
{
    free(keys);
    return test_dir_remove(state);
}

static struct tamis_filter_info info_of(struct tamis_writer *w)
{
    struct tamis_filter_info info;
    assert_int_equal(tamis_writer_info(w, &info), 0);
    return info;
}

static void close_writer(struct tamis_writer *w)
{
    assert_int_equal(tamis_writer_close(w), 0);
}

/* Adds keys until the writer has so many stages; returns how many there are now. */
static size_t add_until(struct tamis_writer *w, size_t from, uint32_t n_stages)
{
    while (info_of(w).n_stages < n_stages) {
        assert_true(from + 100 <= N_KEYS);
        add_hashes(w, keys + from, 100);
        from += 100;
    }
    return from;
}

/* ---- adding ---- */

static void test_adds_are_visible_at_once(void **state)
{
    struct tamis_writer *w = create_writer(path_of("visible"), 1e-4, 2, 10000);
    struct tamis_filter *f = open_filter(path_of("visible"));
    struct tamis_domain domain = tamis_writer_domain(w);
    (void)state;
    assert_int_equal(count_absent(f, keys, 1000), 1000);
    for (size_t i = 0; i < 1000; i++) {
        add_hashes(w, &keys[i], 1);
        assert_int_equal(ask(f, keys[i], NULL), TAMIS_MAYBE);
    }
    /* By key and by hash is the same, for the writer as for the reader. */
    assert_int_equal(tamis_writer_add_key(w, "key", 3), 0);
    assert_int_equal(tamis_writer_add_key(w, NULL, 0), 0);
    struct tamis_key key = tamis_key_of(&domain, "key", 3);
    assert_int_equal(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
    key = tamis_key_of(&domain, "", 0);
    assert_int_equal(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
    key = tamis_key_of(&domain, "other", 5);
    assert_int_equal(tamis_filter_probe(f, &key, NULL), TAMIS_ABSENT);
    assert_int_equal(tamis_writer_add_hashes(w, domain.tag ^ 1, keys, 1),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(info_of(w).keys, 1002);
    close_writer(w);
    assert_int_equal(count_absent(f, keys, 1000), 0);
    tamis_filter_close(f);
}

static void test_readding_does_not_grow(void **state)
{
    struct tamis_writer *w = create_writer(path_of("again"), 0.001, 2, 500);
    (void)state;
    size_t n = add_until(w, 0, 4);
    struct tamis_filter_info before = info_of(w);
    for (int round = 0; round < 20; round++)
        add_hashes(w, keys, n);
    struct tamis_filter_info after = info_of(w);
    assert_int_equal(after.n_stages, before.n_stages);
    assert_int_equal(after.keys, before.keys);
    close_writer(w);
}

static void test_first_capacity_of_one(void **state)
{
    struct tamis_writer *w = create_writer(path_of("n0"), 0.01, 2, 1);
    struct tamis_filter *f = open_filter(path_of("n0"));
    (void)state;
    for (size_t i = 0; i < 3000; i++) {
        add_hashes(w, &keys[i], 1);
        assert_int_equal(ask(f, keys[i], NULL), TAMIS_MAYBE);
    }
    struct tamis_filter_info info = info_of(w);
    assert_true(info.n_stages >= 11 && info.n_stages <= 13);
    assert_int_equal(info.over_target, 0);
    close_writer(w);
    assert_int_equal(count_absent(f, keys, 3000), 0);
    assert_true(count_absent(f, keys + 3000, 100000) > 99000);
    tamis_filter_close(f);
}

/* ---- commits ---- */

static void test_commits_and_watermarks(void **state)
{
    struct tamis_writer *w = create_writer(path_of("commits"), 0.01, 2, 1000);
    struct tamis_filter_info info;
    struct tamis_diag diag;
    (void)state;
    assert_int_equal(tamis_writer_watermark(w), 0);
    add_hashes(w, keys, 300);
    assert_int_equal(tamis_writer_commit(w, 70, NULL), 0);
    assert_int_equal(tamis_writer_watermark(w), 70);
    assert_int_equal(tamis_writer_commit(w, 69, &diag), TAMIS_ERR_RANGE);
    assert_non_null(strstr(diag.what, "69"));
    assert_int_equal(tamis_writer_seal(w, 69, NULL, &diag), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_writer_watermark(w), 70);
    assert_int_equal(tamis_writer_commit(w, 70, NULL), 0); /* equal is no fall */

    struct tamis_filter *f = open_filter(path_of("commits"));
    assert_int_equal(tamis_filter_info(f, &info), 0);
    assert_int_equal(info.watermark, 70);
    assert_int_equal(info.clean, 0);
    assert_int_equal(info.keys, 300);
    add_hashes(w, keys + 300, 10);
    close_writer(w); /* makes them durable, but acknowledges nothing */
    assert_int_equal(tamis_filter_info(f, &info), 0);
    assert_int_equal(info.watermark, 70);
    assert_int_equal(info.clean, 1);
    assert_int_equal(info.keys, 310);
    tamis_filter_close(f);

    w = open_writer(path_of("commits"));
    assert_int_equal(tamis_writer_watermark(w), 70);
    assert_int_equal(tamis_writer_commit(w, UINT64_MAX, NULL), 0);
    assert_int_equal(tamis_writer_watermark(w), UINT64_MAX);
    close_writer(w);
}

static unsigned long flushes(void)
{
    unsigned long n = faults[CALL_FDATASYNC].n + faults[CALL_FSYNC].n;
    faults[CALL_FDATASYNC].n = faults[CALL_FSYNC].n = 0;
    return n;
}

static void test_number_of_flushes(void **state)
{
    struct tamis_writer *w = create_writer(path_of("flushes"), 0.01, 2, 1000);
    (void)state;
    flushes();
    for (uint64_t i = 0; i < 5; i++) {
        add_hashes(w, keys + i * 100, 100);
        assert_int_equal(flushes(), 0); /* adding costs none */
        assert_int_equal(tamis_writer_commit(w, i, NULL), 0);
        assert_int_equal(flushes(), 2);
    }
    add_until(w, 500, 2);
    assert_int_equal(flushes(), 3);
    close_writer(w);
    assert_true(flushes() <= 3);
    w = open_writer(path_of("flushes"));
    assert_true(flushes() <= 3);
    assert_int_equal(tamis_writer_seal(w, 9, NULL, NULL), 0);
    assert_true(flushes() <= 4); /* data, digests, A, B */
    close_writer(w);
    assert_int_equal(flushes(), 0);
}

/* ---- growth ---- */

static void test_a_reader_follows_growth(void **state)
{
    struct tamis_writer *w = create_writer(path_of("growing"), 0.001, 1.5, 1000);
    struct tamis_filter *f = open_filter(path_of("growing"));
    struct tamis_filter_info info;
    size_t n = 0;
    (void)state;
    for (uint32_t n_stages = 2; n_stages <= 9; n_stages++) {
        n = add_until(w, n, n_stages);
        add_hashes(w, &keys[n], 1); /* into the new stage */
        assert_int_equal(ask(f, keys[n], NULL), TAMIS_MAYBE);
        assert_int_equal(count_absent(f, keys, n), 0);
        assert_int_equal(tamis_filter_info(f, &info), 0);
        assert_int_equal(info.n_stages, n_stages);
        if (n_stages % 3 == 0)
            assert_int_equal(tamis_writer_commit(w, n, NULL), 0);
    }
    assert_int_equal(count_absent(f, keys, n), 0);
    assert_true(count_absent(f, keys + N_KEYS - 50000, 50000) > 49900);
    assert_int_equal(info_of(w).over_target, 0);
    close_writer(w);
    assert_int_equal(count_absent(f, keys, n), 0);
    tamis_filter_close(f);
}

static unsigned long n_reads;
static ssize_t counted_pread(int fd, void *buf, size_t n, off_t offset)
{
    n_reads++;
    return pread(fd, buf, n, offset);
}

/* R6: readers look at the header again when a commit has changed it, and only then. */
static void test_probes_read_no_file(void **state)
{
    struct tamis_writer *w = create_writer(path_of("calls"), 0.01, 2, 1000);
    struct tamis_filter *f = open_filter(path_of("calls"));
    (void)state;
    io_calls.pread = counted_pread;
    for (size_t i = 0; i < 3000; i += 300) {
        add_hashes(w, keys + i, 300); /* grows twice on the way */
        count_absent(f, keys, 300);
        n_reads = 0;
        for (size_t k = 0; k < i + 300; k++)
            assert_int_equal(ask(f, keys[k], NULL), TAMIS_MAYBE);
        assert_int_equal(n_reads, 0);
        assert_int_equal(tamis_writer_commit(w, i, NULL), 0);
        assert_int_equal(count_absent(f, keys, i + 300), 0);
        assert_true(n_reads >= 1 && n_reads <= 3);
    }
    assert_int_equal(tamis_writer_seal(w, 3000, NULL, NULL), 0);
    count_absent(f, keys, 1);
    n_reads = 0;
    assert_int_equal(count_absent(f, keys, 3000), 0);
    assert_int_equal(n_reads, 0);
    close_writer(w);
    tamis_filter_close(f);
}

static void test_stages_follow_the_series(void **state)
{
    static const struct {
        double error, factor, tightening;
        uint64_t first;
    } cases[] = {{0.01, 2, 0.85, 700}, {0.3, 8, 0.5, 50}, {1e-7, 1.25, 0.95, 3000}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "series %zu", i);
        struct tamis_writer_options opt = {.size = sizeof opt,
                                           .growth = {cases[i].error, cases[i].factor,
                                                      cases[i].tightening,
                                                      cases[i].first}};
        struct tamis_writer *w;
        assert_int_equal(tamis_writer_create(path_of(name), &opt, &w, NULL), 0);
        add_until(w, 0, 4);
        close_writer(w);
        struct tamis_filter *f = open_filter(path_of(name));
        for (uint32_t k = 0; k < 4; k++) {
            struct tamis_stage_info s;
            struct tamis_plan plan;
            assert_int_equal(tamis_filter_stage(f, k, &s), 0);
            assert_int_equal(tamis_plan_stage(&opt.growth, k, &plan), 0);
            assert_int_equal(s.capacity, plan.n_keys);
            assert_int_equal(s.n_blocks, plan.n_blocks);
            assert_true(s.lanes == plan.lanes && s.words == plan.words);
        }
        tamis_filter_close(f);
    }
}

static void test_no_space_to_grow(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of("full disk"));
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    struct tamis_filter *f = open_filter(path);
    struct stat before, after;
    (void)state;
    assert_int_equal(stat(path, &before), 0);
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    add_hashes(w, keys, 5000); /* fullness never refuses an add */
    assert_int_equal(count_absent(f, keys, 5000), 0);
    assert_true(faults[CALL_FALLOCATE].n >= 1);
    assert_true(faults[CALL_FALLOCATE].n < 10); /* not tried again at every key */
    assert_int_equal(info_of(w).n_stages, 1);
    assert_int_equal(info_of(w).over_target, 1);
    assert_int_equal(tamis_writer_commit(w, 1, NULL),
                     0); /* tries, and commits anyway */
    assert_int_equal(tamis_writer_watermark(w), 1);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size); /* what was tried is given back */

    fail_never();
    add_hashes(w, keys + 5000, 100);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(info_of(w).n_stages, 2);
    assert_int_equal(info_of(w).over_target, 0);
    add_hashes(w, keys + 5100, 500);
    assert_int_equal(count_absent(f, keys, 5600), 0);
    close_writer(w);
    tamis_filter_close(f);
}

/* A writer ends with its stage full. The same keys come again: all are there, and no
 * add finds the stage full, but the commit does. */
static void test_growth_after_a_replay(void **state)
{
    char path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("replayed"));
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    add_hashes(w, keys, 2000);
    close_writer(w);
    fail_never();
    assert_int_equal(tamis_writer_open(path, &w, NULL), 0);
    add_hashes(w, keys, 2000);
    assert_int_equal(info_of(w).n_stages, 1);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    assert_int_equal(info_of(w).n_stages, 2);
    assert_int_equal(info_of(w).over_target, 0);
    close_writer(w);
}

/* A file system without fallocate() gets zeros written. */
static void test_growth_without_fallocate(void **state)
{
    fail_from_now(CALL_FALLOCATE, EOPNOTSUPP);
    struct tamis_writer *w = create_writer(path_of("zeros"), 0.01, 2, 1000);
    (void)state;
    size_t n = add_until(w, 0, 4);
    close_writer(w);
    struct tamis_filter *f = open_filter(path_of("zeros"));
    assert_int_equal(count_absent(f, keys, n), 0);
    assert_true(count_absent(f, keys + n, 50000) > 49000);
    tamis_filter_close(f);
}

/* ---- sealing ---- */

static void test_seal(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of("sealed"));
    struct tamis_writer *w = create_writer(path, 0.001, 2, 1000), *other = NULL;
    struct tamis_filter *f = open_filter(path);
    struct tamis_verify report;
    struct tamis_filter_info info;
    uint64_t n_damaged = 1;
    (void)state;
    size_t n = add_until(w, 0, 6);
    assert_int_equal(tamis_writer_seal(w, 77, &n_damaged, NULL), 0);
    assert_int_equal(n_damaged, 0);
    assert_int_equal(tamis_writer_watermark(w), 77);
    uint64_t tag = tamis_writer_domain(w).tag;
    assert_int_equal(tamis_writer_add_hashes(w, tag, keys, 1), TAMIS_ERR_SEALED);
    assert_int_equal(tamis_writer_add_hashes(w, tag, keys, 0), TAMIS_ERR_SEALED);
    assert_int_equal(tamis_writer_add_key(w, "k", 1), TAMIS_ERR_SEALED);
    assert_int_equal(tamis_writer_commit(w, 78, NULL), TAMIS_ERR_SEALED);
    assert_int_equal(tamis_writer_seal(w, 78, NULL, NULL), TAMIS_ERR_SEALED);
    assert_int_equal(info_of(w).sealed, 1);
    close_writer(w);
    assert_int_equal(tamis_writer_open(path, &other, NULL), TAMIS_ERR_SEALED);
    assert_null(other);

    /* The reader from before follows, and one from now on agrees. */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(count_absent(f, keys, n), 0);
        assert_true(count_absent(f, keys + n, 50000) > 49900);
        assert_int_equal(tamis_filter_info(f, &info), 0);
        assert_true(info.sealed && info.clean && info.growing_kind);
        assert_int_equal(info.watermark, 77);
        assert_true(info.table_digest != 0);
        assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
        assert_true(report.n_pages > 5 && report.n_damaged == 0);
        tamis_filter_close(f);
        f = open_filter(path);
    }
    tamis_filter_close(f);
}

/* Digests that find no room: the filter is open as before, and can be sealed later. */
static void test_no_space_to_seal(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of("no room"));
    struct tamis_writer *w = create_writer(path, 0.01, 2, 10000);
    (void)state;
    add_hashes(w, keys, 5000);
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    assert_int_equal(tamis_writer_seal(w, 5, NULL, NULL), ENOSPC);
    assert_int_equal(info_of(w).sealed, 0);
    assert_int_equal(tamis_writer_watermark(w), 0);
    add_hashes(w, keys + 5000, 1000);
    fail_never();
    size_t n = add_until(w, 6000, 3); /* growth takes the place of the attempt */
    assert_int_equal(tamis_writer_seal(w, 5, NULL, NULL), 0);
    close_writer(w);
    struct tamis_filter *f = open_filter(path);
    struct tamis_verify report;
    assert_int_equal(count_absent(f, keys, n), 0);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    tamis_filter_close(f);
}

/* ---- again and again ---- */

static void test_reopen_and_continue(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of("sessions"));
    close_writer(create_writer(path, 0.001, 2, 300));
    struct tamis_filter *f = open_filter(path);
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        struct tamis_writer *w = open_writer(path);
        assert_int_equal(tamis_writer_watermark(w), i);
        assert_true(info_of(w).keys >= i * 490 && info_of(w).keys <= i * 500);
        add_hashes(w, keys + i * 500, 500);
        assert_int_equal(count_absent(f, keys, (i + 1) * 500), 0);
        assert_int_equal(tamis_writer_commit(w, i + 1, NULL), 0);
        close_writer(w);
        struct tamis_filter *fresh = open_filter(path);
        assert_int_equal(count_absent(fresh, keys, (i + 1) * 500), 0);
        tamis_filter_close(fresh);
    }
    struct tamis_filter_info info;
    assert_int_equal(tamis_filter_info(f, &info), 0);
    assert_int_equal(info.over_target, 0);
    assert_true(info.n_stages >= 5 && info.n_stages <= 7);
    assert_true(count_absent(f, keys + 10000, 100000) > 99850);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds_are_visible_at_once),
        cmocka_unit_test(test_readding_does_not_grow),
        cmocka_unit_test(test_first_capacity_of_one),
        cmocka_unit_test(test_commits_and_watermarks),
        TEST_WITH_FAULTS(test_number_of_flushes),
        cmocka_unit_test(test_a_reader_follows_growth),
        TEST_WITH_FAULTS(test_probes_read_no_file),
        cmocka_unit_test(test_stages_follow_the_series),
        TEST_WITH_FAULTS(test_no_space_to_grow),
        TEST_WITH_FAULTS(test_growth_after_a_replay),
        TEST_WITH_FAULTS(test_growth_without_fallocate),
        cmocka_unit_test(test_seal),
        TEST_WITH_FAULTS(test_no_space_to_seal),
        cmocka_unit_test(test_reopen_and_continue),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
