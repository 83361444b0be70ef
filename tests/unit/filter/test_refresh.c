/* A reader of a growing filter follows its file (R6): what it does when slot A is
 * another one than it knew, half written, of another filter, or of an older table. */
#include "tests/support/reason.h"
#include "lib/filter/view.h"

enum { N = 5000 };

static uint64_t keys[N];
static const char *path;

static void make(const char *name, size_t n)
{
    struct tamis_writer *w = create_writer(name, 0.01, 2, 500);
    add_hashes(w, keys, n);
    assert_int_equal(tamis_writer_close(w), 0);
}

/* The bytes of one file written over those of another, which readers have mapped. */
static void overwrite(const char *with)
{
    size_t n;
    uint8_t *bytes = file_read(with, &n);
    file_poke(path, 0, bytes, n);
    free(bytes);
}

static void test_another_filter_in_its_place(void **state)
{
    (void)state;
    make(path_of("other"), 2);
    make(path, N);
    struct tamis_filter *f = open_filter(path);
    uint64_t absent = absent_key(f);
    size_t n;
    uint8_t *before = file_read(path, &n);
    overwrite(path_of("other"));
    assert_int_equal(reason_of(f, absent), TAMIS_MISMATCH);
    assert_int_equal(count_absent(f, keys, N), 0);
    file_poke(path, 0, before, n); /* ours again; and it answers when that is news */
    free(before);
    assert_int_equal(count_absent(f, keys, N), 0);
    assert_int_equal(tamis_writer_close(open_writer(path)), 0);
    assert_int_equal(reason_of(f, absent), TAMIS_NO_REASON);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
}

/* A filter with all keys, and a copy of it as it was with a hundred. */
static void make_with_older_copy(void)
{
    make(path, 100);
    file_copy(path, path_of("old"));
    struct tamis_writer *w = open_writer(path);
    add_hashes(w, keys + 100, N - 100);
    assert_int_equal(tamis_writer_close(w), 0);
}

static void expect_older_copy_unreadable(void)
{
    struct tamis_filter *f = open_filter(path);
    uint64_t absent = absent_key(f);
    overwrite(path_of("old"));
    assert_int_equal(reason_of(f, absent), TAMIS_UNREADABLE);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
}

static void test_an_older_copy_in_its_place(void **state)
{
    (void)state;
    make_with_older_copy();
    expect_older_copy_unreadable();
}

