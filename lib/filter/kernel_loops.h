/* The loops of every kernel, compiled once for each by the file that includes this one.
 * That has defined KERNEL (static, for its processor), KERNEL_NAME, KERNEL_SYMBOL, and:
 *
 * - struct pattern and pattern_of(h): the bits that one hash stands for in a block
 * - WORDS(words) and PLANE_WORDS(plane): the number of words as it likes to have it
 * - pattern_lacks(&x, words, block): 0 if they are all set in so many words, of 8 bits
 * - zero_bytes(bytes): a bit for each of 64 bytes that is 0
 * - block_count(block): how many bits are set
 * - pattern_add(&x, words, block): sets them, shared; how many were clear
 * - pattern_fill(&x, WORDS(words), block): sets them, private
 *
 * A miss of the cache costs a hundred tests. So a line is asked for long before it is
 * looked at: the unit is an item, at most 64 keys on one plane (or 64 planes for one
 * key), and while the first lanes of an item are tested, those of the next are
 * prefetched, line by line: a window of 64 that rolls on over items, which holds more
 * in flight than one that is filled and drained. First lanes are tested without a
 * branch. What survives, a few in a hundred of the absent keys, has its second lane
 * prefetched, and looked at an item later; and so on. */
#include "lib/filter/kernel.h"

#include <string.h>

enum {
    ITEM = 64, /* a word of answers */
    /* What is smaller is in a cache near enough for the processor's own window. */
    NEAR_BYTES = 2 << 20,
};

/* ---- one block ---- */

KERNEL inline const uint8_t *first_block(const struct plane *p, uint64_t h)
{
    return plane_block(p, 0, h);
}

KERNEL inline bool has(const uint8_t *block, uint32_t words, uint64_t h)
{
    struct pattern x = pattern_of(h);
    return !pattern_lacks(&x, words, block);
}

KERNEL bool block_probe(const uint8_t *block, uint32_t words, uint64_t h)
{
    return has(block, WORDS(words), h);
}

KERNEL uint32_t block_add(uint8_t *block, uint32_t words, uint64_t h)
{
    struct pattern x = pattern_of(h);
    return pattern_add(&x, WORDS(words), block);
}

KERNEL void fill(uint8_t *lane, uint64_t n_blocks, uint32_t words,
                 const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct pattern x = pattern_of(hashes[i]);
        pattern_fill(&x, WORDS(words),
                     lane + geometry_block(hashes[i], n_blocks) * BLOCK_BYTES);
    }
}

KERNEL void count_page(const uint8_t *page, uint16_t counts[SECTORS_IN_PAGE])
{
    for (size_t i = 0; i < SECTORS_IN_PAGE; i++, page += SECTOR_BYTES) {
        uint64_t n = 0;
        for (size_t at = 0; at < SECTOR_BYTES; at += BLOCK_BYTES)
            n += block_count(page + at);
        counts[i] = (uint16_t)n;
    }
}

KERNEL inline bool later_lanes_have(const struct plane *p, uint64_t h)
{
    for (uint32_t lane = 1; lane < p->lanes; lane++) {
        h = geometry_next_lane(h);
        if (!has(plane_block(p, lane, h), PLANE_WORDS(p), h))
            return false;
    }
    return true;
}

KERNEL bool probe(const struct plane *p, uint64_t h)
{
    return has(first_block(p, h), PLANE_WORDS(p), h) && later_lanes_have(p, h);
}

KERNEL inline enum tamis_answer say(bool hit, enum tamis_reason *why)
{
    if (why)
        *why = hit ? TAMIS_HIT : TAMIS_NO_REASON;
    return hit ? TAMIS_MAYBE : TAMIS_ABSENT;
}

/* Apart, lest every answer pay for the registers that this needs. */
KERNEL __attribute__((noinline)) enum tamis_answer
answer_by_later_lanes(const struct plane *p, uint64_t h, enum tamis_reason *why)
{
    return say(later_lanes_have(p, h), why);
}

KERNEL enum tamis_answer answer(const struct plane *p, uint64_t h,
                                enum tamis_reason *why)
{
    if (!has(first_block(p, h), PLANE_WORDS(p), h))
        return say(false, why);
    return answer_by_later_lanes(p, h, why);
}

/* ---- one key, many planes ---- */

/* The first lanes of an item's planes, the next item's prefetched meanwhile. */
KERNEL inline uint64_t row_first(const struct plane *now, size_t n_now,
                                 const struct plane *next, size_t n_next,
                                 const struct pattern *x, uint64_t h)
{
    uint8_t lacks[ITEM];
    if (n_now < ITEM)
        memset(lacks, 1, sizeof lacks);
    for (size_t i = 0; i < n_now; i++) {
        if (i < n_next)
            __builtin_prefetch(first_block(&next[i], h));
        lacks[i] = pattern_lacks(x, PLANE_WORDS(&now[i]), first_block(&now[i], h));
    }
    return zero_bytes(lacks);
}

