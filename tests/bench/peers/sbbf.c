/* The split block Bloom filter of Parquet, after its published text (parquet-format,
 * BloomFilter.md), with AVX2 and in plain C.
 *
 *     block       eight words of 32 bits; upper half of the hash times n_blocks / 2^32
 *     bit(word)   (lower half of the hash * SALT[word] mod 2^32) >> 27
 *
 * A key has one bit in each word of one block. */
#include "tests/bench/peers/forms.h"
#include "tests/bench/peers/peers.h"

struct sbbf {
    uint32_t (*blocks)[8];
    uint64_t n_blocks;
};

static const uint32_t salts[8] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                  0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

/* ---- how large: blocks whose numbers of keys are Poisson's ---- */

static double error_of(double keys_a_block)
{
    double sum = 0, share = exp(-keys_a_block);
    for (int i = 0; i < 400; i++) {
        sum += share * pow(1 - pow(31.0 / 32, i), 8);
        share *= keys_a_block / (i + 1);
    }
    return sum;
}

struct sbbf *sbbf_new(uint64_t n_keys, double error)
{
    struct sbbf *s = allocate(sizeof *s);
    double few = 0.01, many = 100; /* keys a block */
    for (int i = 0; i < 60; i++) {
        double middle = (few + many) / 2;
        *(error_of(middle) > error ? &many : &few) = middle;
    }
    s->n_blocks = (uint64_t)((double)n_keys / few) + 1;
    s->blocks = allocate(s->n_blocks * sizeof *s->blocks);
    return s;
}

void sbbf_free(struct sbbf *s)
{
    if (s)
        free(s->blocks);
    free(s);
}

/* ---- a block ---- */

INLINE uint32_t *block_of(const struct sbbf *s, uint64_t h)
{
    return s->blocks[(h >> 32) * s->n_blocks >> 32];
}

INLINE bool block_has_plain(const uint32_t *block, uint64_t h)
{
    uint32_t missing = 0;
    for (int i = 0; i < 8; i++)
        missing |= ~block[i] & 1U << ((uint32_t)h * salts[i] >> 27);
    return missing == 0;
}

INLINE void block_add_plain(uint32_t *block, uint64_t h)
{
    for (int i = 0; i < 8; i++)
        block[i] |= 1U << ((uint32_t)h * salts[i] >> 27);
}

#ifdef __x86_64__
AVX2 INLINE __m256i mask_of(uint64_t h)
{
    __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)h),
                                         _mm256_loadu_si256((const void *)salts));
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32(product, 27));
}

AVX2 INLINE bool block_has_avx2(const uint32_t *block, uint64_t h)
{
    return _mm256_testc_si256(_mm256_load_si256((const void *)block), mask_of(h));
}

AVX2 INLINE void block_add_avx2(uint32_t *block, uint64_t h)
{
    __m256i *at = (void *)block;
    _mm256_store_si256(at, _mm256_or_si256(_mm256_load_si256(at), mask_of(h)));
}
#endif

/* ---- each way in each form: many keys have their blocks fetched 64 keys ahead ---- */

enum { WINDOW = 64 };

#define FORM(name, TARGET)                                                             \
    TARGET static bool has_##name(const struct sbbf *s, uint64_t h)                    \
    {                                                                                  \
        return block_has_##name(block_of(s, h), h);                                    \
    }                                                                                  \
    TARGET static void put_##name(struct sbbf *s, uint64_t h)                          \
    {                                                                                  \
        block_add_##name(block_of(s, h), h);                                           \
    }                                                                                  \
    TARGET static size_t count_##name(const struct sbbf *s, const uint64_t *h,         \
                                      size_t n)                                        \
    {                                                                                  \
        size_t n_absent = 0;                                                           \
        for (size_t i = 0; i < n; i++)                                                 \
            n_absent += !block_has_##name(block_of(s, h[i]), h[i]);                    \
        return n_absent;                                                               \
    }                                                                                  \
    TARGET static size_t many_##name(const struct sbbf *s, const uint64_t *h,          \
                                     size_t n, uint64_t *absent)                       \
    {                                                                                  \
        size_t n_absent = 0;                                                           \
        uint64_t word = 0;                                                             \
        for (size_t i = 0; i < n && i < WINDOW; i++)                                   \
            __builtin_prefetch(block_of(s, h[i]));                                     \
        for (size_t i = 0; i < n; i++) {                                               \
            if (i + WINDOW < n)                                                        \
                __builtin_prefetch(block_of(s, h[i + WINDOW]));                        \
            bool lacks = !block_has_##name(block_of(s, h[i]), h[i]);                   \
            n_absent += lacks;                                                         \
            word |= (uint64_t)lacks << i % 64;                                         \
            if (i % 64 == 63 || i + 1 == n) {                                          \
                absent[i / 64] = word;                                                 \
                word = 0;                                                              \
            }                                                                          \
        }                                                                              \
        return n_absent;                                                               \
    }                                                                                  \
    TARGET static void add_##name(struct sbbf *s, const uint64_t *h, size_t n)         \
    {                                                                                  \
        for (size_t i = 0; i < n; i++)                                                 \
            block_add_##name(block_of(s, h[i]), h[i]);                                 \
    }

FORM(plain, PLAIN)
#ifdef __x86_64__
FORM(avx2, AVX2)
#endif

static bool (*sbbf_has)(const struct sbbf *sbbf, uint64_t hash) = has_plain;
static void (*put)(struct sbbf *sbbf, uint64_t hash) = put_plain;
static size_t (*count_best)(const struct sbbf *, const uint64_t *,
                            size_t) = count_plain;
static size_t (*many)(const struct sbbf *, const uint64_t *, size_t,
                      uint64_t *) = many_plain;
static void (*add_best)(struct sbbf *, const uint64_t *, size_t) = add_plain;

__attribute__((constructor)) static void choose(void)
{
#ifdef __x86_64__
    if (!have_avx2())
        return;
    sbbf_has = has_avx2, put = put_avx2, many = many_avx2;
    count_best = count_avx2, add_best = add_avx2;
#endif
}

void sbbf_add(struct sbbf *s, const uint64_t *hashes, size_t n)
{
    add_best(s, hashes, n);
}

/* ---- as ways to ask ---- */

size_t ask_sbbf(void *subject, const struct piece *p)
{
    const struct sbbf *s = ((struct subject *)subject)->sbbf;
    size_t n_absent = 0;
    for (size_t i = 0; i < p->n; i++)
        n_absent += !sbbf_has(s, p->hashes[i]);
    return n_absent;
}

size_t ask_sbbf_inline(void *subject, const struct piece *p)
{
    return count_best(((struct subject *)subject)->sbbf, p->hashes, p->n);
}

size_t ask_sbbf_calls(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    uint64_t absent[16];
    size_t n_absent = 0;
    for (size_t at = 0; at < p->n; at += s->few)
        n_absent += many(s->sbbf, p->hashes + at,
                         p->n - at < s->few ? p->n - at : s->few, absent);
    return n_absent;
}

size_t add_sbbf(void *subject, const struct piece *p)
{
    struct sbbf *s = ((struct subject *)subject)->scratch_sbbf;
    for (size_t i = 0; i < p->n; i++)
        put(s, p->hashes[i]);
    return 0;
}

size_t add_sbbf_inline(void *subject, const struct piece *p)
{
    add_best(((struct subject *)subject)->scratch_sbbf, p->hashes, p->n);
    return 0;
}
