/* The kernel for x86-64 with AVX2: a block is two halves of four words. */
#include "lib/filter/kernel.h"

#ifdef __x86_64__
#include <immintrin.h>

#define KERNEL             __attribute__((target("avx2,bmi"))) static
#define KERNEL_NAME        "avx2"
#define KERNEL_SYMBOL      kernel_avx2
#define NEAR_BYTES         (512 << 10)

#define WORDS(words)       (words)
#define PLANE_WORDS(plane) ((plane)->words)

/* Read at once, as another thread may be setting bits; words at 8 bytes. */
typedef long long half __attribute__((vector_size(32), aligned(8), may_alias));

struct pattern {
    __m256i bit; /* of each word: 0..63 */
    uint32_t start;
};

/* Which words are none of a key's: a byte for each, all ones, by how many words it has
 * and by its first one. */
#define TURN(ones, n)   ((ones) << 8 * (n) | (ones) >> (64 - 8 * (n)) % 64)
#define BEYOND(n_words) (UINT64_MAX << 8 * (n_words))
#define STARTS(ones)                                                                   \
    {                                                                                  \
        ones, TURN(ones, 1), TURN(ones, 2), TURN(ones, 3), TURN(ones, 4),              \
            TURN(ones, 5), TURN(ones, 6), TURN(ones, 7)                                \
    }
static const uint64_t beyond[MAX_WORDS + 1][WORDS_PER_BLOCK] = {
    STARTS(UINT64_MAX), STARTS(BEYOND(1)), STARTS(BEYOND(2)), STARTS(BEYOND(3)), STARTS(BEYOND(4)),
    STARTS(BEYOND(5)), STARTS(BEYOND(6)), STARTS(BEYOND(7)), {0},
};

KERNEL inline struct pattern pattern_of(uint64_t h)
{
    __m256i salt = _mm256_loadu_si256((const __m256i *)(const void *)geometry_salt);
    return (struct pattern){
        _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)h), salt),
                          26),
        geometry_start(h),
    };
}

/* The mask of each half. A shift by 64 and more leaves nothing: so words beyond `words`
 * get a shift of 2^32 - 1. */
KERNEL inline void pattern_masks(const struct pattern *x, uint32_t words,
                                 __m256i mask[2])
{
    const __m128i *none = (const __m128i *)(const void *)&beyond[words][x->start];
    __m256i shift =
        _mm256_or_si256(x->bit, _mm256_cvtepi8_epi32(_mm_loadl_epi64(none)));
    __m256i one = _mm256_set1_epi64x(1);
    __m128i low = _mm256_castsi256_si128(shift);
    __m128i high = _mm256_extracti128_si256(shift, 1);
    mask[0] = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(low));
    mask[1] = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(high));
}

KERNEL inline uint8_t halves_lack(const __m256i mask[2], const uint8_t *block)
{
    const volatile half *b = (const volatile half *)(const volatile void *)block;
    __m256i missing = _mm256_or_si256(_mm256_andnot_si256((__m256i)b[0], mask[0]),
                                      _mm256_andnot_si256((__m256i)b[1], mask[1]));
    return !_mm256_testz_si256(missing, missing);
}

KERNEL inline uint8_t pattern_lacks(const struct pattern *x, uint32_t words,
                                    const uint8_t *block)
{
    __m256i mask[2];
    pattern_masks(x, words, mask);
    return halves_lack(mask, block);
}

/* By the number of words, each as two halves. */
struct masks {
    __m256i half[MAX_WORDS][2];
};

KERNEL inline void masks_of(struct masks *m, uint64_t h)
{
    struct pattern x = pattern_of(h);
    for (uint32_t words = 1; words <= MAX_WORDS; words++)
        pattern_masks(&x, words, m->half[words - 1]);
}

KERNEL inline uint8_t masks_lack(const struct masks *m, uint32_t words,
                                 const uint8_t *block)
{
    return halves_lack(m->half[words - 1], block);
}

KERNEL inline uint64_t zero_bytes(const uint8_t bytes[64])
{
    uint64_t zeros = 0;
    for (int i = 0; i < 2; i++) {
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32 * i));
        __m256i is = _mm256_cmpeq_epi8(b, _mm256_setzero_si256());
        zeros |= (uint64_t)(uint32_t)_mm256_movemask_epi8(is) << (32 * i);
    }
    return zeros;
}

KERNEL inline uint32_t pattern_add(const struct pattern *x, uint32_t words,
                                   uint8_t *block)
{
    const volatile half *b = (const volatile half *)(const volatile void *)block;
    uint64_t *w = (uint64_t *)(void *)block, missing[WORDS_PER_BLOCK];
    uint32_t fresh = 0;
    __m256i mask[2];
    pattern_masks(x, words, mask);
    for (int i = 0; i < 2; i++)
        _mm256_storeu_si256((__m256i *)(void *)(missing + 4 * i),
                            _mm256_andnot_si256((__m256i)b[i], mask[i]));
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++)
        if (missing[i]) /* a set bit stays set: no need to take the line for writing */
            fresh +=
                !(__atomic_fetch_or(&w[i], missing[i], __ATOMIC_RELAXED) & missing[i]);
    return fresh;
}

KERNEL inline void pattern_fill(const struct pattern *x, uint32_t words, uint8_t *block)
{
    half *b = (half *)(void *)block;
    __m256i mask[2];
    pattern_masks(x, words, mask);
    b[0] |= (half)mask[0];
    b[1] |= (half)mask[1];
}

/* Each half of a byte has its count in a table of sixteen. */
KERNEL inline uint64_t block_count(const uint8_t *block)
{
    const volatile half *b = (const volatile half *)(const volatile void *)block;
    __m256i of = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    __m256i low = _mm256_set1_epi8(15), n = _mm256_setzero_si256();
    for (int i = 0; i < 2; i++) {
        __m256i is = (__m256i)b[i];
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(is, 4), low);
        n = _mm256_add_epi8(n, _mm256_shuffle_epi8(of, _mm256_and_si256(is, low)));
        n = _mm256_add_epi8(n, _mm256_shuffle_epi8(of, high));
    }
    n = _mm256_sad_epu8(n, _mm256_setzero_si256());
    __m128i two =
        _mm_add_epi64(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

#include "lib/filter/kernel_loops.h"
#endif

typedef int kernel_avx2_has_this_file; /* elsewhere it is empty, which C forbids */
