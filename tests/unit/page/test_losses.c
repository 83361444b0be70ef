/* Losses while a writer or a reader looks on: bits that go after a page was found
 * good, slots that a second power cut tears, records that were seen and never became
 * durable. Keys that were acknowledged before are MAYBE afterwards. */
#include "tests/support/filters.h"

enum { N = 3000 };

static uint64_t hashes[N], more[20000];

static struct tamis_writer *new_writer(const char *path, uint64_t first_capacity)
{
    unlink(path);
    return create_writer(path, 0.01, 1.9, first_capacity);
}

/* Clears a sector of the first stage that has bits, in the file that is mapped. */
static void lose_sector(const char *path)
{
    static const uint8_t zeros[SECTOR_BYTES];
    file_poke(path, commit_of(path).stages[0].offset, zeros, sizeof zeros);
}

/* ---- bits that go while a writer is at work (R8, R11) ---- */

TEST(seal_checks_afresh)
{
    const char *path = path_of("seal");
    struct tamis_writer *w = new_writer(path, 2 * N);
    uint64_t n_damaged;
    add_hashes(w, hashes, N);
    OK(tamis_writer_commit(w, 1, NULL));
    lose_sector(path); /* every page was good when this session touched it */
    OK(tamis_writer_seal(w, 2, &n_damaged, NULL));
    IS(n_damaged, 1);
    OK(tamis_writer_close(w, NULL));
    all_there(path, hashes, N);
}

TEST(a_recount_that_finds_a_loss_keeps_it)
{
    const char *path = path_of("recount");
    WRITER w = new_writer(path, 8 * N);
    add_hashes(w, hashes, N);
    OK(tamis_writer_commit(w, 1, NULL));
    lose_sector(path);
    for (size_t i = 0; i < N_OF(more); i += 2000) {
        add_hashes(w, more + i, 2000); /* fills the sector up again */
        OK(tamis_writer_commit(w, 1, NULL));
    }
    all_there(path, hashes, N);
}

/* ---- two power cuts (R1) ---- */

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static const char *torn_copy;
static bool is_torn; /* else it is as of a kill just before the write */

/* A writer first writes slot A as it is. */
static bool changes_slot_a(int fd, const void *buf, size_t n, off_t offset)
{
    uint8_t now[SLOT_BYTES];
    return offset == PAGE_BYTES && n == SLOT_BYTES &&
           (pread(fd, now, n, offset) != SLOT_BYTES || memcmp(now, buf, n) != 0);
}

/* The disk as of a cut in the middle of the first write that changes slot A. */
static ssize_t torn_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (torn_copy && changes_slot_a(fd, buf, n, offset)) {
        if (is_torn)
            real_pwrite(fd, buf, n / 2, offset);
        file_copy(path_of("cut"), torn_copy);
        torn_copy = NULL;
    }
    return real_pwrite(fd, buf, n, offset);
}

/* Opens for writing, with a copy of the disk as it was then. */
static struct tamis_writer *open_torn(const char *copy, bool torn)
{
    real_pwrite = io_calls.pwrite;
    torn_copy = copy;
    is_torn = torn;
    io_calls.pwrite = torn_pwrite;
    struct tamis_writer *w = open_writer(path_of("cut"));
    io_calls.pwrite = real_pwrite;
    assert_null(torn_copy); /* it came there */
    return w;
}

TEST(a_session_mends_slot_b_before_it_writes_a)
{
    const char *path = path_of("cut");
    struct tamis_writer *w = new_writer(path, 2 * N);
    uint8_t garbage = 0x5a;
    add_hashes(w, hashes, N);
    OK(tamis_writer_commit(w, 200, NULL));
    file_copy(path, path_of("first-cut"));
    tamis_writer_close(w, NULL);
    /* Slot B, written lazily, was torn by the first cut. */
    file_copy(path_of("first-cut"), path);
    file_poke(path, 2 * PAGE_BYTES + 100, &garbage, 1);
    tamis_writer_close(open_torn(path_of("second-cut"), true), NULL);
    w = open_writer(path_of("second-cut"));
    IS(w->watermark, 200);
    tamis_writer_close(w, NULL);
    all_there(path_of("second-cut"), hashes, N);
}

/* A close that reached slot A only is an unclean end (R3). It stays one after a session
 * that mended slot B and died. */
