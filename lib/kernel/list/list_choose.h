/* How many values a page takes, and with which width of gaps: the same for each
 * instruction set, inlined into its list_page_pack().
 *
 *     zeros of three widths of gaps, summed at once --> which width, how many values
 *
 * Pages that are odd in any way are left to list_page_fill(): few values, gaps that are
 * wide compared with the others. */
#ifndef TAMIS_LIST_CHOOSE_H
#define TAMIS_LIST_CHOOSE_H

#include "lib/kernel/list/list_pack.h"

#define PACK_INLINE __attribute__((always_inline)) static inline

enum {
    WIDTHS = 3,
    LEAST_VALUES = 256,
    GROUP = 128,
    MOST_BITS = 56, /* with those of a byte that is begun, a word */
};

/* Gaps that are taken at once. Compilers split them for shorter vectors. */
#ifndef CHOOSE_AT_ONCE
#define CHOOSE_AT_ONCE 4
#endif
typedef uint64_t words __attribute__((vector_size(CHOOSE_AT_ONCE * sizeof(uint64_t))));

/* The gaps before these values, less one. Through a pointer: gcc warns of a vector that
 * is returned. */
PACK_INLINE void gaps_of(const uint64_t *v, words *gaps)
{
    words here, before;
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
    words sum[WIDTHS] = {{0}}, any = {0};
    for (size_t i = 1; i <= GROUP; i += CHOOSE_AT_ONCE) {
        words zeros;
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
    words sums = {0}, all = {0};
    for (uint32_t i = 1; n >= CHOOSE_AT_ONCE && i <= n; i += CHOOSE_AT_ONCE) {
        words zeros;
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

#endif
