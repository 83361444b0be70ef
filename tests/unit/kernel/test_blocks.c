/* Blocks in the caller's memory: the bits are those of SPEC.md §4 at any number of
 * blocks and any alignment, the error is the planned one even of a single block, and
 * what is uncertain is MAYBE. */
#include "tests/support/inline/loops.h"
#include "tests/support/support.h"

#include "lib/tamis_inline.h"

enum { MOST_BYTES = 64 * 64, MOST_KEYS = 512 };

static struct tamis_domain domain;

static struct tamis_blocks blocks_of(uint32_t lanes, uint32_t words, uint64_t n_blocks)
{
    return (struct tamis_blocks){lanes, words, n_blocks, domain.tag};
}

static void random_keys(struct tamis_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = (struct tamis_key){.tag = domain.tag, .hash = random_u64()};
}

static int setup(void **state)
{
    return tamis_domain_init(&domain, 1, 0x7461);
}

TEST(bits_are_those_of_the_geometry)
{
    static uint8_t memory[MOST_BYTES + 64], expected[MOST_BYTES];
    struct tamis_key keys[40];
    for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes++)
        for (uint32_t words = 1; words <= MAX_WORDS; words++)
            for (uint64_t n_blocks = 1; n_blocks <= 9; n_blocks++) {
                struct tamis_blocks b = blocks_of(lanes, words, n_blocks);
                struct geometry g = {n_blocks, lanes, words};
                size_t n_bytes = 64 * lanes * (size_t)n_blocks;
                uint8_t *bits = memory + random_below(64); /* of any alignment */
                memset(memory, 0, sizeof memory);
                memset(expected, 0, sizeof expected);
                random_keys(keys, 40);
                for (size_t i = 0; i < 40; i++)
                    geometry_add(expected, &g, keys[i].hash);
                OK(tamis_blocks_add(&b, bits, n_bytes, keys, 40));
                assert_memory_equal(bits, expected, n_bytes);
                for (size_t i = 0; i < 40; i++)
                    IS(tamis_blocks_probe(&b, bits, n_bytes, &keys[i], NULL),
                       TAMIS_MAYBE);
                for (size_t i = 0; i < 200; i++) {
                    struct tamis_key k = {.tag = domain.tag, .hash = random_u64()};
                    IS(tamis_blocks_probe(&b, bits, n_bytes, &k, NULL),
                       geometry_probe(bits, &g, k.hash) ? TAMIS_MAYBE : TAMIS_ABSENT);
                }
            }
}

/* The same bits and the same answers inline, for each processor. */
static void inline_ones_agree(const struct inline_loops *l,
                              const struct tamis_blocks *b, uint8_t *memory,
                              const uint64_t *hashes, size_t n)
{
    size_t n_bytes = 64 * b->lanes * (size_t)b->n_blocks;
    struct tamis_inline_blocks v;
    uint64_t absent[8];
    uint8_t *bits = memory + random_below(64), expected[MOST_BYTES] = {0};
    struct geometry g = {b->n_blocks, b->lanes, b->words};
    memset(memory, 0, MOST_BYTES + 64);
    for (size_t i = 0; i < n / 2; i++)
        geometry_add(expected, &g, hashes[i]);
    OK(tamis_blocks_inline(b, TAMIS_INLINE_VERSION, &v));
    IS(l->add_blocks(&v, bits, n_bytes, b->tag, hashes, n / 2), 0);
    assert_memory_equal(bits, expected, n_bytes);
    IS(l->add_blocks(&v, bits, n_bytes, b->tag + 1, hashes, n), n);
    IS(l->add_blocks(&v, bits, n_bytes - 1, b->tag, hashes, n), n);
    assert_memory_equal(bits, expected, n_bytes);
    l->probe_blocks(&v, bits, n_bytes, b->tag, hashes, n, absent);
    for (size_t i = 0; i < n; i++)
        IS(absent[i / 64] >> i % 64 & 1, !geometry_probe(expected, &g, hashes[i]));
    IS(l->probe_blocks(&v, bits, n_bytes, b->tag + 1, hashes, n, absent), 0);
    IS(l->probe_blocks(&v, bits, n_bytes + 64, b->tag, hashes, n, absent), 0);
}

TEST(inline_blocks_are_the_same)
{
    static uint8_t memory[MOST_BYTES + 64];
    uint64_t hashes[300];
    for (size_t k = 0; inline_loops_at(k); k++)
        for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes++)
            for (uint32_t words = 1; words <= MAX_WORDS; words++) {
                struct tamis_blocks b = blocks_of(lanes, words, 1 + random_below(9));
                random_hashes(hashes, 300);
                inline_ones_agree(inline_loops_at(k), &b, memory, hashes, 300);
            }
}

