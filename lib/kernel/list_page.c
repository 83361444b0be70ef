/* Pages of lists (format/list.h), a group of 64 hashes at a time.
 *
 * A probe needs no value but its own. Leaders tell the group that its high part leads
 * to. The group's tops, one byte a hash, are one cache line; for random hashes no byte
 * equals the value's top in four of five groups, and then the value is absent. A hash
 * with the same low bits is the value if its high part is, too. That is
 *
 *     zeros in unary before its one  +  steps down in low bits up to it
 *
 * since a gap is coded as v - u - 1: where low bits do not grow, the high part grows by
 * one more than unary says. So unary must have its one at a place that can be computed,
 * and as many ones before it as hashes. */
#include "lib/kernel/list_page.h"

/* Compilers make of these what the processor has. */
typedef uint8_t bytes16 __attribute__((vector_size(16)));

enum { LANES = 16 };

static inline bytes16 load16(const uint8_t *at)
{
    bytes16 v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* Bit i is set if byte i is; bytes are 0 or 255. */
static inline uint32_t mask16(bytes16 v)
{
    static const bytes16 weights = {1, 2, 4, 8, 16, 32, 64, 128,
                                    1, 2, 4, 8, 16, 32, 64, 128};
    const uint64_t sum = UINT64_C(0x0101010101010101);
    struct le64 half[2];
    bytes16 w = v & weights;
    memcpy(half, &w, sizeof half);
    return (uint32_t)((le64_get(half[0]) * sum) >> 56) |
           (uint32_t)((le64_get(half[1]) * sum) >> 56) << 8;
}

static inline bool any16(bytes16 v)
{
    uint64_t half[2];
    memcpy(half, &v, sizeof half);
    return (half[0] | half[1]) != 0;
}

static inline uint32_t count16(bytes16 v)
{
    return (uint32_t)__builtin_popcount(mask16(v));
}

/* ---- one value ---- */

/* How many leaders are below `high`, and how many are not above it. */
static inline void find_groups(const uint8_t *page, const struct list_page *p,
                               uint64_t high, uint32_t *first, uint32_t *last)
{
    uint64_t at = high >> p->leader_shift;
    uint32_t n = p->n_groups - 1;
    *first = *last = n;
    if (at > UINT8_MAX) /* beyond all of them */
        return;
    bytes16 want = (bytes16){0} + (uint8_t)at;
    *first = *last = 0;
    for (uint32_t i = 0; i < n; i += LANES) {
        bytes16 leaders = load16(page + LIST_HEAD_BYTES + i);
        uint32_t live = n - i < LANES ? (UINT32_C(1) << (n - i)) - 1 : 0xffff;
        *first +=
            (uint32_t)__builtin_popcount(mask16((bytes16)(leaders < want)) & live);
        *last +=
            (uint32_t)__builtin_popcount(mask16((bytes16)(leaders <= want)) & live);
    }
}

static inline uint64_t rest_of(const uint8_t *page, const struct list_page *p,
                               uint32_t i)
{
    uint32_t n = p->gap_bits - LIST_TOP_BITS;
    return n ? list_bits(page, p->rests_at * 8 + (i - 1) * n, n) : 0;
}

/* Do the low bits of hash i not grow? Their tops are equal, or it is the second. */
static bool steps_down(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    uint32_t n = p->gap_bits - LIST_TOP_BITS;
    uint64_t low = (uint64_t)page[list_top_at(i)] << n | rest_of(page, p, i);
    uint64_t before =
        i > 1 ? (uint64_t)page[list_top_at(i - 1)] << n | rest_of(page, p, i - 1)
              : low_bits(p->first, p->gap_bits);
    return low <= before;
}

/* Steps down in low bits among the hashes 1..i. The top of hash k is at byte -k. */
static uint32_t count_steps(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    const uint8_t *end = page + PAGE_BYTES;
    uint32_t n = steps_down(page, p, 1), k = 2;
    for (; k + LANES - 1 <= i; k += LANES) {
        bytes16 tops = load16(end - k - (LANES - 1)),
                before = load16(end - k - LANES + 2);
        n += count16((bytes16)(tops < before));
        for (uint32_t m = mask16((bytes16)(tops == before)); m; m &= m - 1)
            n += steps_down(page, p, k + LANES - 1 - (uint32_t)__builtin_ctz(m));
    }
    for (; k <= i; k++)
        n += steps_down(page, p, k);
    return n;
}

/* Is the high part of hash i this one? */
static bool has_high(const uint8_t *page, const struct list_page *p, uint32_t i,
                     uint64_t high)
{
    uint64_t steps = count_steps(page, p, i);
    if (high < steps || high - steps + i > p->unary_bits)
        return false;
    uint32_t begin = p->unary_at * 8, place = (uint32_t)(high - steps) + i - 1,
             ones = 0;
    enum { STEP = 56 };
    if (!list_bits(page, begin + place, 1))
        return false;
    for (uint32_t at = 0; at < place; at += STEP) {
        uint32_t some = place - at < STEP ? place - at : STEP;
        ones += (uint32_t)__builtin_popcountll(list_bits(page, begin + at, some));
    }
    return ones == i - 1;
}

/* Has one of the hashes of this group these bits? */
static inline bool ask_group(const uint8_t *page, const struct list_page *p,
                             uint32_t group, uint8_t top, uint64_t rest, uint64_t high)
{
    const uint8_t *line = list_group_line(page, group);
    bytes16 want = (bytes16){0} + top, same[LIST_GROUP / LANES];
    for (uint32_t i = 0; i < LIST_GROUP / LANES; i++)
        same[i] = (bytes16)(load16(line + i * LANES) == want);
    if (__builtin_expect(!any16(same[0] | same[1] | same[2] | same[3]), 1))
        return false;
    uint64_t m = 0;
    for (uint32_t i = 0; i < LIST_GROUP / LANES; i++)
        m |= (uint64_t)mask16(same[i]) << i * LANES;
    for (; m; m &= m - 1) {
        uint32_t i = (group + 1) * LIST_GROUP - (uint32_t)__builtin_ctzll(m);
        if (i < p->n && rest_of(page, p, i) == rest && has_high(page, p, i, high))
            return true;
    }
    return false;
}

bool list_page_find(const uint8_t *page, const struct list_page *p, uint64_t value)
{
    if (p->n == 0 || value < p->first)
        return false;
    if (value == p->first)
        return true;
    if (p->n == 1)
        return false;
    uint32_t rest_bits = p->gap_bits - LIST_TOP_BITS, group, last;
    uint64_t high = (value >> p->gap_bits) - (p->first >> p->gap_bits);
    find_groups(page, p, high, &group, &last);
    for (; group <= last; group++)
        if (ask_group(page, p, group, (uint8_t)(value >> rest_bits),
                      low_bits(value, rest_bits), high))
            return true;
    return false;
}

/* ---- all values ---- */

/* 64 bits of unary from bit `at` on, a multiple of 8; zeros beyond the page. */
static inline uint64_t unary_word(const uint8_t *page, uint32_t at)
{
    uint32_t byte = at / 8 < PAGE_BYTES - 8 ? at / 8 : PAGE_BYTES - 8;
    struct le64 word;
    memcpy(&word, page + byte, sizeof word);
    uint32_t beyond = at - byte * 8;
    return beyond < 64 ? le64_get(word) >> beyond : 0;
}

bool list_page_values(const uint8_t *page, uint32_t hash_bits,
                      const struct list_page *p,
                      uint64_t values[LIST_PAGE_MAX_HASHES])
{
    uint32_t rest_bits = p->gap_bits - LIST_TOP_BITS, n = p->n;
    uint32_t at = p->unary_at * 8, rest_at = p->rests_at * 8;
    uint64_t word = 0, low = low_bits(p->first, p->gap_bits);
    uint64_t high = (p->first >> p->gap_bits) + 1; /* + zeros - ones + steps */
    uint64_t base = high - at - 64;
    values[0] = p->first;
    for (uint32_t i = 1; i < n; i++) {
        uint64_t top = page[PAGE_BYTES - i], before = low;
        low = top << rest_bits |
              (list_bits(page, rest_at, rest_bits + 1) & ~(UINT64_C(1) << rest_bits));
        rest_at += rest_bits;
        while (word == 0) {
            if (at >= PAGE_BYTES * 8)
                return false;
            word = unary_word(page, at);
            at += 64;
        }
        base += low <= before;
        high = base + at + (uint64_t)__builtin_ctzll(word) - i;
        word &= word - 1;
        values[i] = high << p->gap_bits | low;
    }
    if (n <= 1)
        return true;
    /* All lie below the last one, which must lie within unary, and within a value. */
    uint64_t steps = base - ((p->first >> p->gap_bits) + 1 - p->unary_at * 8 - 64);
    uint64_t zeros_and_ones = high - (p->first >> p->gap_bits) - steps + n - 1;
    return zeros_and_ones <= p->unary_bits &&
           high <= list_max(hash_bits) >> p->gap_bits &&
           values[n - 1] <= list_max(hash_bits);
}
