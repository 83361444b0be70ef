/* Backup of damaged filters: what was damaged is damaged in the copy, and what is
 * damaged on the way is told. */
#include "tests/support/shop/shop.h"

/* A page that is bad is as bad in the copy; digests and floors are not made anew. */
TEST_OF_SCENES(damage_is_not_laundered)
{
    scene("damage");
    steps(AGW "close");
    uint64_t page = commit_of(path_at("w")).stages[0].offset / PAGE_BYTES;
    steps("flip a 4796; lose_page g; zero w %llu; backup b; is damaged=3 left=0;"
          "says noted a filters/; says noted g filters/; says noted w filters/;"
          "bad a =b/filters/{a}; bad g =b/filters/{g}; bad w =b/filters/{w}; use "
          "b;" HAS_AGW,
          (unsigned long long)page);
}

static bool is_file(int fd)
{
    struct stat st;
    OK(fstat(fd, &st));
    return S_ISREG(st.st_mode);
}

static int losing_fsync(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (is_file(fd))
        lose_page(path);
    return 0;
}

/* Between being written and being checked each copy loses a page. */
TEST_OF_SCENES(damage_on_the_way_is_told)
{
    scene("each copy loses a page");
    steps(AGW);
    calls_before = io_calls;
    io_calls.fsync = losing_fsync;
    steps("backup b");
    io_calls = calls_before;
    steps("is damaged=3; use b;" HAS_AGW);
}

static unsigned fail_read_of_copy, n_reads_of_copy;
static bool written;

static int marking_fsync(int fd)
{
    written |= is_file(fd);
    return 0;
}

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t at)
{
    bool of_copy = written && n >= PAGE_BYTES; /* not of the lock file's head */
    if (of_copy && ++n_reads_of_copy == fail_read_of_copy)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

static void *no_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Nothing is mapped for it, where a disk that fails would be a signal (R15). */
TEST_OF_SCENES(copies_are_checked_by_reading)
{
    scene("reads that fail");
    steps(AGW);
    calls_before = io_calls;
    io_calls.fsync = marking_fsync;
    io_calls.pread = failing_pread;
    io_calls.mmap = no_mmap;
    for (fail_read_of_copy = 1; fail_read_of_copy <= 2; fail_read_of_copy++) {
        written = false;
        n_reads_of_copy = 0;
        steps("fails EIO backup b"); /* header, first page */
    }
    fail_read_of_copy = 0;
    steps("backup b; is files=3");
    io_calls = calls_before;
}

/* Floors that fail their own check fail in the copy, and condemned pages stay so. */
TEST_OF_SCENES(bad_floors_stay_bad)
{
    scene("bad floors");
    steps(AGW "close");
    struct commit c = commit_of(path_at("g"));
    assert_true(c.n_stages > 1);
    steps("flip g %llu; lose_page g; backup b; call it =b/filters/{g}; bad g it; use "
          "b;" HAS_AGW
          "grow g 6000 100 8; call it g;" /* its writer condemns them for good */
          "backup b2; bad it =b2/filters/{it}; use b2;" HAS_AGW "has g 6000 100",
          (unsigned long long)c.stages[c.n_stages - 1].floors_offset + 100);
}

RUN_TESTS(NULL, NULL)
