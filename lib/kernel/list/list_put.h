/* Values into a page, one by one: the same for each instruction set, inlined into its
 * list_page_pack().
 *
 *     rest, unary and top of each value --> the page
 *
 * Rests and unary wait for those of the value before, each for its own: so one loop
 * writes both. */
#ifndef TAMIS_LIST_PUT_H
#define TAMIS_LIST_PUT_H

#include "lib/kernel/list/list_choose.h"

/* Little-endian, in one store: compilers make a loop of le64_of() here. */
PACK_INLINE void store_word(uint8_t *to, uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(to, &word, sizeof word);
}

PACK_INLINE void put_top(uint8_t *to, uint32_t n_bytes, uint64_t top)
{
    to[0] = (uint8_t)top;
    if (n_bytes == 2)
        to[1] = (uint8_t)(top >> 8);
}

/* Unary on its way to a buffer. A struct of its own, so that compilers see that stores
 * to bytes do not change it. */
struct unary {
    uint8_t *at;     /* the byte that is begun */
    uint64_t word;   /* what it has */
    uint32_t filled; /* bits of it, 0..7 */
};

/* Unary is written eight bytes at a time, and some more. */
enum { UNARY_ROOM = PAGE_BYTES + 2 * sizeof(uint64_t) };

/* The last of n_bits is a one. */
PACK_INLINE void put_ones(struct unary *u, uint64_t ones, uint32_t n_bits)
{
    uint64_t word = u->word | ones << u->filled;
    uint32_t filled = u->filled + n_bits;
    store_word(u->at, word);
    u->at += filled / 8;
    u->word = word >> (filled & ~7U);
    u->filled = filled % 8;
}

/* Puts the ones of n values, whose zeros may be more than a word in all. */
PACK_INLINE void put_each_one(const uint64_t *v, uint32_t n, uint32_t gap_bits,
                              struct unary *u)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t zeros = zeros_of(v - 1, i + 1, gap_bits); /* < MOST_BITS */
        put_ones(u, UINT64_C(1) << zeros, (uint32_t)zeros + 1);
    }
}

/* The values from i on, before which a whole byte of rests ends. Rests are written
 * eight bytes at a time, over what comes later: they may run into the room for unary,
 * of 16 bytes at least. top_bytes is a constant in each call. Each value has less than
 * MOST_BITS zeros. */
PACK_INLINE void put_values(const uint64_t *v, const struct list_page *p,
                            uint32_t top_bytes, uint32_t i, struct unary *u,
                            uint8_t *page)
{
    uint32_t n = p->n, rest_bits = p->rest_bits, gap_bits = p->gap_bits;
    uint8_t *rests = page + p->rests_at + (i - 1) / 8 * rest_bits;
    uint8_t *ones = u->at, *top = page + PAGE_BYTES - top_bytes * (i - 1);
    uint64_t rest_mask = (UINT64_C(1) << rest_bits) - 1, rest_word = 0;
    uint64_t one_word = u->word;
    uint32_t rest_filled = 0, one_filled = u->filled;
    for (; i < n; i++) {
        rest_word |= (v[i] & rest_mask) << rest_filled;
        rest_filled += rest_bits;
        store_word(rests, rest_word);
        rests += rest_filled / 8;
        rest_word >>= rest_filled & ~7U;
        rest_filled %= 8;

        one_filled += (uint32_t)zeros_of(v, i, gap_bits);
        one_word |= UINT64_C(1) << one_filled;
        one_filled++;
        store_word(ones, one_word);
        ones += one_filled / 8;
        one_word = one_word >> (one_filled & 56) & -(uint64_t)(one_filled < 64);
        one_filled %= 8;

        top -= top_bytes;
        put_top(top, top_bytes, v[i] >> rest_bits);
    }
    *u = (struct unary){ones, one_word, one_filled};
}

/* The body of a list_page_pack(), by the put_page() of its file. A macro, so that all
 * of it has the instructions of the function that it is in. */
#define PACK_PAGE(v, n, page)                                                          \
    struct list_page p = {0};                                                          \
    if (!pack_begin(v, n, &p, page))                                                   \
        return list_page_fill(v, n, page);                                             \
    if (p.top_bytes == 1)                                                              \
        put_page(v, &p, 1, page);                                                      \
    else                                                                               \
        put_page(v, &p, 2, page);                                                      \
    return p.n

/* The buffer of unary to its place, and zeros behind it. */
PACK_INLINE void put_unary(const uint8_t *buffer, const struct unary *u,
                           const struct list_page *p, uint8_t *page)
{
    size_t n_bytes = (size_t)(u->at - buffer) + (u->filled > 0);
    memcpy(page + p->unary_at, buffer, n_bytes);
    memset(page + p->unary_at + n_bytes, 0, p->unary_bits / 8 - n_bytes);
}

#endif
