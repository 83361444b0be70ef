/* A filter in a file of its own: it is whole or not at all (R13), has no holes, and
 * replaces nothing. And one inside a file of the engine's. */
#include "tests/unit/builder/builder_support.h"

static void expect_present(const char *path, size_t n)
{
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, n), 0);
    verified(f);
}

TEST_WITH_FAULTS(test_an_existing_file_stays)
{
    BUILDER b = builder_of(0.01, 1000);
    struct tamis_diag diag;
    size_t n_files = count_files(test_dir);
    file_write(path_of("taken"), "precious", 8);
    IS(tamis_builder_finish(b, path_of("taken"), NULL, NULL, &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.file, "taken"));
    file_has(path_of("taken"), "precious", 8);
    /* A dangling link is not followed. */
    OK(symlink(path_of("target"), path_of("link")));
    IS(tamis_builder_finish(b, path_of("link"), NULL, NULL, NULL), TAMIS_ERR_EXISTS);
    assert_false(exists(path_of("target")));
    /* A name that somebody takes after the first look. */
    fail_once(CALL_RENAME, 1, EEXIST);
    IS(tamis_builder_finish(b, path_of("raced"), NULL, NULL, NULL), TAMIS_ERR_EXISTS);
    IS(count_files(test_dir), n_files + 2);
    OK(tamis_builder_finish(b, path_of("free"), NULL, NULL, NULL));
    expect_present(path_of("free"), 1000);
}

