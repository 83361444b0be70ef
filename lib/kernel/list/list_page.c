/* Pages of lists (format/list.h), a group of 64 hashes at a time.
 *
 * A probe decodes no value. Leaders tell the group that the value's high part leads to.
 * The tops of a group are one or two cache lines. No top equals the value's in most
 * groups (all but one of a thousand, where tops have 16 bits), and then the value is
 * absent. A hash with the same low bits is the value if its high part is, too. That is
 *
 *     zeros in unary before its one  +  steps down in low bits up to it
 *
 * since a gap is coded as v - u - 1: where low bits do not grow, the high part grows by
 * one more than unary says. So unary must have its one at a place that can be computed,
 * and as many ones before it as hashes. */
#include "lib/kernel/list/list_page.h"
#include "lib/kernel/list/list_spot.h"

/* ---- one value ---- */

static inline uint64_t rest_of(const uint8_t *page, const struct list_page *p,
                               uint32_t i)
{
    uint32_t n = p->rest_bits;
    return n ? list_bits(page, p->rests_at * 8 + (i - 1) * n, n) : 0;
}

static uint64_t low_of(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    if (i == 0)
        return low_bits(p->first, p->gap_bits);
    return (uint64_t)list_top(page, p, i) << p->rest_bits | rest_of(page, p, i);
}

/* Does hash i not have more low bits than the one before? */
static bool steps_down(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    return low_of(page, p, i) <= low_of(page, p, i - 1);
}

/* Steps down among the hashes from k > 1 on, as many as a vector has tops: a bit of
 * `down` for each top below the one before, and of `same` for each that equals it. */
static inline uint32_t steps_of(const uint8_t *page, const struct list_page *p,
                                uint32_t k, uint32_t n, uint32_t down, uint32_t same)
{
    uint32_t bytes = p->top_bytes;
    if (p->rest_bits == 0)
        return (uint32_t)__builtin_popcount(down | same) / bytes;
    uint32_t count = (uint32_t)__builtin_popcount(down) / bytes;
    for (uint32_t m = same; m; m &= m - 1) {
        uint32_t byte = (uint32_t)__builtin_ctz(m);
        if (byte % bytes == 0)
            count += steps_down(page, p, k + n - 1 - byte / bytes);
    }
    return count;
}

/* Steps down in low bits among the hashes 1..i. */
static uint32_t count_steps(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    uint32_t count = steps_down(page, p, 1), k = 2;
    uint32_t bytes = p->top_bytes, n = LANES / bytes;
    for (; k + n - 1 <= i; k += n) {
        const uint8_t *at = page + PAGE_BYTES - (k + n - 1) * bytes;
        uint32_t down, same;
        if (bytes == 1) {
            bytes16 tops = load16(at), before = load16(at + 1);
            down = mask16((bytes16)(tops < before));
            same = mask16((bytes16)(tops == before));
        } else {
            words8 tops = load_words(at), before = load_words(at + 2);
            down = mask16((bytes16)(tops < before));
            same = mask16((bytes16)(tops == before));
        }
        count += steps_of(page, p, k, n, down, same);
    }
    for (; k <= i; k++)
        count += steps_down(page, p, k);
    return count;
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

/* Has one of the hashes of this group all bits of the value? */
static __attribute__((noinline)) bool ask_hashes(const uint8_t *page,
                                                 const struct list_page *p,
                                                 uint32_t group, uint64_t value,
                                                 uint64_t high)
{
    uint64_t low = low_bits(value, p->gap_bits);
    uint32_t first = group * LIST_GROUP + 1, end = first + LIST_GROUP;
    uint32_t top = (uint32_t)(low >> p->rest_bits);
    for (uint32_t i = first; i < end && i < p->n; i++)
        if (list_top(page, p, i) == top && low_of(page, p, i) == low &&
            has_high(page, p, i, high))
            return true;
    return false;
}

bool list_page_find(const uint8_t *page, const struct list_page *p, uint64_t value)
{
    if (p->n <= 1 || value <= p->first)
        return p->n > 0 && value == p->first;
    uint32_t group, last, top = top_of(p, value);
    uint64_t high = high_of(p, value);
    find_groups(page, p, high, &group, &last);
    for (; group <= last; group++)
        if (has_top(list_group_tops(page, p->top_bytes, group), p->top_bytes, top) &&
            ask_hashes(page, p, group, value, high))
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

/* The same for pages whose tops have so many bytes: a constant where it is called. */
__attribute__((always_inline)) static inline bool
values_of(const uint8_t *page, uint32_t hash_bits, const struct list_page *p,
          uint32_t top_bytes, uint64_t *values)
{
    uint32_t rest_bits = p->rest_bits, n = p->n;
    uint32_t at = p->unary_at * 8, rest_at = p->rests_at * 8;
    uint64_t word = 0, low = low_bits(p->first, p->gap_bits);
    uint64_t first_high = p->first >> p->gap_bits, high = first_high, steps = 0;
    uint64_t base = first_high + 1 - at - 64;
    values[0] = p->first;
    for (uint32_t i = 1; i < n; i++) {
        const uint8_t *tops = page + PAGE_BYTES - top_bytes * i;
        uint64_t before = low, top = tops[0];
        if (top_bytes == 2)
            top |= (uint64_t)tops[1] << 8;
        /* One bit more than there may be, so that the width is never 0. */
        low = top << rest_bits |
              low_bits(list_bits(page, rest_at, rest_bits + 1), rest_bits);
        rest_at += rest_bits;
        while (word == 0) {
            if (at >= PAGE_BYTES * 8)
                return false;
            word = unary_word(page, at);
            at += 64;
        }
        steps += low <= before;
        high = base + steps + at + (uint64_t)__builtin_ctzll(word) - i;
        word &= word - 1;
        values[i] = high << p->gap_bits | low;
    }
    /* All lie below the last one. Its place must be within unary, and it within
     * hash_bits. */
    return high - first_high - steps + n - 1 <= p->unary_bits &&
           high <= list_max(hash_bits) >> p->gap_bits &&
           values[n - 1] <= list_max(hash_bits);
}

bool list_page_values(const uint8_t *page, uint32_t hash_bits,
                      const struct list_page *p, uint64_t values[LIST_PAGE_MAX_HASHES])
{
    if (p->n == 0)
        return true;
    return p->top_bytes == 1 ? values_of(page, hash_bits, p, 1, values)
                             : values_of(page, hash_bits, p, 2, values);
}