/* One that a writer went on with elsewhere: its sequence is ahead, its table is not. */
static void test_an_older_copy_that_went_on(void **state)
{
    (void)state;
    make_with_older_copy();
    uint64_t sequence = commit_of(path).sequence,
             generation = commit_of(path).generation;
    struct tamis_writer *w = open_writer(path_of("old"));
    for (uint64_t mark = 1; mark <= sequence; mark++)
        assert_int_equal(tamis_writer_commit(w, mark, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_true(commit_of(path_of("old")).sequence > sequence);
    assert_true(commit_of(path_of("old")).generation < generation);
    expect_older_copy_unreadable();
}

/* The same with one table all along, so that only the watermark tells. One that leaves
 * all its watermarks at 0 is told by nothing. */
static void test_an_older_copy_that_was_recovered(void **state)
{
    (void)state;
    for (uint64_t mark = 0; mark < 8; mark += 7) {
        unlink(path);
        make(path, 100);
        file_copy(path, path_of("old"));
        struct tamis_writer *w = open_writer(path);
        add_hashes(w, keys + 100, 100);
        assert_int_equal(tamis_writer_commit(w, mark, NULL), 0);
        assert_int_equal(tamis_writer_close(w), 0);
        struct tamis_filter *f = open_filter(path);
        uint64_t absent = absent_key(f), sequence = commit_of(path).sequence;
        w = open_writer(path_of("old"));
        for (uint64_t i = 0; i <= sequence; i++)
            assert_int_equal(tamis_writer_commit(w, 0, NULL), 0);
        assert_int_equal(tamis_writer_close(w), 0);
        assert_true(commit_of(path_of("old")).sequence > sequence);
        assert_true(commit_of(path_of("old")).generation == commit_of(path).generation);
        overwrite(path_of("old"));
        if (mark) {
            assert_int_equal(reason_of(f, absent), TAMIS_UNREADABLE);
            assert_int_equal(count_absent(f, keys, 200), 0);
        } else {
            assert_int_equal(reason_of(f, absent), TAMIS_NO_REASON);
            assert_true(count_absent(f, keys + 100, 100) > 90); /* SPEC.md 7.3 */
        }
        tamis_filter_close(f);
    }
}

/* The reader saw a watermark that was not durable yet, and the sync failed. */
static void test_a_watermark_that_is_taken_back(void **state)
{
    enum { MARK = 9 };
    (void)state;
    make(path, 100);
    struct tamis_writer *w = open_writer(path);
    add_hashes(w, keys + 100, 100);
    assert_int_equal(tamis_writer_commit(w, MARK - 4, NULL), 0);
    size_t n;
    uint8_t *before = file_read(path, &n);
    struct tamis_filter *f = open_filter(path);
    uint64_t absent = absent_key(f);
    add_hashes(w, keys + 200, 100);
    fail_once(CALL_FDATASYNC, 2, EIO); /* slot A is written */
    assert_int_equal(tamis_writer_commit(w, MARK, NULL), EIO);
    fail_never();
    assert_int_equal(commit_of(path).watermark, MARK);
    assert_int_equal(reason_of(f, absent), TAMIS_NO_REASON); /* it saw that */
    tamis_writer_close(w);
    file_poke(path, PAGE_BYTES, before + PAGE_BYTES, SLOT_BYTES); /* the page is gone */
    free(before);
    w = open_writer(path);
    assert_int_equal(tamis_writer_watermark(w), MARK - 4);
    assert_int_equal(reason_of(f, absent), TAMIS_UNREADABLE);
    add_hashes(w, keys + 200, 100); /* replayed */
    assert_int_equal(tamis_writer_commit(w, MARK - 1, NULL), 0);
    assert_int_equal(reason_of(f, absent), TAMIS_UNREADABLE);
    assert_int_equal(tamis_writer_commit(w, MARK, NULL), 0);
    assert_int_equal(reason_of(f, absent), TAMIS_NO_REASON);
    assert_int_equal(count_absent(f, keys, 300), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    tamis_filter_close(f);
}

/* The number of a table is no proof that it is the same: one that never became durable
 * had it, too. A change of any number that says where bits are is another table. */
static void test_another_table_of_the_same_number(void **state)
{
    (void)state;
    make(path, N);
    struct tamis_filter *f = open_filter(path);
    const struct view *v = atomic_load(&f->view);
    struct commit c = commit_of(path);
    assert_true(c.n_stages > 2);
    for (size_t i = 0; i < c.n_stages; i++) {
        struct stage_desc *d = &c.stages[i];
        uint64_t *const numbers[] = {&d->offset,        &d->length,
                                     &d->floors_offset, &d->digests_offset,
                                     &d->root,          &d->geometry.n_blocks};
        uint32_t *const small[] = {&d->geometry.lanes, &d->geometry.words};
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            assert_true(view_shows(v, &c));
            *numbers[k] += 1;
            assert_false(view_shows(v, &c));
            *numbers[k] -= 1;
        }
        for (size_t k = 0; k < sizeof small / sizeof small[0]; k++) {
            *small[k] += 1;
            assert_false(view_shows(v, &c));
            *small[k] -= 1;
        }
    }
    tamis_filter_close(f);
}

/* ---- slot A, half written when the reader looks ---- */

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static void (*halfway)(void);

/* The first half of slot A, with the new sequence; then the reader; then the rest. */
static ssize_t halving_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (halfway && offset == PAGE_BYTES && n == SLOT_BYTES) {
        void (*look)(void) = halfway;
        halfway = NULL;
        assert_int_equal(real_pwrite(fd, buf, n / 2, offset), n / 2);
        look();
    }
    return real_pwrite(fd, buf, n, offset);
}

static struct tamis_filter *reader;

static void open_reader(void)
{
    reader = open_filter(path);
    assert_int_equal(count_absent(reader, keys, 1), 0);
}

static void use_reader(void)
{
    assert_int_equal(count_absent(reader, keys, 1), 0);
}

/* Whatever the reader took from slot B, the whole slot A is news to it, although the
 * sequence that it has seen there is the same. */
static void follows_a_slot_seen_half(void (*look)(void))
{
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, 500);
    reader = NULL;
    add_hashes(w, keys, 400);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    if (look == use_reader)
        open_reader();
    real_pwrite = io_calls.pwrite;
    io_calls.pwrite = halving_pwrite;
    halfway = look;
    add_hashes(w, keys + 400, 800); /* one growth, seen half-way */
    assert_null(halfway);
    io_calls.pwrite = real_pwrite;
    assert_int_equal(commit_of(path).n_stages, 2);
    assert_int_equal(count_absent(reader, keys, 1200), 0);
    add_hashes(w, keys + 1200, N - 1200);
    assert_int_equal(count_absent(reader, keys, N), 0);
    uint64_t absent = absent_key(reader);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(reason_of(reader, absent), TAMIS_NO_REASON);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(count_absent(reader, keys, N), 0);
    tamis_filter_close(reader);
}

static void test_opened_while_slot_a_is_written(void **state)
{
    (void)state;
    follows_a_slot_seen_half(open_reader);
}

static void test_used_while_slot_a_is_written(void **state)
{
    (void)state;
    follows_a_slot_seen_half(use_reader);
}

/* ---- what hooks are told ---- */

static int hook_result;
static unsigned n_told, n_closed, n_syncs_told;
static struct commit told;

