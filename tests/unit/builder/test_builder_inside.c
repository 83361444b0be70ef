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
    assert_int_equal(pwrite(fd, *junk, n_bytes, 0), (ssize_t)n_bytes);
    return fd;
}

static void expect_untouched(int fd, const uint8_t *junk, size_t from, size_t to)
{
    uint8_t chunk[65536];
    while (from < to) {
        size_t n = to - from < sizeof chunk ? to - from : sizeof chunk;
        assert_int_equal(pread(fd, chunk, n, (off_t)from), (ssize_t)n);
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
    struct tamis_stage_info stage;
    struct tamis_verify report;
    struct tamis_plan plan;
    uint64_t n_bytes;
    uint8_t *junk;
    int fd = engine_file(N_BYTES, &junk);
    assert_int_equal(tamis_builder_finish_fd(b, fd, offset, &n_bytes, NULL), 0);
    tamis_builder_free(b);
    assert_true(n_bytes % PAGE_BYTES == 0 && offset + n_bytes < N_BYTES);
    expect_untouched(fd, junk, 0, offset);
    expect_untouched(fd, junk, offset + n_bytes, N_BYTES);
    free(junk);
    assert_int_equal(tamis_filter_open_fd(fd, offset, n_bytes, NULL, &f, NULL), 0);
    close(fd); /* it is not needed any more */
    assert_int_equal(tamis_filter_stage(f, 0, &stage), 0);
    assert_int_equal(tamis_plan_filter(n_keys, error, &plan), 0);
    assert_int_equal(stage.bits_bytes, plan.bits_bytes);
    assert_int_equal(stage.offset, PAGE_BYTES);
    assert_int_equal(n_bytes, plan.file_bytes);
    assert_int_equal(count_absent(f, keys, n_keys), 0);
    assert_true(count_absent(f, keys + n_keys, 50000) >
                (size_t)(50000 * (1 - 1.2 * error)));
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    assert_int_equal(report.n_pages, stage.bits_bytes / PAGE_BYTES);
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

static void test_large_pieces_fill_huge_pages(void **state)
{
    static const uint64_t offsets[] = {0, 4096, HUGE_BYTES - 4096, HUGE_BYTES};
    (void)state;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct tamis_builder *b = builder_of(1e-8, 0);
        uint64_t n_bytes;
        for (size_t k = 0; k < 2100 * 1000; k++) {
            uint64_t hash = random_u64();
            assert_int_equal(tamis_builder_add_hashes(b, domain.tag, &hash, 1), 0);
        }
        int fd = open(path_of("pieces"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        n_aligned = n_others = 0;
        io_calls.pwrite = see_pwrite;
        int rc = tamis_builder_finish_fd(b, fd, offsets[i], &n_bytes, NULL);
        io_calls.pwrite = pwrite;
        assert_int_equal(rc, 0);
        assert_true(n_bytes > 8 << 20);
        assert_true(n_aligned >= 2);
        assert_true(n_others <= 3); /* the rest of the bits, digests, header */
        tamis_builder_free(b);
        close(fd);
        unlink(path_of("pieces"));
    }
}

static void test_inside_another_file(void **state)
{
    (void)state;
    static const uint64_t offsets[] = {
        0, 4096, 12288, HUGE_BYTES - 4096, HUGE_BYTES, HUGE_BYTES + 4096};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        embed(offsets[i], 0.01, 1000);
        embed(offsets[i], 0.01, 30000);
        embed(offsets[i], 1e-6, 650 * 1000); /* over 2 MiB of bits */
    }
}

static void test_inside_at_odd_places(void **state)
{
    static const uint64_t bad[] = {
        1, 512, 2048, 4095, 4097, UINT64_MAX, UINT64_MAX - 4095};
    struct tamis_builder *b = builder_of(0.01, 1000);
    struct tamis_filter *f;
    uint8_t *junk;
    uint64_t n_bytes;
    int fd = engine_file(1 << 20, &junk);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        n_bytes = 1;
        assert_int_equal(tamis_builder_finish_fd(b, fd, bad[i], &n_bytes, NULL),
                         TAMIS_ERR_RANGE);
        assert_int_equal(n_bytes, 0);
    }
    /* The last page before the end of all offsets: refused, not wrapped. */
    assert_int_equal(tamis_builder_finish_fd(b, fd, INT64_MAX - 4095, &n_bytes, NULL),
                     EFBIG);
    expect_untouched(fd, junk, 0, 1 << 20);
    free(junk);
    /* At the end of the file, which grows. */
    assert_int_equal(tamis_builder_finish_fd(b, fd, 1 << 20, &n_bytes, NULL), 0);
    assert_int_equal(tamis_filter_open_fd(fd, 1 << 20, 0, NULL, &f, NULL), 0);
    assert_int_equal(count_absent(f, keys, 1000), 0);
    tamis_filter_close(f);
    assert_int_equal(tamis_filter_open_fd(fd, 1 << 20, n_bytes - 4096, NULL, &f, NULL),
                     TAMIS_ERR_DAMAGED); /* a limit that cuts it off */
    close(fd);
    unlink(path_of("engine"));
    tamis_builder_free(b);
}

static void test_failures_inside_another_file(void **state)
{
    struct tamis_builder *b = builder_of(0.01, 1000);
    struct tamis_diag diag;
    struct tamis_filter *f;
    uint64_t n_bytes;
    int fd = open(path_of("inner"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    (void)state;
    assert_true(fd >= 0);
    for (unsigned long nth = 1; nth <= 2; nth++) {
        fail_once(CALL_PWRITE, nth, ENOSPC);
        n_bytes = 1;
        assert_int_equal(tamis_builder_finish_fd(b, fd, 4096, &n_bytes, &diag), ENOSPC);
        assert_int_equal(diag.os_errno, ENOSPC);
        assert_int_equal(n_bytes, 0);
        /* The header comes last, so that half a filter is none. */
        assert_int_equal(tamis_filter_open_fd(fd, 4096, 0, NULL, &f, NULL),
                         TAMIS_ERR_NOT_TAMIS);
    }
    fail_never();
    assert_int_equal(tamis_builder_finish_fd(b, fd, 4096, &n_bytes, NULL), 0);
    /* Nothing is synced: that is the caller's to do. */
    assert_int_equal(faults[CALL_FSYNC].n + faults[CALL_FDATASYNC].n, 0);
    close(fd);
    tamis_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_pieces_fill_huge_pages),
        cmocka_unit_test(test_inside_another_file),
        cmocka_unit_test(test_inside_at_odd_places),
        TEST_WITH_FAULTS(test_failures_inside_another_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
