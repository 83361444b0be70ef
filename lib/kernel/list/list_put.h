/* Values into a page: the same for each instruction set, inlined into its
 * list_page_pack().
 *
 *     zeros of three widths of gaps, summed at once --> which width, how many values
 *     rest, unary and top of each value             --> the page
 *
 * Pages that are odd in any way are left to list_page_fill(): few values, gaps that are
 * wide compared with the others. */
#ifndef TAMIS_LIST_PUT_H
#define TAMIS_LIST_PUT_H

#include "lib/kernel/list/list_spot.h"

#define PACK_INLINE __attribute__((always_inline)) static inline

enum {
    WIDTHS = 3,
    LEAST_VALUES = 256,
    GROUP = 128,
    MOST_BITS = 56, /* with those of a byte that is begun, a word */
};

/* Gaps that are taken at once. Compilers split them for shorter vectors. */
enum { CHOOSE_AT_ONCE = 4 };
typedef uint64_t word_vector
    __attribute__((vector_size(CHOOSE_AT_ONCE * sizeof(uint64_t))));

/* The gaps before these values, less one. Through a pointer: gcc warns of a vector that
 * is returned. */
PACK_INLINE void gaps_of(const uint64_t *v, word_vector *gaps)
{
    word_vector here, before;
    memcpy(&here, v, sizeof here);
    memcpy(&before, v - 1, sizeof before);
    *gaps = here - before - 1;
}

struct zeros {
    uint64_t before[WIDTHS]; /* in unary, of all values so far */
    uint64_t any;            /* all counts of the least width, or-ed */
};

/* Adds those of the values 1 .. GROUP, for gaps of g, g + 1 and g + 2 bits. */
PACK_INLINE void add_group(const uint64_t *v, uint32_t g, struct zeros *z)
{
    word_vector sum[WIDTHS] = {{0}}, any = {0};
    for (size_t i = 1; i <= GROUP; i += CHOOSE_AT_ONCE) {
        word_vector zeros;
        gaps_of(v + i, &zeros);
        zeros >>= g;
        any |= zeros;
        sum[0] += zeros;
        sum[1] += zeros >> 1;
        sum[2] += zeros >> 2;
    }
    for (size_t k = 0; k < CHOOSE_AT_ONCE; k++) {
        for (size_t w = 0; w < WIDTHS; w++)
            z->before[w] += sum[w][k];
        z->any |= any[k];
    }
}

PACK_INLINE uint64_t zeros_of(const uint64_t *v, size_t i, uint32_t gap_bits)
{
    return (v[i] - v[i - 1] - 1) >> gap_bits;
}

/* How many values fit, by whole groups, with each width; *at gets their zeros. Returns
 * what their zeros or to. */
PACK_INLINE uint64_t take_groups(const uint64_t *v, uint32_t n_more, uint32_t g,
                                 uint32_t taken[WIDTHS], uint64_t at[WIDTHS])
{
    struct zeros z = {{0}, 0};
    unsigned open = (1U << WIDTHS) - 1;
    for (uint32_t done = 0; open && done + GROUP <= n_more; done += GROUP) {
        add_group(v + done, g, &z);
        for (uint32_t w = 0; w < WIDTHS; w++) {
            if (!(open >> w & 1))
                continue;
            if (list_page_fits(done + GROUP, g + w, z.before[w])) {
                taken[w] = done + GROUP;
                at[w] = z.before[w];
            } else {
                open &= ~(1U << w);
            }
        }
    }
    return z.any;
}

/* Adds the zeros of the values 1 .. n, a power of two. */
PACK_INLINE void sum_zeros(const uint64_t *v, uint32_t n, uint32_t gap_bits,
                           uint64_t *sum, uint64_t *any)
{
    word_vector sums = {0}, all = {0};
    for (uint32_t i = 1; n >= CHOOSE_AT_ONCE && i <= n; i += CHOOSE_AT_ONCE) {
        word_vector zeros;
        gaps_of(v + i, &zeros);
        zeros >>= gap_bits;
        sums += zeros;
        all |= zeros;
    }
    for (size_t k = 0; k < CHOOSE_AT_ONCE; k++) {
        *sum += sums[k];
        *any |= all[k];
    }
    for (uint32_t i = 1; n < CHOOSE_AT_ONCE && i <= n; i++) {
        *sum += zeros_of(v, i, gap_bits);
        *any |= zeros_of(v, i, gap_bits);
    }
}

/* How many more values fit, fewer than a group. Returns what their zeros or to. */
PACK_INLINE uint64_t take_more(const uint64_t *v, uint32_t n_more, uint32_t gap_bits,
                               uint32_t *taken, uint64_t *at)
{
    uint64_t any = 0;
    for (uint32_t some = GROUP / 2; some > 0; some /= 2) {
        uint64_t more = 0; /* below 2^56 each */
        if (*taken + some > n_more)
            continue;
        sum_zeros(v + *taken, some, gap_bits, &more, &any);
        if (list_page_fits(*taken + some, gap_bits, *at + more)) {
            *taken += some;
            *at += more;
        }
    }
    return any;
}

/* The width that takes most of the n_more values after the first, and how many. It
 * tries the widths around the mean gap, as list_page_fill() does. 0: an odd page. */
PACK_INLINE uint32_t choose(const uint64_t *v, uint32_t n_more, uint32_t *gap_bits)
{
    enum { SAMPLE = 512 };
    uint32_t sample = n_more < SAMPLE ? n_more : SAMPLE, taken[WIDTHS] = {0}, best = 0;
    uint64_t mean = (v[sample] - v[0]) / sample, at[WIDTHS] = {0};
    uint32_t log2 = 63 - (uint32_t)__builtin_clzll(mean | 1), g = log2 - 1;
    if (log2 <= LIST_GAP_BITS_MIN || log2 + 1 > LIST_GAP_BITS_MAX)
        return 0;
    uint64_t any = take_groups(v, n_more, g, taken, at);
    for (uint32_t w = 0; w < WIDTHS; w++) {
        if (taken[w] + GROUP <= best) /* less than a group may follow */
            continue;
        any |= take_more(v, n_more, g + w, &taken[w], &at[w]) << w;
        if (taken[w] > best) {
            best = taken[w];
            *gap_bits = g + w;
        }
    }
    return best && any >> (*gap_bits - g) < MOST_BITS ? best : 0;
}

/* Chooses, and writes the head of the page. False: an odd page. */
PACK_INLINE bool pack_begin(const uint64_t *v, size_t n, struct list_page *p,
                            uint8_t page[PAGE_BYTES])
{
    if (n < LEAST_VALUES)
        return false;
    n = n < LIST_PAGE_MAX_HASHES ? n : LIST_PAGE_MAX_HASHES;
    uint32_t n_more = choose(v, (uint32_t)n - 1, &p->gap_bits);
    if (n_more < LEAST_VALUES / 2)
        return false;
    p->n = n_more + 1;
    list_page_begin(v, p, page);
    return true;
}

/* ---- values, one by one ---- */

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

/* The values from i on, before which a whole byte of rests ends. Rests and unary wait
 * for those of the value before, each for its own: so one loop writes both. Rests are
 * written eight bytes at a time, over what comes later: they may run into the room for
 * unary, of 16 bytes at least. top_bytes is a constant in each call. Each value has
 * less than MOST_BITS zeros. */
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
