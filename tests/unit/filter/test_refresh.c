/* A reader of a growing filter follows its file (R6): what it does when slot A is
 * another one than it knew, half written, of another filter, or of an older table. */
#include "tests/support/filters.h"

enum { N = 5000 };

static uint64_t keys[N];
static const char *path;

static void make(const char *name, size_t n)
{
    WRITER w = create_writer(name, 0.01, 2, 500);
    add_hashes(w, keys, n);
}

/* The bytes of one file written over those of another, which readers have mapped. */
static void overwrite(const char *with)
{
    size_t n;
    FREED uint8_t *bytes = file_read(with, &n);
    file_poke(path, 0, bytes, n);
}

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static struct tamis_filter *reader;

/* The first sector of slot A, with the sequence a reader knows, comes back alone. */
TEST(test_a_first_sector_put_back)
{
    enum { N_ALL = 4000 };
    static uint64_t h[N_ALL];
    uint8_t sector[SECTOR_BYTES];
    random_hashes(h, N_ALL);
    const char *file = path_of("sector");
    struct tamis_writer *w = create_writer(file, 0.45, 1.5, 2000);
    add_hashes(w, h, 500);
    OK(tamis_writer_commit(w, 1, NULL));
    FILTER f = open_filter(file);
    IS(count_absent(f, h, 500), 0);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    IS(pread(fd, sector, sizeof sector, PAGE_BYTES), sizeof sector);
    add_hashes(w, h + 500, N_ALL - 500);
    commit_and_close(w, 2);
    IS(pwrite(fd, sector, sizeof sector, PAGE_BYTES), sizeof sector);
    close(fd);
    IS(count_absent(f, h, N_ALL), 0);
}

static int fresh_path(void **state);
#define TEST_WITH_PATH(name) TEST_WITH(fresh_path, faults_off, name)

TEST_WITH_PATH(test_another_filter_in_its_place)
{
    make(path_of("other"), 2);
    make(path, N);
    FILTER f = open_filter(path);
    uint64_t absent = absent_key(f);
    file_copy(path, path_of("old"));
    overwrite(path_of("other"));
    IS(why_of(f, absent), TAMIS_MISMATCH);
    IS(count_absent(f, keys, N), 0);
    overwrite(path_of("old")); /* ours again; and it answers when that is news */
    IS(count_absent(f, keys, N), 0);
    OK(tamis_writer_close(open_writer(path), NULL));
    IS(why_of(f, absent), TAMIS_NO_REASON);
    IS(count_absent(f, keys, N), 0);
}

/* A filter with more keys, and a copy of it as it was with a hundred. */
static void make_with_older_copy(size_t n, uint64_t watermark)
{
    unlink(path);
    make(path, 100);
    file_copy(path, path_of("old"));
    struct tamis_writer *w = open_writer(path);
    add_hashes(w, keys + 100, n - 100);
    commit_and_close(w, watermark);
}

/* A writer goes on with the copy until its sequence is ahead. */
static void go_on_with_copy(bool marks)
{
    uint64_t sequence = commit_of(path).sequence;
    WRITER w = open_writer(path_of("old"));
    for (uint64_t i = 0; i <= sequence; i++)
        OK(tamis_writer_commit(w, marks ? i : 0, NULL));
    assert_true(commit_of(path_of("old")).sequence > sequence);
}

/* Also one that a writer went on with elsewhere: its table is behind. */
TEST_WITH_PATH(test_an_older_copy_in_its_place)
{
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        make_with_older_copy(N, 0);
        if (goes_on)
            go_on_with_copy(true);
        assert_true(commit_of(path_of("old")).generation < commit_of(path).generation);
        FILTER f = open_filter(path);
        uint64_t absent = absent_key(f);
        overwrite(path_of("old"));
        IS(why_of(f, absent), TAMIS_UNREADABLE);
        IS(count_absent(f, keys, N), 0);
    }
}

/* The same with one table all along, so that only the watermark tells. One that leaves
 * all its watermarks at 0 is told by nothing. */
TEST_WITH_PATH(test_an_older_copy_that_was_recovered)
{
    for (uint64_t mark = 0; mark < 8; mark += 7) {
        make_with_older_copy(200, mark);
        FILTER f = open_filter(path);
        uint64_t absent = absent_key(f);
        go_on_with_copy(false);
        assert_true(commit_of(path_of("old")).generation == commit_of(path).generation);
        overwrite(path_of("old"));
        if (mark) {
            IS(why_of(f, absent), TAMIS_UNREADABLE);
            IS(count_absent(f, keys, 200), 0);
        } else {
            IS(why_of(f, absent), TAMIS_NO_REASON);
            assert_true(count_absent(f, keys + 100, 100) > 90); /* SPEC.md 7.3 */
        }
    }
}

