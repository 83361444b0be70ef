/* The kernel for x86-64 with AVX2: a block is two halves of four words. */
#include "lib/kernel/kernel.h"
#include "lib/kernel/ribbon.h"

#ifdef __x86_64__
#include <immintrin.h>

#define KERNEL             __attribute__((target("avx2,bmi,bmi2"))) static
#define KERNEL_NAME        "avx2"
#define KERNEL_SYMBOL      kernel_avx2
#define RIBBON_SYMBOL      ribbon_avx2
#define ANY_ADDRESS        true
#define NEAR_BYTES         (512 << 10)
#define VECTOR_BYTES       32
#define HAS_COLUMNS        true

#define WORDS(words)       (words)
#define PLANE_WORDS(plane) ((plane)->words)

/* Read at once, as another thread may be setting bits. At any address: blocks may be in
 * the memory of a caller (blocks.c). */
typedef long long half __attribute__((vector_size(32), aligned(1), may_alias));

/* Eight numbers of 32 bits, one a word, are kept in the order 0 1 4 5, 2 3 6 7: two
 * unpackings make the shift counts for words 0 to 3 and 4 to 7 of them, and one shuffle
 * brings the upper halves of those words back into this order. */
static const uint32_t salts[WORDS_PER_BLOCK] __attribute__((aligned(32))) = {
    SALT_0, SALT_1, SALT_4, SALT_5, SALT_2, SALT_3, SALT_6, SALT_7};

/* The words that a key uses, by their number and the first of them: as one bit a word,
 * and as one byte a word, 0 if the key uses it, else all ones. */
#define TURN(word, start)       (((word) - (start)) & (WORDS_PER_BLOCK - 1))
#define BIT(word, at, n, start) (TURN(word, start) < (n) ? 1U << (at) : 0)
#define BITS(n, start)                                                                 \
    (BIT(0, 0, n, start) | BIT(1, 1, n, start) | BIT(4, 2, n, start) |                 \
     BIT(5, 3, n, start) | BIT(2, 4, n, start) | BIT(3, 5, n, start) |                 \
     BIT(6, 6, n, start) | BIT(7, 7, n, start))
#define STARTS(of, n)                                                                  \
    {                                                                                  \
        of(n, 0), of(n, 1), of(n, 2), of(n, 3), of(n, 4), of(n, 5), of(n, 6), of(n, 7) \
    }
#define BY_WORDS(of)                                                                   \
    {                                                                                  \
        STARTS(of, 0), STARTS(of, 1), STARTS(of, 2), STARTS(of, 3), STARTS(of, 4),     \
            STARTS(of, 5), STARTS(of, 6), STARTS(of, 7), STARTS(of, 8)                 \
    }
static const uint32_t asked[MAX_WORDS + 1][WORDS_PER_BLOCK] = BY_WORDS(BITS);

#define BYTE(word, n, start) (TURN(word, start) < (n) ? 0 : -1)
#define BYTES(n, start)                                                                \
    {                                                                                  \
        BYTE(0, n, start), BYTE(1, n, start), BYTE(4, n, start), BYTE(5, n, start),    \
            BYTE(2, n, start), BYTE(3, n, start), BYTE(6, n, start), BYTE(7, n, start) \
    }
static const int8_t beyond[MAX_WORDS + 1][WORDS_PER_BLOCK][WORDS_PER_BLOCK] =
    BY_WORDS(BYTES);

struct pattern {
    __m256i above; /* how many bits are above that of each word: 0..63 */
    uint32_t start;
};

KERNEL inline struct pattern pattern_of(uint64_t h)
{
    __m256i salt = _mm256_load_si256((const __m256i *)(const void *)salts);
    __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)h), salt);
    return (struct pattern){
        _mm256_srli_epi32(_mm256_xor_si256(product, _mm256_set1_epi32(-1)), 26),
        geometry_start(h),
    };
}

/* As 64-bit numbers, of words 0 to 3 and 4 to 7. */
KERNEL inline void spread(__m256i numbers, __m256i halves[2])
{
    halves[0] = _mm256_unpacklo_epi32(numbers, _mm256_setzero_si256());
    halves[1] = _mm256_unpackhi_epi32(numbers, _mm256_setzero_si256());
}

