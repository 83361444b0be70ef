/* A writer's diagnosis when it refuses or fails: the code, the words, the file; and
 * none when all went well. */
#include "tests/support/one_file.h"

enum { N = 4000 };

static uint64_t keys[N];
static struct tamis_diag diag;

/* The last call returned `code`; the words have these in them. */
static void expect(int returned, int code, const char *words)
{
    if (returned != code || !strstr(diag.what, words))
        fail_msg("returned %d, expected %d; said \"%s\", expected \"%s\"", returned,
                 code, diag.what, words);
    IS(diag.code, code);
    IS(diag.os_errno, code > 0 ? code : 0);
}

static void expect_for(int returned, int code, const char *words, const char *file)
{
    expect(returned, code, words);
    assert_string_equal(diag.file, file);
}

static void expect_silence(int returned)
{
    IS(returned, 0);
    IS(diag.code, 0);
    assert_string_equal(diag.what, "");
}

/* ---- creating ---- */

/* Both of which give no writer when they fail. */
static int create(const char *where, struct tamis_writer **w)
{
    memset(&diag, 0xff, sizeof diag);
    *w = (void *)1;
    int err = tamis_writer_create(where, NULL, w, &diag);
    assert_true(!err || !*w);
    return err;
}

static int reopen(struct tamis_writer **w)
{
    memset(&diag, 0xff, sizeof diag);
    *w = (void *)1;
    int err = tamis_writer_open(path, NULL, w, &diag);
    assert_true(!err || !*w);
    return err;
}

TEST_WITH_FAULTS(test_creating)
{
    WRITER w;
    char name[1600];
    unlink(path);
    const char *there = path_of("no/filter");
    expect_for(create(there, &w), ENOENT, "cannot open its directory", there);
    snprintf(name, sizeof name, "%s/", test_dir);
    expect_for(create(name, &w), EISDIR, "not a name for a file", name);
    snprintf(name, sizeof name, "%s/%0256d", test_dir, 1);
    expect(create(name, &w), ENAMETOOLONG, "not a name for a file");
    file_write(path, "x", 1);
    expect_for(create(path, &w), TAMIS_ERR_EXISTS, "exists already", path);
    unlink(path);
    for (int call = 0; call < N_CALLS; call++) {
        int error = call == CALL_RENAME || call == CALL_FALLOCATE ? ENOSPC : EDQUOT;
        fail_once((enum call)call, 1, error);
        expect_for(create(path, &w), error, "", path);
        assert_true(diag.what[0]);
        fail_never();
        unlink(path);
        IS(count_files(test_dir), 0);
    }
    faults[CALL_FSYNC].n = 0;
    expect_silence(create(path, &w));
    IS(faults[CALL_FSYNC].n, 2); /* the file, and its directory (R13) */
}

/* One descriptor for the directory, and none for the file. */
TEST_WITH_FAULTS(test_creating_without_descriptors)
{
    struct tamis_writer *w;
    struct rlimit before, tight;
    unlink(path);
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    OK(getrlimit(RLIMIT_NOFILE, &before));
    tight = before;
    tight.rlim_cur = (rlim_t)next + 1;
    OK(setrlimit(RLIMIT_NOFILE, &tight));
    int err = create(path, &w);
    OK(setrlimit(RLIMIT_NOFILE, &before));
    expect_for(err, EMFILE, "cannot create", path);
    assert_false(exists(path));
}

/* ---- opening ---- */

static ssize_t (*real_pread)(int, void *, size_t, off_t);

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t offset)
{
    if (n == SECTOR_BYTES) {
        errno = EIO;
        return -1;
    }
    return real_pread(fd, buf, n, offset);
}

static void *failing_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    errno = ENOMEM;
    return MAP_FAILED;
}

static void set_ro_compat(bool of_identity)
{
    size_t n;
    FREED uint8_t *file = file_read(path, &n);
    struct identity id;
    struct commit c = commit_of(path);
    IS(identity_decode(file, n, &id).code, VERDICT_OK);
    *(of_identity ? &id.ro_compat : &c.ro_compat) = 4;
    identity_encode(&id, file);
    c.sequence++;
    commit_encode(&c, SLOT_A, file + commit_slot_offset(SLOT_A));
    commit_encode(&c, SLOT_B, file + commit_slot_offset(SLOT_B));
    file_write(path, file, n);
}

