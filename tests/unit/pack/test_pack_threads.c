/* Packs made by several threads: byte for byte what one thread makes, also where blocks
 * cannot be read; and no thread is left when writing fails. */
#include "tests/support/pack_support.h"
#include "lib/io/threads.h"

/* From the second page on: the first has a UUID and the time. */
static uint8_t *bytes_of(const char *name, size_t *n)
{
    uint8_t *bytes = file_read(path_of(name), n);
    assert_true(*n > PAGE_BYTES);
    memset(bytes, 0, PAGE_BYTES);
    return bytes;
}

/* Rows of many widths: slabs of 64 blocks and of one, more slabs than room. */
static void add_wide(void)
{
    for (size_t i = 0; i < 1100; i++)
        add_source((struct geometry){24, 1, 6}, 1000, 0.01);
    for (size_t i = 0; i < 40; i++)
        add_source((struct geometry){64 * (1 + i % 7), 1 + (uint32_t)i % 3, 4}, 3000,
                   0.001);
}

/* Places that cannot be read, as a page that stays damaged. */
static struct {
    uint32_t source, lane;
    uint64_t block;
} lost[4];
static size_t n_lost;
static unsigned n_asked[PACK_MAX_THREADS]; /* by thread */

static bool blocks_with_losses(void *ctx, unsigned thread, uint32_t source,
                               uint32_t lane, uint64_t first, uint64_t n, uint8_t *out)
{
    /* The others begin late: the caller's thread must wait for their slabs. */
    if (n_asked[thread]++ == 0 && thread > 0)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    for (size_t i = 0; i < n_lost; i++)
        if (lost[i].source == source && lost[i].lane == lane &&
            lost[i].block - first < n)
            return false;
    return some_blocks(ctx, thread, source, lane, first, n, out);
}

static int write_with(unsigned n_threads, const char *name)
{
    uint64_t digest, n_bytes;
    struct tamis_diag diag = {0};
    memset(n_asked, 0, sizeof n_asked);
    pack_threads = threads_start(n_threads, true);
    IS(threads_size(pack_threads), n_threads ? n_threads : 1);
    plan_sources();
    int rc = write_planned(name, blocks_with_losses, &digest, &n_bytes, &diag);
    threads_end(pack_threads);
    pack_threads = NULL;
    return rc;
}

static void same_for_any_number(size_t n_gone)
{
    static bool gone[MAX_SOURCES];
    size_t n, n_again, n_found = 0;
    IS(write_with(1, "one"), 0);
    FREED uint8_t *one = bytes_of("one", &n);
    memcpy(gone, gone_sources, sizeof gone);
    for (size_t i = 0; i < n_sources; i++)
        n_found += gone[i];
    IS(n_found, n_gone);
    for (unsigned n_threads = 2; n_threads < PACK_MAX_THREADS + 3; n_threads += 3) {
        IS(write_with(n_threads, "some"), 0);
        FREED uint8_t *bytes = bytes_of("some", &n_again);
        IS(n_again, n);
        assert_memory_equal(bytes, one, n);
        assert_memory_equal(gone_sources, gone, sizeof gone);
    }
}

TEST(any_number_makes_the_same)
{
    same_for_any_number(0);
    bool both = false;
    for (int tries = 0; tries < 50 && !both; tries++) { /* on a busy machine one may */
        IS(write_with(2, "some"), 0);                   /* do all before the other */
        both = n_asked[0] > 0 && n_asked[1] > 0;        /* gets a core */
    }
    assert_true(both);
}

/* In the first slab of all, in the middle of several, and in the last. */
TEST(blocks_that_cannot_be_read)
{
    for (uint32_t i = 0; i < 4; i++)
        lost[i].source = (uint32_t[]){7, 600, 1103, 1139}[i];
    lost[1].block = 11;
    lost[2].lane = sources[1103].geometry.lanes - 1;
    lost[3].lane = sources[1139].geometry.lanes - 1;
    lost[3].block = sources[1139].geometry.n_blocks - 1;
    for (n_lost = 1; n_lost <= 4; n_lost++)
        same_for_any_number(n_lost);
    n_lost = 0;
}

static int n_writes;

static ssize_t full_disk(int fd, const void *buf, size_t n, off_t offset)
{
    if (n_writes-- > 0)
        return pwrite(fd, buf, n, offset);
    errno = ENOSPC;
    return -1;
}

TEST(a_full_disk_ends_all)
{
    size_t before = count_files("/proc/self/task");
    for (int i = 0; i < 4; i++) {
        n_writes = i;
        io_calls.pwrite = full_disk;
        int rc = write_with(4, "full");
        io_calls.pwrite = pwrite;
        IS(rc, ENOSPC);
        IS(count_files("/proc/self/task"), before);
        IS(access(path_of("full"), F_OK), -1);
    }
}

static int set_up(void **state)
{
    int rc = test_dir_create(state);
    add_wide();
    return rc;
}

static int tear_down(void **state)
{
    forget_sources();
    return test_dir_remove(state);
}

RUN_TESTS(set_up, tear_down)
