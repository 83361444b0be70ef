/* Scrubbing by reading says the same of every page as the check through a mapping, and
 * nothing of pages that it can't read. Both read ahead; a mapping does so by madvise().
 */
#include "tests/support/filters.h"

/* A built filter with a tree of two levels of digests, and a grown one. */
static char sealed[600], grown[600];

static int make(void **state)
{
    enum { N = 600000 };
    if (test_dir_create(state))
        return -1;
    snprintf(sealed, sizeof sealed, "%s", path_of("sealed"));
    snprintf(grown, sizeof grown, "%s", path_of("grown"));
    FREED uint64_t *hashes = malloc(N * sizeof *hashes);
    random_hashes(hashes, N);
    BUILD(sealed, hashes, N, .error = 1e-8);
    grow_to(grown, 1000, hashes, 20000, 1);
    return 0;
}

#define TEST_OF_BOTH(name) TEST_WITH(make, test_dir_remove, name)

static struct header header_of(const char *path)
{
    struct header h;
    FD fd = open_to_read(path);
    OK(header_load(fd, true, 0, 0, path, &h, NULL));
    return h;
}

static uint64_t n_damaged_seen;

static void compare(const char *path)
{
    struct header h = header_of(path);
    struct tamis_verify read, mapped;
    FILTER f = open_filter(path);
    tamis_filter_verify(f, &mapped, NULL);
    FD fd = open_to_read(path);
    OK(filter_scrub(fd, &h, &read));
    IS(read.n_pages, mapped.n_pages);
    IS(read.n_damaged, mapped.n_damaged);
    IS(read.first_damaged, mapped.first_damaged);
    n_damaged_seen += read.n_damaged;
}

static void clear(const char *path, uint64_t at)
{
    static const uint8_t zeros[SECTOR_BYTES];
    file_poke(path, at, zeros, sizeof zeros);
}

TEST_OF_BOTH(what_is_read_and_what_is_mapped_agree)
{
    enum { ROUNDS = 60 };
    compare(sealed);
    compare(grown);
    IS(n_damaged_seen, 0);
    struct header s = header_of(sealed), g = header_of(grown);
    assert_true(s.commit.stages[0].length / PAGE_BYTES > DIGESTS_PER_PAGE);
    assert_true(g.commit.n_stages > 2);
    for (int i = 0; i < ROUNDS; i++) {
        const struct stage_desc *d = &s.commit.stages[0];
        bool tree = i >= ROUNDS - 3; /* a page of digests fails many */
        uint64_t from = tree ? d->digests_offset : d->offset;
        uint64_t n = tree ? digests_bytes(d->length / PAGE_BYTES) : d->length;
        flip(sealed, from + random_below(n));
        d = &g.commit.stages[random_below(g.commit.n_stages)];
        if (i % 3)
            clear(grown,
                  d->offset + random_below(d->length / SECTOR_BYTES) * SECTOR_BYTES);
        else
            flip(grown,
                 d->floors_offset + random_below(floors_bytes(d->length / PAGE_BYTES)));
        compare(sealed);
        compare(grown);
    }
    assert_true(n_damaged_seen > ROUNDS);
    /* And the page that all the other digests hang on: it is the last one. */
    const struct stage_desc *d = &s.commit.stages[0];
    uint64_t n_pages = d->length / PAGE_BYTES, before = n_damaged_seen;
    flip(sealed, d->digests_offset + digests_bytes(n_pages) - PAGE_BYTES);
    compare(sealed);
    assert_true(n_damaged_seen == before + n_pages);
}

static uint64_t unreadable_from, unreadable_to = UINT64_MAX;

