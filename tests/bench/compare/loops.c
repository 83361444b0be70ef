/* The loops that a batch is compared with: over the same bits, as one would write them
 * by hand for one filter, everything inlined, the number of words known to the
 * compiler. They check no page and answer into the same bitmap. */
#include "tests/bench/bench.h"

#include <string.h>

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

static uint32_t salts[WORDS_PER_BLOCK];

/* Puts answer i into the bitmap, a word at a time. Returns whether it is ABSENT. */
INLINE size_t answer(const struct probing *p, size_t i, bool hit, uint64_t *word)
{
    *word |= (uint64_t)!hit << i % 64;
    if (i % 64 == 63 || i + 1 == p->n) {
        p->absent[i / 64] = *word;
        *word = 0;
    }
    return !hit;
}

/* ---- plain C ---- */

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

INLINE size_t scalar_loop(const struct probing *p, uint32_t words)
{
    const struct geometry g = p->bits->geometry;
    const uint8_t *base = p->bits->base;
    size_t n_absent = 0;
    uint64_t word = 0;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t h = p->hashes[i];
        bool hit = true;
        for (uint32_t lane = 0; hit && lane < g.lanes; lane++) {
            hit = scalar_block(base + geometry_block_offset(&g, lane, h), words, h);
            h = geometry_next_lane(h);
        }
        n_absent += answer(p, i, hit, &word);
    }
    return n_absent;
}

static size_t scalar(const struct probing *p)
{
#define SCALAR(words) scalar_loop(p, words)
    return BY_WORDS(p->bits->geometry.words, SCALAR);
}

/* ---- AVX-512 ---- */

#ifdef __x86_64__
#include <immintrin.h>

#define AVX512                                                                         \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,bmi,bmi2")))

bool have_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("bmi2");
}

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

AVX512 INLINE size_t avx512_loop(const struct probing *p, uint32_t words)
{
    const struct geometry g = p->bits->geometry;
    const uint8_t *base = p->bits->base;
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    size_t n_absent = 0;
    uint64_t word = 0;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t h = p->hashes[i];
        bool hit = avx512_block(base + geometry_block_offset(&g, 0, h), words, h, salt);
        for (uint32_t lane = 1; __builtin_expect(hit && lane < g.lanes, 0); lane++) {
            h = geometry_next_lane(h);
            hit =
                avx512_block(base + geometry_block_offset(&g, lane, h), words, h, salt);
        }
        n_absent += answer(p, i, hit, &word);
    }
    return n_absent;
}

AVX512 static size_t avx512(const struct probing *p)
{
#define BY_AVX512(words) avx512_loop(p, words)
    return BY_WORDS(p->bits->geometry.words, BY_AVX512);
}
/* ---- AVX2 ---- */

#define AVX2 __attribute__((target("avx2,bmi,bmi2")))

bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

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

AVX2 INLINE size_t avx2_loop(const struct probing *p, uint32_t words)
{
    const struct geometry g = p->bits->geometry;
    const uint8_t *base = p->bits->base;
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    size_t n_absent = 0;
    uint64_t word = 0;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t h = p->hashes[i];
        bool hit = avx2_block(base + geometry_block_offset(&g, 0, h), words, h, salt);
        for (uint32_t lane = 1; __builtin_expect(hit && lane < g.lanes, 0); lane++) {
            h = geometry_next_lane(h);
            hit = avx2_block(base + geometry_block_offset(&g, lane, h), words, h, salt);
        }
        n_absent += answer(p, i, hit, &word);
    }
    return n_absent;
}

AVX2 static size_t avx2(const struct probing *p)
{
    avx2_begin(p->bits->geometry.words);
#define BY_AVX2(words) avx2_loop(p, words)
    return BY_WORDS(p->bits->geometry.words, BY_AVX2);
}
#else
bool have_avx512(void)
{
    return false;
}

bool have_avx2(void)
{
    return false;
}

static size_t avx2(const struct probing *p)
{
    return scalar(p);
}

static size_t avx512(const struct probing *p)
{
    return scalar(p);
}
#endif

/* ---- as laps ---- */

static double timed(struct probing *p, size_t (*loop)(const struct probing *))
{
    memcpy(salts, geometry_salt, sizeof salts);
    uint64_t began = now_ns();
    p->n_absent = loop(p);
    double ns = (double)(now_ns() - began);
    sink += p->n_absent;
    return ns / (double)p->n;
}

double lap_scalar(void *probing)
{
    return timed(probing, scalar);
}

double lap_avx2(void *probing)
{
    return timed(probing, avx2);
}

double lap_avx512(void *probing)
{
    return timed(probing, avx512);
}
