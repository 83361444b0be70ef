/* What AVX2 and AVX-512 have in common: where the rests of eight values lie in a page
 * that is read, and whether a group has a top. Eight rests have as many bytes as a rest
 * has bits: so the places of all eight within these are the same in the whole page, and
 * are found once. avx2.c has the same for a page that is written. */
#ifndef TAMIS_LIST_EIGHTS_H
#define TAMIS_LIST_EIGHTS_H

#include "lib/kernel/list/list_spot.h"

#include <immintrin.h>

enum {
    EIGHT = 8,
    LEAST_MORE = 64, /* then loads of whole vectors stay within the page */
    WORD_BITS = 64,
    PLACES = 16, /* of ones that are found at once, or fewer */
};

struct rests {
    uint32_t at[EIGHT / 2]; /* bytes of 16 with two rests each */
    uint64_t bytes[EIGHT];  /* a word for each rest, which begins in its first byte, */
    uint64_t shift[EIGHT];  /* with this bit */
    uint64_t mask;
};

static inline void rests_at(uint32_t rest_bits, struct rests *r)
{
    const uint64_t one = UINT64_C(0x0101010101010101);
    for (uint32_t i = 0; i < EIGHT; i++) {
        uint32_t bit = i * rest_bits, begin = i / 2 * 2 * rest_bits / 8;
        r->at[i / 2] = begin;
        r->bytes[i] = UINT64_C(0x0706050403020100) + (bit / 8 - begin) * one;
        r->shift[i] = bit % 8;
    }
    r->mask = (UINT64_C(1) << rest_bits) - 1;
}

__attribute__((target("avx2"))) GROUP_INLINE bool
has_top_avx2(const uint8_t *tops, uint32_t top_bytes, uint32_t top)
{
    const __m256i *at = (const __m256i *)(const void *)tops;
    __m256i same, a = _mm256_loadu_si256(at), b = _mm256_loadu_si256(at + 1);
    if (top_bytes == 2) {
        __m256i want = _mm256_set1_epi16((short)top);
        same =
            _mm256_or_si256(_mm256_cmpeq_epi16(a, want), _mm256_cmpeq_epi16(b, want));
        a = _mm256_loadu_si256(at + 2), b = _mm256_loadu_si256(at + 3);
        same = _mm256_or_si256(same, _mm256_cmpeq_epi16(a, want));
        same = _mm256_or_si256(same, _mm256_cmpeq_epi16(b, want));
    } else {
        __m256i want = _mm256_set1_epi8((char)top);
        same = _mm256_or_si256(_mm256_cmpeq_epi8(a, want), _mm256_cmpeq_epi8(b, want));
    }
    return !_mm256_testz_si256(same, same);
}

#endif
