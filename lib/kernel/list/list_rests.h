/* Where the rests of eight values lie: places within whole bytes, as many as a rest has
 * bits. So they are the same in the whole page, and no eight waits for those before.
 *
 * Two rests are put to a half of a vector, which begins in a byte of its own or in the
 * last one of the half before. Narrow rests, of which eight fit a word, are put
 * together by their shifts alone. */
#ifndef TAMIS_LIST_RESTS_H
#define TAMIS_LIST_RESTS_H

#include "lib/kernel/list/list_put.h"

enum { EIGHT = 8, HALVES = 4, HALF_BYTES = 16, NARROW_BITS = 8 };

struct rests {
    uint64_t mask;
    uint64_t narrow[EIGHT];              /* the bit of a word where each begins */
    uint64_t shift[EIGHT];               /* the bit of its first byte */
    uint8_t second[HALVES][HALF_BYTES];  /* moves the second of a half to its byte */
    uint8_t carried[HALVES][HALF_BYTES]; /* moves the byte that two halves share */
    uint32_t at[HALVES];                 /* the byte where a half begins */
};

PACK_INLINE void rests_of(uint32_t rest_bits, struct rests *r)
{
    const uint8_t none = 0xff;
    memset(r->carried, none, sizeof r->carried);
    r->mask = (UINT64_C(1) << rest_bits) - 1;
    for (uint32_t i = 0; i < EIGHT; i++) {
        r->narrow[i] = i * rest_bits;
        r->shift[i] = i * rest_bits % 8;
    }
    for (uint32_t half = 0; half < HALVES; half++) {
        uint32_t bit = 2 * half * rest_bits, to = (bit + rest_bits) / 8 - bit / 8;
        r->at[half] = bit / 8;
        for (uint32_t i = 0; i < HALF_BYTES; i++)
            r->second[half][i] = i >= to && i < to + 8 ? (uint8_t)(8 + i - to) : none;
        if (half > 0)
            r->carried[half][0] = (uint8_t)(r->at[half] - r->at[half - 1]);
    }
}

#endif