TEST(mending_does_not_make_an_end_clean)
{
    const char *path = path_of("cut");
    struct tamis_writer *w = new_writer(path, 2 * N);
    size_t n;
    add_hashes(w, hashes, N);
    OK(tamis_writer_commit(w, 5, NULL));
    FREED uint8_t *before = file_read(path, &n);
    OK(tamis_writer_close(w, NULL));
    file_poke(path, 2 * PAGE_BYTES, before + 2 * PAGE_BYTES, SLOT_BYTES);
    assert_true(commit_of(path).clean); /* slot A says so, slot B is older */
    tamis_writer_close(open_torn(path_of("killed"), false), NULL);
    assert_false(commit_of(path_of("killed")).clean);
    all_there(path_of("killed"), hashes, N);
}

/* ---- records that were seen and are gone (R4, R6) ---- */

static uint8_t old_slot_a[SLOT_BYTES];
static bool armed, wrote_a;

static ssize_t noting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (armed && offset == PAGE_BYTES && n == SLOT_BYTES && !wrote_a) {
        IS(pread(fd, old_slot_a, SLOT_BYTES, offset), SLOT_BYTES);
        wrote_a = true;
    }
    return real_pwrite(fd, buf, n, offset);
}

static int failing_fdatasync(int fd)
{
    if (!armed || !wrote_a)
        return 0;
    errno = EIO;
    return -1;
}

/* A growth or a seal writes slot A, a reader sees it, the sync fails, and the kernel
 * drops the page. The next writer's tables must not pass for that one. */
static void a_phantom_table_is_forgotten(bool seal)
{
    const char *path = path_of("phantom");
    struct io_calls saved = io_calls;
    WRITER w = new_writer(path, 1000);
    FILTER f = open_filter(path);
    real_pwrite = saved.pwrite;
    io_calls.pwrite = noting_pwrite;
    io_calls.fdatasync = failing_fdatasync;
    wrote_a = false;
    armed = !seal;
    add_hashes(w, hashes, seal ? 500 : 1);
    for (size_t i = 0; i < N && !seal && !wrote_a; i++)
        tamis_writer_add_hashes(w, w->domain.tag, &hashes[i], 1);
    armed = true;
    if (seal)
        IS(tamis_writer_seal(w, 1, NULL, NULL), EIO);
    assert_true(wrote_a);
    ask(f, 1, NULL); /* the reader notices the new table */
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
    io_calls = saved;
    armed = false;
    file_poke(path, PAGE_BYTES, old_slot_a, SLOT_BYTES);
    w = open_writer(path);
    add_hashes(w, more, seal ? 20000 : 1200);
    OK(tamis_writer_commit(w, 9, NULL));
    IS(count_absent(f, more, seal ? 20000 : 1200), 0);
}

TEST(a_phantom_table_of_growth_or_seal)
{
    a_phantom_table_is_forgotten(false);
    a_phantom_table_is_forgotten(true);
}

TEST(seal_of_a_file_with_a_ragged_end)
{
    const char *path = path_of("ragged");
    struct tamis_writer *w = new_writer(path, 100); /* one page: no digests */
    OK(truncate(path, stat_of(path).st_size + 700));
    add_hashes(w, hashes, 50);
    seal_and_close(w, 1);
    all_there(path, hashes, 50);
}

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t offset)
{
    static unsigned calls;
    if (calls++ > 0) {
        errno = EIO;
        return -1;
    }
    return pread(fd, buf, n, offset);
}

TEST(a_full_check_that_could_not_be_made_has_failed)
{
    const char *path = path_of("full");
    struct tamis_filter_options o = {.size = sizeof o, .check = TAMIS_CHECK_FULL};
    tamis_writer_close(new_writer(path, 100), NULL);
    io_calls.pread = failing_pread;
    reader_refused(path, &o, EIO);
    io_calls.pread = pread;
}

TEST(damage_found_late_stays_found)
{
    const char *path = path_of("late");
    WRITER w = new_writer(path, 2 * N);
    FILTER f = open_filter(path);
    add_hashes(w, hashes, N);
    OK(tamis_writer_commit(w, 1, NULL));
    verified(f); /* all pages good */
    lose_sector(path);
    damage_of(f);
    IS(count_absent(f, hashes, N), 0);
}

SET_UP(test_dir_create, random_hashes(hashes, N), random_hashes(more, N_OF(more)))

RUN_TESTS(set_up, test_dir_remove)