/* The reader saw a watermark that was not durable yet, and the sync failed. */
TEST_WITH_PATH(test_a_watermark_that_is_taken_back)
{
    enum { MARK = 9 };
    make(path, 100);
    WRITER w = open_writer(path);
    add_hashes(w, keys + 100, 100);
    OK(tamis_writer_commit(w, MARK - 4, NULL));
    size_t n;
    FREED uint8_t *before = file_read(path, &n);
    FILTER f = open_filter(path);
    uint64_t absent = absent_key(f);
    add_hashes(w, keys + 200, 100);
    fail_once(CALL_FDATASYNC, 2, EIO); /* slot A is written */
    IS(tamis_writer_commit(w, MARK, NULL), EIO);
    fail_never();
    IS(commit_of(path).watermark, MARK);
    IS(why_of(f, absent), TAMIS_NO_REASON); /* it saw that */
    tamis_writer_close(w, NULL);
    file_poke(path, PAGE_BYTES, before + PAGE_BYTES, SLOT_BYTES); /* the page is gone */
    w = open_writer(path);
    IS(w->watermark, MARK - 4);
    IS(why_of(f, absent), TAMIS_UNREADABLE);
    add_hashes(w, keys + 200, 100); /* replayed */
    OK(tamis_writer_commit(w, MARK - 1, NULL));
    IS(why_of(f, absent), TAMIS_UNREADABLE);
    OK(tamis_writer_commit(w, MARK, NULL));
    IS(why_of(f, absent), TAMIS_NO_REASON);
    IS(count_absent(f, keys, 300), 0);
}

/* The number of a table is no proof that it is the same: one that never became durable
 * had it, too. A change of any number that says where bits are is another table. */
TEST_WITH_PATH(test_another_table_of_the_same_number)
{
    make(path, N);
    FILTER f = open_filter(path);
    const struct view *v = atomic_load(&f->view);
    struct commit c = commit_of(path);
    assert_true(c.n_stages > 2);
    for (size_t i = 0; i < c.n_stages; i++) {
        struct stage_desc *d = &c.stages[i];
        uint64_t *const numbers[] = {&d->offset,        &d->length,
                                     &d->floors_offset, &d->digests_offset,
                                     &d->root,          &d->geometry.n_blocks};
        uint32_t *const small[] = {&d->geometry.lanes, &d->geometry.words};
        for (size_t k = 0; k < N_OF(numbers); k++) {
            assert_true(view_shows(v, &c));
            *numbers[k] += 1;
            assert_false(view_shows(v, &c));
            *numbers[k] -= 1;
        }
        for (size_t k = 0; k < N_OF(small); k++) {
            *small[k] += 1;
            assert_false(view_shows(v, &c));
            *small[k] -= 1;
        }
    }
}

/* ---- slot A, half written when the reader looks ---- */
static void (*halfway)(void);

/* The first half of slot A, with the new sequence; then the reader; then the rest. */
static ssize_t halving_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (halfway && offset == PAGE_BYTES && n == SLOT_BYTES) {
        void (*look)(void) = halfway;
        halfway = NULL;
        IS(real_pwrite(fd, buf, n / 2, offset), n / 2);
        look();
    }
    return real_pwrite(fd, buf, n, offset);
}

static void open_reader(void)
{
    reader = open_filter(path);
    IS(count_absent(reader, keys, 1), 0);
}

static void use_reader(void)
{
    IS(count_absent(reader, keys, 1), 0);
}

/* A reader may have taken anything from slot B. The whole slot A is news to it,
 * although the sequence that it has seen there is the same. */
static void follows_a_slot_seen_half(void (*look)(void))
{
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, 500);
    reader = NULL;
    add_hashes(w, keys, 400);
    OK(tamis_writer_commit(w, 1, NULL));
    if (look == use_reader)
        open_reader();
    real_pwrite = io_calls.pwrite;
    io_calls.pwrite = halving_pwrite;
    halfway = look;
    add_hashes(w, keys + 400, 800); /* one growth, seen half-way */
    assert_null(halfway);
    io_calls.pwrite = real_pwrite;
    IS(commit_of(path).n_stages, 2);
    IS(count_absent(reader, keys, 1200), 0);
    add_hashes(w, keys + 1200, N - 1200);
    IS(count_absent(reader, keys, N), 0);
    uint64_t absent = absent_key(reader);
    OK(tamis_writer_commit(w, 2, NULL));
    IS(why_of(reader, absent), TAMIS_NO_REASON);
    OK(tamis_writer_close(w, NULL));
    IS(count_absent(reader, keys, N), 0);
    tamis_filter_close(reader);
}

TEST_WITH_PATH(test_opened_or_used_while_slot_a_is_written)
{
    follows_a_slot_seen_half(open_reader);
    follows_a_slot_seen_half(use_reader);
}

