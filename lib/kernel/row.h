/* One key on the stages of a filter, at most 64, for loops.h: which have it in their
 * first lane, and then what is left, lane by lane. */

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
