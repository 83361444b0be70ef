/* Every kernel that this machine can run against the reference of format/geometry.c, on
 * random geometry: bit by bit the same, however much is asked at a time. */
#include "tests/support/support.h"

enum { MAX_PLANES = 200, MAX_KEYS = 400, ROUNDS = 1000 };

/* ---- planes with something in them, some all but empty, some full ---- */

struct planes {
    size_t n;
    struct geometry geometry[MAX_PLANES];
    struct plane plane[MAX_PLANES];
    uint8_t *bits[MAX_PLANES];
};

static uint8_t *bits_new(const struct geometry *g, uint64_t *n_bytes)
{
    assert_true(geometry_bytes(g, n_bytes));
    uint8_t *bits = aligned_alloc(BLOCK_BYTES, (size_t)*n_bytes);
    assert_non_null(bits);
    memset(bits, 0, (size_t)*n_bytes);
    return bits;
}

/* Now and then all have one lane and the same number of words, as in a store. */
static void planes_make(struct planes *p, size_t n, const uint64_t *keys, size_t n_keys)
{
    bool alike = random_below(4) == 0;
    p->n = n;
    for (size_t i = 0; i < n; i++) {
        struct geometry *g = &p->geometry[i];
        uint64_t n_bytes;
        *g = (struct geometry){.n_blocks = 1 + random_below(random_below(4) ? 40 : 3),
                               .lanes = 1 + (uint32_t)random_below(MAX_LANES),
                               .words = 1 + (uint32_t)random_below(MAX_WORDS)};
        if (alike) {
            g->lanes = 1;
            g->words = p->geometry[0].words;
        }
        p->bits[i] = bits_new(g, &n_bytes);
        if (random_below(8) == 0)
            memset(p->bits[i], 0xff, (size_t)n_bytes - 1);
        for (uint64_t k = random_below(n_keys + 1); k > 0; k--)
            geometry_add(p->bits[i], g,
                         random_below(3) ? random_u64() : keys[random_below(n_keys)]);
        p->plane[i] = plane_of(p->bits[i], g);
    }
}

static void planes_free(struct planes *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->bits[i]);
}

/* As hashes of keys are, and some at the ends of what a hash can be. */
static void random_keys(uint64_t *keys, size_t n)
{
    static const uint64_t odd[] = {0,          1,          UINT64_MAX,
                                   UINT32_MAX, 1ULL << 63, 0xffffffff00000000ULL};
    for (size_t i = 0; i < n; i++)
        keys[i] = random_below(20) ? random_u64() : odd[random_below(N_OF(odd))];
}

/* ---- the checks, of one kernel each ---- */

static uint64_t bits_of(const uint8_t block[BLOCK_BYTES])
{
    uint64_t n = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        n += (uint64_t)__builtin_popcount(block[i]);
    return n;
}

static void check_block(const struct kernel *k)
{
    _Alignas(BLOCK_BYTES) uint8_t is[BLOCK_BYTES], should[BLOCK_BYTES];
    _Alignas(BLOCK_BYTES) uint8_t filled[BLOCK_BYTES];
    uint32_t words = 1 + (uint32_t)random_below(MAX_WORDS);
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        is[i] = (uint8_t)(random_u64() & random_u64());
    memcpy(should, is, sizeof is);
    memcpy(filled, is, sizeof is);
    for (int i = 0; i < 20; i++) {
        uint64_t h, before = bits_of(should);
        random_keys(&h, 1);
        IS(k->block_probe(is, words, h), geometry_block_probe(should, words, h));
        geometry_block_add(should, words, h);
        IS(k->block_add(is, words, h), bits_of(should) - before);
        assert_memory_equal(is, should, sizeof is);
        assert_true(k->block_probe(is, words, h));
        IS(k->block_add(is, words, h), 0);
        k->fill(filled, 1, words, &h, 1);
        assert_memory_equal(filled, should, sizeof is);
    }
    /* Each bit of a key by itself. */
    uint64_t h = random_u64();
    memset(should, 0, sizeof should);
    geometry_block_add(should, words, h);
    for (size_t bit = 0; bit < BLOCK_BITS; bit++) {
        memset(is, 0xff, sizeof is);
        is[bit / 8] = (uint8_t) ~(1U << bit % 8);
        IS(k->block_probe(is, words, h), !(should[bit / 8] >> (bit % 8) & 1));
    }
}

static void check_count(const struct kernel *k)
{
    _Alignas(BLOCK_BYTES) uint8_t page[PAGE_BYTES];
    uint16_t counts[SECTORS_PER_PAGE];
    uint64_t density = random_below(5);
    for (size_t i = 0; i < PAGE_BYTES; i++)
        page[i] = (uint8_t)(density == 0   ? 0
                            : density == 1 ? 0xff
                            : density == 2 ? random_u64() & random_u64()
                            : density == 3 ? random_u64() | random_u64()
                                           : random_u64());
    k->count_page(page, counts);
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        IS(counts[i], sector_count(page + i * SECTOR_BYTES));
}

