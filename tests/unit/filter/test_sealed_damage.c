/* Damage in sealed filters, page by page: a key that is in is never ABSENT (section 1
 * of the specification), the reason says DAMAGED, and the scrub says where. */
#include "tests/support/filters.h"

enum { MAX_KEYS = 500 * 1000 };
static uint64_t keys[MAX_KEYS];
static struct tamis_domain domain;

SET_UP(test_dir_create, domain = domain_of(0x5eed), random_hashes(keys, MAX_KEYS))

static void build(const char *path, double error, size_t n)
{
    BUILD(path, keys, n, .domain = &domain, .error = error);
}

enum damage { CLEAR_A_BIT, SET_A_BIT, ZERO_THE_PAGE, FILL_THE_PAGE, N_DAMAGES };

static bool flip_one(uint8_t *page, bool from)
{
    for (int tries = 0; tries < 100000; tries++) {
        uint64_t bit = random_below(PAGE_BYTES * 8);
        if ((page[bit / 8] >> (bit % 8) & 1) == from)
            return page[bit / 8] ^= (uint8_t)(1 << bit % 8), true;
    }
    return false;
}

/* Damages the page at `offset`, keeping what it was; false if it would not change. */
static bool damage_page(const char *path, uint64_t offset, enum damage how,
                        uint8_t before[PAGE_BYTES])
{
    uint8_t page[PAGE_BYTES];
    FD fd = open_to_read(path);
    IS(pread(fd, page, sizeof page, (off_t)offset), sizeof page);
    memcpy(before, page, sizeof page);
    if (how == CLEAR_A_BIT && !flip_one(page, true))
        return false;
    if (how == SET_A_BIT && !flip_one(page, false))
        return false;
    if (how == ZERO_THE_PAGE)
        memset(page, 0, sizeof page);
    if (how == FILL_THE_PAGE)
        memset(page, 0xff, sizeof page);
    file_poke(path, offset, page, sizeof page);
    return memcmp(before, page, sizeof page) != 0;
}

static size_t count_damaged(struct tamis_filter *f, size_t n, size_t step)
{
    size_t n_damaged = 0;
    for (size_t i = 0; i < n; i += step) {
        enum tamis_reason why;
        IS(ask(f, keys[i], &why), TAMIS_MAYBE);
        assert_true(why == TAMIS_HIT || why == TAMIS_DAMAGED);
        n_damaged += why == TAMIS_DAMAGED;
    }
    return n_damaged;
}

/* Lazy and strict find the damage at first use, full while opening, and the scrub
 * names the first page that fails. */
static void expect_found(const char *path, size_t n_keys, uint64_t first_bad,
                         uint64_t n_bad)
{
    struct tamis_diag diag;
    for (int strict = 0; strict < 2; strict++) {
        struct tamis_verify report;
        FILTER f =
            OPEN_AS(path, .check = strict ? TAMIS_CHECK_STRICT : TAMIS_CHECK_LAZY);
        /* Strict digests pages at every probe: of many keys it gets a part. */
        size_t step = strict ? 1 + n_keys / by_form(5000, 20000) : 1;
        assert_true(count_damaged(f, n_keys, step) > 0);
        IS(tamis_filter_verify(f, &report, &diag), TAMIS_ERR_DAMAGED);
        IS(report.n_damaged, n_bad);
        IS(report.first_damaged, first_bad);
        assert_true(diag.has_offset && diag.offset == first_bad);
        IS(count_absent(f, keys, n_keys / step), 0);
    }
    const struct tamis_filter_options full = {.size = sizeof full,
                                              .check = TAMIS_CHECK_FULL};
    diag = reader_refused(path, &full, TAMIS_ERR_DAMAGED);
    assert_true(diag.has_offset && diag.offset == first_bad);
}

/* The control: without checks zeroed pages do lose keys, so the tests above have
 * something to find. But not once a scrub has found them. */