TEST_WITH_FAULTS(test_rename_never_replaces)
{
    BUILDER b = builder_of(0.01, 1000);
    struct built built;
    const uint8_t uuid[UUID_BYTES] = {1};
    FD dir = open(test_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    file_write(path_of("late"), "precious", 8);
    size_t n_files = count_files(test_dir);
    /* With RENAME_NOREPLACE, and on file systems that do not know it. */
    for (int round = 0; round < 2; round++) {
        if (round)
            fail_from_now(CALL_RENAME, EINVAL);
        IS(builder_finish_at(b, uuid, dir, "late", true, &built, NULL),
           TAMIS_ERR_EXISTS);
        IS(count_files(test_dir), n_files);
    }
    IS(builder_finish_at(b, uuid, dir, "linked", true, &built, NULL), 0);
    IS(count_files(test_dir), n_files + 1);
    expect_present(path_of("linked"), 1000);
}

TEST(test_places_where_no_file_can_be)
{
    BUILDER b = builder_of(0.01, 1000);
    struct tamis_diag diag;
    char long_name[300];
    IS(tamis_builder_finish(b, path_of("no/such/dir/f"), NULL, NULL, &diag), ENOENT);
    assert_non_null(strstr(diag.file, "no/such/dir/f"));
    OK(mkdir(path_of("d"), 0777));
    IS(tamis_builder_finish(b, path_of("d"), NULL, NULL, NULL), TAMIS_ERR_EXISTS);
    IS(tamis_builder_finish(b, path_of("d/"), NULL, NULL, NULL), EISDIR);
    IS(tamis_builder_finish(b, "", NULL, NULL, NULL), EISDIR);
    file_write(path_of("file"), "", 0);
    IS(tamis_builder_finish(b, path_of("file/f"), NULL, NULL, NULL), ENOTDIR);
    memset(long_name, 'n', sizeof long_name);
    long_name[256] = 0;
    IS(tamis_builder_finish(b, path_of(long_name), NULL, NULL, &diag), ENAMETOOLONG);
    long_name[255] = 0; /* the longest there is, temporary name and all */
    OK(tamis_builder_finish(b, path_of(long_name), NULL, NULL, NULL));
    expect_present(path_of(long_name), 1000);
    IS(count_files(path_of("d")), 0);
}

/* Lets the nth call of a kind fail, for n = 1, 2, ... until finishing needs fewer:
 * no name may stay behind, and the builder can try again. */
static void fail_each(enum call call, int error, double filter_error, size_t n_keys)
{
    BUILDER b = builder_of(filter_error, n_keys);
    size_t n_files = count_files(test_dir);
    unsigned long nth;
    for (nth = 1;; nth++) {
        struct tamis_diag diag;
        fail_once(call, nth, error);
        int err = tamis_builder_finish(b, path_of("attempt"), NULL, NULL, &diag);
        if (faults[call].n < nth && err == 0)
            break;
        IS(err, error);
        IS(diag.os_errno, error);
        assert_non_null(strstr(diag.file, "attempt"));
        IS(count_files(test_dir), n_files);
    }
    assert_true(nth > 1); /* there was something to fail */
    fail_never();
    expect_present(path_of("attempt"), n_keys);
    unlink(path_of("attempt"));
}

TEST_WITH_FAULTS(test_failures_leave_no_file)
{
    fail_each(CALL_PWRITE, EIO, 0.01, 1000);
    fail_each(CALL_PWRITE, ENOSPC, 1e-6, N_KEYS); /* with digests */
    fail_each(CALL_FSYNC, EIO, 0.01, 1000);       /* the file, then its directory */
    fail_each(CALL_RENAME, EACCES, 0.01, 1000);
}

static unsigned long n_pieces;
static ssize_t write_short(int fd, const void *buf, size_t n, off_t offset)
{
    if (n_pieces++ % 3 == 1)
        return errno = EINTR, -1;
    return pwrite(fd, buf, n > 1000 ? 1000 : n, offset);
}

static unsigned long n_reads;
static ssize_t read_short(int fd, void *buf, size_t n, off_t offset)
{
    if (n_reads++ % 3 == 1)
        return errno = EINTR, -1;
    return pread(fd, buf, n > 1000 ? 1000 : n, offset);
}

TEST_WITH_FAULTS(test_short_and_interrupted_calls)
{
    io_calls.pwrite = write_short;
    io_calls.pread = read_short;
    BUILD(path_of("pieces"), keys, 20000, .domain = &domain, .memory_limit = 4096);
    assert_true(n_pieces > 100 && n_reads > 100);
    expect_present(path_of("pieces"), 20000);
    FILTER f = open_filter(path_of("pieces"));
    assert_true(count_absent(f, keys + 100000, 100000) > 98500);
}

/* A file is as long as planned, and takes as much of the disk. */
TEST(test_no_file_has_holes)
{
    static const size_t sizes[] = {0, 1000, 30000, N_KEYS};
    for (size_t i = 0; i < N_OF(sizes); i++) {
        struct tamis_plan plan;
        BUILD(path_of("dense"), keys, sizes[i], .domain = &domain, .error = 1e-8);
        OK(tamis_plan_filter(sizes[i], 1e-8, NULL, &plan));
        struct stat st = stat_of(path_of("dense"));
        IS(st.st_size, plan.file_bytes);
        assert_in_range((uint64_t)st.st_blocks * 512, plan.file_bytes,
                        plan.file_bytes + PAGE_BYTES);
    }
}

/* ---- inside a file of the engine's: not a byte beside it is touched ---- */

enum { HUGE_BYTES = 2 << 20 };

static int engine_file(size_t n_bytes, uint8_t **junk)
{
    int fd = open(path_of("engine"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    *junk = malloc(n_bytes);
    assert_non_null(*junk);
    for (size_t i = 0; i < n_bytes; i++)
        (*junk)[i] =
            (uint8_t)(i * 37 >> 3 | 1); /* hardly a bit clear where it is not */
    memset(*junk + n_bytes / 4, 0xff, n_bytes / 2);
    IS(pwrite(fd, *junk, n_bytes, 0), (ssize_t)n_bytes);
    return fd;
}

static void expect_untouched(int fd, const uint8_t *junk, size_t from, size_t to)
{
    uint8_t chunk[65536];
    while (from < to) {
        size_t n = to - from < sizeof chunk ? to - from : sizeof chunk;
        IS(pread(fd, chunk, n, (off_t)from), (ssize_t)n);
        assert_memory_equal(chunk, junk + from, n);
        from += n;
    }
}

/* Puts a filter among other bytes, looks at those, and asks it. */
static void embed(uint64_t offset, double error, size_t n_keys)
{
    enum { N_BYTES = 16 << 20 };
    BUILDER b = builder_of(error, n_keys);
    FILTER f;
    struct tamis_plan plan;
    uint64_t n_bytes;
    FREED uint8_t *junk;
    int fd = engine_file(N_BYTES, &junk);
    OK(tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = offset), &n_bytes, NULL));
    assert_true(n_bytes % PAGE_BYTES == 0 && offset + n_bytes < N_BYTES);
    expect_untouched(fd, junk, 0, offset);
    expect_untouched(fd, junk, offset + n_bytes, N_BYTES);
    OK(tamis_filter_open(NULL, INSIDE(.fd = fd, .offset = offset, .n_bytes = n_bytes),
                         &f, NULL));
    close(fd); /* it is not needed any more */
    struct tamis_stage_info stage = filter_info(f).stages[0];
    OK(tamis_plan_filter(n_keys, error, NULL, &plan));
    IS(stage.bits_bytes, plan.bits_bytes);
    IS(stage.offset, PAGE_BYTES);
    IS(n_bytes, plan.file_bytes);
    IS(count_absent(f, keys, n_keys), 0);
    assert_true(count_absent(f, keys + n_keys, 50000) >
                (size_t)(50000 * (1 - 1.2 * error)));
    IS(verified(f).n_pages, (stage.bits_bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

/* Bits go out in pieces that end at multiples of 2 MiB of the file, but for the last
 * piece: so they are huge pages of the page cache. */
static uint64_t n_aligned, n_others;

static ssize_t see_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    bool aligned = ((uint64_t)offset + n) % HUGE_BYTES == 0;
    n_aligned += aligned;
    n_others += !aligned;
    return pwrite(fd, buf, n, offset);
}

TEST(test_large_pieces_fill_huge_pages)
{
    static const uint64_t offsets[] = {0, 4096, HUGE_BYTES - 4096, HUGE_BYTES};
    for (size_t i = 0; i < N_OF(offsets); i++) {
        BUILDER b = builder_of(1e-8, 0);
        uint64_t n_bytes;
        for (size_t k = 0; k < 2100 * 1000; k++) {
            uint64_t hash = random_u64();
            OK(tamis_builder_add_hashes(b, domain.tag, &hash, 1));
        }
        FD fd = open(path_of("pieces"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        n_aligned = n_others = 0;
        io_calls.pwrite = see_pwrite;
        int rc = tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = offsets[i]),
                                      &n_bytes, NULL);
        io_calls.pwrite = pwrite;
        IS(rc, 0);
        assert_true(n_bytes > 8 << 20);
        assert_true(n_aligned >= 2);
        assert_true(n_others <= 3); /* the rest of the bits, digests, header */
    }
}

TEST(test_inside_another_file)
{
    static const uint64_t offsets[] = {
        0, 4096, 12288, HUGE_BYTES - 4096, HUGE_BYTES, HUGE_BYTES + 4096};
    for (size_t i = 0; i < N_OF(offsets); i++) {
        embed(offsets[i], 0.01, 1000);
        embed(offsets[i], 0.01, 30000);
        embed(offsets[i], 1e-6, 650 * 1000); /* over 2 MiB of bits */
    }
}

TEST(test_inside_at_odd_places)
{
    static const uint64_t bad[] = {
        1, 512, 2048, 4095, 4097, UINT64_MAX, UINT64_MAX - 4095};
    BUILDER b = builder_of(0.01, 1000);
    struct tamis_filter *f;
    FREED uint8_t *junk;
    uint64_t n_bytes;
    FD fd = engine_file(1 << 20, &junk);
    for (size_t i = 0; i < N_OF(bad); i++) {
        n_bytes = 1;
        IS(tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = bad[i]), &n_bytes,
                                NULL),
           TAMIS_ERR_RANGE);
        IS(n_bytes, 0);
    }
    /* The last page before the end of all offsets: refused, not wrapped. */
    IS(tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = INT64_MAX - 4095),
                            &n_bytes, NULL),
       EFBIG);
    expect_untouched(fd, junk, 0, 1 << 20);
    /* At the end of the file, which grows. */
    OK(tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = 1 << 20), &n_bytes,
                            NULL));
    OK(tamis_filter_open(NULL, INSIDE(.fd = fd, .offset = 1 << 20), &f, NULL));
    IS(count_absent(f, keys, 1000), 0);
    tamis_filter_close(f);
    IS(tamis_filter_open(NULL,
                         INSIDE(.fd = fd, .offset = 1 << 20, .n_bytes = n_bytes - 4096),
                         &f, NULL),
       TAMIS_ERR_DAMAGED); /* a limit that cuts it off */
}

RUN_TESTS(set_up, test_dir_remove)
