/* Scrubbing by reading says of every page what the check through a mapping says, and of
 * what it can't read nothing. */
#include "tests/support/support.h"

#define OK(call) assert_int_equal(call, 0)

/* A built filter with a tree of two levels of digests, and a grown one. */
static void make(const char *sealed, const char *grown)
{
    enum { N = 600000 };
    struct tamis_domain d;
    struct tamis_builder *b;
    OK(tamis_domain_init(&d, 1, 7));
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &d, .error = 1e-8};
    OK(tamis_builder_create(&opt, &b, NULL));
    uint64_t *hashes = malloc(N * sizeof *hashes);
    assert_non_null(hashes);
    random_hashes(hashes, N);
    OK(tamis_builder_add_hashes(b, d.tag, hashes, N));
    OK(tamis_builder_finish_file(b, sealed, NULL));
    tamis_builder_free(b);
    struct tamis_writer *w = create_writer(grown, 0.01, 2, 1000);
    add_hashes(w, hashes, 20000);
    OK(tamis_writer_commit(w, 1, NULL));
    OK(tamis_writer_close(w));
    free(hashes);
}

static struct header header_of(const char *path)
{
    struct header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    OK(header_load(fd, true, 0, 0, path, &h, NULL));
    close(fd);
    return h;
}

static uint64_t n_damaged_seen;

static void compare(const char *path)
{
    struct header h = header_of(path);
    struct tamis_verify read, mapped;
    struct tamis_filter *f = open_filter(path);
    tamis_filter_verify(f, &mapped, NULL);
    tamis_filter_close(f);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    OK(filter_scrub(fd, &h, &read));
    close(fd);
    assert_int_equal(read.n_pages, mapped.n_pages);
    assert_int_equal(read.n_damaged, mapped.n_damaged);
    assert_int_equal(read.first_damaged, mapped.first_damaged);
    n_damaged_seen += read.n_damaged;
}

static void clear(const char *path, uint64_t at)
{
    static const uint8_t zeros[SECTOR_BYTES];
    file_poke(path, at, zeros, sizeof zeros);
}

static void what_is_read_and_what_is_mapped_agree(void **state)
{
    enum { ROUNDS = 60 };
    char sealed[600], grown[600];
    (void)state;
    snprintf(sealed, sizeof sealed, "%s", path_of("sealed"));
    snprintf(grown, sizeof grown, "%s", path_of("grown"));
    make(sealed, grown);
    compare(sealed);
    compare(grown);
    assert_int_equal(n_damaged_seen, 0);
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

static ssize_t fails_at_last(int fd, void *buf, size_t n, off_t at)
{
    if ((uint64_t)at + n > 16 * PAGE_BYTES)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

static uint64_t unreadable_from, unreadable_to;

static ssize_t fails_within(int fd, void *buf, size_t n, off_t at)
{
    if ((uint64_t)at < unreadable_to && (uint64_t)at + n > unreadable_from)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

/* Each page of the tree in turn. */
static void digests_that_cannot_be_read_are_an_error(void **state)
{
    char sealed[600], grown[600];
    struct tamis_verify v;
    (void)state;
    snprintf(sealed, sizeof sealed, "%s", path_of("s3"));
    snprintf(grown, sizeof grown, "%s", path_of("g3"));
    make(sealed, grown);
    struct header h = header_of(sealed);
    const struct stage_desc *d = &h.commit.stages[0];
    uint64_t end = d->digests_offset + digests_bytes(d->length / PAGE_BYTES);
    int fd = open(sealed, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    calls_before = io_calls;
    io_calls.pread = fails_within;
    for (uint64_t at = d->digests_offset; at < end; at += PAGE_BYTES) {
        unreadable_from = at;
        unreadable_to = at + PAGE_BYTES;
        assert_int_equal(filter_scrub(fd, &h, &v), EIO);
    }
    io_calls = calls_before;
    /* Digests that are not there any more prove no page. */
    assert_int_equal(truncate(sealed, (off_t)d->digests_offset), 0);
    OK(filter_scrub(fd, &h, &v));
    assert_true(v.n_damaged == v.n_pages && v.n_pages == d->length / PAGE_BYTES);
    close(fd);
}

static void what_cannot_be_read_is_an_error(void **state)
{
    char sealed[600], grown[600];
    (void)state;
    snprintf(sealed, sizeof sealed, "%s", path_of("s2"));
    snprintf(grown, sizeof grown, "%s", path_of("g2"));
    make(sealed, grown);
    for (int i = 0; i < 2; i++) {
        const char *path = i ? grown : sealed;
        struct tamis_verify v;
        struct header h = header_of(path);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0 && h.commit.committed_bytes > 16 * PAGE_BYTES);
        calls_before = io_calls;
        io_calls.pread = fails_at_last;
        assert_int_equal(filter_scrub(fd, &h, &v), EIO);
        io_calls = calls_before;
        /* But what is not there any more is damage. */
        assert_int_equal(truncate(path, 16 * PAGE_BYTES), 0);
        OK(filter_scrub(fd, &h, &v));
        assert_true(v.n_damaged > 0);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_and_what_is_mapped_agree),
        cmocka_unit_test(digests_that_cannot_be_read_are_an_error),
        cmocka_unit_test(what_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
