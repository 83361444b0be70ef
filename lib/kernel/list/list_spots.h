/* The loops of every list kernel, compiled once for each instruction set by the file
 * that includes this one. That file defines
 *
 *     KERNEL       the attribute of functions; KERNEL_INLINE: of those always inlined
 *     HAS_TOP      has_top(), or what equals it
 *     TWO_GROUPS   of two groups with tops of two bytes, can this top be in one? Or not
 *     PLACE        of find_ones(), which writes up to WORD_BITS + PLACES more of them,
 * and page_values(); or LIST_VALUES LIST_KERNEL  the kernel, and LIST_PACK, LIST_RISE:
 * its functions
 *
 * A probe waits for two loads of a page. How many probes a processor has in flight
 * meanwhile goes by their instructions, so all of it is in one function, without a
 * branch that is taken by chance. */
#include "format/integrity.h"
#include "lib/kernel/list/list_spot.h"

#ifdef PLACE
#define LIST_VALUES page_values_by_places
KERNEL static bool page_values_by_places(const uint8_t *page, uint32_t hash_bits,
                                         const struct list_page *p,
                                         uint64_t values[LIST_PAGE_MAX_HASHES])
{
    PLACE places[LIST_PAGE_MAX_HASHES + WORD_BITS + PLACES];
    if (p->n <= LEAST_MORE)
        return list_page_values_plain(page, hash_bits, p, values);
    if (!find_ones(page, p, places))
        return false;
    return p->top_bytes == 1 ? page_values(page, hash_bits, p, 1, places, values)
                             : page_values(page, hash_bits, p, 2, places, values);
}
#endif

GROUP_INLINE bool find_spot(const uint8_t *page, uint64_t first, uint64_t value,
                            struct list_spot *s)
{
    struct list_page p;
    uint32_t group, last;
    /* 64: the first is below the value, and so within the list's width. */
    if (!list_page_open(page, 64, &p) || p.n <= 1 || p.first != first || value <= first)
        return false;
    find_groups(page, &p, list_high(&p, value), &group, &last);
    s->top = (uint16_t)top_of(&p, value);
    s->group = (uint8_t)group; /* a page has 56 groups at most */
    s->last = (uint8_t)last;
    s->top_bytes = (uint8_t)p.top_bytes;
    return true;
}

KERNEL static bool spot(const uint8_t *page, uint64_t first, uint64_t value,
                        struct list_spot *s)
{
    return find_spot(page, first, value, s);
}

KERNEL_INLINE bool tops_lack(const uint8_t *page, const struct list_spot *s)
{
    uint32_t group = s->group, top_bytes = s->top_bytes;
    bool has = HAS_TOP(list_group_tops(page, top_bytes, group), top_bytes, s->top);
    while (__builtin_expect(group < s->last, 0))
        has |= HAS_TOP(list_group_tops(page, top_bytes, ++group), top_bytes, s->top);
    return !has;
}

KERNEL static bool spot_lacks(const uint8_t *page, const struct list_spot *s)
{
    return tops_lack(page, s);
}

KERNEL static bool lacks(const uint8_t *page, uint64_t first, uint64_t value)
{
    struct list_spot s;
    return find_spot(page, first, value, &s) && tops_lack(page, &s);
}

/* ---- one key ---- */

/* The page where the guide says that the hash should be: any number, if the guide does
 * not know yet. */