static void check_fill(const struct kernel *k)
{
    struct geometry g = {.n_blocks = 1 + random_below(50),
                         .lanes = 1,
                         .words = 1 + (uint32_t)random_below(MAX_WORDS)};
    uint64_t n_bytes, keys[MAX_KEYS];
    FREED uint8_t *is = bits_new(&g, &n_bytes), *should = bits_new(&g, &n_bytes);
    random_keys(keys, MAX_KEYS);
    k->fill(is, g.n_blocks, g.words, keys, MAX_KEYS);
    for (size_t i = 0; i < MAX_KEYS; i++)
        geometry_add(should, &g, keys[i]);
    assert_memory_equal(is, should, n_bytes);
}

static enum tamis_answer otherwise(struct plane_watch *w, const struct tamis_target *t,
                                   const struct tamis_key *key, enum tamis_reason *why,
                                   const struct watched_plane *p, uint64_t now)
{
    *why = w && t && p && key && now ? TAMIS_DAMAGED : TAMIS_HIT;
    return TAMIS_MAYBE;
}

static void check_probe(const struct kernel *k, const struct planes *p,
                        const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < n; j++) {
            enum tamis_reason why = TAMIS_UNREADABLE;
            bool in = geometry_probe(p->bits[i], &p->geometry[i], keys[j]);
            struct tamis_key key = {.tag = 1, .hash = keys[j]};
            IS(k->probe(&p->plane[i], keys[j]), in);
            IS(k->answer(&p->plane[i], &key, NULL), in ? TAMIS_MAYBE : TAMIS_ABSENT);
            IS(k->answer(&p->plane[i], &key, &why), in ? TAMIS_MAYBE : TAMIS_ABSENT);
            IS(why, in ? TAMIS_HIT : TAMIS_NO_REASON);
            /* The clock moves; no bytes, within the range, its ends, few bytes. */
            enum { NO_BYTES, WITHIN, FIRST, LAST, FEW_BYTES, N_CASES };
            static const uint8_t at[N_CASES] = {0, 2, 1, 3, 2};
            const _Atomic uint64_t clock = 7;
            struct plane_watch w = {NULL, &clock, otherwise};
            const struct tamis_target t = {0};
            const struct watched_plane one = {p->plane[i], 7, 1, 3};
            for (unsigned c = 0; c < 2 * N_CASES; c++) {
                uint8_t bytes[8] = {[7] = at[c / 2]};
                key.bytes = c / 2 ? bytes : NULL;
                key.n_bytes = c / 2 == FEW_BYTES ? 7 : 8;
                IS(k->answer_while(&w, &t, &key, &why, &one, 7 - c % 2),
                   in || c % 2 ? TAMIS_MAYBE : TAMIS_ABSENT);
                IS(why, c % 2 || (in && c / 2 > WITHIN) ? TAMIS_DAMAGED
                        : in                            ? TAMIS_HIT
                                                        : TAMIS_NO_REASON);
            }
        }
}

static void check_one_row(const struct kernel *k, const struct planes *p, size_t first,
                          size_t n, uint64_t h)
{
    struct plane_row row;
    struct plane_head head = {.row = &row};
    struct tamis_key key = {.tag = 1, .hash = h};
    enum tamis_reason why = TAMIS_UNREADABLE;
    plane_row_begin(&row, p->plane + first, n);
    uint64_t hits = k->probe_row(&row, h);
    for (size_t i = 0; i < 64; i++) {
        size_t at = first + i;
        IS(hits >> i & 1, i < n && geometry_probe(p->bits[at], &p->geometry[at], h));
    }
    IS(k->answer_row(&head.plane, &key, &why), hits ? TAMIS_MAYBE : TAMIS_ABSENT);
    IS(why, hits ? TAMIS_HIT : TAMIS_NO_REASON);
}

static void check_row(const struct kernel *k, const struct planes *p, uint64_t h)
{
    for (size_t first = 0; first < p->n; first += 64) {
        size_t n = p->n - first < 64 ? p->n - first : 64;
        check_one_row(k, p, first, n, h);
        check_one_row(k, p, first, 1 + random_below(n < 20 ? n : 20), h);
    }
}

