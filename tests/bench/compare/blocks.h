/* One block asked for one key, as one would write it by hand for one filter: what the
 * comparators of loops.c and few.c are made of. The number of words is known to the
 * compiler. */
#ifndef TAMIS_TESTS_BENCH_BLOCKS_H
#define TAMIS_TESTS_BENCH_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "format/geometry.h"

#define INLINE static inline __attribute__((always_inline))

/* Each number of words, 1 .. 8, has a loop of its own. */
#define BY_WORDS(words, call)                                                          \
    ((words) == 1   ? call(1)                                                          \
     : (words) == 2 ? call(2)                                                          \
     : (words) == 3 ? call(3)                                                          \
     : (words) == 4 ? call(4)                                                          \
     : (words) == 5 ? call(5)                                                          \
     : (words) == 6 ? call(6)                                                          \
     : (words) == 7 ? call(7)                                                          \
                    : call(8))

/* Of the compiler's own, so that it sees them constant. */
static uint32_t salts[WORDS_PER_BLOCK];

static inline void salts_begin(void)
{
    memcpy(salts, geometry_salt, sizeof salts);
}

INLINE bool scalar_block(const uint8_t *block, uint32_t words, uint64_t h)
{
    const uint64_t *w = (const uint64_t *)(const void *)block;
    uint64_t missing = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        missing |= ~w[word] & UINT64_C(1) << ((uint32_t)h * salts[word] >> 26);
    }
    return missing == 0;
}

#ifdef __x86_64__
#include <immintrin.h>

#define AVX512                                                                         \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,bmi,bmi2")))

/* Eight words at once; those from start on, cyclically, count. */
AVX512 INLINE bool avx512_block(const uint8_t *block, uint32_t words, uint64_t h,
                                __m256i salt)
{
    __m256i bit =
        _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)h), salt), 26);
    __m512i want = _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_cvtepu32_epi64(bit));
    uint32_t twice = ((1U << words) - 1) * 0x101U << geometry_start(h);
    __mmask8 which = (__mmask8)(twice >> 8);
    return _mm512_mask_testn_epi64_mask(which, want, _mm512_load_si512(block)) == 0;
}

#define AVX2 __attribute__((target("avx2,bmi,bmi2")))

/* All bits of the words from start on, cyclically: 0 in those that count. */
static uint64_t beyond[WORDS_PER_BLOCK][WORDS_PER_BLOCK] __attribute__((aligned(64)));

static void avx2_begin(uint32_t words)
{
    for (uint32_t start = 0; start < WORDS_PER_BLOCK; start++)
        for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++)
            beyond[start][(start + i) % WORDS_PER_BLOCK] = i < words ? 0 : UINT64_MAX;
}

/* Two halves; a word that does not count is as if it were all ones. */
AVX2 INLINE bool avx2_block(const uint8_t *block, uint32_t words, uint64_t h,
                            __m256i salt)
{
    const __m256i one = _mm256_set1_epi64x(1), *b = (const void *)block;
    const __m256i *other = (const void *)beyond[geometry_start(h)];
    __m256i bit =
        _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)h), salt), 26);
    __m256i low =
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(bit)));
    __m256i high =
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(bit, 1)));
    __m256i is_low = _mm256_load_si256(b), is_high = _mm256_load_si256(b + 1);
    if (words < WORDS_PER_BLOCK) {
        is_low = _mm256_or_si256(is_low, _mm256_load_si256(other));
        is_high = _mm256_or_si256(is_high, _mm256_load_si256(other + 1));
    }
    __m256i missing = _mm256_or_si256(_mm256_andnot_si256(is_low, low),
                                      _mm256_andnot_si256(is_high, high));
    return _mm256_testz_si256(missing, missing);
}

#endif

#endif
