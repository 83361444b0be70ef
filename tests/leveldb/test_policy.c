/* The filter policy by itself: no key is lost whatever its bytes, the error is within
 * its target, the bytes are those of README.md, and a filter that is not what it was
 * says "may match". */
#include "../support/spec_text.h"

#include <tamis.h>

#include "embedded.h"
#include "tamis_leveldb.h"

#ifndef SLOW
#define SLOW 0 /* sanitizers: fewer of the most */
#endif

enum { HEAD = 1, CRC = 4, BLOCK = 64, MOST_KEYS = 1500 };

static void *policy;

/* Keys of any bytes and 0 .. 40 of them, from one pool. */
static char pool[MOST_KEYS * 40 + 40];
static const char *keys[MOST_KEYS];
static size_t sizes[MOST_KEYS];

static uint64_t random_state = 1;

static uint64_t random_u64(void)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void new_keys(void)
{
    for (size_t i = 0; i < sizeof pool; i++)
        pool[i] = (char)random_u64();
    for (size_t i = 0; i < MOST_KEYS; i++) {
        keys[i] = pool + 40 * i;
        sizes[i] = i % 41;
        memcpy(pool + 40 * i, &i, i % 41 < sizeof i ? i % 41 : sizeof i);
    }
}

static int setup(void **state)
{
    policy = tamis_leveldb_state_new(0.01, 0);
    new_keys();
    spec_path = TAMIS_SOURCE_DIR "/tools/leveldb/README.md";
    return load_spec(state);
}

static int teardown(void **state)
{
    tamis_leveldb_state_free(policy);
    return free_spec(state);
}

static uint8_t *filter_of(int n_keys, size_t *n_bytes)
{
    char *f = tamis_leveldb_create(policy, keys, sizes, n_keys, n_bytes);
    assert_non_null(f);
    return (uint8_t *)f;
}

static bool may_match(const void *key, size_t n, const void *filter, size_t n_bytes)
{
    return tamis_leveldb_may_match(policy, key, n, filter, n_bytes) != 0;
}

/* A key that this filter says it lacks. Damage is noticed if, and only if, it says so
 * no more; bits that are only added to may hide it, so there are several. */
enum { N_ABSENT = 4 };
static char absent[N_ABSENT][16];

static void find_absent(const void *filter, size_t n_bytes)
{
    for (size_t i = 0; i < N_ABSENT;) {
        uint64_t random[2] = {random_u64(), random_u64()};
        memcpy(absent[i], random, 16);
        i += !may_match(absent[i], 16, filter, n_bytes);
    }
}

static bool is_noticed(const void *filter, size_t n_bytes)
{
    for (size_t i = 0; i < N_ABSENT; i++)
        if (!may_match(absent[i], 16, filter, n_bytes))
            return false;
    return true;
}

