/* format/: little-endian fields, checked arithmetic, hash and geometry.
 * The golden values were computed by programs that share no code with format/. */

#include "format/checksum.h"
#include "format/hash.h"
#include "format/geometry.h"
#include "tests/support/hash_vectors.h"
#include "tests/support/rules.h"

static uint64_t splitmix(uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* ---- bytes.h, checksum.h ---- */

TEST(fields_are_little_endian)
{
    static const uint8_t bytes[8] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0xf1};
    struct le16 a;
    struct le32 b;
    struct le64 c;
    memcpy(&a, bytes, sizeof a);
    memcpy(&b, bytes, sizeof b);
    memcpy(&c, bytes, sizeof c);
    IS(le16_get(a), 0x7788);
    IS(le32_get(b), 0x55667788);
    assert_true(le64_get(c) == UINT64_C(0xf122334455667788));
    a = le16_of(0x7788);
    b = le32_of(0x55667788);
    c = le64_of(UINT64_C(0xf122334455667788));
    assert_memory_equal(&a, bytes, 2);
    assert_memory_equal(&b, bytes, 4);
    assert_memory_equal(&c, bytes, 8);
    IS(le16_get(le16_of(0xffff)), 0xffff);
    assert_true(le32_get(le32_of(UINT32_MAX)) == UINT32_MAX);
    assert_true(le64_get(le64_of(UINT64_MAX)) == UINT64_MAX);
    IS(sizeof a + sizeof b + sizeof c, 14);
}

TEST(reals_keep_their_bits)
{
    static const uint8_t one_percent[8] = {0x7b, 0x14, 0xae, 0x47,
                                           0xe1, 0x7a, 0x84, 0x3f};
    struct le64 f = le64_of_f64(0.01);
    assert_memory_equal(&f, one_percent, 8);
    assert_true(le64_get_f64(f) == 0.01);
    double nan = le64_get_f64(le64_of(UINT64_C(0x7ff8000000000000)));
    assert_true(nan != nan);
}

TEST(arithmetic_refuses_to_wrap)
{
    uint64_t v;
    assert_true(add_u64(UINT64_MAX - 1, 1, &v) && v == UINT64_MAX);
    assert_false(add_u64(UINT64_MAX, 1, &v));
    assert_true(mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 31, &v) && v == 1ULL << 63);
    assert_false(mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &v));
    assert_true(mul_u64(0, UINT64_MAX, &v) && v == 0);
    assert_true(align_up_u64(0, 4096, &v) && v == 0);
    assert_true(align_up_u64(1, 4096, &v) && v == 4096);
    assert_true(align_up_u64(4096, 4096, &v) && v == 4096);
    assert_true(align_up_u64(UINT64_MAX - 4095, 4096, &v) && v == UINT64_MAX - 4095);
    assert_false(align_up_u64(UINT64_MAX - 4094, 4096, &v));
}

TEST(zeros_are_seen)
{
    uint8_t b[33] = {0};
    assert_true(all_zero(b, sizeof b));
    assert_true(all_zero(b, 0));
    for (size_t i = 0; i < sizeof b; i++) {
        b[i] = 0x80;
        assert_false(all_zero(b, sizeof b));
        assert_true(all_zero(b, i));
        b[i] = 0;
    }
}

TEST(checksum_covers_all_but_itself)
{
    uint8_t r[64];
    for (size_t i = 0; i < sizeof r; i++)
        r[i] = (uint8_t)i;
    checksum_set(r, sizeof r, 0);
    struct le64 sum;
    memcpy(&sum, r + 56, sizeof sum);
    assert_true(le64_get(sum) == XXH3_64bits(r, 56));
    assert_true(checksum_good(r, sizeof r, 0));
    assert_false(checksum_good(r, sizeof r, 1));
    for (size_t bit = NO_BIT; flip_next(r, sizeof r, &bit);)
        assert_false(checksum_good(r, sizeof r, 0));
}

/* ---- hash.h ---- */

TEST(hashes_are_golden)
{
    uint8_t key[4096];
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)(0x9b + 0x6d * i);
    IS(N_OF(hash_vectors), 67);
    for (size_t i = 0; i < N_OF(hash_vectors); i++)
        for (size_t s = 0; s < 3; s++)
            assert_true(hash_key(hash_vector_seeds[s], key, hash_vectors[i].n_bytes) ==
                        hash_vectors[i].hash[s]);
    /* An empty key is a key, wherever it points. */
    assert_true(hash_key(0, NULL, 0) == hash_vectors[0].hash[0]);
    assert_true(hash_key(0, key + 7, 0) == hash_vectors[0].hash[0]);
}

TEST(domains_have_tags)
{
    assert_true(hash_id_known(1));
    assert_false(hash_id_known(0) || hash_id_known(2) || hash_id_known(0x10001));
    /* SPEC.md section 3 quotes this one. */
    assert_true(hash_domain_tag(1, UINT64_C(0x0123456789abcdef)) ==
                UINT64_C(0x5b9fc245bb8b55ab));
    for (uint64_t seed = 0; seed < 1000; seed++) {
        assert_true(hash_domain_tag(1, seed) != 0);
        assert_true(hash_domain_tag(1, seed) != hash_domain_tag(1, seed + 1));
        assert_true(hash_domain_tag(1, seed) != hash_domain_tag(2, seed));
    }
}

