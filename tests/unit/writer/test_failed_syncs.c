/* Calls that fail while a filter is made durable (R3, R4): the writer is poisoned, what
 * it acknowledged stays, and the next one brings a seal to its end. */
#include "tests/unit/writer/recover_support.h"

/* ---- syncs that fail (R4) ---- */

struct attempt {
    struct tamis_writer *w;
    size_t n_acknowledged;
    uint64_t watermark;
};

/* Commits, growth and a seal, until something fails. */
static int work(struct attempt *a)
{
    uint64_t tag = a->w->domain.tag;
    for (size_t i = 0; i < 12; i++) {
        int err = tamis_writer_add_hashes(a->w, tag, keys + i * 250, 250);
        if (!err)
            err = tamis_writer_commit(a->w, i + 1, NULL);
        if (err)
            return err;
        a->n_acknowledged = (i + 1) * 250;
        a->watermark = i + 1;
    }
    return tamis_writer_seal(a->w, 100, NULL, NULL);
}

static void expect_poisoned(struct tamis_writer *w)
{
    uint64_t tag = w->domain.tag;
    IS(tamis_writer_add_hashes(w, tag, keys, 1), TAMIS_ERR_POISONED);
    IS(tamis_writer_add_key(w, "k", 1), TAMIS_ERR_POISONED);
    for (int i = 0; i < 2; i++) { /* the disk lies now; nobody may believe it */
        IS(tamis_writer_commit(w, 1000, NULL), TAMIS_ERR_POISONED);
        IS(tamis_writer_seal(w, 1000, NULL, NULL), TAMIS_ERR_POISONED);
    }
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
}

static void expect_survival(const char *path, const struct attempt *a)
{
    struct tamis_filter *f = open_filter(path);
    struct tamis_filter_info info = filter_info(f);
    /* A seal whose record got out before its sync failed may stand. */
    assert_true(!info.clean || info.sealed);
    IS(count_absent(f, keys, a->n_acknowledged), 0);
    tamis_filter_close(f);
    fail_never();
    if (!info.sealed)
        expect_recovery(path, a->n_acknowledged, a->watermark);
}

/* Lets the nth call of the work fail. Says whether it got that far, and in *poisoned
 * whether the writer took it badly. */
static bool fail_nth(enum call call, unsigned long nth, bool *poisoned)
{
    const char *path = path_of("poison");
    struct attempt a = {.w = create_writer(path, 0.01, 2, 500)};
    fail_once(call, nth, EIO);
    int err = work(&a);
    bool failed = faults[call].n >= nth;
    *poisoned = err != 0;
    if (err) {
        assert_true(failed);
        assert_true(a.w->watermark <= a.watermark + 1);
        expect_poisoned(a.w);
    } else {
        OK(tamis_writer_close(a.w, NULL));
    }
    expect_survival(path, &a);
    unlink(path);
    return failed;
}

/* A failed write of floors or slot A is no better; one of slot B is found at the next
 * commit. Only a stage or digests that nothing names yet can be retried. */
TEST_WITH_FAULTS(test_failed_writes_poison)
{
    unsigned long nth = 1, n_poisoned = 0;
    bool poisoned;
    for (; fail_nth(CALL_PWRITE, nth, &poisoned); nth++)
        n_poisoned += poisoned;
    assert_true(n_poisoned >= 12 * 3 && nth - n_poisoned <= 10);
}

TEST_WITH_FAULTS(test_failed_sync_while_opening_and_closing)
{
    const char *path = path_of("doors");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 500);
    add_hashes(w, keys, 400);
    commit_and_close(w, 7);
    for (unsigned long nth = 1; nth <= 3; nth++) {
        fail_once(CALL_FDATASYNC, nth, EIO);
        IS(writer_refused(path, EIO).os_errno, EIO);
        fail_never();
        w = open_writer(path); /* the lock is free */
        IS(w->watermark, 7);
        add_hashes(w, keys + 400 * nth, 400);
        fail_once(CALL_FDATASYNC, nth, EIO);
        IS(tamis_writer_close(w, NULL), EIO); /* the one that it met */
        fail_never();
    }
    expect_recovery(path, 400, 7);
}

