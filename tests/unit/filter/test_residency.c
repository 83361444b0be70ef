/* Residency of a filter: counting, warming, and obstacles: old kernels, pages that
 * cannot be had. */
#include "tests/support/filters.h"
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

TEST(counts_what_probes_use)
{
    const char *path = build_large();
    make_cold(path);
    FILTER f = open_filter(path);
    struct tamis_residency cold = residency(f), warm;
    IS(cold.n_pages, used_pages(path));
    for (size_t i = 0; i < N_ASKED; i++)
        IS(ask(f, keys[i], NULL), TAMIS_MAYBE);
    warm = residency(f);
    IS(warm.n_pages, cold.n_pages);
    assert_true(warm.n_resident > cold.n_pages / 2);
    /* Where the file system keeps its files in memory nothing gets cold. */
    assert_true(cold.n_resident <= 8 || cold.n_resident == cold.n_pages);
}

TEST(counts_one_inside_a_file)
{
    size_t n;
    uint8_t *bytes = file_read(build("small", 1000, 0.01), &n);
    const char *path = path_of("outer");
    FILTER f;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    IS(pwrite(fd, bytes, n, 3 * 4096), (ssize_t)n);
    OK(tamis_filter_open_fd(fd, 3 * 4096, n, NULL, &f, NULL));
    close(fd);
    free(bytes);
    OK(tamis_filter_warm(f, NULL, NULL));
    struct tamis_residency r = residency(f);
    /* Larger pages of the machine's may begin before it, and be shared. */
    assert_true(r.n_pages == n / 4096 || (page > 4096 && r.n_pages >= 1));
    IS(r.n_resident, r.n_pages);
    uint64_t budget = 1 << 20;
    IS(lock_within(f, &budget), 0);
    IS(locked_now(), (1 << 20) - budget);
}

/* ---- warming ---- */

static uint64_t pages_in_hole(const char *path)
{
    unsigned char in[511];
    uint64_t n = 0;
    FD fd = open_to_read(path);
    void *p = mmap(NULL, HUGE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    OK(mincore((uint8_t *)p + page, HUGE_PAGE_BYTES - page, in));
    for (size_t i = 0; i < HUGE_PAGE_BYTES / page - 1; i++)
        n += in[i] & 1;
    munmap(p, HUGE_PAGE_BYTES);
    return n;
}

/* Sanitizers would touch pages of their own. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void
touch_all(const volatile uint8_t *at, uint64_t n_pages)
{
    for (uint64_t i = 0; i < n_pages; i++)
        (void)at[i * page];
}

TEST(warms_in_large_reads)
{
    const char *path = build_large();
    struct heard h = {0};
    struct rusage before, after;
    make_cold(path);
    FILTER f = open_filter(path);
    struct tamis_residency cold = residency(f);
    getrusage(RUSAGE_SELF, &before);
    OK(tamis_filter_warm(f, hear, &h));
    getrusage(RUSAGE_SELF, &after);
    struct tamis_residency warm = residency(f);
    printf("%llu pages warm, %llu before; %ld faults that read\n",
           (unsigned long long)warm.n_resident, (unsigned long long)cold.n_resident,
           after.ru_majflt - before.ru_majflt);
    IS(warm.n_resident, warm.n_pages);
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
    IS(after.ru_majflt, before.ru_majflt);
    IS(count_absent(f, keys, N_ASKED), 0);
}

TEST(warming_may_be_stopped)
{
    struct heard h = {.stop_at = 1};
    FILTER f = open_filter(build_large());
    IS(tamis_filter_warm(f, hear, &h), ECANCELED);
    IS(h.n, 1);
    assert_true(h.done < h.total); /* the header, and then the stage */
}

/* Kernels before 5.14, and what stands for a kernel on other machines. */
static int old_madvise(void *at, size_t n, int advice)
{
    enum { POPULATE_READ = 22 };
    if (advice == POPULATE_READ)
        return errno = EINVAL, -1;
    return madvise(at, n, advice);
}

static int warm_by(int (*advise)(void *, size_t, int), struct tamis_filter *f,
                   int (*progress)(void *, uint64_t, uint64_t), void *ctx)
{
    io_calls.madvise = advise;
    int rc = tamis_filter_warm(f, progress, ctx);
    io_calls.madvise = madvise;
    return rc;
}

TEST(warms_on_old_kernels)
{
    const char *path = build_large();
    struct heard h = {0};
    make_cold(path);
    FILTER f = open_filter(path);
    IS(warm_by(old_madvise, f, hear, &h), 0);
    struct tamis_residency r = residency(f);
    IS(r.n_resident, r.n_pages);
    assert_true(h.done == h.total && h.total == r.n_pages * page);
}

static int no_madvise(void *at, size_t n, int advice)
{
    return errno = ENOMEM, -1;
}

TEST(a_page_that_is_gone_is_told)
{
    struct heard h = {0};
    const char *path = build_large();
    uint64_t budget = 64 << 20;
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, 1), 0);
    cut(path, HUGE_PAGE_BYTES + 65536);
    IS(tamis_filter_warm(f, hear, &h), EIO); /* and no SIGBUS */
    assert_true(h.done < h.total);
    IS(lock_within(f, &budget), EIO);
    budget = 0;
    IS(lock_within(f, &budget), 0);
    IS(warm_by(no_madvise, f, NULL, NULL), ENOMEM);
}

TEST_WITH_GUARD(an_old_kernel_and_a_guard)
{
    const char *path = build_large();
    FILTER f = open_filter(path);
    cut(path, HUGE_PAGE_BYTES + 65536);
    IS(warm_by(old_madvise, f, NULL, NULL), EIO);
    IS(count_absent(f, keys, N_ASKED), 0);
}

/* ---- growing ---- */

TEST(nothing_is_refused)
{
    struct tamis_residency r = {1, 1};
    FILTER f = open_filter(build("small", 1000, 0.01));
    IS(tamis_filter_residency(NULL, &r), TAMIS_ERR_RANGE);
    assert_true(r.n_pages == 0 && r.n_resident == 0);
    IS(tamis_filter_residency(f, NULL), TAMIS_ERR_RANGE);
    IS(tamis_filter_warm(NULL, NULL, NULL), TAMIS_ERR_RANGE);
}

RUN_TESTS(set_up, test_dir_remove)