TEST(crc_is_castagnolis)
{
    uint8_t bytes[32] = {0};
    IS(crc32c("123456789", 9), 0xE3069283);
    IS(crc32c(bytes, 32), 0x8A9136AA); /* RFC 3720, B.4 */
    memset(bytes, 0xFF, 32);
    IS(crc32c(bytes, 32), 0x62A8AB43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    IS(crc32c(bytes, 32), 0x46DD794E);
    IS(crc32c(bytes, 0), 0);
    for (size_t n = 0; n < 400; n++)
        IS(crc32c(pool + n % 9, n), crc32c_by_tables(pool + n % 9, n));
    IS(crc32c_by_tables("123456789", 9), 0xE3069283);
}

TEST(no_key_is_lost)
{
    for (int n = 0; n <= MOST_KEYS; n += n < 200 ? 1 : 61) {
        size_t n_bytes;
        uint8_t *filter = filter_of(n, &n_bytes);
        assert_true(n_bytes >= HEAD + BLOCK + CRC);
        IS((n_bytes - HEAD - CRC) % BLOCK, 0);
        for (int i = 0; i < n; i++)
            assert_true(may_match(keys[i], sizes[i], filter, n_bytes));
        free(filter);
    }
}

TEST(versions_of_a_key_count_once)
{
    const char *same[200];
    size_t same_sizes[200], n_bytes;
    for (size_t i = 0; i < 200; i++) {
        same[i] = keys[20 + i / 10];
        same_sizes[i] = sizes[20 + i / 10];
    }
    char *filter = tamis_leveldb_create(policy, same, same_sizes, 200, &n_bytes);
    IS(n_bytes, HEAD + BLOCK + CRC);
    for (size_t i = 0; i < 200; i++)
        assert_true(may_match(same[i], same_sizes[i], filter, n_bytes));
    free(filter);
}

/* tools/leveldb/README.md has the filter of these, as LevelDB sorts them, and its
 * bytes. */
TEST(bytes_are_those_of_the_readme)
{
    static const char *const example[] = {"", "apple", "key", "\x80\xff\x7f",
                                          "\xc3\xa9"};
    size_t example_sizes[5], n_bytes;
    char line[4 * 16 + 16];
    for (size_t i = 0; i < 5; i++)
        example_sizes[i] = strlen(example[i]);
    uint8_t *f =
        (uint8_t *)tamis_leveldb_create(policy, example, example_sizes, 5, &n_bytes);
    const char *at = marker(spec, "bytes", "leveldb_filter");
    assert_non_null(at);
    IS(n_bytes, HEAD + BLOCK + CRC);
    for (size_t from = 0; from < n_bytes; from += 16) {
        int n = snprintf(line, sizeof line, "%08zx ", from);
        for (size_t i = from; i < from + 16 && i < n_bytes; i++)
            n += snprintf(line + n, sizeof line - (size_t)n, "%s%02x",
                          i % 16 == 8 ? "  " : " ", f[i]);
        printf("%s\n", line);
        if (!strstr(at, line))
            fail_msg("README.md lacks %s", line);
    }
    free(f);
    assert_string_equal(tamis_leveldb_name(policy), "tamis.blocks1.0000000000000000");
}

TEST(seeds_have_their_own_names)
{
    size_t n_bytes, n_maybe = 0;
    void *other = tamis_leveldb_state_new(0, 0xfedcba9876543210);
    assert_string_equal(tamis_leveldb_name(other), "tamis.blocks1.fedcba9876543210");
    char *filter = tamis_leveldb_create(other, keys, sizes, 35, &n_bytes);
    for (size_t i = 0; i < 35; i++) {
        assert_true(tamis_leveldb_may_match(other, keys[i], sizes[i], filter, n_bytes));
        n_maybe += may_match(keys[i], sizes[i], filter, n_bytes);
    }
    assert_true(n_maybe < 5); /* that is why */
    free(filter);
    tamis_leveldb_state_free(other);
    assert_null(tamis_leveldb_state_new(0.51, 0));
    assert_null(tamis_leveldb_state_new(-1, 0));
    assert_null(tamis_leveldb_policy(1e-9, 0));
}

static void flip(uint8_t *bytes, size_t bit)
{
    bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
}

/* All of them, in a filter of one block. */
TEST(up_to_three_flipped_bits_are_noticed)
{
    size_t n_bytes, n_missed = 0;
    uint8_t *f = filter_of(35, &n_bytes);
    size_t n_bits = 8 * n_bytes;
    find_absent(f, n_bytes);
    for (size_t a = 0; a < n_bits; a++) {
        flip(f, a);
        n_missed += !is_noticed(f, n_bytes);
        for (size_t b = a + 1; b < n_bits; b++) {
            flip(f, b);
            n_missed += !is_noticed(f, n_bytes);
            for (size_t c = b + 1; c < n_bits; c += 1 + SLOW) {
                flip(f, c);
                n_missed += may_match(absent[0], 16, f, n_bytes) == false;
                flip(f, c);
            }
            flip(f, b);
        }
        flip(f, a);
    }
    assert_false(is_noticed(f, n_bytes));
    IS(n_missed, 0);
    free(f);
}

/* A sample of larger ones: 4 and 5 bits, up to ten blocks; runs of up to 32 bits;
 * sectors of zeros, of ones and of anything. */
TEST(larger_damage_is_noticed)
{
    for (int round = 0; round < 400; round++) {
        size_t n_bytes;
        uint8_t *f = filter_of(1 + (int)(random_u64() % 500), &n_bytes), *copy;
        copy = malloc(n_bytes);
        find_absent(f, n_bytes);
        for (int i = 0; i < 300; i++) {
            size_t from = random_u64() % n_bytes,
                   n = 1 + random_u64() % (n_bytes - from);
            memcpy(copy, f, n_bytes);
            if (i % 5 == 0)
                memset(copy + from, 0, n);
            if (i % 5 == 1)
                memset(copy + from, 0xFF, n);
            for (size_t k = from; i % 5 == 2 && k < from + n; k++)
                copy[k] = (uint8_t)random_u64();
            for (int k = 0; i % 5 == 3 && k < 4 + i % 2; k++)
                flip(copy, random_u64() % (8 * n_bytes));
            for (size_t k = 0; i % 5 == 4 && k < 4 && from + k < n_bytes; k++)
                copy[from + k] ^= (uint8_t)random_u64();
            if (memcmp(copy, f, n_bytes) != 0)
                assert_true(is_noticed(copy, n_bytes));
        }
        free(copy);
        free(f);
    }
}

TEST(other_lengths_may_match)
{
    size_t n_bytes;
    uint8_t *f = filter_of(180, &n_bytes), *longer = calloc(1, n_bytes + 200);
    find_absent(f, n_bytes);
    memcpy(longer, f, n_bytes);
    for (size_t n = 0; n <= n_bytes + 200; n++)
        if (n != n_bytes)
            assert_true(is_noticed(longer, n));
    for (size_t from = 1; from < n_bytes; from++)
        assert_true(is_noticed(f + from, n_bytes - from));
    assert_true(tamis_leveldb_may_match(policy, "", 0, NULL, 0));
    free(longer);
    free(f);
}

/* Heads that a later or another program may have written; the checksum is good. */
TEST(only_known_heads_are_believed)
{
    uint8_t f[HEAD + 3 * BLOCK + CRC] = {0};
    for (size_t n_blocks = 0; n_blocks <= 3; n_blocks++)
        for (unsigned head = 0; head < 256; head++) {
            size_t summed = HEAD + n_blocks * BLOCK;
            unsigned lanes = (head & 3) + 1;
            bool good = head >> 5 == 1 && n_blocks && n_blocks % lanes == 0;
            f[0] = (uint8_t)head;
            memset(f + 1, 0, sizeof f - 1);
            uint32_t crc = crc32c(f, summed);
            for (size_t i = 0; i < CRC; i++)
                f[summed + i] = (uint8_t)(crc >> 8 * i);
            IS(may_match("key", 3, f, summed + CRC), !good);
            if (n_blocks) /* a byte that is not of a block */
                assert_true(may_match("key", 3, f, summed + CRC - 1));
        }
}

RUN_TESTS(setup, teardown)
