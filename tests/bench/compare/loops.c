/* The loops that a batch is compared with: over the same bits, as one would write them
 * by hand for one filter, everything inlined, the number of words known to the
 * compiler. They check no page. They answer into the same bitmap, or only count, if
 * there is none. */
#include "tests/bench/bench.h"
#include "tests/bench/compare/blocks.h"

/* Puts answer i into the bitmap, a word at a time. Returns whether it is ABSENT. */
INLINE size_t answer(const struct probing *p, size_t i, bool hit, bool bitmap,
                     uint64_t *word)
{
    if (!bitmap)
        return !hit;
    *word |= (uint64_t)!hit << i % 64;
    if (i % 64 == 63 || i + 1 == p->n) {
        p->absent[i / 64] = *word;
        *word = 0;
    }
    return !hit;
}

/* ---- plain C ---- */

INLINE size_t scalar_loop(const struct probing *p, uint32_t words, bool bitmap)
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
        n_absent += answer(p, i, hit, bitmap, &word);
    }
    return n_absent;
}

static size_t scalar(const struct probing *p)
{
#define SCALAR(words)  scalar_loop(p, words, true)
#define COUNTED(words) scalar_loop(p, words, false)
    return p->absent ? BY_WORDS(p->bits->geometry.words, SCALAR)
                     : BY_WORDS(p->bits->geometry.words, COUNTED);
}

/* ---- AVX-512 ---- */

#ifdef __x86_64__
bool have_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("bmi2");
}

AVX512 INLINE size_t avx512_loop(const struct probing *p, uint32_t words, bool bitmap)
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
        n_absent += answer(p, i, hit, bitmap, &word);
    }
    return n_absent;
}

AVX512 static size_t avx512(const struct probing *p)
{
#define BY_AVX512(words)         avx512_loop(p, words, true)
#define COUNTED_BY_AVX512(words) avx512_loop(p, words, false)
    return p->absent ? BY_WORDS(p->bits->geometry.words, BY_AVX512)
                     : BY_WORDS(p->bits->geometry.words, COUNTED_BY_AVX512);
}
/* ---- AVX2 ---- */

bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

AVX2 INLINE size_t avx2_loop(const struct probing *p, uint32_t words, bool bitmap)
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
        n_absent += answer(p, i, hit, bitmap, &word);
    }
    return n_absent;
}

AVX2 static size_t avx2(const struct probing *p)
{
    avx2_begin(p->bits->geometry.words);
#define BY_AVX2(words)         avx2_loop(p, words, true)
#define COUNTED_BY_AVX2(words) avx2_loop(p, words, false)
    return p->absent ? BY_WORDS(p->bits->geometry.words, BY_AVX2)
                     : BY_WORDS(p->bits->geometry.words, COUNTED_BY_AVX2);
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
    salts_begin();
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
