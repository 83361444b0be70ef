/* After an unclean end (R1-R4): whatever a dead writer left, its acknowledged keys are
 * there, its watermark is not below the last one acknowledged, and writing goes on. */
#include "tests/unit/writer/recover_support.h"

/* ---- killed ---- */

/* A copy of the file of an open writer is what kill -9 leaves. */
static void test_copies_taken_while_writing(void **state)
{
    enum { STEP = 700 };
    const char *path = path_of("live"), *copy = path_of("copy");
    struct tamis_writer *w = create_writer(path, 0.001, 2, 1000);
    (void)state;
    for (size_t n = 0; n < 30 * STEP; n += STEP) {
        add_hashes(w, keys + n, STEP / 2);
        assert_int_equal(tamis_writer_commit(w, n + 1, NULL), 0);
        add_hashes(w, keys + n + STEP / 2, STEP / 2); /* not committed, but written */
        file_copy(path, copy);
        expect_recovery(copy, n + STEP, n + 1);
    }
    assert_int_equal(tamis_writer_close(w), 0);
}

static int write_and_die(void *ctx)
{
    struct tamis_writer *w = open_writer(ctx);
    size_t done = tamis_writer_watermark(w);
    add_hashes(w, keys + done, 2000);
    if (tamis_writer_commit(w, done + 2000, NULL) != 0)
        return 1;
    add_hashes(w, keys + done + 2000, 500);
    return 0; /* _exit() without close */
}

static void test_processes_that_die(void **state)
{
    char path[1024];
    struct tamis_filter_info info;
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("mortal"));
    assert_int_equal(tamis_writer_close(create_writer(path, 0.01, 2, 1000)), 0);
    struct tamis_filter *f = open_filter(path);
    for (size_t i = 1; i <= 10; i++) {
        in_child(write_and_die, path);
        assert_int_equal(count_absent(f, keys, 2000 * i + 500), 0);
        assert_int_equal(tamis_filter_info(f, &info), 0);
        assert_int_equal(info.watermark, 2000 * i);
        assert_int_equal(info.clean, 0);
    }
    /* The recount after each death steered growth: what was added uncommitted, and
     * added again, has not made it grow more. */
    assert_true(info.n_stages >= 4 && info.n_stages <= 6);
    tamis_filter_close(f);
    expect_recovery(path, 20500, 20000);
}

/* After an unclean end the numbers leap (R7): one that a dead writer showed to readers
 * must not come again. Which ends are unclean: a clean flag of 0, a slot that is bad,
 * two that differ. */
static void test_which_ends_are_unclean(void **state)
{
    char path[1024];
    size_t n;
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("ends"));
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    uint8_t *unclean = file_read(path, &n);
    assert_int_equal(tamis_writer_close(w), 0);
    uint8_t *clean = file_read(path, &n);
    for (int end = 0; end < 6; end++) {
        size_t a = commit_slot_offset(SLOT_A), b = commit_slot_offset(SLOT_B);
        file_write(path, clean, n);
        if (end == 1) /* killed */
            file_write(path, unclean, n);
        if (end == 2)
            file_poke(path, a + 100, "rot", 3);
        if (end == 3)
            file_poke(path, b + 100, "rot", 3);
        if (end == 4) /* a close that reached slot A only */
            file_poke(path, b, unclean + b, SLOT_BYTES);
        if (end == 5) /* slot A went back to what it was */
            file_poke(path, a, unclean + a, SLOT_BYTES);
        uint64_t before = commit_of(path).sequence;
        w = open_writer(path);
        uint64_t after = commit_of(path).sequence;
        assert_true(end == 0 ? after == before + 1 : after > before + (1 << 20));
        assert_int_equal(tamis_writer_close(w), 0);
    }
    free(clean);
    free(unclean);
}

/* The recount (R9): keys that no commit has counted count for growth. */
static void test_recount_after_an_unclean_end(void **state)
{
    const char *path = path_of("counted"), *copy = path_of("recounted");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 20000);
    struct tamis_filter_info info;
    (void)state;
    add_hashes(w, keys, 15000);
    file_copy(path, copy);
    assert_int_equal(tamis_writer_close(w), 0);
    w = open_writer(copy);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_true(info.keys > 14500 && info.keys < 15500);
    add_hashes(w, keys + 15000, 10000);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_int_equal(info.n_stages, 2);
    assert_int_equal(info.over_target, 0);
    assert_int_equal(tamis_writer_close(w), 0);
}

/* Space that a dead writer allocated and never committed may not be zero: it stays
 * unused. */
