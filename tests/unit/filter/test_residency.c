/* Residency of a filter: counting, warming, and obstacles: old kernels, pages that
 * cannot be had. */
#include "tests/unit/filter/residency_support.h"

/* ---- counting ---- */

static uint64_t used_pages(const char *path)
{
    struct commit c = commit_of(path);
    const struct stage_desc *s = &c.stages[0];
    uint64_t n = round_up(PAGE_BYTES) + round_up(s->length) +
                 round_up(digests_bytes(s->length / PAGE_BYTES));
    assert_true(s->offset == HUGE_PAGE_BYTES);
    return n / page;
}

static void counts_what_probes_use(void **state)
{
    (void)state;
    const char *path = build_large();
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    struct tamis_residency cold = residency(f), warm;
    assert_int_equal(cold.n_pages, used_pages(path));
    for (size_t i = 0; i < N_ASKED; i++)
        assert_int_equal(ask(f, keys[i], NULL), TAMIS_MAYBE);
    warm = residency(f);
    assert_int_equal(warm.n_pages, cold.n_pages);
    assert_true(warm.n_resident > cold.n_pages / 2);
    /* Where the file system keeps its files in memory nothing gets cold. */
    assert_true(cold.n_resident <= 8 || cold.n_resident == cold.n_pages);
    tamis_filter_close(f);
}

static void counts_one_inside_a_file(void **state)
{
    (void)state;
    size_t n;
    uint8_t *bytes = file_read(build("small", 1000, 0.01), &n);
    const char *path = path_of("outer");
    struct tamis_filter *f;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(pwrite(fd, bytes, n, 3 * 4096), (ssize_t)n);
    assert_int_equal(tamis_filter_open_fd(fd, 3 * 4096, n, NULL, &f, NULL), 0);
    close(fd);
    free(bytes);
    assert_int_equal(tamis_filter_warm(f, NULL, NULL), 0);
    struct tamis_residency r = residency(f);
    /* Larger pages of the machine's may begin before it, and be shared. */
    assert_true(r.n_pages == n / 4096 || (page > 4096 && r.n_pages >= 1));
    assert_int_equal(r.n_resident, r.n_pages);
    uint64_t budget = 1 << 20;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    assert_int_equal(locked_now(), (1 << 20) - budget);
    tamis_filter_close(f);
}

/* ---- warming ---- */

static uint64_t pages_in_hole(const char *path)
{
    unsigned char in[511];
    uint64_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *p = mmap(NULL, HUGE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mincore((uint8_t *)p + page, HUGE_PAGE_BYTES - page, in), 0);
    for (size_t i = 0; i < HUGE_PAGE_BYTES / page - 1; i++)
        n += in[i] & 1;
    munmap(p, HUGE_PAGE_BYTES);
    close(fd);
    return n;
}

/* Sanitizers would touch pages of their own. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void
touch_all(const volatile uint8_t *at, uint64_t n_pages)
{
    for (uint64_t i = 0; i < n_pages; i++)
        (void)at[i * page];
}

static void warms_in_large_reads(void **state)
{
    (void)state;
    const char *path = build_large();
    struct heard h = {0};
    struct rusage before, after;
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    struct tamis_residency cold = residency(f);
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(tamis_filter_warm(f, hear, &h), 0);
    getrusage(RUSAGE_SELF, &after);
    struct tamis_residency warm = residency(f);
    printf("%llu pages warm, %llu before; %ld faults that read\n",
           (unsigned long long)warm.n_resident, (unsigned long long)cold.n_resident,
           after.ru_majflt - before.ru_majflt);
    assert_int_equal(warm.n_resident, warm.n_pages);
    assert_true(h.n >= 1 && h.done == h.total && h.total == warm.n_pages * page);
    /* Under advice for random access it would be one a page. */
    assert_true(after.ru_majflt - before.ru_majflt < (long)warm.n_pages / 8);
    if (cold.n_resident < cold.n_pages)
        assert_true(pages_in_hole(path) < 64);
    /* All of it is mapped: no probe faults. */
    getrusage(RUSAGE_SELF, &before);
    touch_all(atomic_load(&f->view)->stages[0].bits, warm.n_pages - 8);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_minflt - before.ru_minflt < 8);
    assert_int_equal(after.ru_majflt, before.ru_majflt);
    assert_int_equal(count_absent(f, keys, N_ASKED), 0);
    tamis_filter_close(f);
}