/* ---- geometry.h ---- */

TEST(geometry_has_bounds)
{
    static const struct {
        struct geometry g;
        bool valid;
    } cases[] = {
        {{1, 1, 1}, true},           {{MAX_BLOCKS, 4, 8}, true},
        {{0, 1, 1}, false},          {{MAX_BLOCKS + 1, 1, 1}, false},
        {{64, 0, 1}, false},         {{64, 5, 1}, false},
        {{64, 1, 0}, false},         {{64, 1, 9}, false},
        {{64, 255, 1}, false},       {{UINT64_C(1) << 60, 1, 1}, false},
        {{UINT64_MAX, 4, 8}, false},
    };
    for (size_t i = 0; i < N_OF(cases); i++)
        IS(geometry_valid(&cases[i].g), cases[i].valid);

    uint64_t n;
    assert_true(geometry_bytes(&(struct geometry){MAX_BLOCKS, 4, 8}, &n));
    assert_true(n == UINT64_C(1) << 40);
    assert_true(geometry_bytes(&(struct geometry){3, 2, 1}, &n) && n == 384);
    assert_false(geometry_bytes(&(struct geometry){UINT64_C(1) << 60, 1, 1}, &n));
    assert_false(geometry_bytes(&(struct geometry){UINT64_C(1) << 58, 4, 1}, &n));
    assert_false(geometry_bytes(&(struct geometry){UINT64_C(1) << 63, 2, 1}, &n));
}

TEST(blocks_stay_in_range)
{
    static const uint64_t sizes[] = {1, 2, 3, 63, 64, 65, 1000003, MAX_BLOCKS};
    for (size_t i = 0; i < N_OF(sizes); i++) {
        uint64_t n = sizes[i];
        assert_true(geometry_block(0, n) == 0);
        assert_true(geometry_block(UINT64_MAX, n) == n - 1);
        for (uint64_t k = 0; k < 1000; k++)
            assert_true(geometry_block(splitmix(k), n) < n);
    }
    assert_true(geometry_block(UINT64_C(1) << 63, 64) == 32);
    assert_true(geometry_block((UINT64_C(1) << 63) - 1, 64) == 31);
    struct geometry g = {MAX_BLOCKS, 4, 8};
    assert_true(geometry_block_offset(&g, 3, UINT64_MAX) == (UINT64_C(1) << 40) - 64);
}

/* Whole filters, bit for bit, as XXH3-64 of their bytes. */
TEST(filters_are_golden)
{
    static const struct {
        struct geometry g;
        uint64_t n_keys, digest;
    } cases[] = {
        {{1, 1, 1}, 3, UINT64_C(0xa392e81cf1b45417)},
        {{64, 1, 8}, 100, UINT64_C(0xc8276a999f9d9e0c)},
        {{100, 2, 3}, 1000, UINT64_C(0x6e39b4103a50409d)},
        {{4096, 3, 6}, 5000, UINT64_C(0x280775885bc155cb)},
        {{7, 4, 8}, 20, UINT64_C(0x9955accaa8ccf804)},
        {{1, 4, 1}, 1, UINT64_C(0xafa3275550bf5fc8)},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint64_t n_bytes;
        assert_true(geometry_bytes(&cases[i].g, &n_bytes));
        uint8_t *bits = calloc(1, n_bytes);
        assert_non_null(bits);
        for (uint64_t k = 0; k < cases[i].n_keys; k++)
            geometry_add(bits, &cases[i].g, splitmix(k));
        assert_true(XXH3_64bits(bits, n_bytes) == cases[i].digest);
        free(bits);
    }
}

TEST(keys_fill_a_window_of_words)
{
    for (uint32_t words = 1; words <= MAX_WORDS; words++) {
        for (uint64_t k = 0; k < 500; k++) {
            uint64_t h = splitmix(k);
            struct le64 block[WORDS_PER_BLOCK] = {{{0}}};
            geometry_block_add((uint8_t *)block, words, h);
            for (uint32_t w = 0; w < WORDS_PER_BLOCK; w++) {
                bool in_window = (w - (uint32_t)h / (1U << 29)) % 8 < words;
                uint64_t expected =
                    in_window ? UINT64_C(1) << geometry_bit(h, w) : UINT64_C(0);
                assert_true(le64_get(block[w]) == expected);
                assert_true(geometry_bit(h, w) < 64);
            }
            assert_true(geometry_block_probe((uint8_t *)block, words, h));
        }
    }
}

/* Every single bit of a key counts: with any of them clear the key is absent. */
TEST(each_bit_counts)
{
    struct geometry g = {5, 4, 8};
    for (uint64_t k = 0; k < 50; k++) {
        uint8_t bits[5 * 4 * BLOCK_BYTES] = {0};
        uint32_t n_set = 0;
        geometry_add(bits, &g, splitmix(k));
        for (size_t i = 0; i < sizeof bits * 8; i++) {
            uint8_t mask = (uint8_t)(1U << (i % 8));
            if (!(bits[i / 8] & mask))
                continue;
            n_set++;
            bits[i / 8] ^= mask;
            assert_false(geometry_probe(bits, &g, splitmix(k)));
            bits[i / 8] ^= mask;
        }
        IS(n_set, 32);
    }
}

RUN_TESTS(NULL, NULL)
