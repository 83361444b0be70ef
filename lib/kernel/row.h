/* One key on many planes, for loops.h. There are two ways, for two callers.
 *
 * probe_row() is for the stages of one filter, 30 at most: one item, whose lines are
 * all fetched, and then looked at. row_step() is for the segments of a snapshot,
 * thousands of them, of which some are left out: a window that rolls on over items. Of
 * one item its steps, and what is kept between them, would be most of the work. They
 * share what comes after the first lane. */

/* ---- what is left after a lane ---- */

/* A plane that is alive after its last lane is a hit. For the other planes, which are
 * returned, the next lane is prefetched. */
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

/* ---- one item ---- */

/* Which planes have the key in their first lane? In one pass: a processor has the lines
 * of all planes in flight by itself, and fetching them before would be more
 * instructions than it holds of two keys. */
KERNEL inline uint64_t planes_alive(const struct plane *planes, size_t n, uint64_t h)
{
    struct pattern x = pattern_of(h);
    uint64_t alive = 0;
    for (size_t i = 0; i < n; i++)
        alive |= (uint64_t)!pattern_lacks(&x, PLANE_WORDS(&planes[i]),
                                          first_block(&planes[i], h))
                 << i;
    return alive;
}

/* Not inlined: else every probe pays for the registers that this needs. */
KERNEL __attribute__((noinline)) uint64_t row_hits(const struct plane_row *r,
                                                   uint64_t alive, uint64_t h)
{
    uint64_t hits = 0, waiting = row_survivors(r->planes, alive, 0, h, &hits);
    for (uint32_t lane = 1; waiting; lane++) {
        h = geometry_next_lane(h);
        waiting = row_lane(r->planes, waiting, lane, h, &hits);
    }
    return hits;
}

#ifndef HAS_COLUMNS
#define HAS_COLUMNS false
KERNEL inline uint64_t columns_alive(const struct plane_row *r, uint64_t h)
{
    return planes_alive(r->planes, r->n, h);
}
#endif

KERNEL __attribute__((noinline)) uint64_t probe_planes(const struct plane_row *r,
                                                       uint64_t h)
{
    uint64_t alive = planes_alive(r->planes, r->n, h);
    return alive ? row_hits(r, alive, h) : 0;
}

KERNEL uint64_t probe_row(const struct plane_row *r, uint64_t h)
{
    if (HAS_COLUMNS && !r->n_columns)
        return probe_planes(r, h);
    uint64_t alive = columns_alive(r, h);
    return __builtin_expect(!alive, 1) ? 0 : row_hits(r, alive, h);
}

KERNEL __attribute__((noinline)) enum tamis_answer
answer_planes(const struct plane_row *r, uint64_t h, enum tamis_reason *why)
{
    return say(probe_planes(r, h) != 0, why);
}

KERNEL __attribute__((noinline)) enum tamis_answer
answer_alive(const struct plane_row *r, uint64_t alive, uint64_t h,
             enum tamis_reason *why)
{
    return say(row_hits(r, alive, h) != 0, why);
}

KERNEL enum tamis_answer answer_row(const struct plane *first,
                                    const struct tamis_key *key, enum tamis_reason *why)
{
    const struct plane_row *r = ((const struct plane_head *)(const void *)first)->row;
    const uint64_t h = key->hash;
    if (HAS_COLUMNS && !r->n_columns)
        return answer_planes(r, h, why);
    uint64_t alive = columns_alive(r, h);
    return __builtin_expect(!alive, 1) ? say(false, why)
                                       : answer_alive(r, alive, h, why);
}

/* ---- many items ---- */

/* Segments of one size have a key's line at one offset, so that the lines evict each
 * other from the same few sets of the first-level cache. */
KERNEL inline const uint8_t *prefetch_beyond(const struct plane *p, uint64_t h)
{
    const uint8_t *line = first_block(p, h);
    __builtin_prefetch(line, 0, 2);
    return line;
}

/* Prefetches an item's lines, and remembers them. */
KERNEL inline void row_fetch(const struct row_item *next, const uint8_t **next_lines,
                             uint64_t h)
{
    for (uint64_t m = next->ask; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        next_lines[i] = prefetch_beyond(&next->planes[i], h);
    }
}

/* Asks the first lanes of an item's first n_now planes. Meanwhile prefetches the lines
 * of the first n_next of another, and remembers them. */
KERNEL inline uint64_t row_first(const struct plane *now, size_t n_now,
                                 const uint8_t *const *lines, const struct plane *next,
                                 size_t n_next, const uint8_t **next_lines,
                                 const struct masks *x, uint64_t h)
{
    size_t both = n_now < n_next ? n_now : n_next;
    uint8_t lacks[ITEM];
    if (n_now < ITEM)
        memset(lacks, 1, sizeof lacks);
    for (size_t i = 0; i < both; i++) {
        next_lines[i] = prefetch_beyond(&next[i], h);
        lacks[i] = masks_lack(x, PLANE_WORDS(&now[i]), lines[i]);
    }
    for (size_t i = both; i < n_next; i++)
        next_lines[i] = prefetch_beyond(&next[i], h);
    for (size_t i = both; i < n_now; i++)
        lacks[i] = masks_lack(x, PLANE_WORDS(&now[i]), lines[i]);
    return zero_bytes(lacks);
}

/* The same for planes with others between them that are not asked. */
KERNEL inline uint64_t row_some(const struct row_item *now, const uint8_t *const *lines,
                                const struct row_item *next, const uint8_t **next_lines,
                                const struct masks *x, uint64_t h)
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
            alive |= (uint64_t)!masks_lack(x, PLANE_WORDS(p), lines[i]) << i;
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

KERNEL inline bool is_first(uint64_t mask)
{
    return (mask & (mask + 1)) == 0;
}

KERNEL inline uint64_t row_first_lanes(struct row *r, const struct row_item *now,
                                       const struct row_item *next)
{
    const uint8_t **next_lines = r->line[r->n_steps % ROW_LINES];
    const uint8_t *const *lines = r->line[(r->n_steps + 1) % ROW_LINES]; /* 2 ago */
    const uint64_t h = r->h[0];
    struct masks x;
    if (!now->ask) {
        row_fetch(next, next_lines, h);
        return 0;
    }
    masks_of(&x, h);
    if (is_first(now->ask) && is_first(next->ask))
        return row_first(now->planes, (size_t)__builtin_popcountll(now->ask), lines,
                         next->planes, (size_t)__builtin_popcountll(next->ask),
                         next_lines, &x, h);
    return row_some(now, lines, next, next_lines, &x, h);
}

KERNEL void row_step(struct row *r, const struct row_item *next)
{
    const struct row_item now = r->at[0];
    uint64_t alive = row_first_lanes(r, &now, next);
    row_later_lanes(r); /* their lines are here by now */
    r->at[0] = r->behind;
    r->behind = *next;
    r->n_steps++;
    if (now.hits)
        *now.hits = alive & ~now.deep;
    /* Skip lone lanes: a loop over a few is a mispredicted branch. */
    if (!(alive & now.deep))
        return;
    r->at[1] = now;
    r->at[1].ask = row_survivors(now.planes, alive & now.deep, 0, r->h[0], now.hits);
}
