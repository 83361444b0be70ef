/* Ribbon kernels: each one solves a page to the same bytes, and answers as the
 * reference of format/ribbon.c does, whatever the shape, the keys, and how many are
 * asked. */
#include "tests/support/support.h"
#include "lib/builder/layer.h"

enum { N_PAGES = 3, MAX_KEYS = 120000, N_ASKED = 1000 };

static uint64_t hashes[MAX_KEYS], asked[N_ASKED];
static uint8_t pages[N_PAGES + 1][PAGE_BYTES], others[N_PAGES][PAGE_BYTES];

static void make(const struct kernel *k, const struct ribbon_geometry *g, size_t n,
                 uint8_t to[][PAGE_BYTES])
{
    static uint64_t of_page[MAX_KEYS];
    struct ribbon_desk *d = ribbon_desk_create(g, k);
    assert_non_null(d);
    for (uint64_t p = 0; p < g->n_pages; p++) {
        size_t n_here = 0;
        for (size_t i = 0; i < n; i++)
            if (geometry_block(hashes[i], g->n_pages) == p)
                of_page[n_here++] = hashes[i];
        ribbon_page_make(d, p, of_page, n_here, to[p]);
    }
    free(d);
}

static enum tamis_answer otherwise(const struct plane *plane,
                                   const struct tamis_key *key, enum tamis_reason *why)
{
    *why = TAMIS_HIT;
    return TAMIS_MAYBE;
}

/* Only absent keys are answered at once, and none after a page was lost. True if this
 * one was. */
static bool answers_at_once(const struct ribbon_kernel *k, const struct ribbon_plane *p,
                            uint64_t h, bool is_absent)
{
    struct tamis_key key = {.tag = 0, .hash = h};
    _Atomic uint32_t n_lost = 0;
    struct plane_head head = {.own = {p, &n_lost, otherwise}};
    enum tamis_reason why = TAMIS_DAMAGED;
    bool at_once = k->answer(&head.plane, &key, &why) == TAMIS_ABSENT;
    if (at_once)
        assert_true(is_absent && why == TAMIS_NO_REASON);
    else
        IS(why, TAMIS_HIT);
    n_lost = 1;
    IS(k->answer(&head.plane, &key, &why), TAMIS_MAYBE);
    return at_once;
}

static void same_answers(const struct ribbon_kernel *k, const struct ribbon_plane *p,
                         const struct ribbon_geometry *g, const uint64_t *h, size_t n)
{
    uint64_t match[N_ASKED / 64 + 1], bumped[N_ASKED / 64 + 1];
    size_t n_absent = 0, n_at_once = 0;
    memset(match, 0xff, sizeof match);
    memset(bumped, 0xff, sizeof bumped);
    k->probe_many(p, h, n, match, bumped);
    for (size_t i = 0; i < (n + 63) / 64 * 64; i++) {
        enum ribbon_answer a = i < n ? ribbon_probe(pages[0], g, h[i]) : RIBBON_ABSENT;
        if (i < n) {
            IS(k->probe(p, h[i]), a);
            n_absent += a == RIBBON_ABSENT;
            n_at_once += answers_at_once(k, p, h[i], a == RIBBON_ABSENT);
        }
        IS(match[i / 64] >> i % 64 & 1, a == RIBBON_MATCH);
        IS(bumped[i / 64] >> i % 64 & 1, a == RIBBON_BUMPED);
    }
    /* One absent key in 256 matches in the first eight columns. */
    assert_true(n_absent - n_at_once <= 4 + n_absent / 64);
}

