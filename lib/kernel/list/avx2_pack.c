/* Sorted values to a page of a list, eight at a time, by AVX2 and BMI2.
 *
 * Ones of unary are set at sums of the gaps before them. Zeros of one gap are few, but
 * those of eight may be more than a word: then each one is put by itself. */
#include "lib/kernel/list/list_pack.h"

#if defined(__x86_64__)
#include "lib/kernel/list/list_rests.h"

#include <immintrin.h>

#define AVX2        __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define AVX2_INLINE AVX2 __attribute__((always_inline)) static inline

AVX2_INLINE __m256i load_four(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

AVX2 bool list_values_rise_avx2(const uint64_t *v, size_t n)
{
    const __m256i top =
        _mm256_set1_epi64x(INT64_MIN); /* for compares that have signs */
    __m256i rise = _mm256_set1_epi64x(-1);
    size_t i = 1;
    for (; i + 4 <= n; i += 4) {
        __m256i here = _mm256_xor_si256(load_four(v + i), top);
        __m256i before = _mm256_xor_si256(load_four(v + i - 1), top);
        rise = _mm256_and_si256(rise, _mm256_cmpgt_epi64(here, before));
    }
    return _mm256_movemask_epi8(rise) == -1 &&
           (i >= n || list_values_rise_plain(v + i - 1, n - i + 1));
}

/* ---- rests ---- */

AVX2_INLINE uint64_t or_of(__m256i v)
{
    __m128i both =
        _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_or_si128(both, _mm_unpackhi_epi64(both, both)));
}

/* Writes a word. */
AVX2_INLINE void put_narrow(__m256i a, __m256i b, const struct rests *r, uint8_t *to)
{
    __m256i mask = _mm256_set1_epi64x((long long)r->mask);
    a = _mm256_sllv_epi64(_mm256_and_si256(a, mask), load_four(r->narrow));
    b = _mm256_sllv_epi64(_mm256_and_si256(b, mask), load_four(r->narrow + 4));
    store_word(to, or_of(_mm256_or_si256(a, b)));
}

/* The rests of four values, in two halves. */
AVX2_INLINE __m256i two_halves(__m256i v, const struct rests *r, int half)
{
    __m256i mask = _mm256_set1_epi64x((long long)r->mask);
    __m256i rests =
        _mm256_sllv_epi64(_mm256_and_si256(v, mask), load_four(r->shift + 2 * half));
    __m256i first = _mm256_blend_epi32(rests, _mm256_setzero_si256(), 0xcc);
    return _mm256_or_si256(first,
                           _mm256_shuffle_epi8(rests, load_four(r->second[half])));
}

AVX2_INLINE void store_half(uint8_t *to, __m128i half)
{
    _mm_storeu_si128((__m128i *)(void *)to, half);
}

/* Writes up to 15 bytes more. */
AVX2_INLINE void put_rests(__m256i a, __m256i b, const struct rests *r, uint8_t *to)
{
    a = two_halves(a, r, 0);
    b = two_halves(b, r, 2);
    __m256i before_a = _mm256_permute2x128_si256(a, a, 0x08); /* zero, a's first */
    __m256i before_b =
        _mm256_permute2x128_si256(a, b, 0x21); /* a's second, b's first */
    a = _mm256_or_si256(a, _mm256_shuffle_epi8(before_a, load_four(r->carried[0])));
    b = _mm256_or_si256(b, _mm256_shuffle_epi8(before_b, load_four(r->carried[2])));
    store_half(to, _mm256_castsi256_si128(a));
    store_half(to + r->at[1], _mm256_extracti128_si256(a, 1));
    store_half(to + r->at[2], _mm256_castsi256_si128(b));
    store_half(to + r->at[3], _mm256_extracti128_si256(b, 1));
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

/* How many bits do a one and the zeros before it take, for four values, up to each? */
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
    return or_of(_mm256_sllv_epi64(_mm256_set1_epi64x(1), bits)) >> 1;
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
    put_each_one(v, EIGHT, gap_bits, u);
}

AVX2_INLINE void put_page(const uint64_t *v, const struct list_page *p,
                          uint32_t top_bytes, uint8_t *page)
{
    uint8_t buffer[UNARY_ROOM], *to = page + p->rests_at;
    struct unary u = {buffer, 0, 0};
    struct rests r;
    uint32_t i = 1, n = p->n, gap_bits = p->gap_bits, rest_bits = p->rest_bits;
    rests_of(rest_bits, &r);
    for (; n - i >= EIGHT; i += EIGHT) {
        __m256i a = load_four(v + i), b = load_four(v + i + 4);
        put_eight_ones(v + i, a, b, gap_bits, &u);
        if (rest_bits <= NARROW_BITS)
            put_narrow(a, b, &r, to);
        else
            put_rests(a, b, &r, to);
        to += rest_bits;
        put_tops(a, b, _mm_cvtsi32_si128((int)rest_bits), top_bytes,
                 page + PAGE_BYTES - top_bytes * (i + EIGHT - 1));
    }
    put_values(v, p, top_bytes, i, &u, page);
    put_unary(buffer, &u, p, page);
}

AVX2 size_t list_page_pack_avx2(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    PACK_PAGE(v, n, page);
}
#endif