static void expect_lost_unchecked(const char *path, size_t n_keys)
{
    FILTER f = OPEN_AS(path, .check = TAMIS_CHECK_NONE);
    assert_true(count_absent(f, keys, n_keys) > 0);
    damage_of(f);
    IS(count_absent(f, keys, n_keys), 0);
}

/* Damages the page at `offset` in every way: n_bad pages fail from first_bad on. */
static void damage_each_way(const char *path, uint64_t offset, size_t n_keys,
                            uint64_t first_bad, uint64_t n_bad)
{
    uint8_t before[PAGE_BYTES];
    for (enum damage how = 0; how < N_DAMAGES; how++) {
        if (!damage_page(path, offset, how, before))
            continue;
        expect_found(path, n_keys, first_bad, n_bad);
        if (how == ZERO_THE_PAGE && offset == first_bad)
            expect_lost_unchecked(path, n_keys);
        file_poke(path, offset, before, sizeof before);
    }
}

static void damage_bits(const char *path, size_t n_keys, uint64_t step)
{
    struct commit c = commit_of(path);
    for (size_t i = 0; i < c.n_stages; i++)
        for (uint64_t at = 0; at < c.stages[i].length; at += step * PAGE_BYTES)
            damage_each_way(path, c.stages[i].offset + at, n_keys,
                            c.stages[i].offset + at, 1);
}

/* A page of digests that fails fails all the pages below it. */
static void damage_digests(const char *path, size_t n_keys)
{
    struct commit c = commit_of(path);
    for (size_t i = 0; i < c.n_stages; i++) {
        const struct stage_desc *s = &c.stages[i];
        uint64_t n_pages = s->length / PAGE_BYTES, each = 1;
        struct digest_tree t;
        digest_tree_of(n_pages, &t);
        for (uint32_t level = 1; level < t.n_levels; level++) {
            each *= DIGESTS_PER_PAGE;
            for (uint64_t k = 0; k < t.n_pages[level]; k++) {
                uint64_t offset = s->digests_offset + t.offset[level] + k * PAGE_BYTES;
                uint64_t n_below = (k + 1) * each < n_pages ? each : n_pages - k * each;
                damage_each_way(path, offset, n_keys, s->offset + k * each * PAGE_BYTES,
                                n_below);
            }
        }
    }
}

static void expect_clean(const char *path, size_t n_keys)
{
    FILTER f = open_filter(path);
    verified(f);
    IS(count_damaged(f, n_keys, 1), 0);
}

/* The page at `at`, of which the root is, has a bit behind what is used. */
static void not_zero_behind(const char *path, uint64_t at)
{
    size_t n;
    struct commit c = commit_of(path);
    FREED uint8_t *b = file_read(path, &n);
    b[at + PAGE_BYTES - 1] = 1;
    c.stages[0].root = page_digest(b + at);
    c.table_digest = 0;
    commit_encode(&c, SLOT_BIRTH, b + IDENTITY_BYTES);
    file_write(path, b, n);
    FILTER f = open_filter(path);
    struct tamis_verify mapped = damage_of(f), read;
    struct header h;
    FD fd = open_to_read(path);
    OK(header_load(fd, true, 0, 0, path, &h, NULL));
    OK(filter_scrub(fd, &h, &read));
    IS(read.n_damaged, mapped.n_damaged);
    IS(read.first_damaged, mapped.first_damaged);
}

TEST(test_one_page)
{
    build(path_of("one"), 0.01, 1000);
    IS(commit_of(path_of("one")).stages[0].length, PAGE_BYTES);
    damage_bits(path_of("one"), 1000, 1);
    expect_clean(path_of("one"), 1000);
    not_zero_behind(path_of("one"), commit_of(path_of("one")).stages[0].offset);
}

/* They have a page in common. */
TEST(test_two_lanes)
{
    enum { N = 8000 };
    build(path_of("lanes"), 1e-4, N);
    struct geometry g = commit_of(path_of("lanes")).stages[0].geometry;
    assert_true(g.lanes == 2 && g.n_blocks % BLOCKS_PER_PAGE != 0);
    damage_bits(path_of("lanes"), N, 1);
    damage_digests(path_of("lanes"), N);
    expect_clean(path_of("lanes"), N);
}

