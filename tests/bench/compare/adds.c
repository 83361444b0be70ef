/* What adds to blocks in memory are compared with: a loop by hand that sets the bits of
 * one key after another. */
#include "tests/bench/bench.h"
#include "tests/bench/compare/blocks.h"

INLINE void scalar_add(uint8_t *block, uint32_t words, uint64_t h)
{
    uint64_t *w = (uint64_t *)(void *)block;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        w[word] |= UINT64_C(1) << ((uint32_t)h * salts[word] >> 26);
    }
}

#define EACH_KEY(a, add)                                                               \
    for (size_t i = 0; i < (a)->n; i++) {                                              \
        uint64_t h = (a)->hashes[i];                                                   \
        uint8_t *lane = (a)->bits;                                                     \
        for (uint32_t l = 0; l < (a)->geometry.lanes; l++) {                           \
            uint8_t *block =                                                           \
                lane + geometry_block(h, (a)->geometry.n_blocks) * BLOCK_BYTES;        \
            add;                                                                       \
            h = geometry_next_lane(h);                                                 \
            lane += (a)->geometry.n_blocks * BLOCK_BYTES;                              \
        }                                                                              \
    }

INLINE void scalar_loop(const struct filling_bits *a, uint32_t words)
{
    EACH_KEY(a, scalar_add(block, words, h))
}

static void scalar(const struct filling_bits *a)
{
#define SCALAR(words) scalar_loop(a, words)
    BY_WORDS(a->geometry.words, SCALAR);
}

#ifdef __x86_64__
AVX512 INLINE void avx512_add(uint8_t *block, uint32_t words, uint64_t h, __m256i salt)
{
    __m256i bit =
        _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)h), salt), 26);
    uint32_t twice = ((1U << words) - 1) * 0x101U << geometry_start(h);
    __m512i bits = _mm512_maskz_sllv_epi64((__mmask8)(twice >> 8), _mm512_set1_epi64(1),
                                           _mm512_cvtepu32_epi64(bit));
    _mm512_store_si512(block, _mm512_or_si512(_mm512_load_si512(block), bits));
}

AVX512 INLINE void avx512_loop(const struct filling_bits *a, uint32_t words)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    EACH_KEY(a, avx512_add(block, words, h, salt))
}

AVX512 static void avx512(const struct filling_bits *a)
{
#define BY_AVX512(words) avx512_loop(a, words)
    BY_WORDS(a->geometry.words, BY_AVX512);
}

AVX2 INLINE void avx2_add(uint8_t *block, uint32_t words, uint64_t h, __m256i salt)
{
    const __m256i one = _mm256_set1_epi64x(1);
    const __m256i *other = (const void *)beyond[geometry_start(h)];
    __m256i *b = (void *)block;
    __m256i bit =
        _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)h), salt), 26);
    __m256i low =
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(bit)));
    __m256i high =
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(bit, 1)));
    if (words < WORDS_PER_BLOCK) {
        low = _mm256_andnot_si256(_mm256_load_si256(other), low);
        high = _mm256_andnot_si256(_mm256_load_si256(other + 1), high);
    }
    _mm256_store_si256(b, _mm256_or_si256(_mm256_load_si256(b), low));
    _mm256_store_si256(b + 1, _mm256_or_si256(_mm256_load_si256(b + 1), high));
}

AVX2 INLINE void avx2_loop(const struct filling_bits *a, uint32_t words)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    EACH_KEY(a, avx2_add(block, words, h, salt))
}

AVX2 static void avx2(const struct filling_bits *a)
{
    avx2_begin(a->geometry.words);
#define BY_AVX2(words) avx2_loop(a, words)
    BY_WORDS(a->geometry.words, BY_AVX2);
}

static void best(const struct filling_bits *a)
{
    if (have_avx512())
        avx512(a);
    else if (have_avx2())
        avx2(a);
    else
        scalar(a);
}
#else
static void best(const struct filling_bits *a)
{
    scalar(a);
}
#endif

double lap_add_by_hand(void *adding)
{
    const struct filling_bits *a = adding;
    salts_begin();
    uint64_t began = now_ns();
    best(a);
    double ns = (double)(now_ns() - began);
    sink += a->bits[0];
    return ns / (double)a->n;
}