static void warming_may_be_stopped(void **state)
{
    (void)state;
    struct heard h = {.stop_at = 1};
    struct tamis_filter *f = open_filter(build_large());
    assert_int_equal(tamis_filter_warm(f, hear, &h), ECANCELED);
    assert_int_equal(h.n, 1);
    assert_true(h.done < h.total); /* the header, and then the stage */
    tamis_filter_close(f);
}

/* Kernels before 5.14, and what stands for a kernel on other machines. */
static int old_madvise(void *at, size_t n, int advice)
{
    enum { POPULATE_READ = 22 };
    if (advice == POPULATE_READ)
        return errno = EINVAL, -1;
    return madvise(at, n, advice);
}

static void warms_on_old_kernels(void **state)
{
    (void)state;
    const char *path = build_large();
    struct heard h = {0};
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    io_calls.madvise = old_madvise;
    int rc = tamis_filter_warm(f, hear, &h);
    io_calls.madvise = madvise;
    assert_int_equal(rc, 0);
    struct tamis_residency r = residency(f);
    assert_int_equal(r.n_resident, r.n_pages);
    assert_true(h.done == h.total && h.total == r.n_pages * page);
    tamis_filter_close(f);
}

static int no_madvise(void *at, size_t n, int advice)
{
    (void)at, (void)n, (void)advice;
    return errno = ENOMEM, -1;
}

static void a_page_that_is_gone_is_told(void **state)
{
    (void)state;
    struct heard h = {0};
    const char *path = build_large();
    uint64_t budget = 64 << 20;
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, 1), 0);
    cut(path, HUGE_PAGE_BYTES + 65536);
    assert_int_equal(tamis_filter_warm(f, hear, &h), EIO); /* and no SIGBUS */
    assert_true(h.done < h.total);
    assert_int_equal(tamis_filter_lock(f, &budget), EIO);
    budget = 0;
    assert_int_equal(tamis_filter_lock(f, &budget), 0);
    io_calls.madvise = no_madvise;
    int rc = tamis_filter_warm(f, NULL, NULL);
    io_calls.madvise = madvise;
    assert_int_equal(rc, ENOMEM);
    tamis_filter_close(f);
}

static void an_old_kernel_and_a_guard(void **state)
{
    (void)state;
    const char *path = build_large();
    struct tamis_filter *f = open_filter(path);
    cut(path, HUGE_PAGE_BYTES + 65536);
    io_calls.madvise = old_madvise;
    int rc = tamis_filter_warm(f, NULL, NULL);
    io_calls.madvise = madvise;
    assert_int_equal(rc, EIO);
    assert_int_equal(count_absent(f, keys, N_ASKED), 0);
    tamis_filter_close(f);
}

/* ---- growing ---- */

static void nothing_is_refused(void **state)
{
    (void)state;
    struct tamis_residency r = {1, 1};
    struct tamis_filter *f = open_filter(build("small", 1000, 0.01));
    uint64_t budget = 5;
    assert_int_equal(tamis_filter_residency(NULL, &r), TAMIS_ERR_RANGE);
    assert_true(r.n_pages == 0 && r.n_resident == 0);
    assert_int_equal(tamis_filter_residency(f, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_warm(NULL, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_lock(NULL, &budget), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_lock(f, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(budget, 5);
    tamis_filter_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_probes_use),
        cmocka_unit_test(counts_one_inside_a_file),
        cmocka_unit_test(warms_in_large_reads),
        cmocka_unit_test(warming_may_be_stopped),
        cmocka_unit_test(warms_on_old_kernels),
        cmocka_unit_test(a_page_that_is_gone_is_told),
        TEST_WITH_GUARD(an_old_kernel_and_a_guard),
        cmocka_unit_test(nothing_is_refused),
    };
    return cmocka_run_group_tests_name("residency", tests, setup, teardown);
}
