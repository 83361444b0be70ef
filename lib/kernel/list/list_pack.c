/* Sorted values to a page of a list (format/list.h), some values at a time.
 *
 *     zeros of three widths of gaps, summed at once     which width, how many values
 *     rest, unary and top of each value                 the page
 *
 * Rests and unary wait for those of the value before, each for its own: so one loop
 * writes both. Pages that are odd in any way are left to list_page_fill(): few values,
 * gaps that are wide compared with the others. */
#include "lib/kernel/list/list_pack.h"

enum {
    WIDTHS = 3,
    LEAST_VALUES = 256,
    GROUP = 64,
    MOST_BITS = 56, /* with those of a byte that is begun, a word */
};

/* Two values at once, as each of our processors can. */
typedef uint64_t pair __attribute__((vector_size(16)));

static inline pair load_pair(const uint64_t *at)
{
    pair p;
    memcpy(&p, at, sizeof p);
    return p;
}

struct zeros {
    uint64_t before[WIDTHS]; /* in unary, of all values so far */
    uint64_t any;            /* all counts of the least width, or-ed */
};

/* Adds those of the values 1 .. GROUP, for gaps of g, g + 1 and g + 2 bits. */
static inline void add_group(const uint64_t *v, uint32_t g, struct zeros *z)
{
    pair sum[WIDTHS] = {{0}}, any = {0};
    for (size_t i = 1; i <= GROUP; i += 2) {
        pair gap = load_pair(v + i) - load_pair(v + i - 1) - 1;
        pair zeros = gap >> g;
        any |= zeros;
        sum[0] += zeros;
        sum[1] += zeros >> 1;
        sum[2] += zeros >> 2;
    }
    for (size_t w = 0; w < WIDTHS; w++)
        z->before[w] += sum[w][0] + sum[w][1];
    z->any |= any[0] | any[1];
}

static inline uint64_t zeros_of(const uint64_t *v, size_t i, uint32_t gap_bits)
{
    return (v[i] - v[i - 1] - 1) >> gap_bits;
}

/* The width that takes most of the n_more values after the first, and how many. Of the
 * widths around the mean gap, as list_page_fill() has them. 0: an odd page. */
static uint32_t choose(const uint64_t *v, uint32_t n_more, uint32_t *gap_bits)
{
    enum { SAMPLE = 512 };
    uint32_t sample = n_more < SAMPLE ? n_more : SAMPLE, taken[WIDTHS] = {0}, best = 0;
    uint64_t mean = (v[sample] - v[0]) / sample, at_taken[WIDTHS] = {0};
    uint32_t log2 = 63 - (uint32_t)__builtin_clzll(mean | 1), g = log2 - 1;
    if (log2 <= LIST_GAP_BITS_MIN || log2 + 1 > LIST_GAP_BITS_MAX)
        return 0;
    struct zeros z = {{0}, 0};
    unsigned open = (1U << WIDTHS) - 1;
    for (uint32_t done = 0; open && done + GROUP <= n_more; done += GROUP) {
        add_group(v + done, g, &z);
        for (uint32_t w = 0; w < WIDTHS; w++) {
            if (!(open >> w & 1))
                continue;
            if (list_page_fits(done + GROUP, g + w, z.before[w])) {
                taken[w] = done + GROUP;
                at_taken[w] = z.before[w];
            } else {
                open &= ~(1U << w);
            }
        }
    }
    for (uint32_t w = 0; w < WIDTHS; w++) {
        for (; taken[w] < n_more; taken[w]++) {
            uint64_t more = zeros_of(v, taken[w] + 1, g + w); /* below 2^56 */
            z.any |= more << w;
            if (!list_page_fits(taken[w] + 1, g + w, at_taken[w] + more))
                break;
            at_taken[w] += more;
        }
        if (taken[w] > best) {
            best = taken[w];
            *gap_bits = g + w;
        }
    }
    return z.any >> (*gap_bits - g) < MOST_BITS ? best : 0;
}

/* Little-endian, in one store: compilers make a loop of le64_of() here. */
static inline void store_word(uint8_t *to, uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(to, &word, sizeof word);
}

__attribute__((always_inline)) static inline void put_top(uint8_t *to, uint32_t n_bytes,
                                                          uint64_t top)
{
    to[0] = (uint8_t)top;
    if (n_bytes == 2)
        to[1] = (uint8_t)(top >> 8);
}

/* Both are written eight bytes at a time, over what comes later: so rests may run into
 * the room for unary, of 16 bytes at least, and unary waits in a buffer. Tops have so
 * many bytes: a constant where this is called. Zeros are less than MOST_BITS each. */
__attribute__((always_inline)) static inline void put_values(const uint64_t *v,
                                                             const struct list_page *p,
                                                             uint32_t top_bytes,
                                                             uint8_t page[PAGE_BYTES])
{
    uint8_t unary[PAGE_BYTES + sizeof(uint64_t)], *ones = unary;
    uint8_t *rests = page + p->rests_at, *top = page + PAGE_BYTES;
    uint32_t n = p->n, rest_bits = p->rest_bits, gap_bits = p->gap_bits;
    uint64_t rest_mask = (UINT64_C(1) << rest_bits) - 1, rest_word = 0, one_word = 0;
    uint32_t rest_filled = 0, one_filled = 0;
    for (uint32_t i = 1; i < n; i++) {
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
    memset(page + p->unary_at, 0, p->unary_bits / 8);
    memcpy(page + p->unary_at, unary, (size_t)(ones - unary) + (one_filled > 0));
}

size_t list_page_pack(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    struct list_page p = {0};
    if (n < LEAST_VALUES)
        return list_page_fill(v, n, page);
    n = n < LIST_PAGE_MAX_HASHES ? n : LIST_PAGE_MAX_HASHES;
    uint32_t n_more = choose(v, (uint32_t)n - 1, &p.gap_bits);
    if (n_more < LEAST_VALUES / 2)
        return list_page_fill(v, n, page);
    p.n = n_more + 1;
    list_page_begin(v, &p, page);
    if (p.top_bytes == 1)
        put_values(v, &p, 1, page);
    else
        put_values(v, &p, 2, page);
    return p.n;
}
