/* How much of a filter is in memory: counting, warming, obstacles (old kernels, pages
 * that cannot be had), and locking as much as the budget and the limit allow. */
#include "tests/support/guard_support.h"
#include "tests/support/locked.h"

enum { N_KEYS = 500000, N_ASKED = 2000 };

static uint64_t keys[N_KEYS];
static size_t page; /* of the machine's */

static const char *build(const char *name, size_t n, double error)
{
    const char *path = path_of(name);
    BUILD(path, keys, n, .error = error);
    return path;
}

/* Has some 3 MiB of bits, which begin at 2 MiB. */
static const char *build_large(void)
{
    const char *path = build("large", N_KEYS, 1e-8);
    open_a_hole(path);
    return path;
}

static void make_cold(const char *path)
{
    FD fd = open_to_read(path);
    OK(fdatasync(fd));
    OK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* Locks and reads as much of its beginning as the budget has room for; the rest is let
 * go. */
static int lock_within(struct tamis_filter *filter, uint64_t *budget_bytes)
{
    struct warming w = {0};
    uint64_t locked;
    int err = filter_unlock_beyond(filter, *budget_bytes / page * page);
    if (err)
        return err;
    err = filter_lock_first(filter, *budget_bytes, &locked);
    *budget_bytes -= locked;
    int unread = filter_warm_first(filter, locked, &w);
    return err ? err : unread;
}

/* The same; returns what is left of the budget. */
static uint64_t left_of(uint64_t budget_bytes, struct tamis_filter *f, int err)
{
    IS(lock_within(f, &budget_bytes), err);
    return budget_bytes;
}

static struct tamis_residency residency(struct tamis_filter *f)
{
    struct tamis_residency r;
    OK(tamis_filter_residency(f, &r, NULL));
    assert_true(r.n_resident <= r.n_pages);
    return r;
}

static uint64_t round_up(uint64_t n)
{
    return (n + page - 1) / page * page;
}

SET_UP(test_dir_create, page = (size_t)sysconf(_SC_PAGESIZE),
       random_hashes(keys, N_KEYS))

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

static int warm(struct tamis_filter *f, tamis_progress_fn *fn, void *ctx)
{
    struct warming w = {fn, ctx, 0, filter_used_bytes(f, UINT64_MAX)};
    return filter_warm_first(f, UINT64_MAX, &w);
}

TEST(counts_one_inside_a_file)
{
    size_t n;
    uint8_t *bytes = file_read(build("small", 1000, 0.01), &n);
    const char *path = path_of("outer");
    FILTER f;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    IS(pwrite(fd, bytes, n, 3 * 4096), (ssize_t)n);
    OK(tamis_filter_open(NULL, INSIDE(.fd = fd, .offset = 3 * 4096, .n_bytes = n), &f,
                         NULL));
    close(fd);
    free(bytes);
    OK(warm(f, NULL, NULL));
    struct tamis_residency r = residency(f);
    /* Larger pages of the machine's may begin before it, and be shared. */
    assert_true(r.n_pages == n / 4096 || (page > 4096 && r.n_pages >= 1));
    IS(r.n_resident, r.n_pages);
    uint64_t left = left_of(1 << 20, f, 0);
    IS(locked_now(), (1 << 20) - left);
}

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
    OK(warm(f, hear, &h));
    getrusage(RUSAGE_SELF, &after);
    struct tamis_residency now = residency(f);
    printf("%llu pages warm, %llu before; %ld faults that read\n",
           (unsigned long long)now.n_resident, (unsigned long long)cold.n_resident,
           after.ru_majflt - before.ru_majflt);
    IS(now.n_resident, now.n_pages);
    assert_true(h.n >= 1 && h.done == h.total && h.total == now.n_pages * page);
    /* Under advice for random access it would be one a page. */
    assert_true(after.ru_majflt - before.ru_majflt < (long)now.n_pages / 8);
    if (cold.n_resident < cold.n_pages)
        assert_true(pages_in_hole(path) < 64);
    /* All of it is mapped: no probe faults. */
    getrusage(RUSAGE_SELF, &before);
    touch_all(atomic_load(&f->view)->stages[0].bits, now.n_pages - 8);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_minflt - before.ru_minflt < 8);
    IS(after.ru_majflt, before.ru_majflt);
    IS(count_absent(f, keys, N_ASKED), 0);
}

