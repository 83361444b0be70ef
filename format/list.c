/* Pages of a list: encode, and what a decoder leaves to be checked (SPEC.md §18.2). The
 * kernels decode: lib/kernel/list. */
#include "list.h"

_Static_assert(sizeof(struct list_page_disk) == LIST_HEAD_BYTES,
               "SPEC.md section 18.1");

/* ---- encode ---- */

/* How many hashes after the first fit a page with gap_bits low bits of a gap? Whole
 * groups come first, for speed: the zeros of a prefix never become fewer. */
static uint32_t measure(const uint64_t *v, uint32_t n_more, uint32_t gap_bits)
{
    uint64_t zeros = 0;
    uint32_t done = 0;
    while (n_more - done >= LIST_GROUP) {
        uint64_t more = 0;
        for (uint32_t i = done + 1; i <= done + LIST_GROUP; i++) {
            uint64_t z = (v[i] - v[i - 1] - 1) >> gap_bits;
            more += z < PAGE_BYTES * 8 ? z : PAGE_BYTES * 8;
        }
        if (!list_page_fits(done + LIST_GROUP, gap_bits, zeros + more))
            break;
        zeros += more;
        done += LIST_GROUP;
    }
    for (; done < n_more; done++) {
        uint64_t z = (v[done + 1] - v[done] - 1) >> gap_bits;
        if (z > PAGE_BYTES * 8 || !list_page_fits(done + 1, gap_bits, zeros + z))
            break;
        zeros += z;
    }
    return done;
}

/* The best of the three widths around the mean gap of what a page may hold. Random
 * hashes want one of the first two (Golomb and Rice: log2 of the mean * ln 2). */
static uint32_t choose(const uint64_t *v, uint32_t n_more, uint32_t *gap_bits)
{
    enum { SAMPLE = 512 };
    uint32_t sample = n_more < SAMPLE ? n_more : SAMPLE, best = 0;
    uint64_t mean = sample ? (v[sample] - v[0]) / sample : 0;
    int log2 = 63 - __builtin_clzll(mean | 1);
    *gap_bits = LIST_GAP_BITS_MIN;
    for (int g = log2 - 1; g <= log2 + 1; g++) {
        uint32_t bits = g < LIST_GAP_BITS_MIN   ? LIST_GAP_BITS_MIN
                        : g > LIST_GAP_BITS_MAX ? LIST_GAP_BITS_MAX
                                                : (uint32_t)g;
        uint32_t taken = measure(v, n_more, bits);
        if (taken > best) {
            best = taken;
            *gap_bits = bits;
        }
    }
    return best;
}

/* Bits that follow one another, kept until a word of them is whole: to or them into the
 * page one by one would wait for the store before. */
struct bits {
    uint8_t *to;
    uint64_t word;
    uint32_t n; /* in `word`, fewer than 64 */
};

static inline void bits_put(struct bits *b, uint64_t value, uint32_t n)
{
    b->word |= value << b->n;
    b->n += n;
    if (b->n < 64)
        return;
    struct le64 whole = le64_of(b->word);
    memcpy(b->to, &whole, sizeof whole);
    b->to += sizeof whole;
    b->n -= 64;
    b->word = b->n ? value >> (n - b->n) : 0;
}

static void put_hashes(const uint64_t *v, const struct list_page *p,
                       uint8_t page[PAGE_BYTES])
{
    uint32_t rest_bits = p->rest_bits, at = p->unary_at * 8;
    struct bits rests = {page + p->rests_at, 0, 0};
    for (uint32_t i = 1; i < p->n; i++) {
        struct le16 top = le16_of((uint16_t)(v[i] >> rest_bits));
        memcpy(page + PAGE_BYTES - p->top_bytes * i, &top, p->top_bytes);
        bits_put(&rests, low_bits(v[i], rest_bits), rest_bits);
        at += (uint32_t)((v[i] - v[i - 1] - 1) >> p->gap_bits);
        page[at / 8] |= (uint8_t)(1 << at % 8);
        at++;
    }
    for (uint32_t i = 0; i < rests.n; i += 8)
        *rests.to++ = (uint8_t)(rests.word >> i);
}

void list_page_begin(const uint64_t *v, struct list_page *p, uint8_t page[PAGE_BYTES])
{
    p->first = v[0];
    list_page_set_places(p);
    struct list_page_disk d = {le64_of(v[0]), le16_of((uint16_t)p->n),
                               (uint8_t)p->gap_bits};
    memcpy(page, &d, sizeof d);
    for (uint32_t k = 1; k < p->n_groups; k++)
        page[LIST_HEAD_BYTES + k - 1] =
            (uint8_t)(list_high(p, v[k * LIST_GROUP]) >> p->leader_shift);
}

size_t list_page_fill(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    struct list_page p = {0};
    memset(page, 0, PAGE_BYTES);
    if (n == 0)
        return 0;
    n = n < LIST_PAGE_MAX_HASHES ? n : LIST_PAGE_MAX_HASHES;
    p.n = 1 + choose(v, (uint32_t)n - 1, &p.gap_bits);
    list_page_begin(v, &p, page);
    put_hashes(v, &p, page);
    return p.n;
}

/* ---- check ---- */

static uint32_t count_unary(const uint8_t page[PAGE_BYTES], const struct list_page *p)
{
    enum { AT_ONCE = 56 };
    uint32_t n_ones = 0, at = p->unary_at * 8, left = p->unary_bits;
    for (; left >= AT_ONCE; left -= AT_ONCE, at += AT_ONCE)
        n_ones += (uint32_t)__builtin_popcountll(list_bits(page, at, AT_ONCE));
    return left ? n_ones + (uint32_t)__builtin_popcountll(list_bits(page, at, left))
                : n_ones;
}

bool list_page_valid(const uint8_t page[PAGE_BYTES], const struct list_page *p,
                     const uint64_t *values)
{
    if (p->n == 0)
        return all_zero(page, PAGE_BYTES);
    uint32_t used = (p->n - 1) * p->rest_bits % 8; /* bits of the last byte of rests */
    for (uint32_t k = 1; k < p->n_groups; k++)
        if (page[LIST_HEAD_BYTES + k - 1] !=
            list_high(p, values[k * LIST_GROUP]) >> p->leader_shift)
            return false;
    return count_unary(page, p) == p->n - 1 &&
           (!used || page[p->unary_at - 1] >> used == 0);
}
