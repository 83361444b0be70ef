/* Is a value in a page of a list? No value is decoded for that. Leaders tell the group
 * that the value's high part leads to. In most groups no top equals the value's (in all
 * but one of a thousand, where tops have 16 bits), and then the value is absent. A hash
 * with the same low bits is the value if its high part is the same:
 *
 *     zeros in unary before its one  +  steps down in low bits up to it
 *
 * A gap is coded as v - u - 1: where low bits do not grow, the high part grows by one
 * more than unary says. So unary must have its one at a place that can be computed, and
 * as many ones before it as hashes. */
#ifndef TAMIS_LIST_FIND_H
#define TAMIS_LIST_FIND_H

#include "lib/kernel/list/list_spot.h"

GROUP_INLINE uint64_t rest_of(const uint8_t *page, const struct list_page *p,
                              uint32_t i)
{
    uint32_t n = p->rest_bits;
    return n ? list_bits(page, p->rests_at * 8 + (i - 1) * n, n) : 0;
}

GROUP_INLINE uint64_t low_of(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    if (i == 0)
        return low_bits(p->first, p->gap_bits);
    return (uint64_t)list_top(page, p, i) << p->rest_bits | rest_of(page, p, i);
}

/* Does hash i not have more low bits than the one before? */
GROUP_INLINE bool steps_down(const uint8_t *page, const struct list_page *p, uint32_t i)
{
    return low_of(page, p, i) <= low_of(page, p, i - 1);
}

/* Steps down among hashes whose tops equal those before, as `same` has them: a bit for
 * each byte of the vector from hash k to k + n - 1, the last one first. */
GROUP_INLINE uint32_t steps_of_same(const uint8_t *page, const struct list_page *p,
                                    uint32_t k, uint32_t n, uint32_t same)
{
    uint32_t bytes = p->top_bytes, count = 0;
    for (; same; same &= same - 1) {
        uint32_t byte = (uint32_t)__builtin_ctz(same);
        if (byte % bytes == 0)
            count += steps_down(page, p, k + n - 1 - byte / bytes);
    }
    return count;
}

/* Steps down in low bits among the hashes 2..i, as far as whole vectors of tops go;
 * *k is the first hash behind them. Each lane counts its own: 224 vectors at most. */
GROUP_INLINE uint32_t count_narrow(const uint8_t *page, const struct list_page *p,
                                   uint32_t i, uint32_t *k)
{
    bytes16 steps = {0};
    uint32_t count = 0;
    for (; *k + LANES - 1 <= i; *k += LANES) {
        const uint8_t *at = page + PAGE_BYTES - (*k + LANES - 1);
        bytes16 tops = load16(at), before = load16(at + 1);
        uint32_t same = mask16((bytes16)(tops == before));
        steps -= (bytes16)(tops < before);
        if (same)
            count += steps_of_same(page, p, *k, LANES, same);
    }
    for (uint32_t lane = 0; lane < LANES; lane++)
        count += steps[lane];
    return count;
}

GROUP_INLINE uint32_t count_wide(const uint8_t *page, const struct list_page *p,
                                 uint32_t i, uint32_t *k)
{
    words8 steps = {0};
    uint32_t count = 0;
    for (; *k + WORDS - 1 <= i; *k += WORDS) {
        const uint8_t *at = page + PAGE_BYTES - (*k + WORDS - 1) * 2;
        words8 tops = load_words(at), before = load_words(at + 2);
        uint32_t same = mask16((bytes16)(tops == before));
        steps -= (words8)(tops < before);
        if (__builtin_expect(same != 0, 0))
            count += steps_of_same(page, p, *k, WORDS, same);
    }
    for (uint32_t lane = 0; lane < WORDS; lane++)
        count += steps[lane];
    return count;
}

/* Steps down in low bits among the hashes 1..i. */
GROUP_INLINE uint32_t count_steps(const uint8_t *page, const struct list_page *p,
                                  uint32_t i)
{
    uint32_t k = 2, count = steps_down(page, p, 1);
    count +=
        p->top_bytes == 1 ? count_narrow(page, p, i, &k) : count_wide(page, p, i, &k);
    for (; k <= i; k++)
        count += steps_down(page, p, k);
    return count;
}

/* Is the high part of hash i this one? */
GROUP_INLINE bool has_high(const uint8_t *page, const struct list_page *p, uint32_t i,
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
GROUP_INLINE bool ask_hashes(const uint8_t *page, const struct list_page *p,
                             uint32_t group, uint64_t value, uint64_t high)
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

GROUP_INLINE bool find_in_page(const uint8_t *page, const struct list_page *p,
                               uint64_t value)
{
    if (p->n <= 1 || value <= p->first)
        return p->n > 0 && value == p->first;
    uint32_t group, last, top = top_of(p, value);
    uint64_t high = list_high(p, value);
    find_groups(page, p, high, &group, &last);
    for (; group <= last; group++)
        if (has_top(list_group_tops(page, p->top_bytes, group), p->top_bytes, top) &&
            ask_hashes(page, p, group, value, high))
            return true;
    return false;
}

#endif