GROUP_INLINE uint64_t list_guess(const struct list_plane *l, uint64_t h)
{
    const _Atomic uint32_t *at = l->guide + (h >> l->guide_shift);
    uint64_t from = atomic_load_explicit(at, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(at + 1, memory_order_relaxed);
    return list_page_between(l, h, from, to);
}

/* The shape of this page, if such a page was seen before; else 0. */
GROUP_INLINE uint32_t list_shape_seen(const struct list_plane *l, const uint8_t *page)
{
    struct le32 word;
    memcpy(&word, page + offsetof(struct list_page_disk, n_hashes), sizeof word);
    uint32_t head = le32_get(word); /* the fourth byte is a leader */
    uint32_t shape =
        atomic_load_explicit(&l->shapes[list_shape_at(head)], memory_order_relaxed);
    return shape << 8 == head << 8 ? shape : 0;
}

#ifndef TWO_GROUPS
#define TWO_GROUPS two_groups
KERNEL_INLINE bool two_groups(const uint8_t *a, const uint8_t *b, uint32_t top)
{
    bool in_a = HAS_TOP(a, 2, top), in_b = HAS_TOP(b, 2, top);
    return in_a | in_b; /* no branch */
}
#endif

/* Can the page have the value? Its head has a shape that was found valid, with tops of
 * two bytes and leaders that fit a vector. */
KERNEL_INLINE bool can_have(const uint8_t *page, uint32_t shape, uint64_t first,
                            uint64_t value)
{
    uint32_t n = shape & 0xffff, gap_bits = shape >> 16 & 0xff;
    uint32_t n_leaders = (n - 2) / LIST_GROUP; /* list_leaders_of(n - 1) */
    uint64_t high = ((value >> gap_bits) - (first >> gap_bits)) >> (shape >> 24);
    bytes16 want = (bytes16){0} + (uint8_t)(high < UINT8_MAX ? high : UINT8_MAX);
    bytes16 leaders = load16(page + LIST_HEAD_BYTES);
    uint32_t end = 1U << n_leaders;
    uint32_t group = (uint32_t)__builtin_ctz(mask16((bytes16)(leaders >= want)) | end);
    uint32_t equal = mask16((bytes16)(leaders == want)) & (end - 1);
    const uint8_t *tops = list_group_tops(page, 2, group);
    uint32_t top = (uint16_t)(value >> (gap_bits - 16));
    /* A leader is as high: the value can be in the group behind it, too. This happens
     * to one value in six, so it takes no branch: the others ask one group twice. */
    equal >>= group;
    bool can = TWO_GROUPS(tops, tops - (equal & 1) * (2 * LIST_GROUP), top);
    return can || RARELY(equal & 2); /* three groups are asked elsewhere */
}

KERNEL static enum tamis_answer
answer(const struct plane *plane, const struct tamis_key *key, enum tamis_reason *why)
{
    const struct own_head *head = (const struct own_head *)(const void *)plane;
    const struct list_plane *l = head->of_kind;
    uint64_t h = key->hash, number = list_guess(l, h), value = h >> l->cut;
    if (RARELY(number >= l->last_page) ||
        RARELY(atomic_load_explicit(l->table_tag, memory_order_acquire) != key->tag))
        return head->otherwise(plane, key, why);
    uint64_t first = digest_at(l->table, number),
             next = digest_at(l->table, number + 1);
    const uint8_t *page = l->pages + number * PAGE_BYTES;
    uint32_t shape = list_shape_seen(l, page);
    if (RARELY(value <= first) || RARELY(value >= next) || RARELY(!shape) ||
        RARELY(digest_at(page, 0) != first) ||
        RARELY(can_have(page, shape, first, value)) || RARELY(!own_none_lost(head)))
        return head->otherwise(plane, key, why);
    if (why)
        *why = TAMIS_NO_REASON;
    return TAMIS_ABSENT;
}

/* ---- is a value in the page? ----
 *
 * No value is decoded for that. Leaders tell the group
 * that the value's high part leads to. In most groups no top equals the value's (in all
 * but one of a thousand, where tops have 16 bits), and then the value is absent. A hash
 * with the same low bits is the value if its high part is the same:
 *
 *     zeros in unary before its one  +  steps down in low bits up to it
 *
 * A gap is coded as v - u - 1: where low bits do not grow, the high part grows by one
 * more than unary says. So unary must have its one at a place that can be computed, and
 * as many ones before it as hashes. */

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

KERNEL static bool find(const uint8_t *page, const struct list_page *p, uint64_t value)
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

const struct list_kernel LIST_KERNEL = {
    .answer = answer,
    .lacks = lacks,
    .spot = spot,
    .spot_lacks = spot_lacks,
    .find = find,
    .values = LIST_VALUES,
    .encode = LIST_PACK,
    .rise = LIST_RISE,
};