/* Those of the planes alive that have no lane but `lane` and those before it are hits;
 * the others, which are returned, have the next lane prefetched. */
KERNEL inline uint64_t row_survivors(const struct plane *planes, uint64_t alive,
                                     uint32_t lane, uint64_t h, uint64_t *hits)
{
    uint64_t next_h = geometry_next_lane(h), waiting = alive;
    for (uint64_t m = alive; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        if (planes[i].lanes > lane + 1)
            __builtin_prefetch(plane_block(&planes[i], lane + 1, next_h));
        else
            waiting &= ~(UINT64_C(1) << i);
    }
    *hits |= alive & ~waiting;
    return waiting;
}

KERNEL inline uint64_t row_lane(const struct plane *planes, uint64_t waiting,
                                uint32_t lane, uint64_t h, uint64_t *hits)
{
    struct pattern x = pattern_of(h);
    uint64_t alive = 0;
    for (uint64_t m = waiting; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        const uint8_t *block = plane_block(&planes[i], lane, h);
        alive |= (uint64_t)!pattern_lacks(&x, PLANE_WORDS(&planes[i]), block) << i;
    }
    return row_survivors(planes, alive, lane, h, hits);
}

KERNEL inline size_t item_size(size_t n, size_t item)
{
    size_t left = item * ITEM < n ? n - item * ITEM : 0;
    return left < ITEM ? left : ITEM;
}

KERNEL void probe_row(const struct plane *planes, size_t n, uint64_t h, uint64_t *hits)
{
    uint64_t hs[MAX_LANES] = {h}, waiting[MAX_LANES + 1] = {0};
    struct pattern x = pattern_of(h);
    size_t n_items = (n + ITEM - 1) / ITEM;
    for (size_t lane = 1; lane < MAX_LANES; lane++)
        hs[lane] = geometry_next_lane(hs[lane - 1]);
    for (size_t i = 0; i < item_size(n, 0); i++)
        __builtin_prefetch(first_block(&planes[i], h));
    for (size_t item = 0; item < n_items + MAX_LANES - 1; item++) {
        uint64_t alive = 0;
        if (item < n_items) {
            const struct plane *now = planes + item * ITEM;
            alive = row_first(now, item_size(n, item), now + ITEM,
                              item_size(n, item + 1), &x, h);
            hits[item] = 0;
        }
        /* The items before this one: their lines are here by now. The last lane first:
         * it makes room for those behind. */
        for (uint32_t lane = MAX_LANES - 1; lane >= 1; lane--) {
            if (!waiting[lane])
                continue;
            waiting[lane + 1] = row_lane(planes + (item - lane) * ITEM, waiting[lane],
                                         lane, hs[lane], &hits[item - lane]);
            waiting[lane] = 0;
        }
        if (alive)
            waiting[1] = row_survivors(planes + item * ITEM, alive, 0, h, &hits[item]);
    }
}

/* Segments of one size have the line of a key at one offset: all of them want the same
 * few places of the first-level cache, and push each other out of it. */
KERNEL inline const uint8_t *prefetch_beyond(const struct plane *p, uint64_t h)
{
    const uint8_t *line = first_block(p, h);
    __builtin_prefetch(line, 0, 2);
    return line;
}

/* row_first() of whole items, and of some planes only; lines are remembered. */
KERNEL inline uint64_t row_all(const struct plane *now, const uint8_t *const *lines,
                               const struct plane *next, const uint8_t **next_lines,
                               const struct pattern *x, uint64_t h)
{
    uint8_t lacks[ITEM];
    for (size_t i = 0; i < ITEM; i++) {
        next_lines[i] = prefetch_beyond(&next[i], h);
        lacks[i] = pattern_lacks(x, PLANE_WORDS(&now[i]), lines[i]);
    }
    return zero_bytes(lacks);
}

KERNEL inline uint64_t row_some(const struct row_item *now, const uint8_t *const *lines,
                                const struct row_item *next, const uint8_t **next_lines,
                                const struct pattern *x, uint64_t h)
{
    uint64_t alive = 0, ahead = next->ask;
    for (uint64_t m = now->ask; m | ahead; m &= m - 1) {
        if (ahead) {
            uint32_t i = (uint32_t)__builtin_ctzll(ahead);
            next_lines[i] = prefetch_beyond(&next->planes[i], h);
            ahead &= ahead - 1;
        }
        if (m) {
            uint32_t i = (uint32_t)__builtin_ctzll(m);
            const struct plane *p = &now->planes[i];
            alive |= (uint64_t)!pattern_lacks(x, PLANE_WORDS(p), lines[i]) << i;
        }
    }
    return alive;
}

