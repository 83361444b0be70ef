/* A comparator for some keys on some segments: over the same bits, in two passes.
 * The lines of all pairs are fetched, then looked at, key by key. */
#include "tests/bench/compare/cells.h"
#include "tests/bench/bench.h"
#include "tests/bench/compare/blocks.h"

enum { CELLS = MOST_SEGMENTS * MOST_KEYS };

/* With one lane, a key has one block. */
#define TWO_PASSES(c, lacks)                                                           \
    const uint8_t *block[CELLS], **to, **from;                                         \
    for (size_t call = 0; call < (c)->n_calls; call++) {                               \
        const struct tamis_key *keys = (c)->keys + call * (c)->n_keys;                 \
        const uint32_t *list = (c)->lists[call % N_LISTS];                             \
        to = from = block;                                                             \
        for (size_t i = 0; i < (c)->n_keys; i++)                                       \
            for (size_t s = 0; s < (c)->n_segments; s++, to++) {                       \
                *to = cell((c)->bits + list[s], keys[i].hash);                         \
                __builtin_prefetch(*to);                                               \
            }                                                                          \
        for (size_t i = 0; i < (c)->n_keys; i++) {                                     \
            const uint64_t h = keys[i].hash;                                           \
            uint64_t row = 0;                                                          \
            for (size_t s = 0; s < (c)->n_segments; s++, from++)                       \
                row |= (uint64_t)(lacks) << s;                                         \
            (c)->absent[i] = row;                                                      \
        }                                                                              \
        if ((c)->counting)                                                             \
            cells_count(c);                                                            \
    }

INLINE const uint8_t *cell(const struct bits *bits, uint64_t h)
{
    return bits->base + geometry_block(h, bits->geometry.n_blocks) * BLOCK_BYTES;
}

INLINE void scalar_cells(struct cells *c, uint32_t words)
{
    TWO_PASSES(c, !scalar_block(*from, words, h))
}

static void scalar(struct cells *c)
{
#define SCALAR(words) scalar_cells(c, words)
    BY_WORDS(c->bits->geometry.words, SCALAR);
}

#ifdef __x86_64__
AVX512 INLINE void avx512_cells(struct cells *c, uint32_t words)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    TWO_PASSES(c, !avx512_block(*from, words, h, salt))
}

AVX512 static void avx512(struct cells *c)
{
#define BY_AVX512(words) avx512_cells(c, words)
    BY_WORDS(c->bits->geometry.words, BY_AVX512);
}

AVX2 INLINE void avx2_cells(struct cells *c, uint32_t words)
{
    const __m256i salt = _mm256_loadu_si256((const void *)salts);
    TWO_PASSES(c, !avx2_block(*from, words, h, salt))
}

AVX2 static void avx2(struct cells *c)
{
    avx2_begin(c->bits->geometry.words);
#define BY_AVX2(words) avx2_cells(c, words)
    BY_WORDS(c->bits->geometry.words, BY_AVX2);
}

static void best(struct cells *c)
{
    have_avx512() ? avx512(c) : have_avx2() ? avx2(c) : scalar(c);
}
#else
static void best(struct cells *c)
{
    scalar(c);
}
#endif

double lap_cells(void *cells)
{
    struct cells *c = cells;
    salts_begin();
    uint64_t began = now_ns();
    best(c);
    return (double)(now_ns() - began) /
           (double)(c->n_calls * c->n_keys * c->n_segments);
}
