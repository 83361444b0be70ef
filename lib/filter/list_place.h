/* Which page of a list has a value, if one has: a hint, since no entry of the table is
 * checked here.
 *
 *     value --guide--> page: right for nineteen hashes of twenty, once it is known
 *       `----guess---> entries around it ... --bisect--> page
 *
 * Hashes are spread evenly, so value * pages is a guess. In a list of 100 million
 * hashes it is off by some six pages (a Brownian bridge). The guide has the true places
 * of some thousand values, found when they are first needed. Between two of them the
 * guess is off by a tenth of a page, so a probe fetches the page before it reads the
 * table. */
#ifndef TAMIS_LIST_PLACE_H
#define TAMIS_LIST_PLACE_H

#include "format/list.h"
#include "lib/filter/filter.h"
#include "lib/filter/view.h"

#include <stdatomic.h>

/* ---- the table of first values ---- */

static inline uint64_t entry_at(const struct view *v, uint64_t i)
{
    return digest_at(v->stages[LIST_INDEX].bits, i);
}

/* Hashes are spread evenly. */
static inline uint64_t guess(const struct list_map *l, uint64_t value)
{
    return geometry_block(value << (64 - l->hash_bits), l->n_pages);
}

enum {
    WINDOW = 16, /* entries that are compared at once */
    GUESSES = 3,
};

/* How many of the WINDOW entries from `first` on are not greater than the value? In
 * steps without a branch, for each would be taken by chance. */
static inline uint64_t count_not_above(const struct view *v, uint64_t first,
                                       uint64_t value)
{
    const uint8_t *at = v->stages[LIST_INDEX].bits + first * LIST_ENTRY_BYTES;
    uint64_t count = 0;
    __builtin_prefetch(at);
    __builtin_prefetch(at + (WINDOW - 1) * LIST_ENTRY_BYTES);
    for (uint64_t step = WINDOW / 2; step; step /= 2)
        count += digest_at(at, count + step - 1) <= value ? step : 0;
    return count + (digest_at(at, count) <= value);
}

/* The last entry that is not greater, in [low, high), or low. */
static inline uint64_t bisect(const struct view *v, uint64_t low, uint64_t high,
                              uint64_t value)
{
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (entry_at(v, middle) <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The page for a value. Entries around a guess are compared; if it was wrong, they tell
 * how far. */
static inline uint64_t search_page(const struct view *v, uint64_t value)
{
    const struct list_map *l = v->list;
    uint64_t low = 0, high = l->n_pages, at = guess(l, value);
    for (int i = 0; i < GUESSES && high - low > WINDOW; i++) {
        uint64_t first = at < low + WINDOW / 2 ? low : at - WINDOW / 2;
        first = first > high - WINDOW ? high - WINDOW : first;
        uint64_t count = count_not_above(v, first, value);
        if (count - 1 < WINDOW - 1)
            return first + count - 1;
        if (count) { /* all of them: the last may be it */
            low = first + WINDOW - 1;
            at = low + guess(l, value - entry_at(v, low));
        } else {
            high = first;
            if (first == low)
                return low;
            uint64_t back = guess(l, entry_at(v, first) - value);
            at = back < first - low ? first - back : low;
        }
    }
    return bisect(v, low, high, value);
}

/* ---- the guide ---- */

enum {
    GUIDE_PAGES_LOG2 = 4, /* at least so many pages lie between two of its values */
    GUIDE_BITS_MAX = 20,
    PART_BITS_MAX = 12, /* of a place, below the page */
};

/* Places are counted in parts of a page; 0 is not known yet. */
static inline uint32_t guide_bits_of(uint64_t n_pages)
{
    uint32_t log2 = 63 - (uint32_t)__builtin_clzll(n_pages);
    uint32_t bits = log2 > GUIDE_PAGES_LOG2 ? log2 - GUIDE_PAGES_LOG2 : 1;
    return bits < GUIDE_BITS_MAX ? bits : GUIDE_BITS_MAX;
}

static inline uint32_t part_bits_of(uint64_t n_pages)
{
    uint32_t bits = 31 - (64 - (uint32_t)__builtin_clzll(n_pages));
    return bits < PART_BITS_MAX ? bits : PART_BITS_MAX;
}

/* The place of the guide's value `step`, by the table. Threads that find one at the
 * same time write the same. */
static __attribute__((noinline)) uint32_t guide_find(const struct view *v,
                                                     uint64_t step)
{
    struct list_map *l = v->list;
    uint64_t part = 0, page = l->n_pages;
    if (step >> l->plane.guide_bits == 0) {
        uint64_t value = step << (64 - l->plane.guide_bits) >> (64 - l->hash_bits);
        page = search_page(v, value);
        uint64_t first = entry_at(v, page);
        uint64_t next = page + 1 < l->n_pages ? entry_at(v, page + 1) : UINT64_MAX;
        if (first < value && value < next)
            part = (uint64_t)((double)(value - first) / (double)(next - first) *
                              (double)(UINT64_C(1) << l->plane.part_bits));
    }
    uint32_t place = (uint32_t)((page << l->plane.part_bits) + part) | 1;
    atomic_store_explicit(&l->guide[step], place, memory_order_relaxed);
    return place;
}

static inline uint64_t guide_at(const struct view *v, uint64_t step)
{
    uint32_t place = atomic_load_explicit(&v->list->guide[step], memory_order_relaxed);
    return __builtin_expect(place != 0, 1) ? place : guide_find(v, step);
}

/* The page where the hash should be. A list that is not spread evenly may make it any
 * page. */
static inline uint64_t guide_page(const struct view *v, uint64_t h)
{
    const struct list_map *l = v->list;
    uint64_t step = h >> l->plane.guide_shift;
    uint64_t from = guide_at(v, step), to = guide_at(v, step + 1);
    uint64_t page = list_page_between(&l->plane, h, from, to);
    return page < l->n_pages ? page : l->n_pages - 1;
}

#endif