KERNEL inline void row_later_lanes(struct row *r)
{
    for (uint32_t lane = MAX_LANES - 1; lane >= 1; lane--) {
        struct row_item *t = &r->at[lane], *to = &r->at[lane + 1];
        if (!t->ask)
            continue;
        *to = *t;
        to->ask = row_lane(t->planes, t->ask, lane, r->h[lane], t->hits);
        t->ask = 0;
    }
}

KERNEL void row_step(struct row *r, const struct row_item *next)
{
    const struct row_item now = r->at[0];
    const uint8_t **next_lines = r->line[r->n_steps % ROW_LINES];
    const uint8_t *const *lines = r->line[(r->n_steps + 1) % ROW_LINES]; /* 2 ago */
    struct pattern x = pattern_of(r->h[0]);
    uint64_t alive;
    if (now.ask == UINT64_MAX && next->ask == UINT64_MAX)
        alive = row_all(now.planes, lines, next->planes, next_lines, &x, r->h[0]);
    else
        alive = row_some(&now, lines, next, next_lines, &x, r->h[0]);
    row_later_lanes(r); /* their lines are here by now */
    r->at[0] = r->behind;
    r->behind = *next;
    r->n_steps++;
    if (now.hits)
        *now.hits = alive & ~now.deep;
    /* Not of lone lanes: a loop over a few is a branch that is mispredicted. */
    if (!(alive & now.deep))
        return;
    r->at[1] = now;
    r->at[1].ask = row_survivors(now.planes, alive & now.deep, 0, r->h[0], now.hits);
}

/* ---- many keys, many planes ---- */

struct item {
    const struct plane *plane;
    const uint64_t *hashes;
    const struct pattern *patterns; /* of the hashes, where there are several planes */
    size_t n;
    const uint8_t *block[ITEM]; /* first ones, if they were fetched ahead */
};

/* What is left of an item after so many lanes, each with its hash for the next one. */
struct survivors {
    const struct plane *plane;
    uint64_t alive;
    uint64_t *hits;
    uint64_t h[ITEM];
};

KERNEL inline void fetch(struct item *t)
{
    for (size_t i = 0; i < t->n; i++) {
        t->block[i] = first_block(t->plane, t->hashes[i]);
        __builtin_prefetch(t->block[i]);
    }
}

/* What key i of an item lacks in this block. If `known`, its pattern is at hand. */
KERNEL inline uint8_t item_lacks(const uint64_t *hashes, const struct pattern *patterns,
                                 size_t i, const uint8_t *block, uint32_t words,
                                 bool known)
{
    if (known)
        return pattern_lacks(&patterns[i], words, block);
    struct pattern x = pattern_of(hashes[i]);
    return pattern_lacks(&x, words, block);
}

/* The first lanes of an item; if `ahead`, its blocks were fetched, and those of the
 * next are meanwhile. All that does not change is at hand: it is a loop to be fast. */
KERNEL inline uint64_t first_lanes(const struct item *now, struct item *next,
                                   bool known, bool ahead)
{
    const struct plane p = *now->plane, q = *next->plane;
    const uint64_t *h = now->hashes, *g = next->hashes;
    const struct pattern *x = now->patterns;
    uint8_t lacks[ITEM];
    if (ahead && now->n == ITEM && next->n == ITEM) {
        for (size_t i = 0; i < ITEM; i++) {
            const uint8_t *block = first_block(&q, g[i]);
            __builtin_prefetch(block);
            lacks[i] = item_lacks(h, x, i, now->block[i], PLANE_WORDS(&p), known);
            next->block[i] = block;
        }
        return zero_bytes(lacks);
    }
    if (ahead)
        fetch(next);
    if (now->n < ITEM)
        memset(lacks, 1, sizeof lacks);
    for (size_t i = 0, n = now->n; i < n; i++)
        lacks[i] = item_lacks(h, x, i, first_block(&p, h[i]), PLANE_WORDS(&p), known);
    return zero_bytes(lacks);
}

/* Keys alive after lane `lane`, with these hashes there, go on to the next. */
KERNEL inline void survive(struct survivors *to, const struct plane *p, uint64_t alive,
                           uint32_t lane, const uint64_t *h, uint64_t *hits)
{
    to->plane = p;
    to->alive = 0;
    to->hits = hits;
    if (p->lanes <= lane + 1) {
        *hits |= alive;
        return;
    }
    to->alive = alive;
    for (uint64_t m = alive; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        to->h[i] = geometry_next_lane(h[i]);
        __builtin_prefetch(plane_block(p, lane + 1, to->h[i]));
    }
}