static void test_space_of_a_dead_writer(void **state)
{
    char path[1024];
    uint8_t junk[65536];
    struct stat st;
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("leftovers"));
    struct tamis_writer *w = create_writer(path_of("leftovers.live"), 0.01, 2, 1000);
    add_hashes(w, keys, 900);
    assert_int_equal(tamis_writer_commit(w, 10, NULL), 0);
    file_copy(path_of("leftovers.live"), path);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(stat(path, &st), 0);
    memset(junk, 0xff, sizeof junk);
    file_poke(path, (uint64_t)st.st_size, junk, sizeof junk);
    w = open_writer(path);
    add_hashes(w, keys + 900, 5000);
    assert_int_equal(tamis_writer_commit(w, 20, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    struct commit c = commit_of(path);
    assert_int_equal(c.n_stages, 3);
    assert_true(c.stages[1].offset >= (uint64_t)st.st_size + sizeof junk);
    struct tamis_filter *f = open_filter(path);
    assert_true(count_absent(f, keys + 50000, 10000) > 9900);
    tamis_filter_close(f);
    expect_recovery(path, 5900, 20);
}

/* ---- slots ---- */

static void spoil(const char *path, uint8_t slot, size_t from, size_t n)
{
    static const uint8_t zeros[SLOT_BYTES];
    file_poke(path, commit_slot_offset(slot) + from, zeros, n);
}

/* Two commits, the second of which made a stage; then the writer dies. */
static size_t make_unclean(const char *path)
{
    struct tamis_writer *w = create_writer(path_of("slots.live"), 0.01, 2, 1000);
    add_hashes(w, keys, 900);
    assert_int_equal(tamis_writer_commit(w, 10, NULL), 0);
    add_hashes(w, keys + 900, 900);
    assert_int_equal(tamis_writer_commit(w, 20, NULL), 0);
    file_copy(path_of("slots.live"), path);
    assert_int_equal(tamis_writer_close(w), 0);
    unlink(path_of("slots.live"));
    assert_int_equal(commit_of(path).n_stages, 2);
    return 1800;
}

static void test_torn_and_rotten_slots(void **state)
{
    static const struct {
        size_t from, n;
    } damage[] = {{0, SLOT_BYTES}, {512, SLOT_BYTES - 512}, {0, 512}, {24, 8}};
    char path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("slots"));
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
            struct tamis_verify report;
            size_t n = make_unclean(path);
            spoil(path, slot, damage[i].from, damage[i].n);
            struct tamis_filter *f = open_filter(path);
            assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
            assert_int_equal(report.n_stale_slots, 1);
            assert_int_equal(report.n_damaged, 0);
            tamis_filter_close(f);
            expect_recovery(path, n, 20);
        }
    }
}

static void test_both_slots_gone(void **state)
{
    const char *path = path_of("no slots");
    struct tamis_filter *f = (void *)1;
    struct tamis_writer *w = (void *)1;
    struct tamis_diag diag;
    (void)state;
    make_unclean(path);
    spoil(path, SLOT_A, 100, 400);
    spoil(path, SLOT_B, 0, SLOT_BYTES);
    assert_int_equal(tamis_filter_open(path, NULL, &f, &diag), TAMIS_ERR_DAMAGED);
    assert_null(f);
    assert_true(diag.has_offset);
    assert_int_equal(tamis_writer_open(path, &w, NULL), TAMIS_ERR_DAMAGED);
    assert_null(w);
}

/* Slot A written and lost, B not yet written: the older commit counts, nothing of it
 * is missing, and the sequence goes on from there. */
static void test_older_slot_takes_over(void **state)
{
    char path[1024];
    uint8_t old_b[SLOT_BYTES];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("older"));
    struct tamis_writer *w = create_writer(path_of("older.live"), 0.01, 2, 5000);
    add_hashes(w, keys, 1000);
    assert_int_equal(tamis_writer_commit(w, 10, NULL), 0);
    int fd = open(path_of("older.live"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, old_b, sizeof old_b, (off_t)commit_slot_offset(SLOT_B)),
                     sizeof old_b);
    close(fd);
    add_hashes(w, keys + 1000, 1000);
    assert_int_equal(tamis_writer_commit(w, 20, NULL), 0);
    file_copy(path_of("older.live"), path);
    assert_int_equal(tamis_writer_close(w), 0);
    uint64_t newest = commit_of(path).sequence;

    file_poke(path, commit_slot_offset(SLOT_B), old_b, sizeof old_b);
    assert_int_equal(commit_of(path).sequence, newest); /* A is newer */
    file_copy(path, path_of("older.a"));
    expect_recovery(path_of("older.a"), 2000, 20);
    spoil(path, SLOT_A, 0, 512);
    assert_int_equal(commit_of(path).sequence, newest - 1);
    assert_int_equal(commit_of(path).watermark, 10);
    expect_recovery(path, 2000, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_FAULTS(test_copies_taken_while_writing),
        cmocka_unit_test(test_processes_that_die),
        cmocka_unit_test(test_which_ends_are_unclean),
        cmocka_unit_test(test_recount_after_an_unclean_end),
        cmocka_unit_test(test_space_of_a_dead_writer),
        TEST_WITH_FAULTS(test_torn_and_rotten_slots),
        cmocka_unit_test(test_both_slots_gone),
        TEST_WITH_FAULTS(test_older_slot_takes_over),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
