/* Sorted values to a page of a list, eight at a time, by AVX2 and BMI2.
 *
 * Eight rests fill whole bytes, as many as a rest has bits. So the places of all eight
 * within these are the same in the whole page, and no eight waits for those before.
 * Ones of unary are set at sums of the gaps before them. Zeros of one gap are few, but
 * those of eight may be more than a word: then each one is put by itself. */
#include "lib/kernel/list/list_pack.h"

#if defined(__x86_64__)
#include "lib/kernel/list/list_put.h"

#include <immintrin.h>

#define AVX2        __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define AVX2_INLINE AVX2 __attribute__((always_inline)) static inline

enum { EIGHT = 8 };

AVX2_INLINE __m256i load_four(const uint64_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* ---- rests ---- */

/* How eight rests are put: one or two to a word, so that words have 57 bits at most. */
struct rest_words {
    struct {
        uint32_t byte, shift; /* it begins there, with this bit */
        uint32_t whole;       /* bits of the word before that are in whole bytes */
    } word[EIGHT];
    uint32_t rest_bits;
    uint64_t mask;
};

AVX2_INLINE void rest_words_of(uint32_t rest_bits, uint32_t per_word,
                               struct rest_words *w)
{
    w->rest_bits = rest_bits;
    w->mask = (UINT64_C(1) << rest_bits) - 1;
    for (uint32_t i = 0, before = 0; i < EIGHT / per_word; i++) {
        uint32_t bit = i * per_word * rest_bits;
        w->word[i].byte = bit / 8;
        w->word[i].shift = bit % 8;
        w->word[i].whole = (bit / 8 - before) * 8;
        before = bit / 8;
    }
}

/* Word i of eight rests, and what is left of the word before. */
AVX2_INLINE uint64_t put_word(const uint64_t *v, const struct rest_words *w,
                              uint32_t per_word, uint32_t i, uint64_t before,
                              uint8_t *to)
{
    uint64_t rests = v[i * per_word] & w->mask;
    if (per_word == 2)
        rests |= (v[i * per_word + 1] & w->mask) << w->rest_bits;
    uint64_t word = before >> w->word[i].whole | rests << w->word[i].shift;
    store_word(to + w->word[i].byte, word);
    return word;
}

/* Writes up to eight bytes more. */
AVX2_INLINE void put_rests(const uint64_t *v, const struct rest_words *w,
                           uint32_t per_word, uint8_t *to)
{
    uint64_t word = put_word(v, w, per_word, 0, 0, to);
    word = put_word(v, w, per_word, 1, word, to);
    word = put_word(v, w, per_word, 2, word, to);
    word = put_word(v, w, per_word, 3, word, to);
    if (per_word == 2)
        return;
    word = put_word(v, w, per_word, 4, word, to);
    word = put_word(v, w, per_word, 5, word, to);
    word = put_word(v, w, per_word, 6, word, to);
    put_word(v, w, per_word, 7, word, to);
}

/* ---- tops ---- */

/* Writes the tops of eight values, the last one first. */
AVX2_INLINE void put_tops(__m256i a, __m256i b, __m128i rest_bits, uint32_t top_bytes,
                          uint8_t *to)
{
    const char no = -1;
    /* Two bytes of each are of use: 0 4 . . 1 5 . . | 2 6 . . 3 7 . . */
    __m256i tops =
        _mm256_blend_epi16(_mm256_srl_epi64(a, rest_bits),
                           _mm256_slli_epi64(_mm256_srl_epi64(b, rest_bits), 16), 0xaa);
    __m256i order =
        top_bytes == 2
            /* . . 5 4 . . 1 0 | 7 6 . . 3 2 . . */
            ? _mm256_setr_epi8(no, no, no, no, 10, 11, 2, 3, no, no, no, no, 8, 9, 0, 1,
                               10, 11, 2, 3, no, no, no, no, 8, 9, 0, 1, no, no, no, no)
            : _mm256_setr_epi8(no, no, 10, 2, no, no, 8, 0, no, no, no, no, no, no, no,
                               no, 10, 2, no, no, 8, 0, no, no, no, no, no, no, no, no,
                               no, no);
    __m256i halves = _mm256_shuffle_epi8(tops, order);
    __m128i all = _mm_or_si128(_mm256_castsi256_si128(halves),
                               _mm256_extracti128_si256(halves, 1));
    if (top_bytes == 2)
        _mm_storeu_si128((__m128i *)(void *)to, all);
    else
        _mm_storel_epi64((__m128i *)(void *)to, all);
}

/* ---- unary ---- */

AVX2_INLINE void put_ones(struct unary *u, uint64_t ones, uint32_t n_bits)
{
    uint64_t word = u->word | ones << u->filled;
    uint32_t filled = u->filled + n_bits;
    store_word(u->at, word);
    u->at += filled / 8;
    u->word = word >> (filled & ~7U);
    u->filled = filled % 8;
}

/* A one and the zeros before it take so many bits. Returns those of four values up to
 * each. */
AVX2_INLINE __m256i bits_up_to(__m256i v, __m256i before, __m128i gap_bits)
{
    const __m256i one = _mm256_set1_epi64x(1);
    __m256i gap = _mm256_sub_epi64(_mm256_sub_epi64(v, before), one);
    __m256i bits = _mm256_add_epi64(_mm256_srl_epi64(gap, gap_bits), one);
    bits = _mm256_add_epi64(bits, _mm256_slli_si256(bits, 8));
    __m256i of_low = _mm256_permute4x64_epi64(bits, 0x50);
    return _mm256_add_epi64(bits,
                            _mm256_blend_epi32(_mm256_setzero_si256(), of_low, 0xf0));
}

AVX2_INLINE uint64_t last_of(__m256i v)
{
    return (uint64_t)_mm_extract_epi64(_mm256_extracti128_si256(v, 1), 1);
}

/* Ones at the ends of what bits_up_to() returned; less than 64 bits in all. */
AVX2_INLINE uint64_t ones_at(__m256i bits)
{
    __m256i ones = _mm256_sllv_epi64(_mm256_set1_epi64x(1), bits);
    __m128i both =
        _mm_or_si128(_mm256_castsi256_si128(ones), _mm256_extracti128_si256(ones, 1));
    both = _mm_or_si128(both, _mm_unpackhi_epi64(both, both));
    return (uint64_t)_mm_cvtsi128_si64(both) >> 1;
}

/* ---- pages ---- */

/* Ones of eight values. */
AVX2_INLINE void put_eight_ones(const uint64_t *v, __m256i a, __m256i b,
                                uint32_t gap_bits, struct unary *u)
{
    __m128i count = _mm_cvtsi32_si128((int)gap_bits);
    __m256i bits_a = bits_up_to(a, load_four(v - 1), count);
    __m256i bits_b = bits_up_to(b, load_four(v + 3), count);
    uint64_t n_a = last_of(bits_a), n_bits = n_a + last_of(bits_b);
    if (__builtin_expect(n_bits <= MOST_BITS, 1)) {
        put_ones(u, ones_at(bits_a) | ones_at(bits_b) << n_a, (uint32_t)n_bits);
        return;
    }
    for (const uint64_t *end = v + EIGHT; v < end; v++) {
        uint64_t zeros = zeros_of(v - 1, 1, gap_bits); /* < MOST_BITS */
        put_ones(u, UINT64_C(1) << zeros, (uint32_t)zeros + 1);
    }
}

AVX2_INLINE void put_page(const uint64_t *v, const struct list_page *p,
                          uint32_t top_bytes, uint32_t per_word, uint8_t *page)
{
    uint8_t buffer[UNARY_ROOM], *rests = page + p->rests_at;
    struct unary u = {buffer, 0, 0};
    struct rest_words w;
    uint32_t i = 1, n = p->n, gap_bits = p->gap_bits, rest_bits = p->rest_bits;
    rest_words_of(rest_bits, per_word, &w);
    for (; n - i >= EIGHT; i += EIGHT) {
        __m256i a = load_four(v + i), b = load_four(v + i + 4);
        put_eight_ones(v + i, a, b, gap_bits, &u);
        put_rests(v + i, &w, per_word, rests);
        rests += rest_bits;
        put_tops(a, b, _mm_cvtsi32_si128((int)rest_bits), top_bytes,
                 page + PAGE_BYTES - top_bytes * (i + EIGHT - 1));
    }
    put_values(v, p, top_bytes, i, &u, page);
    put_unary(buffer, &u, p, page);
}

AVX2 size_t list_page_pack_avx2(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    enum { TWO_BITS = 28 }; /* two rests, and those of a byte that is begun, a word */
    struct list_page p = {0};
    if (!pack_begin(v, n, &p, page))
        return list_page_fill(v, n, page);
    if (p.top_bytes == 1)
        put_page(v, &p, 1, 2, page);
    else if (p.rest_bits <= TWO_BITS)
        put_page(v, &p, 2, 2, page);
    else
        put_page(v, &p, 2, 1, page);
    return p.n;
}
#endif