TEST(warming_may_be_stopped)
{
    struct heard h = {.stop_at = 1};
    FILTER f = open_filter(build_large());
    IS(warm(f, hear, &h), ECANCELED);
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
    int rc = warm(f, progress, ctx);
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
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, 1), 0);
    cut(path, HUGE_PAGE_BYTES + 65536);
    IS(warm(f, hear, &h), EIO); /* and no SIGBUS */
    assert_true(h.done < h.total);
    left_of(64 << 20, f, EIO);
    left_of(0, f, 0);
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

TEST(nothing_is_refused)
{
    struct tamis_residency r = {1, 1};
    FILTER f = open_filter(build("small", 1000, 0.01));
    IS(tamis_filter_residency(NULL, &r, NULL), TAMIS_ERR_RANGE);
    assert_true(r.n_pages == 0 && r.n_resident == 0);
    IS(tamis_filter_residency(f, NULL, NULL), TAMIS_ERR_RANGE);
}

TEST(locks_within_the_budget)
{
    const char *path = build_large();
    make_cold(path);
    struct tamis_filter *f = open_filter(path);
    uint64_t whole = round_up(commit_of(path).committed_bytes);
    IS(left_of(64 << 20, f, 0), (64 << 20) - whole);
    IS(locked_now(), whole);
    struct tamis_residency r = residency(f);
    IS(r.n_resident, r.n_pages);
    IS(left_of(whole, f, 0), 0); /* again costs nothing */
    IS(locked_now(), whole);
    IS(left_of((3 << 20) + page - 1, f, 0), page - 1); /* less: the rest is let go */
    IS(locked_now(), 3 << 20);
    IS(left_of(page - 1, f, 0), page - 1);
    IS(locked_now(), 0);
    left_of(whole, f, 0);
    tamis_filter_close(f); /* and so ends the lock */
    IS(locked_now(), 0);
}

TEST(a_part_is_read_and_no_more)
{
    const char *path = build_large();
    make_cold(path);
    FILTER f = open_filter(path);
    struct tamis_residency before = residency(f), after;
    left_of(HUGE_PAGE_BYTES + 65536, f, 0); /* of the bits 64 KiB */
    after = residency(f);
    assert_true(after.n_resident >= 65536 / page);
    if (before.n_resident < before.n_pages)
        assert_true(after.n_resident < after.n_pages / 2);
}

/* It leaves no room for a second mapping: large reads all the same. */
static int lock_and_warm(void *ctx)
{
    struct tamis_filter *f = ctx;
    uint64_t whole = round_up(atomic_load(&f->view)->map.n_bytes), budget = whole;
    struct rusage before, after;
    limit_locking(whole);
    getrusage(RUSAGE_SELF, &before);
    if (lock_within(f, &budget) != 0 || budget != 0 || locked_now() != whole)
        return 1;
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_majflt - before.ru_majflt >= (long)(whole / page / 8))
        return 2;
    struct tamis_residency r;
    if (tamis_filter_residency(f, &r, NULL) != 0 || r.n_resident != r.n_pages)
        return 3;
    return count_absent(f, keys, N_ASKED) == 0 ? 0 : 4;
}

TEST(all_may_be_locked)
{
    const char *path = build_large();
    make_cold(path);
    FILTER f = open_filter(path);
    in_child(lock_and_warm, f);
}

static int has_no_lock(void *ctx)
{
    return locked_now() != 0 || count_absent(ctx, keys, 1000) != 0;
}

TEST(a_child_has_no_lock)
{
    FILTER f = open_filter(build("small", 1000, 0.01));
    left_of(1 << 20, f, 0);
    in_child(has_no_lock, f);
}

TEST(means_what_is_mapped_now)
{
    const char *path = path_of("growing");
    WRITER w = create_writer(path, 0.001, 2, 1000);
    add_hashes(w, keys, 1000);
    OK(tamis_writer_commit(w, 1, NULL));
    struct tamis_filter *f = open_filter(path);
    left_of(64 << 20, f, 0);
    uint64_t first = locked_now(), n_pages = residency(f).n_pages;
    assert_true(first >= n_pages * page);
    add_hashes(w, keys, 20000);
    OK(tamis_writer_commit(w, 2, NULL));
    struct tamis_residency r = residency(f); /* looks, and notices */
    assert_true(r.n_pages > 4 * n_pages);
    IS(locked_now(), first); /* of the older mapping */
    left_of(64 << 20, f, 0);
    uint64_t whole = round_up(commit_of(path).committed_bytes);
    IS(locked_now(), whole); /* once */
    OK(warm(f, NULL, NULL));
    r = residency(f);
    IS(r.n_resident, r.n_pages);
    IS(count_absent(f, keys, 20000), 0);
    tamis_filter_close(f);
    IS(locked_now(), 0);
}

RUN_TESTS(set_up, test_dir_remove)
