/* Space under what a writer maps (R15): it is asked for unless the file system says
 * that every byte has a block, and that the block is the file's alone. */
#include "tests/support/support.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

enum { PAGE = PAGE_BYTES, MAX_EXTENTS = 80 };

/* The file system's answer about the file: pages, and whether they are shared. */
static struct extent {
    unsigned first, n;
    bool shared;
} extents[MAX_EXTENTS];
static unsigned n_extents;
static int ioctl_error;
static bool careless; /* tells of what lies before the range, too */
static uint64_t range_end;

/* Tells of the extents that meet the range, as many as there is room for. */
int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    struct fiemap *map = va_arg(args, struct fiemap *);
    va_end(args);
    assert_true(request == FS_IOC_FIEMAP);
    IS(map->fm_start + map->fm_length, range_end);
    if (ioctl_error)
        return errno = ioctl_error, -1;
    for (unsigned i = 0; i < n_extents; i++) {
        struct fiemap_extent e = {.fe_logical = (uint64_t)extents[i].first * PAGE,
                                  .fe_length = (uint64_t)extents[i].n * PAGE,
                                  .fe_flags =
                                      extents[i].shared ? FIEMAP_EXTENT_SHARED : 0};
        if ((careless || e.fe_logical + e.fe_length > map->fm_start) &&
            e.fe_logical < map->fm_start + map->fm_length &&
            map->fm_mapped_extents < map->fm_extent_count)
            map->fm_extents[map->fm_mapped_extents++] = e;
    }
    return 0;
}

static struct {
    unsigned n;
    uint64_t offset, n_bytes;
} asked;

static int noting_fallocate(int fd, int mode, off_t offset, off_t n)
{
    asked.n++;
    asked.offset = (uint64_t)offset;
    asked.n_bytes = (uint64_t)n;
    return 0;
}

/* Are the pages 10 to 19 asked for? */
static bool asks(void)
{
    memset(&asked, 0, sizeof asked);
    range_end = 20 * PAGE;
    OK(io_reserve(0, 10 * PAGE, 10 * PAGE));
    if (asked.n) {
        IS(asked.n, 1);
        IS(asked.offset, 10 * PAGE);
        IS(asked.n_bytes, 10 * PAGE);
    }
    return asked.n;
}

TEST_WITH_FAULTS(test_what_has_space_is_not_asked_for)
{
    static const struct {
        bool asks;
        struct extent extents[3];
    } cases[] = {
        {false, {{10, 10, false}}},
        {false, {{0, 30, false}}},
        {false, {{5, 10, false}, {15, 10, false}}},
        {true, {{0, 0, false}}},                  /* nothing */
        {true, {{11, 9, false}}},                 /* a hole at the beginning, */
        {true, {{10, 9, false}}},                 /* at the end, */
        {true, {{10, 4, false}, {15, 5, false}}}, /* in the middle */
        {true, {{0, 12, false}, {13, 20, false}}},
        {true, {{0, 30, true}}}, /* not the file's alone */
        {true, {{10, 5, false}, {15, 5, true}}},
        {true, {{10, 5, true}, {15, 5, false}}},
    };
    io_calls.fallocate = noting_fallocate;
    for (size_t i = 0; i < N_OF(cases); i++) {
        memcpy(extents, cases[i].extents, sizeof cases[i].extents);
        for (n_extents = 0; n_extents < 3 && extents[n_extents].n;)
            n_extents++;
        IS(asks(), cases[i].asks);
    }
    careless = true;
    for (unsigned n = 9; n <= 10; n++) {
        extents[0] = (struct extent){0, n, false};
        n_extents = 1;
        assert_true(asks());
    }
    careless = false;
    ioctl_error = EOPNOTSUPP;
    assert_true(asks());
    ioctl_error = 0;
}

/* More extents than one call tells of. */
TEST_WITH_FAULTS(test_many_extents)
{
    io_calls.fallocate = noting_fallocate;
    for (n_extents = 0; n_extents < MAX_EXTENTS; n_extents++)
        extents[n_extents] = (struct extent){n_extents, 1, false};
    for (unsigned i = 0; i < 2; i++) {
        asked.n = 0;
        range_end = (MAX_EXTENTS + i) * PAGE;
        OK(io_reserve(0, 0, range_end));
        IS(asked.n, i); /* the last page, if any, has none */
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