/* Floors of many sectors, one of which the disk gives back neither before an orderly
 * end nor after a kill: without them nobody can tell what is damaged. */
static struct {
    uint64_t at;
    unsigned n;
} unreadable;

static ssize_t pread_but_there(int fd, void *buf, size_t n, off_t offset)
{
    if ((uint64_t)offset != unreadable.at)
        return pread(fd, buf, n, offset);
    unreadable.n++;
    return errno = EIO, -1;
}

TEST_WITH_FAULTS(test_floors_that_cannot_be_read)
{
    const char *path = path_of("floors"), *copy = path_of("floors-copy");
    struct tamis_writer *w = create_writer(path, 1e-6, 2, N_KEYS);
    add_hashes(w, keys, 1000);
    OK(tamis_writer_commit(w, 7, NULL));
    file_copy(path, copy);
    OK(tamis_writer_close(w, NULL));
    struct commit c = commit_of(path);
    assert_true(c.stages[0].length / PAGE_BYTES > 2 * PAGES_PER_FLOOR_SECTOR);
    for (uint64_t sector = 0; sector < 3; sector++)
        for (int killed = 0; killed < 2; killed++) {
            unreadable.at = c.stages[0].floors_offset + sector * SECTOR_BYTES;
            unreadable.n = 0;
            io_calls.pread = pread_but_there;
            struct tamis_diag diag = writer_refused(killed ? copy : path, EIO);
            io_calls.pread = calls_before.pread;
            assert_non_null(strstr(diag.what, "reading floors"));
            IS(unreadable.n, 1);
        }
    expect_recovery(path, 1000, 7);
    expect_recovery(copy, 1000, 7);
}

/* ---- a seal that did not come to its end ---- */

/* Slot A says sealed, in the page cache; its sync failed, and slot B is older. */
static void seal_that_fails(const char *path, uint64_t first_capacity)
{
    struct tamis_writer *w = create_writer(path, 0.01, 2, first_capacity);
    add_hashes(w, keys, 400);
    fail_once(CALL_FDATASYNC, 2, EIO);
    IS(tamis_writer_seal(w, 7, NULL, NULL), EIO);
    fail_never();
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
}

static void poke_slot(uint8_t *file, uint8_t slot, size_t at, uint8_t value)
{
    uint8_t *record = file + commit_slot_offset(slot);
    record[at] = value;
    checksum_set(record, SLOT_BYTES, 0);
}

TEST_WITH_FAULTS(test_a_seal_is_told_when_it_is_durable)
{
    const char *path = path_of("settle");
    seal_that_fails(path, 500);
    for (unsigned long nth = 1; nth <= 2; nth++) {
        fail_once(CALL_FDATASYNC, nth, EIO);
        writer_refused(path, EIO);
    }
    fail_never();
    unlink(path);
    seal_that_fails(path, 500);
    unreadable.at = commit_slot_offset(SLOT_A); /* read alone to be put into slot B */
    io_calls.pread = pread_but_there;
    writer_refused(path, EIO);
    io_calls.pread = calls_before.pread;
    for (unsigned long nth = 1; nth <= 2; nth++) { /* the file, slot B */
        fail_once(CALL_PWRITE, nth, EIO);
        writer_refused(path, EIO);
    }
    fail_never();
    unlink(path);
    seal_that_fails(path, 500);
    for (int again = 0; again < 2; again++) {
        writer_refused(path, TAMIS_ERR_SEALED);
        IS(faults[CALL_FDATASYNC].n, 2); /* the file, and slot B: once */
    }
    all_there(path, keys, 400);
    unlink(path);
}

static bool rewritten[512]; /* page by page, before the first sync */

static ssize_t noting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    uint64_t at = (uint64_t)offset;
    assert_true(at + n <= sizeof rewritten * PAGE_BYTES);
    for (uint64_t i = 0; i < n / PAGE_BYTES && !faults[CALL_FDATASYNC].n; i++)
        rewritten[at / PAGE_BYTES + i] = true;
    return calls_before.pwrite(fd, buf, n, offset);
}

