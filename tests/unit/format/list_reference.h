/* The reference that decodes a page of a list bit by bit, and checks each rule of
 * SPEC.md §18.2: slow. The kernels are held against it. */
#ifndef TAMIS_TESTS_LIST_REFERENCE_H
#define TAMIS_TESTS_LIST_REFERENCE_H

#include "format/list.h"

static inline bool leader_good(const uint8_t page[PAGE_BYTES],
                               const struct list_page *p, uint32_t i, uint64_t value)
{
    uint32_t k = i / LIST_GROUP;
    if (i % LIST_GROUP || k >= p->n_groups)
        return true;
    return page[LIST_HEAD_BYTES + k - 1] == list_high(p, value) >> p->leader_shift;
}

/* Value i, from the one before. *at is the next bit in unary. */
static inline bool next_value(const uint8_t page[PAGE_BYTES], const struct list_page *p,
                              uint32_t i, uint64_t before, uint32_t *at,
                              uint64_t *value)
{
    uint32_t rest_bits = p->rest_bits, zeros = 0;
    uint64_t low = (uint64_t)list_top(page, p, i) << rest_bits;
    if (rest_bits)
        low |= list_bits(page, p->rests_at * 8 + (i - 1) * rest_bits, rest_bits);
    for (;; zeros++) {
        if (*at + zeros >= p->unary_bits)
            return false;
        if (list_bits(page, p->unary_at * 8 + *at + zeros, 1))
            break;
    }
    *at += zeros + 1;
    uint64_t gap = low_bits(low - before - 1, p->gap_bits), high;
    return mul_u64(zeros, UINT64_C(1) << p->gap_bits, &high) &&
           add_u64(gap, high, &gap) && add_u64(before, gap, value) &&
           add_u64(*value, 1, value);
}

static inline bool rest_is_zero(const uint8_t page[PAGE_BYTES],
                                const struct list_page *p, uint32_t at)
{
    uint32_t n_bits = (p->n - 1) * p->rest_bits;
    for (uint32_t bit = p->rests_at * 8 + n_bits; bit < p->unary_at * 8; bit++)
        if (list_bits(page, bit, 1))
            return false;
    for (; at < p->unary_bits; at++)
        if (list_bits(page, p->unary_at * 8 + at, 1))
            return false;
    return true;
}

/* All values of a page, p->n of them. False: a rule does not hold. */
static inline bool list_page_decode(const uint8_t page[PAGE_BYTES], uint32_t hash_bits,
                                    struct list_page *p,
                                    uint64_t values[LIST_PAGE_MAX_HASHES])
{
    uint32_t at = 0;
    if (!list_page_open(page, hash_bits, p))
        return false;
    if (p->n == 0)
        return all_zero(page, PAGE_BYTES);
    values[0] = p->first;
    for (uint32_t i = 1; i < p->n; i++)
        if (!next_value(page, p, i, values[i - 1], &at, &values[i]) ||
            values[i] > list_max(hash_bits) || !leader_good(page, p, i, values[i]))
            return false;
    return rest_is_zero(page, p, at);
}

#endif
