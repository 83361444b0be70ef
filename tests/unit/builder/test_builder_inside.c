/* A filter inside a file of the engine's: it is all there, and not a byte beside it is
 * touched. */
#include "tests/unit/builder/builder_support.h"

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
    struct tamis_builder *b = builder_of(error, n_keys);
    struct tamis_filter *f;
    struct tamis_plan plan;
    uint64_t n_bytes;
    uint8_t *junk;
    int fd = engine_file(N_BYTES, &junk);
    OK(tamis_builder_finish_fd(b, fd, offset, &n_bytes, NULL));
    tamis_builder_free(b);
    assert_true(n_bytes % PAGE_BYTES == 0 && offset + n_bytes < N_BYTES);
    expect_untouched(fd, junk, 0, offset);
    expect_untouched(fd, junk, offset + n_bytes, N_BYTES);
    free(junk);
    OK(tamis_filter_open_fd(fd, offset, n_bytes, NULL, &f, NULL));
    close(fd); /* it is not needed any more */
    struct tamis_stage_info stage = stage_at(f, 0);
    OK(tamis_plan_filter(n_keys, error, &plan));
    IS(stage.bits_bytes, plan.bits_bytes);
    IS(stage.offset, PAGE_BYTES);
    IS(n_bytes, plan.file_bytes);
    IS(count_absent(f, keys, n_keys), 0);
    assert_true(count_absent(f, keys + n_keys, 50000) >
                (size_t)(50000 * (1 - 1.2 * error)));
    IS(verified(f).n_pages, stage.bits_bytes / PAGE_BYTES);
    tamis_filter_close(f);
    unlink(path_of("engine"));
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
        struct tamis_builder *b = builder_of(1e-8, 0);
        uint64_t n_bytes;
        for (size_t k = 0; k < 2100 * 1000; k++) {
            uint64_t hash = random_u64();
            OK(tamis_builder_add_hashes(b, domain.tag, &hash, 1));
        }
        int fd = open(path_of("pieces"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        n_aligned = n_others = 0;
        io_calls.pwrite = see_pwrite;
        int rc = tamis_builder_finish_fd(b, fd, offsets[i], &n_bytes, NULL);
        io_calls.pwrite = pwrite;
        IS(rc, 0);
        assert_true(n_bytes > 8 << 20);
        assert_true(n_aligned >= 2);
        assert_true(n_others <= 3); /* the rest of the bits, digests, header */
        tamis_builder_free(b);
        close(fd);
        unlink(path_of("pieces"));
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
    uint8_t *junk;
    uint64_t n_bytes;
    int fd = engine_file(1 << 20, &junk);
    for (size_t i = 0; i < N_OF(bad); i++) {
        n_bytes = 1;
        IS(tamis_builder_finish_fd(b, fd, bad[i], &n_bytes, NULL), TAMIS_ERR_RANGE);
        IS(n_bytes, 0);
    }
    /* The last page before the end of all offsets: refused, not wrapped. */
    IS(tamis_builder_finish_fd(b, fd, INT64_MAX - 4095, &n_bytes, NULL), EFBIG);
    expect_untouched(fd, junk, 0, 1 << 20);
    free(junk);
    /* At the end of the file, which grows. */
    OK(tamis_builder_finish_fd(b, fd, 1 << 20, &n_bytes, NULL));
    OK(tamis_filter_open_fd(fd, 1 << 20, 0, NULL, &f, NULL));
    IS(count_absent(f, keys, 1000), 0);
    tamis_filter_close(f);
    IS(tamis_filter_open_fd(fd, 1 << 20, n_bytes - 4096, NULL, &f, NULL),
       TAMIS_ERR_DAMAGED); /* a limit that cuts it off */
    close(fd);
    unlink(path_of("engine"));
}

TEST_WITH_FAULTS(test_failures_inside_another_file)
{
    BUILDER b = builder_of(0.01, 1000);
    struct tamis_diag diag;
    struct tamis_filter *f;
    uint64_t n_bytes;
    FD fd = open(path_of("inner"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    for (unsigned long nth = 1; nth <= 2; nth++) {
        fail_once(CALL_PWRITE, nth, ENOSPC);
        n_bytes = 1;
        IS(tamis_builder_finish_fd(b, fd, 4096, &n_bytes, &diag), ENOSPC);
        IS(diag.os_errno, ENOSPC);
        IS(n_bytes, 0);
        /* The header comes last, so that half a filter is none. */
        IS(tamis_filter_open_fd(fd, 4096, 0, NULL, &f, NULL), TAMIS_ERR_NOT_TAMIS);
    }
    fail_never();
    OK(tamis_builder_finish_fd(b, fd, 4096, &n_bytes, NULL));
    /* Nothing is synced: that is the caller's to do. */
    IS(faults[CALL_FSYNC].n + faults[CALL_FDATASYNC].n, 0);
}

RUN_TESTS(set_up, test_dir_remove)