TEST(test_a_tree_of_three_levels)
{
    const char *path = path_of("tree");
    build(path, 1e-8, 450000);
    assert_true(commit_of(path).stages[0].length / PAGE_BYTES > DIGESTS_PER_PAGE);
    damage_digests(path, 450000);
    damage_bits(path, 450000, 500);
    expect_clean(path, 450000);
    struct stage_desc d = commit_of(path).stages[0];
    not_zero_behind(path, d.digests_offset + digests_bytes(d.length / PAGE_BYTES) -
                              PAGE_BYTES);
}

TEST(test_sealed_from_growing)
{
    enum { N = 8000 };
    const char *path = path_of("grown");
    struct tamis_writer *w = WRITER_AS(
        path, .growth = {.error = 0.01, .first_capacity = 200}, .domain = &domain);
    add_hashes(w, keys, N);
    seal_and_close(w, 1);
    assert_true(commit_of(path).n_stages >= 5);
    damage_bits(path, N, 1);
    damage_digests(path, N);
    expect_clean(path, N);
}

/* Damage after the first use: strict finds it, and no mode takes a verdict back. */
TEST(test_damage_while_open)
{
    enum { N = 20000 };
    const char *path = path_of("rotting");
    uint8_t before[PAGE_BYTES];
    struct tamis_verify report;
    build(path, 1e-4, N);
    uint64_t offset = commit_of(path).stages[0].offset + PAGE_BYTES;
    FILTER strict = OPEN_AS(path, .check = TAMIS_CHECK_STRICT);
    FILTER lazy = OPEN_AS(path, .check = TAMIS_CHECK_LAZY);
    IS(count_damaged(strict, N, 1), 0);
    IS(count_damaged(lazy, N, 1), 0);
    assert_true(damage_page(path, offset, ZERO_THE_PAGE, before));
    assert_true(count_damaged(strict, N, 1) > 0);
    /* Lazy looked once; a scrub makes it look again. */
    IS(tamis_filter_verify(lazy, &report, NULL), TAMIS_ERR_DAMAGED);
    IS(report.first_damaged, offset);
    size_t n = count_damaged(lazy, N, 1);
    assert_true(n > 0);
    file_poke(path, offset, before, sizeof before);
    assert_true(count_damaged(strict, N, 1) > 0);
    IS(count_damaged(lazy, N, 1), n);
}

/* Strict believes the very copy that it has checked: what happens to the mapping
 * between the two is not seen. */
static const uint8_t *probed;

static bool note_probed(const uint8_t *block, uint32_t words, uint64_t h)
{
    probed = block;
    return kernel_get()->block_probe(block, words, h);
}

TEST(test_strict_probes_its_copy)
{
    const char *path = path_of("strict");
    struct kernel spy = *kernel_get();
    build(path, 0.01, 1000);
    FILTER f = OPEN_AS(path, .check = TAMIS_CHECK_STRICT);
    struct stage *s = &atomic_load(&f->view)->stages[0];
    spy.block_probe = note_probed;
    IS(stage_probe(s, &spy, keys[0]), TAMIS_HIT);
    assert_non_null(probed);
    assert_false(probed >= s->bits && probed < s->bits + s->n_pages * PAGE_BYTES);
}

/* Damage costs what lies on the page, not the filter. */
TEST(test_the_rest_still_answers)
{
    enum { N = 20000 };
    const char *path = path_of("rest");
    uint8_t before[PAGE_BYTES];
    build(path, 1e-4, N);
    assert_true(
        damage_page(path, commit_of(path).stages[0].offset, ZERO_THE_PAGE, before));
    FILTER f = open_filter(path);
    /* One page of a lane of several; the other lane still tells most keys apart. */
    size_t n = count_absent(f, keys + N, 100000);
    assert_true(n > 98000 && n < 100000);
}

RUN_TESTS(set_up, test_dir_remove)
