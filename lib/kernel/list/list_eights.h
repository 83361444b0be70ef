/* Where the rests of eight values lie in a page that is read. Eight rests have as many
 * bytes as a rest has bits: so the places of all eight within these are the same in the
 * whole page, and are found once. list_rests.h has the same for a page that is written.
 */
#ifndef TAMIS_LIST_EIGHTS_H
#define TAMIS_LIST_EIGHTS_H

#include "format/list.h"

enum {
    EIGHT = 8,
    LEAST_MORE = 64, /* then loads of whole vectors stay within the page */
    WORD_BITS = 64,
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

#endif