TEST(what_is_no_value_is_maybe)
{
    static const uint8_t zeros[64];
    struct tamis_inline_blocks v;
    struct tamis_blocks b = blocks_of(1, 6, 1), none = blocks_of(1, 9, 1);
    struct tamis_key key = {.tag = domain.tag, .hash = 1}, no_key = {0};
    enum tamis_reason why;
    IS(tamis_blocks_inline(&none, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        IS(tamis_inline_blocks_probe(&v, zeros, 64, &key, &why), TAMIS_MAYBE);
        IS(why, TAMIS_UNREADABLE);
        IS(tamis_inline_blocks_probe(&v, zeros, 0, &no_key, NULL), TAMIS_MAYBE);
        memset(&v, 0, sizeof v);
    }
    b.tag = 0;
    IS(tamis_blocks_inline(&b, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(tamis_blocks_inline(NULL, TAMIS_INLINE_VERSION, &v), TAMIS_ERR_RANGE);
    IS(tamis_blocks_inline(&b, TAMIS_INLINE_VERSION, NULL), TAMIS_ERR_RANGE);
    IS(tamis_blocks_inline(&b, 0, &v), TAMIS_ERR_VERSION);
    b.tag = domain.tag;
    OK(tamis_blocks_inline(&b, TAMIS_INLINE_VERSION, &v));
    IS(tamis_inline_blocks_probe(&v, zeros, 64, &key, &why), TAMIS_ABSENT);
    IS(tamis_inline_blocks_probe(&v, NULL, 64, &key, &why), TAMIS_MAYBE);
    IS(tamis_inline_blocks_probe(&v, zeros, 64, &no_key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_MISMATCH);
}

/* The measured error of many sets of n keys, as planned for `error`. */
static void measure(uint64_t n, double error)
{
    static uint8_t bits[MOST_BYTES];
    struct tamis_key keys[MOST_KEYS];
    struct tamis_plan plan;
    uint64_t n_hits = 0, n_sets = 0, n_asked = 0;
    OK(plan_of_bloom(n, error, false, &plan));
    struct tamis_blocks b = blocks_of(plan.lanes, plan.words, plan.n_blocks);
    assert_true(plan.bits_bytes <= sizeof bits);
    const uint64_t enough = by_form(600, 2000), most = by_form(1000000, 8000000);
    while (n_sets < 100 || (n_hits < enough && n_asked < most)) {
        memset(bits, 0, sizeof bits);
        random_keys(keys, n);
        OK(tamis_blocks_add(&b, bits, plan.bits_bytes, keys, n));
        for (size_t i = 0; i < 4000; i++) {
            struct tamis_key k = {.tag = domain.tag, .hash = random_u64()};
            n_hits +=
                tamis_blocks_probe(&b, bits, plan.bits_bytes, &k, NULL) == TAMIS_MAYBE;
        }
        n_asked += 4000;
        n_sets++;
    }
    double measured = (double)n_hits / (double)n_asked;
    printf("%3u keys at %.4f: %u lanes of %2u blocks, %u words: planned %.5f, measured "
           "%.5f\n",
           (unsigned)n, error, plan.lanes, (unsigned)plan.n_blocks, plan.words,
           plan.error, measured);
    assert_true(plan.error <= error);
    assert_true(n_hits < 500 ||
                (measured > plan.error * 0.85 && measured < plan.error * 1.15));
    assert_true(measured < plan.error * 1.15 + 20.0 / (double)n_asked);
}

TEST(errors_are_as_planned)
{
    static const uint64_t n_keys[] = {1, 35, 53, 54, 74, 106, 146, 300};
    static const double errors[] = {0.1, 0.01, 0.001};
    for (size_t i = 0; i < N_OF(n_keys); i++)
        for (size_t e = 0; e < N_OF(errors); e++)
            measure(n_keys[i], errors[e]);
}

/* The least error of any geometry with so many blocks in all. */
static double best_of(uint64_t total, uint64_t n_keys)
{
    double best = 1;
    for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes++)
        for (uint32_t words = 1; words <= MAX_WORDS && total % lanes == 0; words++)
            best = fmin(best, tamis_plan_error(lanes, words, total / lanes, n_keys));
    return best;
}

TEST(plans_are_the_smallest)
{
    static const double errors[] = {0.5, 0.01, 1e-3, 1e-5, 1e-8};
    struct tamis_plan p;
    for (size_t e = 0; e < N_OF(errors); e++)
        for (uint64_t n = 0; n <= 300; n += 1 + n / 10) {
            OK(plan_of_bloom(n, errors[e], false, &p));
            assert_true(p.error <= errors[e]);
            IS(p.bits_bytes, p.lanes * p.n_blocks * 64);
            IS(p.file_bytes, 0);
            /* Fewer lanes may cost 4% of the bytes. */
            uint64_t total = p.lanes * p.n_blocks;
            for (uint64_t less = 1; (double)less * 1.04 < (double)total; less++)
                assert_true(best_of(less, n) > errors[e]);
        }
    OK(plan_of_bloom(53, 0.01, false, &p));
    IS(p.bits_bytes, 64);
    OK(plan_of_bloom(54, 0.01, false, &p));
    IS(p.bits_bytes, 128);
    IS(plan_of_bloom(54, 0.51, false, &p), TAMIS_ERR_RANGE);
    IS(plan_of_bloom(54, 9e-9, false, &p), TAMIS_ERR_RANGE);
    IS(p.n_blocks, 0);
    IS(plan_of_bloom(UINT64_C(1) << 50, 0.01, false, &p), TAMIS_ERR_TOO_LARGE);
}

static void check_unsure(const struct tamis_blocks *b, const void *bits, size_t n,
                         const struct tamis_key *key, enum tamis_reason expected)
{
    enum tamis_reason why = TAMIS_NO_REASON;
    IS(tamis_blocks_probe(b, bits, n, key, &why), TAMIS_MAYBE);
    IS(why, expected);
    IS(tamis_blocks_probe(b, bits, n, key, NULL), TAMIS_MAYBE);
}

TEST(what_is_unsure_is_maybe)
{
    static const uint8_t zeros[512];
    struct tamis_blocks b = blocks_of(2, 3, 2), other;
    struct tamis_key key = tamis_key_of(&domain, "key", 3), no_key = {0};
    enum tamis_reason why = TAMIS_HIT;
    IS(tamis_blocks_probe(&b, zeros, 256, &key, &why), TAMIS_ABSENT);
    IS(why, TAMIS_NO_REASON);

    for (size_t n = 0; n <= 512; n++)
        if (n != 256)
            check_unsure(&b, zeros, n, &key, TAMIS_UNREADABLE);
    static const struct {
        uint32_t lanes, words;
        uint64_t n_blocks;
    } bad[] = {{0, 3, 4},
               {5, 3, 1},
               {2, 0, 2},
               {2, 9, 2},
               {2, 3, 0},
               {4, 8, (UINT64_C(1) << 32) + 1},
               {2, 3, (UINT64_C(1) << 57) + 2}};
    for (size_t i = 0; i < N_OF(bad); i++) {
        other = blocks_of(bad[i].lanes, bad[i].words, bad[i].n_blocks);
        check_unsure(&other, zeros, 256, &key, TAMIS_UNREADABLE);
        check_unsure(&other, zeros, 0, &key, TAMIS_UNREADABLE);
    }
    check_unsure(NULL, zeros, 256, &key, TAMIS_UNREADABLE);
    check_unsure(&b, NULL, 256, &key, TAMIS_UNREADABLE);

    check_unsure(&b, zeros, 256, NULL, TAMIS_MISMATCH);
    check_unsure(&b, zeros, 256, &no_key, TAMIS_MISMATCH);
    key.tag ^= 1;
    check_unsure(&b, zeros, 256, &key, TAMIS_MISMATCH);
    b.tag = 0;
    check_unsure(&b, zeros, 256, &no_key, TAMIS_MISMATCH);
}

TEST(refused_adds_set_nothing)
{
    static const uint8_t zeros[256];
    uint8_t bits[256] = {0};
    struct tamis_blocks b = blocks_of(2, 3, 2), none = blocks_of(2, 0, 2);
    struct tamis_key keys[3];
    random_keys(keys, 3);
    IS(tamis_blocks_add(&b, bits, 255, keys, 3), TAMIS_ERR_RANGE);
    IS(tamis_blocks_add(&b, bits, 128, keys, 3), TAMIS_ERR_RANGE);
    IS(tamis_blocks_add(&b, NULL, 256, keys, 3), TAMIS_ERR_RANGE);
    IS(tamis_blocks_add(&none, bits, 256, keys, 3), TAMIS_ERR_RANGE);
    IS(tamis_blocks_add(NULL, bits, 256, keys, 3), TAMIS_ERR_RANGE);
    IS(tamis_blocks_add(&b, bits, 256, NULL, 1), TAMIS_ERR_RANGE);
    keys[2].tag++;
    IS(tamis_blocks_add(&b, bits, 256, keys, 3), TAMIS_ERR_MISMATCH);
    keys[2].tag = 0;
    IS(tamis_blocks_add(&b, bits, 256, keys, 3), TAMIS_ERR_MISMATCH);
    assert_memory_equal(bits, zeros, sizeof bits);
    OK(tamis_blocks_add(&b, bits, 256, keys, 0));
    OK(tamis_blocks_add(&b, bits, 256, NULL, 0));
    assert_memory_equal(bits, zeros, sizeof bits);
}

RUN_TESTS(setup, NULL)