static ssize_t fails_within(int fd, void *buf, size_t n, off_t at)
{
    if ((uint64_t)at < unreadable_to && (uint64_t)at + n > unreadable_from)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

/* Each page of the tree in turn. */
TEST_OF_BOTH(digests_that_cannot_be_read_are_an_error)
{
    struct tamis_verify v;
    struct header h = header_of(sealed);
    const struct stage_desc *d = &h.commit.stages[0];
    uint64_t end = d->digests_offset + digests_bytes(d->length / PAGE_BYTES);
    FD fd = open_to_read(sealed);
    calls_before = io_calls;
    io_calls.pread = fails_within;
    for (uint64_t at = d->digests_offset; at < end; at += PAGE_BYTES) {
        unreadable_from = at;
        unreadable_to = at + PAGE_BYTES;
        IS(filter_scrub(fd, &h, &v), EIO);
    }
    io_calls = calls_before;
    /* Digests that are not there any more prove no page. */
    OK(truncate(sealed, (off_t)d->digests_offset));
    OK(filter_scrub(fd, &h, &v));
    assert_true(v.n_damaged == v.n_pages && v.n_pages == d->length / PAGE_BYTES);
}

TEST_OF_BOTH(what_cannot_be_read_is_an_error)
{
    for (int i = 0; i < 2; i++) {
        const char *path = i ? grown : sealed;
        struct tamis_verify v;
        struct header h = header_of(path);
        FD fd = open_to_read(path);
        assert_true(fd >= 0 && h.commit.committed_bytes > 16 * PAGE_BYTES);
        calls_before = io_calls;
        unreadable_from = 16 * PAGE_BYTES;
        unreadable_to = UINT64_MAX;
        io_calls.pread = fails_within;
        IS(filter_scrub(fd, &h, &v), EIO);
        io_calls = calls_before;
        /* But what is not there any more is damage. */
        OK(truncate(path, 16 * PAGE_BYTES));
        OK(filter_scrub(fd, &h, &v));
        assert_true(v.n_damaged > 0);
    }
}

static struct {
    uint64_t n_bytes;
    struct stage *checked; /* NULL: no matter in which order */
} ahead;

static int noting_madvise(void *at, size_t n, int advice)
{
    const struct stage *s = ahead.checked;
    uint64_t page = s ? (uint64_t)((uint8_t *)at - s->bits) / PAGE_BYTES : 0;
    if (advice != MADV_WILLNEED)
        return calls_before.madvise(at, n, advice);
    ahead.n_bytes += n;
    if (s && page < s->n_pages) { /* a few MiB at a time, and before */
        assert_true(page >= s->n_good && page - s->n_good <= 512);
        assert_true(n <= 4 << 20);
    }
    return calls_before.madvise(at, n, advice);
}

static int open_fully(const char *path)
{
    FILTER f = OPEN_AS(path, .check = TAMIS_CHECK_FULL);
    return 0;
}

static int verify(const char *path)
{
    struct tamis_verify report;
    FILTER f = open_filter(path);
    ahead.checked = &atomic_load(&f->view)->stages[0];
    int rc = tamis_filter_verify(f, &report, NULL);
    ahead.checked = NULL;
    return rc;
}

static int estimate(const char *path)
{
    struct tamis_estimate e;
    FILTER f = open_filter(path);
    return tamis_filter_estimate(f, 0, 0, &e, NULL);
}

static int recover(const char *path)
{
    struct tamis_writer *w;
    int rc = tamis_writer_open(path, NULL, &w, NULL);
    return rc ? rc : tamis_writer_close(w, NULL);
}

/* All pages of all stages, and what they are checked by. */
static uint64_t checked_bytes(const char *path)
{
    struct header h = header_of(path);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < h.commit.n_stages; i++) {
        struct stage_desc d = h.commit.stages[i];
        sum += d.length + (commit_has_digests(&h.commit, i)
                               ? digests_bytes(d.length / PAGE_BYTES)
                               : floors_bytes(d.length / PAGE_BYTES));
    }
    return sum;
}

TEST_OF_BOTH(each_page_is_asked_for_once)
{
    static const struct {
        const char *path;
        int (*looks)(const char *path);
    } cases[] = {{"sealed", open_fully}, {"sealed", verify},  {"sealed", estimate},
                 {"grown", open_fully},  {"grown", estimate}, {"unclean", recover}};
    struct tamis_writer *w = open_writer(grown);
    file_copy(grown, path_of("unclean"));
    OK(tamis_writer_close(w, NULL));
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint64_t n = checked_bytes(path_of(cases[i].path));
        ahead.n_bytes = 0;
        calls_before = io_calls;
        io_calls.madvise = noting_madvise;
        int rc = cases[i].looks(path_of(cases[i].path));
        io_calls = calls_before;
        IS(rc, 0);
        IS(ahead.n_bytes, n);
    }
}

RUN_TESTS(NULL, NULL)
