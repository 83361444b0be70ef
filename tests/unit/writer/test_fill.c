/* A page that failed its check is condemned for good before it is filled (R8): whenever
 * the power fails meanwhile, its floors say what its bits no longer can. */
#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

enum { N = 1000 };

static uint64_t keys[N], more[N];
static struct io_calls real;

/* The state that the next calls find. */
static struct tamis_writer *w;
static enum { SEEN_NOTHING, SEEN_FLOORS, SEEN_SYNC } seen;
static bool fail_write, fail_sync;

static const uint8_t *first_page(void)
{
    return w->stages[0]->stage.bits;
}

static ssize_t our_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (n != SECTOR_BYTES)
        return real.pwrite(fd, buf, n, offset);
    assert_true(page_bits(kernel_get(), first_page()) < PAGE_BYTES * 8);
    IS(le16_get(((const struct floor_sector_disk *)buf)->floor[0]), FLOOR_DAMAGED);
    if (fail_write)
        return errno = EIO, -1;
    seen = SEEN_FLOORS;
    return real.pwrite(fd, buf, n, offset);
}

static int our_fdatasync(int fd)
{
    if (seen != SEEN_FLOORS)
        return real.fdatasync(fd);
    assert_true(page_bits(kernel_get(), first_page()) < PAGE_BYTES * 8);
    seen = SEEN_SYNC;
    if (fail_sync) /* the error is told once */
        return fail_sync = false, errno = EIO, -1;
    return real.fdatasync(fd);
}

/* A writer of a filter whose first page has lost a sector, all but its first word. */
static void open_damaged(void)
{
    static const uint8_t damaged[SECTOR_BYTES] = {255, 255, 255, 255,
                                                  255, 255, 255, 255};
    unlink(path);
    w = create_writer(path, 0.01, 2, 3000);
    add_hashes(w, keys, N);
    commit_and_close(w, 1);
    file_poke(path, commit_of(path).stages[0].offset, damaged, sizeof damaged);
    w = open_writer(path);
    seen = SEEN_NOTHING;
    io_calls.pwrite = our_pwrite;
    io_calls.fdatasync = our_fdatasync;
}

static int add_more(void)
{
    int err = 0;
    for (size_t i = 0; i < N && !err && seen != SEEN_SYNC; i++)
        err = tamis_writer_add_hashes(w, w->domain.tag, &more[i], 1);
    return err;
}

static void give_calls_back(void)
{
    io_calls.pwrite = real.pwrite;
    io_calls.fdatasync = real.fdatasync;
}

TEST(test_floors_are_durable_first)
{
    open_damaged();
    IS(add_more(), 0);
    IS(seen, SEEN_SYNC);
    IS(page_bits(kernel_get(), first_page()), PAGE_BYTES * 8);
    give_calls_back();
    commit_and_close(w, 2);
}

/* The page stays as it is, the key is not added, and nobody is told that it was. */
TEST(test_floors_that_cannot_be_written_or_synced)
{
    for (int sync = 0; sync < 2; sync++) {
        open_damaged();
        *(sync ? &fail_sync : &fail_write) = true;
        IS(add_more(), TAMIS_ERR_POISONED);
        assert_true(page_bits(kernel_get(), first_page()) < PAGE_BYTES * 8 / 2);
        give_calls_back();
        IS(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_POISONED);
        IS(tamis_writer_seal(w, 2, NULL, NULL), TAMIS_ERR_POISONED);
        IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
        all_there(path, keys, N);
        fail_write = false;
    }
}

/* A commit that comes upon the damage, or is at work when an add does. */
TEST(test_a_commit_and_a_seal_hear_of_it)
{
    for (int seal = 0; seal < 2; seal++) {
        open_damaged();
        if (!seal)
            stage_set_dirty(w->stages[0], 0);
        fail_sync = true;
        int err = seal ? tamis_writer_seal(w, 2, NULL, NULL)
                       : tamis_writer_commit(w, 2, NULL);
        assert_int_not_equal(err, 0);
        IS(seen, SEEN_SYNC);
        give_calls_back();
        assert_true(page_bits(kernel_get(), first_page()) < PAGE_BYTES * 8 / 2);
        IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
        IS(commit_of(path).watermark, 1);
        IS(commit_of(path).state, STATE_OPEN);
    }
}

/* The kernel tells a failure once, and perhaps to the filling thread. */
TEST(test_a_failed_sync_fails_for_all)
{
    open_damaged();
    seen = SEEN_FLOORS;
    fail_sync = true;
    IS(writer_sync(w), EIO);
    assert_false(fail_sync);
    IS(writer_sync(w), EIO);
    IS(tamis_writer_commit(w, 2, NULL), EIO);
    give_calls_back();
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
}

static int set_up(void **state)
{
    random_hashes(keys, N);
    random_hashes(more, N);
    real = io_calls;
    return one_file_create(state);
}

RUN_TESTS(set_up, test_dir_remove)