TEST_WITH_FAULTS(test_opening)
{
    struct tamis_writer *w, *x;
    char words[64];
    unlink(path);
    expect_for(reopen(&w), ENOENT, "cannot open for writing", path);
    w = fresh(500);
    snprintf(words, sizeof words, "process %ld has it open for writing",
             (long)getpid());
    expect_for(reopen(&x), TAMIS_ERR_BUSY, words, path);
    add_hashes(w, keys, 100); /* the first goes on */
    OK(tamis_writer_close(w, NULL));
    expect_silence(reopen(&w));
    OK(tamis_writer_close(w, NULL));

    real_pread = io_calls.pread;
    io_calls.pread = failing_pread;
    int err = reopen(&w);
    io_calls.pread = real_pread;
    expect_for(err, EIO, "reading floors", path);

    io_calls.mmap = failing_mmap;
    err = reopen(&w);
    io_calls.mmap = calls_before.mmap;
    expect_for(err, ENOMEM, "cannot map a stage", path);
    expect_silence(reopen(&w));
    OK(tamis_writer_close(w, NULL));

    file_copy(path, path_of("good"));
    for (int of_identity = 0; of_identity < 2; of_identity++) {
        file_copy(path_of("good"), path);
        set_ro_compat(of_identity);
        expect_for(reopen(&w), TAMIS_ERR_VERSION, "forbids this one to write", path);
        FILTER f = open_filter(path); /* reading is allowed */
    }
    file_copy(path_of("good"), path);
    w = open_writer(path);
    seal_and_close(w, 1);
    expect_for(reopen(&w), TAMIS_ERR_SEALED, tamis_strerror(TAMIS_ERR_SEALED), path);
}

/* ---- committing ---- */

static int commit(struct tamis_writer *w, uint64_t watermark)
{
    memset(&diag, 0xff, sizeof diag);
    return tamis_writer_commit(w, watermark, &diag);
}

static int seal(struct tamis_writer *w, uint64_t watermark, uint64_t *n_damaged)
{
    memset(&diag, 0xff, sizeof diag);
    return tamis_writer_seal(w, watermark, n_damaged, &diag);
}

/* In the general words for it. */
static void expect_plainly(int returned, int code)
{
    expect_for(returned, code, tamis_strerror(code), path);
}

static void fails_at(enum call call, unsigned long nth, const char *words)
{
    struct tamis_writer *w = fresh(500);
    add_hashes(w, keys, 100);
    fail_once(call, nth, EIO);
    expect_for(commit(w, 5), EIO, words, path);
    fail_never();
    expect_plainly(commit(w, 5), TAMIS_ERR_POISONED);
    uint64_t n_damaged = 77;
    expect_plainly(seal(w, 9, &n_damaged), TAMIS_ERR_POISONED);
    IS(n_damaged, 0);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
}

TEST_WITH_FAULTS(test_committing)
{
    struct tamis_writer *w = fresh(500);
    add_hashes(w, keys, 100);
    expect_silence(commit(w, 5));
    expect_for(commit(w, 4), TAMIS_ERR_RANGE, "watermark 4 is below the committed 5",
               path);
    expect_silence(commit(w, 5));
    IS(w->watermark, 5);
    expect_plainly(seal(w, 4, NULL), TAMIS_ERR_RANGE);
    expect_silence(seal(w, 6, NULL));
    expect_plainly(commit(w, 7), TAMIS_ERR_SEALED);
    expect_plainly(seal(w, 7, NULL), TAMIS_ERR_SEALED);
    OK(tamis_writer_close(w, NULL));

    fails_at(CALL_FDATASYNC, 1, "syncing the keys");
    fails_at(CALL_FDATASYNC, 2, "writing commit slot A");
    fails_at(CALL_PWRITE, 1, "writing floors");
    fails_at(CALL_PWRITE, 2, "writing commit slot A");
}

