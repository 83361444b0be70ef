/* A writer's life: create, add, commit, grow, seal; readers in the same process see
 * every add at once; and what each step costs in flushes. */
#include "tests/support/filters.h"

enum { N_KEYS = 200 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

/* Adds keys until the writer has n_stages stages; returns how many keys it has. */
static size_t add_until(struct tamis_writer *w, size_t from, uint32_t n_stages)
{
    while (writer_info(w).n_stages < n_stages) {
        assert_true(from + 100 <= N_KEYS);
        add_hashes(w, keys + from, 100);
        from += 100;
    }
    return from;
}

/* ---- adding ---- */

TEST(test_adds_are_visible_at_once)
{
    struct tamis_writer *w = create_writer(path_of("visible"), 1e-4, 2, 10000);
    FILTER f = open_filter(path_of("visible"));
    struct tamis_domain domain = w->domain;
    IS(count_absent(f, keys, 1000), 1000);
    for (size_t i = 0; i < 1000; i++) {
        add_hashes(w, &keys[i], 1);
        IS(ask(f, keys[i], NULL), TAMIS_MAYBE);
    }
    /* By key and by hash is the same, for the writer as for the reader. */
    OK(tamis_writer_add_key(w, "key", 3));
    OK(tamis_writer_add_key(w, NULL, 0));
    struct tamis_key key = tamis_key_of(&domain, "key", 3);
    IS(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
    key = tamis_key_of(&domain, "", 0);
    IS(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
    key = tamis_key_of(&domain, "other", 5);
    IS(tamis_filter_probe(f, &key, NULL), TAMIS_ABSENT);
    IS(tamis_writer_add_hashes(w, domain.tag ^ 1, keys, 1), TAMIS_ERR_MISMATCH);
    IS(writer_info(w).keys, 1002);
    OK(tamis_writer_close(w, NULL));
    IS(count_absent(f, keys, 1000), 0);
}

/* ---- commits ---- */

TEST(test_commits_and_watermarks)
{
    WRITER w = create_writer(path_of("commits"), 0.01, 2, 1000);
    struct tamis_diag diag;
    IS(w->watermark, 0);
    add_hashes(w, keys, 300);
    OK(tamis_writer_commit(w, 70, NULL));
    IS(w->watermark, 70);
    IS(tamis_writer_commit(w, 69, &diag), TAMIS_ERR_RANGE);
    assert_non_null(strstr(diag.what, "69"));
    IS(tamis_writer_seal(w, 69, NULL, &diag), TAMIS_ERR_RANGE);
    IS(w->watermark, 70);
    OK(tamis_writer_commit(w, 70, NULL)); /* equal is no fall */

    struct tamis_filter *f = open_filter(path_of("commits"));
    struct tamis_filter_info info = filter_info(f);
    IS(info.watermark, 70);
    IS(info.clean, 0);
    IS(info.keys, 300);
    add_hashes(w, keys + 300, 10);
    OK(tamis_writer_close(w, NULL)); /* makes them durable, but acknowledges nothing */
    OK(tamis_filter_info(f, &info, NULL));
    IS(info.watermark, 70);
    IS(info.clean, 1);
    IS(info.keys, 310);
    tamis_filter_close(f);

    w = open_writer(path_of("commits"));
    IS(w->watermark, 70);
    OK(tamis_writer_commit(w, UINT64_MAX, NULL));
    IS(w->watermark, UINT64_MAX);
}

static unsigned long flushes(void)
{
    unsigned long n = faults[CALL_FDATASYNC].n + faults[CALL_FSYNC].n;
    faults[CALL_FDATASYNC].n = faults[CALL_FSYNC].n = 0;
    return n;
}

TEST_WITH_FAULTS(test_number_of_flushes)
{
    struct tamis_writer *w = create_writer(path_of("flushes"), 0.01, 2, 1000);
    flushes();
    for (uint64_t i = 0; i < 5; i++) {
        add_hashes(w, keys + i * 100, 100);
        IS(flushes(), 0); /* adding costs none */
        OK(tamis_writer_commit(w, i, NULL));
        IS(flushes(), 2);
    }
    add_until(w, 500, 2);
    IS(flushes(), 3);
    OK(tamis_writer_close(w, NULL));
    assert_true(flushes() <= 3);
    w = open_writer(path_of("flushes"));
    assert_true(flushes() <= 3);
    OK(tamis_writer_seal(w, 9, NULL, NULL));
    assert_true(flushes() <= 4); /* data, digests, A, B */
    OK(tamis_writer_close(w, NULL));
    IS(flushes(), 0);
}

/* ---- growth ---- */

static unsigned long n_reads;
static ssize_t counted_pread(int fd, void *buf, size_t n, off_t offset)
{
    n_reads++;
    return pread(fd, buf, n, offset);
}

/* R6: readers look at the header again when a commit has changed it, and only then. */
TEST_WITH_FAULTS(test_probes_read_no_file)
{
    WRITER w = create_writer(path_of("calls"), 0.01, 2, 1000);
    FILTER f = open_filter(path_of("calls"));
    io_calls.pread = counted_pread;
    for (size_t i = 0; i < 3000; i += 300) {
        add_hashes(w, keys + i, 300); /* grows twice on the way */
        count_absent(f, keys, 300);
        n_reads = 0;
        for (size_t k = 0; k < i + 300; k++)
            IS(ask(f, keys[k], NULL), TAMIS_MAYBE);
        IS(n_reads, 0);
        OK(tamis_writer_commit(w, i, NULL));
        IS(count_absent(f, keys, i + 300), 0);
        assert_true(n_reads >= 1 && n_reads <= 3);
    }
    OK(tamis_writer_seal(w, 3000, NULL, NULL));
    count_absent(f, keys, 1);
    n_reads = 0;
    IS(count_absent(f, keys, 3000), 0);
    IS(n_reads, 0);
}

TEST(test_stages_follow_the_series)
{
    static const struct {
        double error, factor, tightening;
        uint64_t first;
    } cases[] = {{0.01, 2, 0.85, 700}, {0.3, 8, 0.5, 50}, {1e-7, 1.25, 0.95, 3000}};
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "series %zu", i);
        struct tamis_writer_options opt = {.size = sizeof opt,
                                           .growth = {cases[i].error, cases[i].factor,
                                                      cases[i].tightening,
                                                      cases[i].first}};
        struct tamis_writer *w = writer_made(path_of(name), &opt);
        add_until(w, 0, 4);
        OK(tamis_writer_close(w, NULL));
        FILTER f = open_filter(path_of(name));
        for (uint32_t k = 0; k < 4; k++) {
            struct tamis_plan plan;
            struct tamis_stage_info s = filter_info(f).stages[k];
            OK(tamis_plan_stage(&opt.growth, k, &plan));
            IS(s.capacity, plan.n_keys);
            IS(s.n_blocks, plan.n_blocks);
            assert_true(s.lanes == plan.lanes && s.words == plan.words);
        }
    }
}

/* A writer ends with its stage full. The same keys come again: all are there, and no
 * add finds the stage full, but the commit does. */
TEST_WITH_FAULTS(test_growth_after_a_replay)
{
    const char *path = path_of("replayed");
    WRITER w = create_writer(path, 0.01, 2, 1000);
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    add_hashes(w, keys, 2000);
    OK(tamis_writer_close(w, NULL));
    fail_never();
    OK(tamis_writer_open(path, NULL, &w, NULL));
    add_hashes(w, keys, 2000);
    IS(writer_info(w).n_stages, 1);
    OK(tamis_writer_commit(w, 1, NULL));
    IS(writer_info(w).n_stages, 2);
    IS(writer_info(w).over_target, 0);
}

/* ---- sealing ---- */

TEST(test_seal)
{
    const char *path = path_of("sealed");
    struct tamis_writer *w = create_writer(path, 0.001, 2, 1000);
    FILTER f = open_filter(path);
    struct tamis_verify report;
    struct tamis_filter_info info;
    uint64_t n_damaged = 1;
    size_t n = add_until(w, 0, 6);
    OK(tamis_writer_seal(w, 77, &n_damaged, NULL));
    IS(n_damaged, 0);
    IS(w->watermark, 77);
    uint64_t tag = w->domain.tag;
    IS(tamis_writer_add_hashes(w, tag, keys, 1), TAMIS_ERR_SEALED);
    IS(tamis_writer_add_hashes(w, tag, keys, 0), TAMIS_ERR_SEALED);
    IS(tamis_writer_add_key(w, "k", 1), TAMIS_ERR_SEALED);
    IS(tamis_writer_commit(w, 78, NULL), TAMIS_ERR_SEALED);
    IS(tamis_writer_seal(w, 78, NULL, NULL), TAMIS_ERR_SEALED);
    IS(writer_info(w).sealed, 1);
    OK(tamis_writer_close(w, NULL));
    writer_refused(path, TAMIS_ERR_SEALED);

    /* The reader from before follows, and one from now on agrees. */
    for (int round = 0; round < 2; round++) {
        IS(count_absent(f, keys, n), 0);
        assert_true(count_absent(f, keys + n, 50000) > 49900);
        OK(tamis_filter_info(f, &info, NULL));
        assert_true(info.sealed && info.clean && info.growing_kind);
        IS(info.watermark, 77);
        assert_true(info.table_digest != 0);
        OK(tamis_filter_verify(f, &report, NULL));
        assert_true(report.n_pages > 5 && report.n_damaged == 0);
        tamis_filter_close(f);
        f = open_filter(path);
    }
}

RUN_TESTS(set_up, test_dir_remove)
