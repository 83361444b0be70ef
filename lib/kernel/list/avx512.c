/* The list kernel for x86-64 with AVX-512: as avx2.c, in whole vectors. It writes pages
 * as AVX2 does, which is as fast, nearly. */
#include "lib/kernel/list/list_spot.h"

#if defined(__x86_64__)
#include "lib/kernel/list/list_eights.h"

#define KERNEL                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,popcnt")))
#define KERNEL_INLINE KERNEL GROUP_INLINE

/* Places in unary of the ones of n_more hashes. False: it has fewer. Writes up to
 * WORD_BITS + PLACES more. */
KERNEL_INLINE bool find_ones(const uint8_t *page, const struct list_page *p,
                             uint32_t *places)
{
    uint32_t n_more = p->n - 1, n = 0;
    __m512i at = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (uint32_t bit = 0; n < n_more; bit += WORD_BITS) {
        if (bit >= p->unary_bits)
            return false;
        uint64_t word;
        memcpy(&word, page + p->unary_at + bit / 8, sizeof word);
        if (p->unary_bits - bit < WORD_BITS)
            word = low_bits(word, p->unary_bits - bit);
        for (uint32_t i = 0; i < WORD_BITS; i += PLACES, word >>= PLACES) {
            __m512i found = _mm512_maskz_compress_epi32((__mmask16)word, at);
            _mm512_storeu_si512(places + n, found);
            n += (uint32_t)__builtin_popcountll(word & 0xffff);
            at = _mm512_add_epi32(at, _mm512_set1_epi32(PLACES));
        }
    }
    return true;
}

/* ---- low parts ---- */

KERNEL_INLINE __m128i load_quarter(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

KERNEL_INLINE __m512i eight_rests(const uint8_t *at, const struct rests *r)
{
    __m512i bytes = _mm512_castsi128_si512(load_quarter(at + r->at[0]));
    bytes = _mm512_inserti64x2(bytes, load_quarter(at + r->at[1]), 1);
    bytes = _mm512_inserti64x2(bytes, load_quarter(at + r->at[2]), 2);
    bytes = _mm512_inserti64x2(bytes, load_quarter(at + r->at[3]), 3);
    __m512i words = _mm512_shuffle_epi8(bytes, _mm512_loadu_si512(r->bytes));
    words = _mm512_srlv_epi64(words, _mm512_loadu_si512(r->shift));
    return _mm512_and_si512(words, _mm512_set1_epi64((long long)r->mask));
}

/* Tops of eight hashes; they lie the last one first. */
KERNEL_INLINE __m512i eight_tops(const uint8_t *at, uint32_t top_bytes)
{
    uint64_t word;
    if (top_bytes == 2)
        return _mm512_cvtepu16_epi64(_mm_shuffle_epi8(
            load_quarter(at),
            _mm_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1)));
    memcpy(&word, at, sizeof word);
    word = __builtin_bswap64(word);
    return _mm512_cvtepu8_epi64(_mm_cvtsi64_si128((long long)word));
}

/* ---- values ---- */

struct decoding {
    __m512i before; /* low parts of the eight before */
    uint64_t base;  /* of the high parts of the next eight */
    __m128i gap_bits, rest_bits;
};

/* High and low parts of the next eight hashes become values. Where a low part does not
 * grow, the high part takes a step that unary does not have. */
KERNEL_INLINE __m512i eight_values(struct decoding *d, const uint32_t *places,
                                   __m512i low, __m512i *high)
{
    const uint64_t one = UINT64_C(0x0101010101010101);
    __m512i before = _mm512_alignr_epi64(low, d->before, EIGHT - 1);
    __mmask8 steps = _mm512_cmple_epu64_mask(low, before);
    /* How many steps, up to each: a byte has the sum of those up to it. */
    uint64_t up_to = _pdep_u64(steps, one) * one;
    __m512i place = _mm512_cvtepu32_epi64(
        _mm256_loadu_si256((const __m256i *)(const void *)places));
    __m512i step = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128((long long)up_to));
    *high = _mm512_add_epi64(_mm512_add_epi64(place, step),
                             _mm512_set1_epi64((long long)d->base));
    *high = _mm512_sub_epi64(*high, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    d->before = low;
    d->base += (up_to >> 56) - EIGHT; /* unary has eight ones meanwhile */
    return _mm512_or_si512(_mm512_sll_epi64(*high, d->gap_bits), low);
}

/* The eight hashes from i on. */
KERNEL_INLINE __m512i values_at(const uint8_t *page, const struct list_page *p,
                                uint32_t top_bytes, const struct rests *r, uint32_t i,
                                const uint32_t *places, struct decoding *d,
                                __m512i *high)
{
    const uint8_t *rests = page + p->rests_at + (i - 1) / EIGHT * p->rest_bits;
    const uint8_t *tops = page + PAGE_BYTES - top_bytes * (i + EIGHT - 1);
    __m512i top = _mm512_sll_epi64(eight_tops(tops, top_bytes), d->rest_bits);
    return eight_values(d, places + i - 1, _mm512_or_si512(top, eight_rests(rests, r)),
                        high);
}

/* All values of a page whose tops have top_bytes bytes, a constant in each call. */
KERNEL_INLINE bool page_values(const uint8_t *page, uint32_t hash_bits,
                               const struct list_page *p, uint32_t top_bytes,
                               const uint32_t *places, uint64_t *values)
{
    struct rests r;
    uint64_t last_high[EIGHT];
    struct decoding d = {_mm512_set1_epi64((long long)low_bits(p->first, p->gap_bits)),
                         p->first >> p->gap_bits, _mm_cvtsi32_si128((int)p->gap_bits),
                         _mm_cvtsi32_si128((int)p->rest_bits)};
    __m512i high;
    uint32_t i = 1, n = p->n;
    rests_at(p->rest_bits, &r);
    values[0] = p->first;
    for (; n - i > EIGHT; i += EIGHT)
        _mm512_storeu_si512(values + i,
                            values_at(page, p, top_bytes, &r, i, places, &d, &high));
    __m512i last = values_at(page, p, top_bytes, &r, i, places, &d, &high);
    _mm512_mask_storeu_epi64(values + i, (__mmask8)(0xff >> (EIGHT - (n - i))), last);
    _mm512_storeu_si512(last_high, high);
    /* All lie below the last one, which must be within hash_bits. */
    return last_high[n - 1 - i] <= list_max(hash_bits) >> p->gap_bits &&
           values[n - 1] <= list_max(hash_bits);
}

KERNEL_INLINE bool two_groups_avx512(const uint8_t *a, const uint8_t *b, uint32_t top)
{
    __m512i want = _mm512_set1_epi16((short)top);
    __mmask32 in_a = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(a), want) |
                     _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(a + 64), want);
    __mmask32 in_b = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(b), want) |
                     _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(b + 64), want);
    return (in_a | in_b) != 0;
}

#define HAS_TOP     has_top_avx2
#define TWO_GROUPS  two_groups_avx512
#define LIST_KERNEL list_avx512
#define PLACE       uint32_t
#define LIST_PACK   list_page_pack_avx2
#define LIST_RISE   list_values_rise_avx2
#include "lib/kernel/list/list_spots.h"
#endif