/* Slot B of a commit that changes no table is written lazily: its failure is the next
 * commit's (R1). */
TEST_WITH_FAULTS(test_a_late_slot_b)
{
    struct tamis_writer *w = fresh(500);
    add_hashes(w, keys, 100);
    fail_once(CALL_PWRITE, 3, EIO);
    expect_silence(commit(w, 5));
    IS(w->watermark, 5);
    fail_never();
    expect(commit(w, 6), TAMIS_ERR_POISONED, "");
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
    IS(commit_of(path).watermark, 5);
    assert_false(commit_of(path).clean);
}

/* ---- sealing ---- */

static uint64_t size_now(void)
{
    return (uint64_t)stat_of(path).st_size;
}

static void seal_fails_at(enum call call, unsigned long nth, int err, const char *words,
                          int closes_with)
{
    struct tamis_writer *w = fresh(50000); /* of many pages: it gets digests */
    add_hashes(w, keys, 100);
    uint64_t before = size_now();
    fail_once(call, nth, err);
    expect_for(seal(w, 5, NULL), err, words, path);
    fail_never();
    if (!closes_with) { /* open as before, and as long */
        IS(size_now(), before);
        add_hashes(w, keys + 100, 100);
        expect_silence(commit(w, 6));
    }
    IS(tamis_writer_close(w, NULL), closes_with);
    IS(commit_of(path).state, STATE_OPEN);
    IS(commit_of(path).clean, closes_with == 0);
}

TEST_WITH_FAULTS(test_sealing)
{
    seal_fails_at(CALL_FALLOCATE, 1, ENOSPC, "writing digests", 0);
    seal_fails_at(CALL_PWRITE, 1, ENOSPC, "writing digests", 0);
    seal_fails_at(CALL_FDATASYNC, 1, EIO, "syncing keys and digests",
                  TAMIS_ERR_POISONED);
}

/* A failure has no outputs, even if it has found some by then. */
TEST_WITH_FAULTS(test_sealing_damage)
{
    static const uint8_t zeros[PAGE_BYTES];
    WRITER w = fresh(50000);
    uint64_t n_damaged = 77;
    add_hashes(w, keys, 1000);
    OK(tamis_writer_close(w, NULL));
    file_poke(path, commit_of(path).stages[0].offset, zeros, sizeof zeros);
    w = open_writer(path);
    fail_once(CALL_FALLOCATE, 1, ENOSPC);
    expect(seal(w, 5, &n_damaged), ENOSPC, "writing digests");
    IS(n_damaged, 0);
    expect_silence(seal(w, 5, &n_damaged));
    IS(n_damaged, 1); /* by its floors, which the failure condemned */
}

/* ---- in a child ---- */

static int refused(void *ctx)
{
    struct tamis_writer *w = ctx;
    struct tamis_filter_info info;
    memset(&info, 0xff, sizeof info);
    uint64_t n_damaged = 77;
    bool all = commit(w, 9) == TAMIS_ERR_FORKED && diag.code == TAMIS_ERR_FORKED &&
               strcmp(diag.file, path) == 0;
    all = all && tamis_writer_seal(w, 9, &n_damaged, &diag) == TAMIS_ERR_FORKED &&
          diag.code == TAMIS_ERR_FORKED && n_damaged == 0;
    all = all && tamis_writer_info(w, &info, NULL) == TAMIS_ERR_FORKED &&
          info.n_stages == 0;
    all = all && tamis_writer_add_key(w, "key", 3) == TAMIS_ERR_FORKED &&
          tamis_writer_close(w, NULL) == 0;
    return all ? 0 : 1;
}

TEST_WITH_FAULTS(test_in_a_child)
{
    WRITER w = fresh(500);
    in_child(refused, w);
    add_hashes(w, keys, 100);
    expect_silence(commit(w, 1));
}

SET_UP(one_file_create, random_hashes(keys, N))

RUN_TESTS(set_up, test_dir_remove)