static int changed(void *ctx, const struct commit *c, struct tamis_diag *diag)
{
    (void)ctx, (void)diag;
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
static void test_the_catalog_is_told_again(void **state)
{
    (void)state;
    struct writer_hooks hooks = {
        .changed = changed, .closed = closed, .ctx = &n_closed};
    struct tamis_writer *w;
    struct io_guarded_fd fd;
    make(path, 100);
    n_told = n_closed = 0;
    fail_once(CALL_FDATASYNC, 1, EIO); /* closed even if it was never open */
    assert_int_equal(io_open_guarded(AT_FDCWD, path, O_RDWR, &fd), 0);
    assert_int_equal(writer_open_fd(&fd, path, &hooks, &w, NULL), EIO);
    assert_int_equal(n_closed, 1);
    assert_int_equal(n_told, 0);
    fail_never();
    hook_result = 0;
    assert_int_equal(io_open_guarded(AT_FDCWD, path, O_RDWR, &fd), 0);
    assert_int_equal(writer_open_fd(&fd, path, &hooks, &w, NULL), 0);
    assert_int_equal(n_told, 1);
    n_told = 0;
    hook_result = ENOSPC;
    add_hashes(w, keys, 600); /* one growth */
    assert_int_equal(n_told, 1);
    assert_int_equal(told.n_stages, 2);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    assert_int_equal(n_told, 2);
    assert_int_equal(writer_tell_again(w, NULL), ENOSPC);
    assert_int_equal(n_told, 3);
    n_told = 2;
    hook_result = 0;
    unsigned n_syncs = (unsigned)faults[CALL_FDATASYNC].n;
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(n_told, 3);
    assert_int_equal(told.n_stages, 2);
    assert_int_equal(told.watermark, 2);
    assert_int_equal(n_syncs_told - n_syncs,
                     3); /* keys, A, B: rot of A is no older copy */
    n_syncs = (unsigned)faults[CALL_FDATASYNC].n;
    assert_int_equal(tamis_writer_commit(w, 3, NULL), 0); /* it knows */
    assert_int_equal(n_told, 3);
    assert_int_equal(faults[CALL_FDATASYNC].n - n_syncs, 2);
    assert_int_equal(writer_tell_again(w, NULL), 0);
    assert_int_equal(n_told, 3);
    add_hashes(w, keys + 600, 1500); /* one more, taken at once */
    assert_int_equal(n_told, 4);
    assert_int_equal(told.n_stages, 3);
    assert_int_equal(tamis_writer_commit(w, 4, NULL), 0);
    assert_int_equal(n_told, 4);
    hook_result = ENOSPC;
    add_hashes(w, keys + 2100, 2000);
    assert_int_equal(n_told, 5);
    hook_result = 0;
    assert_int_equal(writer_tell_again(w, NULL), 0);
    assert_int_equal(n_told, 6);
    assert_int_equal(told.n_stages, 4);
    assert_int_equal(writer_tell_again(w, NULL), 0); /* it knows */
    assert_int_equal(tamis_writer_commit(w, 5, NULL), 0);
    assert_int_equal(n_told, 6);
    hook_result = EIO;
    assert_int_equal(tamis_writer_seal(w, 5, NULL, NULL),
                     EIO); /* sealed all the same */
    assert_int_equal(n_told, 7);
    assert_int_equal(told.state, STATE_SEALED);
    assert_int_equal(commit_of(path).state, STATE_SEALED);
    assert_int_equal(n_closed, 1);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(n_closed, 2);
    assert_int_equal(n_told, 7);
}

static int set_up(void **state)
{
    random_hashes(keys, N);
    return test_dir_create(state);
}

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

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh_path, faults_off)

/* The first sector of slot A, with the sequence that a reader knows, comes back alone.
 */
static void test_a_first_sector_put_back(void **state)
{
    enum { N_ALL = 4000 };
    static uint64_t h[N_ALL];
    uint8_t sector[SECTOR_BYTES];
    (void)state;
    random_hashes(h, N_ALL);
    const char *file = path_of("sector");
    struct tamis_writer *w = create_writer(file, 0.45, 1.5, 2000);
    add_hashes(w, h, 500);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    struct tamis_filter *f = open_filter(file);
    assert_int_equal(count_absent(f, h, 500), 0);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, sector, sizeof sector, PAGE_BYTES), sizeof sector);
    add_hashes(w, h + 500, N_ALL - 500);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(pwrite(fd, sector, sizeof sector, PAGE_BYTES), sizeof sector);
    close(fd);
    assert_int_equal(count_absent(f, h, N_ALL), 0);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_first_sector_put_back),
        TEST(test_another_filter_in_its_place),
        TEST(test_an_older_copy_in_its_place),
        TEST(test_an_older_copy_that_went_on),
        TEST(test_an_older_copy_that_was_recovered),
        TEST(test_a_watermark_that_is_taken_back),
        TEST(test_another_table_of_the_same_number),
        TEST(test_opened_while_slot_a_is_written),
        TEST(test_used_while_slot_a_is_written),
        TEST(test_the_catalog_is_told_again),
    };
    return cmocka_run_group_tests_name("refresh", tests, set_up, test_dir_remove);
}