/* Up to 64 planes, some pairs left out: those have no memory that may be looked at. */
static void check_tile(const struct kernel *k, const struct planes *p,
                       const uint64_t *keys, size_t n)
{
    struct plane planes[128] = {0};
    uint64_t ask[64], hits[65], left_out = random_below(4) ? 0 : random_u64();
    size_t n_planes = 1 + random_below(random_below(2) ? 16 : 64);
    const uint64_t all = UINT64_MAX >> (64 - n_planes);
    bool some = left_out || random_below(2);
    n = n > 0 && random_below(4) == 0 ? 1 : n < 64 ? n : 64;
    for (size_t i = 0; i < n; i++)
        ask[i] = (random_below(2) ? random_u64() : UINT64_MAX) & ~left_out & all;
    for (size_t i = 0; i < n_planes; i++)
        planes[i] = left_out >> i & 1 ? (struct plane){NULL, UINT64_MAX, 1, 1, 0}
                                      : p->plane[i % p->n];
    memset(hits, 0xa5, sizeof hits);
    memcpy(planes + n_planes, planes, n_planes * sizeof *planes); /* to be asked next */
    k->probe_tile(planes, n_planes, (unsigned)random_below(4), keys, n,
                  some ? ask : NULL, hits);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < 64; j++) {
            size_t at = j % p->n;
            bool asked = j < n_planes && (!some || ask[i] >> j & 1);
            IS(hits[i] >> j & 1,
               asked && geometry_probe(p->bits[at], &p->geometry[at], keys[i]));
        }
    assert_true(hits[n] == 0xa5a5a5a5a5a5a5a5);
}

/* Numbers around the ends of ranges, and runs that end anywhere, for any reason. */
static void check_dense(const struct kernel *k)
{
    uint64_t first[72], last[72], near, x = random_u64() % 8;
    struct tamis_target t[200];
    size_t n = 1 + random_below(64), from = random_below(8), run = random_below(200);
    for (size_t i = 0; i < N_OF(first); i++) {
        first[i] = random_below(3) ? random_u64() % 8 : 0;
        last[i] = random_below(3) ? random_u64() % 8 : UINT64_MAX;
    }
    uint64_t out = k->outside_ends(first + from, last + from, n, x, &near);
    for (size_t i = 0; i < 64; i++) {
        uint64_t low = i < n ? first[from + i] : 0, high = i < n ? last[from + i] : 9;
        IS(out >> i & 1, i < n && (x < low || x > high));
        IS(near >> i & 1, i < n && (x == low || x == high));
    }
    for (uint32_t i = 0; i < N_OF(t); i++)
        t[i] = (struct tamis_target){.ordinal = UINT32_MAX - 100 + i, .snapshot = 5};
    t[run].ordinal ^= run > 0 && random_below(2);
    t[run].min_watermark = run > 0 && random_below(2);
    t[run].refusal = run > 0;
    n = 1 + random_below(200);
    IS(k->run_of_targets(t, n), run > 0 && run < n ? run : n);
}

static void check_grid(const struct kernel *k, const struct planes *p,
                       const uint64_t *keys, size_t n, size_t n_next)
{
    size_t n_words = (n + 63) / 64;
    FREED uint64_t *hits = malloc((n_words * p->n + 1) * sizeof *hits);
    assert_non_null(hits);
    memset(hits, 0xa5, (n_words * p->n + 1) * sizeof *hits);
    k->probe_grid(p->plane, p->n, keys, n, n_next, hits);
    for (size_t i = 0; i < n_words * 64; i++)
        for (size_t j = 0; j < p->n; j++)
            IS(hits[i / 64 * p->n + j] >> (i % 64) & 1,
               i < n && geometry_probe(p->bits[j], &p->geometry[j], keys[i]));
    assert_true(hits[n_words * p->n] == 0xa5a5a5a5a5a5a5a5);
}

static void check_kernel(const struct kernel *k)
{
    static struct planes p;
    uint64_t keys[MAX_KEYS];
    for (int round = 0; round < ROUNDS; round++) {
        size_t n_keys = 1 + random_below(random_below(4) ? 80 : MAX_KEYS);
        random_keys(keys, n_keys);
        planes_make(&p, random_below(random_below(4) ? 5 : MAX_PLANES), keys, n_keys);
        size_t n = random_below(n_keys + 1);
        check_block(k);
        check_fill(k);
        check_count(k);
        check_probe(k, &p, keys, n < 20 ? n : 20);
        check_row(k, &p, keys[0]);
        if (p.n)
            check_tile(k, &p, keys, n);
        check_dense(k);
        check_grid(k, &p, keys, n, n_keys - n);
        planes_free(&p);
    }
}

/* Tells which kernel is chosen, by a child of its own: it is chosen once. */
static const char *chosen_with(const char *name)
{
    static char got[32];
    int pipe_fd[2], status;
    OK(pipe(pipe_fd));
    pid_t child = fork();
    if (child == 0) {
        if (name)
            setenv("TAMIS_KERNEL", name, 1);
        else
            unsetenv("TAMIS_KERNEL");
        const char *is = kernel_get()->name;
        _exit(write(pipe_fd[1], is, strlen(is) + 1) < 0);
    }
    close(pipe_fd[1]);
    assert_true(read(pipe_fd[0], got, sizeof got) > 0);
    close(pipe_fd[0]);
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    return got;
}