static int hook_result;
static unsigned n_told, n_closed, n_syncs_told;
static struct commit told;

static int changed(void *ctx, const struct commit *c, struct tamis_diag *diag)
{
    n_told++;
    n_syncs_told = (unsigned)faults[CALL_FDATASYNC].n;
    told = *c;
    return hook_result;
}

static void closed(void *ctx)
{
    assert_ptr_equal(ctx, &n_closed);
    n_closed++;
}

/* Bounds that a catalog could not take at growth are offered again at each commit,
 * until it takes them. */
TEST_WITH_PATH(test_the_catalog_is_told_again)
{
    static const struct {
        enum { ADD, COMMIT, TELL, SEAL } act;
        size_t n; /* keys, or the watermark */
        int hook, rc;
        unsigned n_told, n_stages, n_syncs; /* syncs of a commit; 0: not looked at */
    } steps[] = {
        {ADD, 600, ENOSPC, 0, 1, 2, 0}, /* one growth */
        {COMMIT, 1, ENOSPC, 0, 2, 2, 0},
        {TELL, 0, ENOSPC, ENOSPC, 3, 2, 0},
        {COMMIT, 2, 0, 0, 4, 2, 3}, /* keys, A, B: rot of A is no older copy */
        {COMMIT, 3, 0, 0, 4, 2, 2}, /* it knows */
        {TELL, 0, 0, 0, 4, 2, 0},
        {ADD, 1500, 0, 0, 5, 3, 0}, /* one more, taken at once */
        {COMMIT, 4, 0, 0, 5, 3, 0},
        {ADD, 2000, ENOSPC, 0, 6, 4, 0},
        {TELL, 0, 0, 0, 7, 4, 0},
        {TELL, 0, 0, 0, 7, 4, 0},
        {COMMIT, 5, 0, 0, 7, 4, 0},
        {SEAL, 5, EIO, EIO, 8, 4, 0}, /* sealed all the same */
    };
    struct writer_hooks hooks = {
        .changed = changed, .closed = closed, .ctx = &n_closed};
    struct tamis_writer *w;
    struct io_guarded_fd fd;
    size_t n_added = 0;
    make(path, 100);
    n_told = n_closed = 0;
    fail_once(CALL_FDATASYNC, 1, EIO); /* closed even if it was never open */
    OK(io_open_guarded(AT_FDCWD, path, O_RDWR, &fd));
    IS(writer_open_fd(&fd, path, &hooks, &w, NULL), EIO);
    IS(n_closed, 1);
    IS(n_told, 0);
    fail_never();
    hook_result = 0;
    OK(io_open_guarded(AT_FDCWD, path, O_RDWR, &fd));
    OK(writer_open_fd(&fd, path, &hooks, &w, NULL));
    IS(n_told, 1);
    n_told = 0;
    for (size_t i = 0; i < N_OF(steps); i++) {
        unsigned long n_syncs = faults[CALL_FDATASYNC].n;
        int rc = 0;
        hook_result = steps[i].hook;
        if (steps[i].act == ADD)
            add_hashes(w, keys + n_added, steps[i].n), n_added += steps[i].n;
        if (steps[i].act == COMMIT)
            rc = tamis_writer_commit(w, steps[i].n, NULL);
        if (steps[i].act == TELL)
            rc = writer_tell_again(w, NULL);
        if (steps[i].act == SEAL)
            rc = tamis_writer_seal(w, steps[i].n, NULL, NULL);
        bool is_told = i == 0 || steps[i].n_told > steps[i - 1].n_told;
        n_syncs = (is_told ? n_syncs_told : faults[CALL_FDATASYNC].n) - n_syncs;
        if (rc != steps[i].rc || n_told != steps[i].n_told ||
            told.n_stages != steps[i].n_stages ||
            (steps[i].n_syncs && n_syncs != steps[i].n_syncs))
            fail_msg("step %zu: %d, told %u, %u stages, %lu syncs", i, rc, n_told,
                     told.n_stages, n_syncs);
        if (is_told && steps[i].act == COMMIT)
            IS(told.watermark, steps[i].n);
    }
    IS(told.state, STATE_SEALED);
    IS(commit_of(path).state, STATE_SEALED);
    IS(n_closed, 1);
    OK(tamis_writer_close(w, NULL));
    IS(n_closed, 2);
    IS(n_told, 8);
}

SET_UP(test_dir_create, random_hashes(keys, N))

static int fresh_path(void **state)
{
    path = "";
    if (faults_on(state))
        return -1;
    static char name[1024];
    snprintf(name, sizeof name, "%s", path_of("filter"));
    unlink(name);
    unlink(path_of("other"));
    path = name;
    return 0;
}

RUN_TESTS(set_up, test_dir_remove)
