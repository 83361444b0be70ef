/* What short batches are compared with: over the same bits, so many keys at a time, in
 * two passes. All lines are fetched, then looked at. */
#include "tests/bench/bench.h"
#include "tests/bench/compare/blocks.h"

enum { FEW = 64 };

/* With one lane, a key has one block. */
#define TWO_PASSES(p, lacks)                                                           \
    const struct geometry g = (p)->bits->geometry;                                     \
    const uint8_t *base = (p)->bits->base, *block[FEW];                                \
    size_t n_absent = 0;                                                               \
    for (size_t at = 0; at + (p)->few <= (p)->n; at += (p)->few) {                     \
        const uint64_t *h = (p)->hashes + at;                                          \
        uint64_t word = 0;                                                             \
        for (size_t i = 0; i < (p)->few; i++) {                                        \
            block[i] = base + geometry_block_offset(&g, 0, h[i]);                      \
            __builtin_prefetch(block[i]);                                              \
        }                                                                              \
        for (size_t i = 0; i < (p)->few; i++)                                          \
            word |= (uint64_t)(lacks) << i;                                            \
        (p)->absent[at / FEW] = word;                                                  \
        n_absent += (size_t)__builtin_popcountll(word);                                \
    }                                                                                  \
    return n_absent

INLINE size_t scalar_few(const struct probing *p, uint32_t words)
{
    TWO_PASSES(p, !scalar_block(block[i], words, h[i]));
}

static size_t scalar(const struct probing *p)
{
#define SCALAR(words) scalar_few(p, words)
    return BY_WORDS(p->bits->geometry.words, SCALAR);
}

#ifdef __x86_64__
AVX512 INLINE size_t avx512_few(const struct probing *p, uint32_t words)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    TWO_PASSES(p, !avx512_block(block[i], words, h[i], salt));
}

AVX512 static size_t avx512(const struct probing *p)
{
#define BY_AVX512(words) avx512_few(p, words)
    return BY_WORDS(p->bits->geometry.words, BY_AVX512);
}

AVX2 INLINE size_t avx2_few(const struct probing *p, uint32_t words)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    TWO_PASSES(p, !avx2_block(block[i], words, h[i], salt));
}

AVX2 static size_t avx2(const struct probing *p)
{
    avx2_begin(p->bits->geometry.words);
#define BY_AVX2(words) avx2_few(p, words)
    return BY_WORDS(p->bits->geometry.words, BY_AVX2);
}

static size_t best(const struct probing *p)
{
    return have_avx512() ? avx512(p) : have_avx2() ? avx2(p) : scalar(p);
}
#else
static size_t best(const struct probing *p)
{
    return scalar(p);
}
#endif

double lap_few(void *probing)
{
    struct probing *p = probing;
    salts_begin();
    uint64_t began = now_ns();
    p->n_absent = best(p);
    double ns = (double)(now_ns() - began);
    sink += p->n_absent;
    return ns / (double)p->n;
}