/* A dead writer's bytes may be in the page cache only: they are written again, to the
 * last page of the filter, and then synced (R3, R4). */
TEST_WITH_FAULTS(test_a_settled_seal_is_written_again)
{
    const char *path = path_of("again");
    size_t n;
    seal_that_fails(path, 150 * 1000);
    size_t n_pages = commit_of(path).committed_bytes / PAGE_BYTES;
    assert_true(n_pages > 50);
    file_poke(path, n_pages * PAGE_BYTES, keys, PAGE_BYTES); /* somebody else's */
    FREED uint8_t *before = file_read(path, &n);
    fail_never();
    memset(rewritten, 0, sizeof rewritten);
    io_calls.pwrite = noting_pwrite;
    writer_refused(path, TAMIS_ERR_SEALED);
    for (size_t i = 0; i < n_pages; i++)
        assert_true(rewritten[i] || all_zero(before + i * PAGE_BYTES, PAGE_BYTES));
    assert_false(rewritten[n_pages]);
    FREED uint8_t *after = file_read(path, &n);
    assert_memory_equal(after, before, 2 * PAGE_BYTES);
    assert_memory_equal(after + 3 * PAGE_BYTES, before + 3 * PAGE_BYTES,
                        n - 3 * PAGE_BYTES);
}

/* The file of a seal that failed, for a test to change. */
static uint8_t *failed_seal(const char *path, size_t *n)
{
    seal_that_fails(path, 500);
    return file_read(path, n);
}

/* Bytes of the record that this version does not know are in both slots. */
TEST_WITH_FAULTS(test_a_settled_seal_keeps_every_byte)
{
    const char *path = path_of("bytes");
    size_t n;
    FREED uint8_t *file = failed_seal(path, &n);
    poke_slot(file, SLOT_A, offsetof(struct commit_disk, compat) + 7, 0x80);
    poke_slot(file, SLOT_A, STAGES_OFFSET + STAGE_BYTES - 1, 0x66); /* unused */
    file_write(path, file, n);
    writer_refused(path, TAMIS_ERR_SEALED);
    FREED uint8_t *after = file_read(path, &n);
    poke_slot(file, SLOT_A, offsetof(struct commit_disk, slot), SLOT_B);
    assert_memory_equal(after + commit_slot_offset(SLOT_B),
                        file + commit_slot_offset(SLOT_A), SLOT_BYTES);
}

/* The seal is in slot B, and A is older, and good: both are the seal's afterwards. */
TEST_WITH_FAULTS(test_a_seal_in_slot_b_is_mirrored)
{
    const char *path = path_of("in-b");
    uint8_t slot[SLOT_BYTES];
    size_t n;
    FREED uint8_t *file = failed_seal(path, &n);
    uint8_t *a = file + commit_slot_offset(SLOT_A),
            *b = file + commit_slot_offset(SLOT_B);
    memcpy(slot, a, SLOT_BYTES);
    memcpy(a, b, SLOT_BYTES);
    memcpy(b, slot, SLOT_BYTES);
    commit_renumber(a, SLOT_A);
    commit_renumber(b, SLOT_B);
    file_write(path, file, n);
    writer_refused(path, TAMIS_ERR_SEALED);
    FREED uint8_t *after = file_read(path, &n);
    assert_memory_equal(after + commit_slot_offset(SLOT_A), slot, SLOT_BYTES);
    assert_memory_equal(after + commit_slot_offset(SLOT_B), b, SLOT_BYTES);
}

TEST_WITH_FAULTS(test_a_newer_seal_is_not_settled)
{
    const char *path = path_of("newer");
    size_t n;
    FREED uint8_t *file = failed_seal(path, &n);
    poke_slot(file, SLOT_A, offsetof(struct commit_disk, ro_compat) + 7, 0x80);
    file_write(path, file, n);
    writer_refused(path, TAMIS_ERR_VERSION);
    file_has(path, file, n);
}

RUN_TESTS(set_up, test_dir_remove)