/* Each word is shifted until its bit is the uppermost, which becomes that of its
 * number: 0 1 4 5, 2 3 6 7. */
KERNEL inline __m256 block_bits(const uint8_t *block, const __m256i above[2])
{
    const volatile half *b = (const volatile half *)(const volatile void *)block;
    __m256i low = _mm256_sllv_epi64((__m256i)b[0], above[0]);
    __m256i high = _mm256_sllv_epi64((__m256i)b[1], above[1]);
    return _mm256_shuffle_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high),
                             _MM_SHUFFLE(3, 1, 3, 1));
}

KERNEL inline uint8_t pattern_lacks(const struct pattern *x, uint32_t words,
                                    const uint8_t *block)
{
    __m256i above[2];
    spread(x->above, above);
    uint32_t set = (uint32_t)_mm256_movemask_ps(block_bits(block, above));
    return (uint8_t)(~set & asked[words][x->start]);
}

/* ---- one key in the first lanes of a row ----
 *
 * Four planes at a time, in registers: why, avx512.c says. */

/* The lines of planes i to i + 3: n_blocks fits in 32 bits, so that the upper half of
 * its product with h is made of two smaller products. */
KERNEL inline __m256i column_lines(const struct plane_row *r, size_t i, uint64_t h)
{
    __m256i low = _mm256_set1_epi64x((long long)h), high = _mm256_srli_epi64(low, 32);
    __m256i n_blocks =
        _mm256_loadu_si256((const __m256i *)(const void *)(r->n_blocks + i));
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(r->bits + i));
    __m256i carry = _mm256_srli_epi64(_mm256_mul_epu32(low, n_blocks), 32);
    __m256i block = _mm256_srli_epi64(
        _mm256_add_epi64(_mm256_mul_epu32(high, n_blocks), carry), 32);
    return _mm256_add_epi64(bits, _mm256_slli_epi64(block, 6));
}

KERNEL inline __m256i line_bits(long long line, const __m256i above[2])
{
    return _mm256_castps_si256(block_bits((const uint8_t *)(uintptr_t)line, above));
}

/* Two lines, in numbers of 16 bits: words 0 1 4 5 of the first and of the second, then
 * their words 2 3 6 7. */
KERNEL inline __m256i two_lines(__m128i lines, const __m256i above[2])
{
    return _mm256_packs_epi32(line_bits(_mm_cvtsi128_si64(lines), above),
                              line_bits(_mm_extract_epi64(lines, 1), above));
}

/* Each byte says how many words its word is after the key's first word. */
#define TURNS(start)                                                                   \
    {                                                                                  \
        FOUR(0, 1, 4, 5, start), FOUR(2, 3, 6, 7, start)                               \
    }
#define FOUR(a, b, c, d, start)                                                        \
    ONE(a, b, c, d, start), ONE(a, b, c, d, start), ONE(a, b, c, d, start),            \
        ONE(a, b, c, d, start)
#define ONE(a, b, c, d, start)                                                         \
    TURN(a, start), TURN(b, start), TURN(c, start), TURN(d, start)
static const int8_t turns[WORDS_PER_BLOCK][32] __attribute__((aligned(32))) = {
    TURNS(0), TURNS(1), TURNS(2), TURNS(3), TURNS(4), TURNS(5), TURNS(6), TURNS(7)};

/* Inlined by force: a call would take what this saves. */
KERNEL inline __attribute__((always_inline)) uint32_t
columns_alive(const struct plane_row *r, uint64_t h)
{
    const struct pattern x = pattern_of(h);
    const __m256i turn =
        _mm256_load_si256((const __m256i *)(const void *)turns[x.start]);
    const __m256i each =
        _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 1,
                         1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m256i above[2];
    uint32_t alive = 0;
    spread(x.above, above);
    for (size_t i = 0; i < r->n_columns; i += 4) {
        __m256i lines = column_lines(r, i, h);
        __m256i set =
            _mm256_packs_epi16(two_lines(_mm256_castsi256_si128(lines), above),
                               two_lines(_mm256_extracti128_si256(lines, 1), above));
        uint32_t four;
        memcpy(&four, r->words + i, sizeof four);
        __m256i words = _mm256_shuffle_epi8(_mm256_set1_epi32((int)four), each);
        /* The uppermost bit of a byte: asked for, and not set. */
        __m256i lacks = _mm256_andnot_si256(set, _mm256_cmpgt_epi8(words, turn));
        __m128i plane = _mm_or_si128(_mm256_castsi256_si128(lacks),
                                     _mm256_extracti128_si256(lacks, 1));
        plane = _mm_and_si128(plane, _mm_set1_epi8(INT8_MIN));
        plane = _mm_cmpeq_epi32(plane, _mm_setzero_si128());
        alive |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(plane)) << i;
    }
    return alive & r->all;
}

