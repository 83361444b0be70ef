/* Loops by hand that inline probes of many filters are compared with: one key, and one
 * filter after another, of one lane each. They count. */
#include "tests/bench/bench.h"
#include "tests/bench/compare/blocks.h"

#define EACH_FILTER(e, h, lacks)                                                       \
    size_t n_absent = 0;                                                               \
    for (size_t i = 0; i < (e)->n_filters; i++) {                                      \
        const uint8_t *block =                                                         \
            (e)->filters[i].bits +                                                     \
            geometry_block(h, (e)->filters[i].n_blocks) * BLOCK_BYTES;                 \
        n_absent += (lacks);                                                           \
    }                                                                                  \
    return n_absent

/* The lines alone. */
static size_t loads(const struct each *e, uint64_t h)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < e->n_filters; i++) {
        const uint8_t *block = e->filters[i].bits +
                               geometry_block(h, e->filters[i].n_blocks) * BLOCK_BYTES;
        sum += *(const uint64_t *)(const void *)block;
    }
    return sum;
}

#ifdef __x86_64__
AVX512 INLINE size_t avx512_each(const struct each *e, uint32_t words, uint64_t h)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    EACH_FILTER(e, h, !avx512_block(block, words, h, salt));
}

AVX512 static size_t avx512(const struct each *e, uint64_t h)
{
#define BY_AVX512(words) avx512_each(e, words, h)
    return BY_WORDS(e->words, BY_AVX512);
}

AVX2 INLINE size_t avx2_each(const struct each *e, uint32_t words, uint64_t h)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    EACH_FILTER(e, h, !avx2_block(block, words, h, salt));
}

AVX2 static size_t avx2(const struct each *e, uint64_t h)
{
#define BY_AVX2(words) avx2_each(e, words, h)
    return BY_WORDS(e->words, BY_AVX2);
}
#endif

/* ---- as laps ---- */

static double timed(struct each *e, size_t (*loop)(const struct each *, uint64_t))
{
    size_t n_absent = 0;
    uint64_t began = now_ns();
    for (size_t i = 0; i < e->n; i++)
        n_absent += loop(e, e->hashes[i]);
    double ns = (double)(now_ns() - began);
    sink += e->n_absent = n_absent;
    return ns / (double)e->n;
}

double lap_each_loads(void *each)
{
    return timed(each, loads);
}

#ifdef __x86_64__
double lap_each_avx512(void *each)
{
    salts_begin();
    return timed(each, avx512);
}

double lap_each_avx2(void *ctx)
{
    struct each *e = ctx;
    salts_begin();
    avx2_begin(e->words);
    return timed(e, avx2);
}
#else
double lap_each_avx512(void *each)
{
    return lap_each_loads(each);
}

double lap_each_avx2(void *each)
{
    return lap_each_loads(each);
}
#endif
