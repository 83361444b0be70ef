/* After an unclean end (R1-R4): whatever a dead writer left, its acknowledged keys are
 * there, its watermark is not below the last one acknowledged, and writing goes on. */
#include "tests/unit/writer/recover_support.h"

/* After an unclean end the numbers leap (R7): one that a dead writer showed to readers
 * must not come again. Which ends are unclean: a clean flag of 0, a slot that is bad,
 * two that differ. */
TEST(test_which_ends_are_unclean)
{
    const char *path = path_of("ends");
    size_t n;
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 500);
    FREED uint8_t *unclean = file_read(path, &n);
    OK(tamis_writer_close(w, NULL));
    FREED uint8_t *clean = file_read(path, &n);
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
        OK(tamis_writer_close(w, NULL));
    }
}

/* The recount (R9): keys that no commit has counted count for growth. */
TEST(test_recount_after_an_unclean_end)
{
    const char *path = path_of("counted"), *copy = path_of("recounted");
    WRITER w = create_writer(path, 0.01, 2, 20000);
    add_hashes(w, keys, 15000);
    file_copy(path, copy);
    OK(tamis_writer_close(w, NULL));
    w = open_writer(copy);
    struct tamis_filter_info info = writer_info(w);
    assert_true(info.keys > 14500 && info.keys < 15500);
    add_hashes(w, keys + 15000, 10000);
    OK(tamis_writer_info(w, &info, NULL));
    IS(info.n_stages, 2);
    IS(info.over_target, 0);
}

/* Space that a dead writer allocated and never committed may not be zero: it stays
 * unused. */
TEST(test_space_of_a_dead_writer)
{
    const char *path = path_of("leftovers");
    uint8_t junk[65536];
    struct tamis_writer *w = create_writer(path_of("leftovers.live"), 0.01, 2, 1000);
    add_hashes(w, keys, 900);
    OK(tamis_writer_commit(w, 10, NULL));
    file_copy(path_of("leftovers.live"), path);
    OK(tamis_writer_close(w, NULL));
    struct stat st = stat_of(path);
    memset(junk, 0xff, sizeof junk);
    file_poke(path, (uint64_t)st.st_size, junk, sizeof junk);
    w = open_writer(path);
    add_hashes(w, keys + 900, 5000);
    commit_and_close(w, 20);
    struct commit c = commit_of(path);
    IS(c.n_stages, 3);
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
    OK(tamis_writer_commit(w, 10, NULL));
    add_hashes(w, keys + 900, 900);
    OK(tamis_writer_commit(w, 20, NULL));
    file_copy(path_of("slots.live"), path);
    OK(tamis_writer_close(w, NULL));
    unlink(path_of("slots.live"));
    IS(commit_of(path).n_stages, 2);
    return 1800;
}

TEST_WITH_FAULTS(test_torn_and_rotten_slots)
{
    static const struct {
        size_t from, n;
    } damage[] = {{0, SLOT_BYTES}, {512, SLOT_BYTES - 512}, {0, 512}, {24, 8}};
    const char *path = path_of("slots");
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        for (size_t i = 0; i < N_OF(damage); i++) {
            struct tamis_verify report;
            size_t n = make_unclean(path);
            spoil(path, slot, damage[i].from, damage[i].n);
            struct tamis_filter *f = open_filter(path);
            IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
            IS(report.n_stale_slots, 1);
            IS(report.n_damaged, 0);
            tamis_filter_close(f);
            expect_recovery(path, n, 20);
        }
    }
}

TEST(test_both_slots_gone)
{
    const char *path = path_of("no slots");
    make_unclean(path);
    spoil(path, SLOT_A, 100, 400);
    spoil(path, SLOT_B, 0, SLOT_BYTES);
    assert_true(reader_refused(path, NULL, TAMIS_ERR_DAMAGED).has_offset);
    writer_refused(path, TAMIS_ERR_DAMAGED);
}

/* Slot A written and lost, B not yet written: the older commit counts, nothing of it
 * is missing, and the sequence goes on from there. */
TEST_WITH_FAULTS(test_older_slot_takes_over)
{
    const char *path = path_of("older");
    uint8_t old_b[SLOT_BYTES];
    struct tamis_writer *w = create_writer(path_of("older.live"), 0.01, 2, 5000);
    add_hashes(w, keys, 1000);
    OK(tamis_writer_commit(w, 10, NULL));
    FD fd = open_to_read(path_of("older.live"));
    IS(pread(fd, old_b, sizeof old_b, (off_t)commit_slot_offset(SLOT_B)), sizeof old_b);
    add_hashes(w, keys + 1000, 1000);
    OK(tamis_writer_commit(w, 20, NULL));
    file_copy(path_of("older.live"), path);
    OK(tamis_writer_close(w, NULL));
    uint64_t newest = commit_of(path).sequence;

    file_poke(path, commit_slot_offset(SLOT_B), old_b, sizeof old_b);
    IS(commit_of(path).sequence, newest); /* A is newer */
    file_copy(path, path_of("older.a"));
    expect_recovery(path_of("older.a"), 2000, 20);
    spoil(path, SLOT_A, 0, 512);
    IS(commit_of(path).sequence, newest - 1);
    IS(commit_of(path).watermark, 10);
    expect_recovery(path, 2000, 10);
}

RUN_TESTS(set_up, test_dir_remove)
