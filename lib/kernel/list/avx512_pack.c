/* Sorted values to a page of a list, eight at a time, by AVX-512 and BMI2: as
 * avx2_pack.c, in whole vectors. */
#define CHOOSE_AT_ONCE 8
#include "lib/kernel/list/list_pack.h"

#if defined(__x86_64__)
#include "lib/kernel/list/list_rests.h"

#include <immintrin.h>

#define AVX512                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,popcnt")))
#define AVX512_INLINE AVX512 __attribute__((always_inline)) static inline

AVX512 bool list_values_rise_avx512(const uint64_t *v, size_t n)
{
    __mmask8 falls = 0;
    size_t i = 1;
    for (; i + EIGHT <= n; i += EIGHT)
        falls |= _mm512_cmple_epu64_mask(_mm512_loadu_si512(v + i),
                                         _mm512_loadu_si512(v + i - 1));
    return !falls && (i >= n || list_values_rise_plain(v + i - 1, n - i + 1));
}

/* Lanes move up by `by` places, and zeros come in. */
#define MOVED_UP(x, by)                                                                \
    _mm512_maskz_alignr_epi64((__mmask8)(0xff << (by)), x, x, EIGHT - (by))

/* ---- rests ---- */

/* Writes a word. */
AVX512_INLINE void put_narrow(__m512i x, const struct rests *r, uint8_t *to)
{
    __m512i rests = _mm512_and_si512(x, _mm512_set1_epi64((long long)r->mask));
    __m512i placed = _mm512_sllv_epi64(rests, _mm512_loadu_si512(r->narrow));
    store_word(to, (uint64_t)_mm512_reduce_or_epi64(placed));
}

AVX512_INLINE void store_half(uint8_t *to, __m128i half)
{
    _mm_storeu_si128((__m128i *)(void *)to, half);
}

/* Writes up to 15 bytes more. */
AVX512_INLINE void put_rests(__m512i x, const struct rests *r, uint8_t *to)
{
    __m512i rests = _mm512_and_si512(x, _mm512_set1_epi64((long long)r->mask));
    rests = _mm512_sllv_epi64(rests, _mm512_loadu_si512(r->shift));
    __m512i second = _mm512_shuffle_epi8(rests, _mm512_loadu_si512(r->second));
    __m512i halves = _mm512_mask_or_epi64(second, 0x55, second, rests);
    __m512i carried = _mm512_shuffle_epi8(MOVED_UP(halves, 2), /* a half */
                                          _mm512_loadu_si512(r->carried));
    halves = _mm512_or_si512(halves, carried);
    store_half(to, _mm512_castsi512_si128(halves));
    store_half(to + r->at[1], _mm512_extracti64x2_epi64(halves, 1));
    store_half(to + r->at[2], _mm512_extracti64x2_epi64(halves, 2));
    store_half(to + r->at[3], _mm512_extracti64x2_epi64(halves, 3));
}

/* ---- tops ---- */

/* Writes the tops of eight values, the last one first. */
AVX512_INLINE void put_tops(__m512i x, __m128i rest_bits, uint32_t top_bytes,
                            uint8_t *to)
{
    __m512i tops = _mm512_srl_epi64(x, rest_bits);
    if (top_bytes == 2)
        store_half(to, _mm_shuffle_epi8(_mm512_cvtepi64_epi16(tops),
                                        _mm_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6,
                                                      7, 4, 5, 2, 3, 0, 1)));
    else
        store_word(to, __builtin_bswap64(
                           (uint64_t)_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(tops))));
}

/* ---- unary ---- */

/* Ones of eight values. */
AVX512_INLINE void put_eight_ones(const uint64_t *v, __m512i x, __m128i gap_bits,
                                  struct unary *u)
{
    const __m512i one = _mm512_set1_epi64(1);
    __m512i gap = _mm512_sub_epi64(_mm512_sub_epi64(x, _mm512_loadu_si512(v - 1)), one);
    /* A one and the zeros before it, and all of them up to each. */
    __m512i bits = _mm512_add_epi64(_mm512_srl_epi64(gap, gap_bits), one);
    bits = _mm512_add_epi64(bits, MOVED_UP(bits, 1));
    bits = _mm512_add_epi64(bits, MOVED_UP(bits, 2));
    bits = _mm512_add_epi64(bits, MOVED_UP(bits, 4));
    uint64_t n_bits =
        (uint64_t)_mm_extract_epi64(_mm512_extracti64x2_epi64(bits, 3), 1);
    if (__builtin_expect(n_bits <= MOST_BITS, 1)) {
        __m512i ones = _mm512_sllv_epi64(one, bits);
        put_ones(u, (uint64_t)_mm512_reduce_or_epi64(ones) >> 1, (uint32_t)n_bits);
        return;
    }
    put_each_one(v, EIGHT, (uint32_t)_mm_cvtsi128_si32(gap_bits), u);
}

/* ---- pages ---- */

AVX512_INLINE void put_page(const uint64_t *v, const struct list_page *p,
                            uint32_t top_bytes, uint8_t *page)
{
    uint8_t buffer[UNARY_ROOM], *to = page + p->rests_at;
    struct unary u = {buffer, 0, 0};
    struct rests r;
    uint32_t i = 1, n = p->n, rest_bits = p->rest_bits;
    __m128i gap_count = _mm_cvtsi32_si128((int)p->gap_bits),
            rest_count = _mm_cvtsi32_si128((int)rest_bits);
    rests_of(rest_bits, &r);
    for (; n - i >= EIGHT; i += EIGHT) {
        __m512i x = _mm512_loadu_si512(v + i);
        put_eight_ones(v + i, x, gap_count, &u);
        if (rest_bits <= NARROW_BITS)
            put_narrow(x, &r, to);
        else
            put_rests(x, &r, to);
        to += rest_bits;
        put_tops(x, rest_count, top_bytes,
                 page + PAGE_BYTES - top_bytes * (i + EIGHT - 1));
    }
    put_values(v, p, top_bytes, i, &u, page);
    put_unary(buffer, &u, p, page);
}

AVX512 size_t list_page_pack_avx512(const uint64_t *v, size_t n,
                                    uint8_t page[PAGE_BYTES])
{
    PACK_PAGE(v, n, page);
}
#endif