/* Before any use. */
TEST(test_the_environment_chooses)
{
    for (size_t i = 0; kernel_at(i); i++)
        assert_string_equal(chosen_with(kernel_at(i)->name), kernel_at(i)->name);
    assert_string_equal(chosen_with(NULL), kernel_at(0)->name);
    assert_string_equal(chosen_with("altivec"), kernel_at(0)->name);
}

TEST(test_every_kernel_is_the_reference)
{
    size_t i = 0;
    for (const struct kernel *k; (k = kernel_at(i)); i++)
        check_kernel(k);
    assert_true(i > 0);
    assert_string_equal(kernel_at(i - 1)->name, "scalar");
}

/* ---- beyond what stays near: lines that are fetched ahead ---- */

enum { LARGE_KEYS = 4000, LARGE_PLANES = 3 };

/* Stretches of keys of which none, some, most or all are there: what is most is carried
 * to the second lane in another way than what is some. Those that are not there may
 * still have a lane or two. */
static void add_stretches(uint8_t *bits, const struct geometry *g, const uint64_t *keys)
{
    static const uint64_t percent[] = {0, 2, 50, 80, 97, 100};
    for (size_t i = 0; i < LARGE_KEYS;) {
        size_t end = i + random_below(300);
        uint64_t share = percent[random_below(6)];
        for (; i < end && i < LARGE_KEYS; i++) {
            if (random_below(100) < share)
                geometry_add(bits, g, keys[i]);
            else if (random_below(2))
                geometry_block_add(bits + geometry_block(keys[i], g->n_blocks) * 64,
                                   g->words, keys[i]);
        }
    }
}

static void large_planes_make(struct planes *p, const uint64_t *keys)
{
    p->n = 1 + random_below(LARGE_PLANES);
    for (size_t i = 0; i < p->n; i++) {
        struct geometry *g = &p->geometry[i];
        uint64_t n_bytes;
        *g = (struct geometry){.n_blocks = 33000 + random_below(9000),
                               .lanes = 1 + (uint32_t)random_below(MAX_LANES),
                               .words = 1 + (uint32_t)random_below(MAX_WORDS)};
        p->bits[i] = bits_new(g, &n_bytes);
        add_stretches(p->bits[i], g, keys);
        p->plane[i] = plane_of(p->bits[i], g);
    }
}

TEST(test_large_planes)
{
    static struct planes p;
    static uint64_t keys[LARGE_KEYS];
    for (int round = 0; round < 24; round++) {
        random_keys(keys, LARGE_KEYS);
        large_planes_make(&p, keys);
        for (size_t i = 0; kernel_at(i); i++) {
            size_t n = random_below(4) ? LARGE_KEYS : random_below(LARGE_KEYS);
            check_grid(kernel_at(i), &p, keys, n, LARGE_KEYS - n);
            kernel_at(i)->probe_grid(p.plane, 0, keys, n, 0, NULL);
        }
        planes_free(&p);
    }
}

/* Pages that nobody writes take no memory. */
static void check_row_with(uint64_t n_blocks)
{
    const struct geometry large = {.n_blocks = n_blocks, .lanes = 1, .words = 6};
    static struct planes p;
    uint64_t n_bytes, keys[MAX_KEYS];
    assert_true(geometry_bytes(&large, &n_bytes));
    random_keys(keys, MAX_KEYS);
    planes_make(&p, 3, keys, MAX_KEYS);
    free(p.bits[1]);
    p.geometry[1] = large;
    p.bits[1] = mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p.bits[1], MAP_FAILED);
    p.plane[1] = plane_of(p.bits[1], &large);
    for (size_t i = 0; i < MAX_KEYS; i += 2)
        geometry_add(p.bits[1], &large, keys[i]);
    for (size_t i = 0; kernel_at(i); i++)
        for (size_t j = 0; j < MAX_KEYS; j++)
            check_one_row(kernel_at(i), &p, 0, 3, keys[j]);
    OK(munmap(p.bits[1], (size_t)n_bytes));
    p.bits[1] = NULL;
    planes_free(&p);
}

/* As many blocks as 32 bits can say, and as many as a lane can have: one more. */
TEST(test_a_row_with_the_largest_planes)
{
    /* The memory of mutants is limited. */
    struct rlimit limit;
    OK(getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = limit.rlim_max;
    OK(setrlimit(RLIMIT_AS, &limit));
    check_row_with(UINT32_MAX);
    check_row_with(MAX_BLOCKS);
}

RUN_TESTS(NULL, NULL)