/* The mask of each half. A shift by 64 and more leaves nothing: so words that are not
 * asked get a shift of 2^32 - 1. */
KERNEL inline void pattern_masks(const struct pattern *x, uint32_t words,
                                 __m256i mask[2])
{
    const __m128i *none = (const __m128i *)(const void *)beyond[words][x->start];
    __m256i shift[2], top = _mm256_set1_epi64x(INT64_MIN);
    spread(_mm256_or_si256(x->above, _mm256_cvtepi8_epi32(_mm_loadl_epi64(none))),
           shift);
    mask[0] = _mm256_srlv_epi64(top, shift[0]);
    mask[1] = _mm256_srlv_epi64(top, shift[1]);
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

/* Which of four words lack a bit of the mask? */
KERNEL inline uint32_t half_lacks(__m256i missing)
{
    __m256i none = _mm256_cmpeq_epi64(missing, _mm256_setzero_si256());
    return ~(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(none)) & 15;
}

KERNEL inline uint32_t pattern_add(const struct pattern *x, uint32_t words,
                                   uint8_t *block, bool alone)
{
    volatile half *b = (volatile half *)(volatile void *)block;
    uint64_t *w = (uint64_t *)(void *)block, missing[WORDS_PER_BLOCK];
    __m256i low = (__m256i)b[0], high = (__m256i)b[1], mask[2];
    pattern_masks(x, words, mask);
    __m256i of_low = _mm256_andnot_si256(low, mask[0]);
    __m256i of_high = _mm256_andnot_si256(high, mask[1]);
    uint32_t fresh = 0, clear = half_lacks(of_low) | half_lacks(of_high) << 4;
    if (alone && clear) {
        b[0] = (half)_mm256_or_si256(low, mask[0]);
        b[1] = (half)_mm256_or_si256(high, mask[1]);
    }
    if (alone)
        return (uint32_t)__builtin_popcount(clear);
    _mm256_storeu_si256((__m256i *)(void *)missing, of_low);
    _mm256_storeu_si256((__m256i *)(void *)(missing + 4), of_high);
    /* A set bit stays set: no need to take the line for writing. */
    for (; clear; clear &= clear - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(clear);
        fresh += set_missing(&w[i], missing[i], false);
    }
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

#include "lib/kernel/loops.h"

/* ==== ribbons: SPEC.md section 19 ==== */

/* The parity of each word: of the sum of those of its bytes. */
KERNEL inline uint32_t parities(__m256i x)
{
    __m256i of = _mm256_setr_epi8(0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1,
                                  1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0);
    x = _mm256_xor_si256(x, _mm256_srli_epi64(x, 4));
    x = _mm256_shuffle_epi8(of, _mm256_and_si256(x, _mm256_set1_epi8(15)));
    x = _mm256_slli_epi64(_mm256_sad_epu8(x, _mm256_setzero_si256()), 63);
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(x));
}

KERNEL inline uint32_t four_parities(const uint8_t *here, const uint8_t *next,
                                     __m256i low, __m256i high)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)here);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)next);
    return parities(
        _mm256_xor_si256(_mm256_and_si256(a, low), _mm256_and_si256(b, high)));
}

KERNEL inline uint32_t parities_of(const uint8_t *here, const uint8_t *next,
                                   uint64_t low, uint64_t high)
{
    __m256i l = _mm256_set1_epi64x((long long)low);
    __m256i h = _mm256_set1_epi64x((long long)high);
    return four_parities(here, next, l, h) | four_parities(here + 32, next + 32, l, h)
                                                 << 4;
}

#include "lib/kernel/digits.h"
#endif

typedef int kernel_avx2_has_this_file; /* elsewhere it is empty, which C forbids */