KERNEL inline void later_lane(struct survivors *s, uint32_t lane)
{
    struct survivors *here = &s[lane];
    const struct plane p = *here->plane;
    uint64_t alive = 0;
    for (uint64_t m = here->alive; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        uint64_t h = here->h[i];
        alive |= (uint64_t)has(plane_block(&p, lane, h), PLANE_WORDS(&p), h) << i;
    }
    here->alive = 0;
    if (alive)
        survive(&s[lane + 1], here->plane, alive, lane, here->h, here->hits);
}

KERNEL inline void later_lanes(struct survivors *s)
{
    /* The last lane first: it makes room for those behind. */
    for (uint32_t lane = MAX_LANES - 1; lane >= 1; lane--)
        if (s[lane].alive)
            later_lane(s, lane);
}

KERNEL inline bool near(const struct plane *planes, size_t n_planes)
{
    uint64_t n_bytes = 0;
    for (size_t p = 0; p < n_planes && n_bytes <= NEAR_BYTES; p++)
        n_bytes += planes[p].n_blocks * planes[p].lanes * BLOCK_BYTES;
    return n_bytes <= NEAR_BYTES;
}

struct grid {
    const struct plane *planes;
    size_t n_planes, n_left; /* keys from the present item on */
    struct item item[2];
    struct pattern patterns[2][ITEM];
    struct survivors later[MAX_LANES + 1];
};

/* The item after `now`: the next plane for these keys, or the first one for the next.
 */
KERNEL inline void next_item(struct grid *g, const struct item *now, struct item *next)
{
    bool turn = now->plane + 1 == g->planes + g->n_planes;
    next->plane = turn ? g->planes : now->plane + 1;
    next->hashes = turn ? now->hashes + now->n : now->hashes;
    next->patterns = now->patterns;
    next->n = now->n;
    if (!turn)
        return;
    g->n_left -= now->n;
    next->n = item_size(g->n_left, 0);
    if (g->n_planes == 1)
        return;
    struct pattern *x = g->patterns[now->patterns == g->patterns[0]];
    for (size_t i = 0; i < next->n; i++)
        x[i] = pattern_of(next->hashes[i]);
    next->patterns = x;
}

/* Constants: are several planes asked, and are their lines to be fetched ahead? */
KERNEL inline void grid_go(struct grid *g, size_t n_items, uint64_t *hits, bool known,
                           bool ahead)
{
    for (size_t t = 0; t < n_items; t++) {
        struct item *now = &g->item[t % 2], *next = &g->item[(t + 1) % 2];
        next_item(g, now, next);
        uint64_t alive = first_lanes(now, next, known, ahead);
        later_lanes(g->later); /* of items before: their lines are here by now */
        bool lone = now->plane->lanes == 1;
        hits[t] = lone ? alive : 0;
        if (!lone && alive)
            survive(&g->later[1], now->plane, alive, 0, now->hashes, &hits[t]);
    }
    for (size_t lane = 1; lane < MAX_LANES; lane++)
        later_lanes(g->later);
}

KERNEL void probe_grid(const struct plane *planes, size_t n_planes,
                       const uint64_t *hashes, size_t n, size_t n_next, uint64_t *hits)
{
    struct grid g;
    size_t n_items = (n + ITEM - 1) / ITEM * n_planes;
    if (!n_items)
        return;
    g.planes = planes;
    g.n_planes = n_planes;
    g.n_left = n + (n % ITEM ? 0 : n_next); /* a short item is the last one */
    for (size_t lane = 0; lane <= MAX_LANES; lane++)
        g.later[lane].alive = 0;
    /* The item before the first is the last of no keys at all. */
    struct item *first = &g.item[0];
    g.item[1].plane = planes + n_planes - 1;
    g.item[1].hashes = hashes;
    g.item[1].patterns = g.patterns[1];
    g.item[1].n = 0;
    next_item(&g, &g.item[1], first);
    bool ahead = !near(planes, n_planes);
    if (ahead)
        fetch(first);
    if (n_planes > 1 && ahead)
        grid_go(&g, n_items, hits, true, true);
    else if (n_planes > 1)
        grid_go(&g, n_items, hits, true, false);
    else if (ahead)
        grid_go(&g, n_items, hits, false, true);
    else
        grid_go(&g, n_items, hits, false, false);
}

const struct kernel KERNEL_SYMBOL = {
    .name = KERNEL_NAME,
    .block_probe = block_probe,
    .block_add = block_add,
    .probe = probe,
    .answer = answer,
    .probe_row = probe_row,
    .row_step = row_step,
    .probe_grid = probe_grid,
    .count_page = count_page,
    .fill = fill,
};