/* Returns how many of the keys are bumped; none may be absent. */
static size_t check_shape(const struct ribbon_geometry *g, size_t n)
{
    FREED struct ribbon_plane *p = malloc(ribbon_plane_bytes(g->blocks));
    size_t n_bumped = 0;
    make(&kernel_scalar, g, n, pages);
    ribbon_plane_init(p, pages[0], g);
    for (size_t i = 0; i < n; i++) {
        enum ribbon_answer a = ribbon_probe(pages[0], g, hashes[i]);
        assert_true(a == RIBBON_MATCH || a == RIBBON_BUMPED);
        n_bumped += a == RIBBON_BUMPED;
    }
    for (size_t i = 0; kernel_at(i); i++) {
        const struct ribbon_kernel *k = kernel_at(i)->ribbon;
        make(kernel_at(i), g, n, others);
        assert_memory_equal(others, pages, g->n_pages * PAGE_BYTES);
        same_answers(k, p, g, asked, N_ASKED);
        same_answers(k, p, g, hashes, n < N_ASKED ? n : N_ASKED);
    }
    return n_bumped;
}

TEST(every_shape)
{
    for (uint32_t blocks = RIBBON_MIN_BLOCKS; blocks <= RIBBON_MAX_BLOCKS;
         blocks += blocks < 80 ? 1 : 37) {
        struct ribbon_geometry g = {N_PAGES, 1, blocks};
        size_t rows = (size_t)blocks * RIBBON_WIDTH * N_PAGES;
        size_t n = rows < MAX_KEYS ? rows : MAX_KEYS;
        size_t n_bumped = check_shape(&g, n);
        assert_true(n_bumped < n / 20);
    }
}

TEST(every_number_of_keys)
{
    struct ribbon_geometry g = {2, 1, 75};
    FREED struct ribbon_plane *p = malloc(ribbon_plane_bytes(g.blocks));
    make(&kernel_scalar, &g, 9000, pages);
    ribbon_plane_init(p, pages[0], &g);
    for (size_t i = 0; kernel_at(i); i++)
        for (size_t n = 0; n <= 200; n++)
            same_answers(kernel_at(i)->ribbon, p, &g, asked + n, n);
}

/* A page has the keys that it has, in whatever order they came. */
TEST(order_is_nothing)
{
    struct ribbon_geometry g = {1, 0, 40};
    make(&kernel_scalar, &g, 3000, others);
    for (size_t i = 0; i < 1500; i++) {
        uint64_t h = hashes[i];
        hashes[i] = hashes[2999 - i];
        hashes[2999 - i] = h;
    }
    make(&kernel_scalar, &g, 3000, pages);
    assert_memory_equal(pages, others, PAGE_BYTES);
}

/* Repeats change nothing. Keys beyond all bounds are bumped, all of them. */
TEST(odd_keys)
{
    struct ribbon_geometry g = {1, 0, 20};
    make(&kernel_scalar, &g, 1000, others);
    uint64_t saved[1000];
    memcpy(saved, hashes + 1000, sizeof saved);
    memcpy(hashes + 1000, hashes, sizeof saved);
    make(&kernel_scalar, &g, 2000, pages);
    assert_memory_equal(pages, others, PAGE_BYTES);
    memcpy(hashes + 1000, saved, sizeof saved);
    IS(check_shape(&g, 0), 0);
    IS(check_shape(&g, 1), 0);
    IS(check_shape(&g, 20000), 20000);
    size_t n_bumped = check_shape(&g, 3000); /* of 1,280 rows */
    assert_true(n_bumped >= 3000 - 1280 && n_bumped < 3000);
}

/* More keys of one row than it has equations for: none of them is in the page. */
TEST(a_crowded_row)
{
    struct ribbon_geometry g = {1, 0, 20};
    size_t n = 0;
    uint64_t h = 0;
    while (n < 200) {
        h = random_u64();
        if (ribbon_place_of(&g, h).row == 200 + (n >= 100))
            hashes[n++] = h;
    }
    IS(check_shape(&g, 200), 200);
    IS(pages[0][ribbon_threshold_at(&(struct ribbon_shape){20, 25, 9}, 2)],
       201 - 128 + 1);
    random_hashes(hashes, MAX_KEYS);
}

static int set_up(void **state)
{
    random_hashes(hashes, MAX_KEYS);
    random_hashes(asked, N_ASKED);
    return 0;
}

RUN_TESTS(set_up, NULL)
