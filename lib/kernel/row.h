/* One key on the stages of a filter, at most 64, for loops.h: which stages have the key
 * in their first lane, and then the stages that are left, lane by lane. */

/* ---- later lanes ---- */

/* A key on a plane; its hash is that of the lane which is asked next. */
struct cell {
    uint64_t h;
    uint32_t key, plane;
};

/* Asks cells from a lane on, and adds to the hits. */
KERNEL __attribute__((noinline)) void cells_from_lane(const struct plane *planes,
                                                      uint32_t lane, struct cell *cell,
                                                      size_t n, uint64_t *hits)
{
    for (size_t left; n; lane++, n = left) {
        for (size_t i = 0; i < n; i++)
            __builtin_prefetch(plane_block(&planes[cell[i].plane], lane, cell[i].h));
        left = 0;
        for (size_t i = 0; i < n; i++) {
            const struct cell c = cell[i];
            const struct plane *p = &planes[c.plane];
            if (!has(plane_block(p, lane, c.h), PLANE_WORDS(p), c.h))
                continue;
            if (p->lanes > lane + 1)
                cell[left++] = (struct cell){geometry_next_lane(c.h), c.key, c.plane};
            else
                hits[c.key] |= UINT64_C(1) << c.plane;
        }
    }
}

/* Asks some pairs from a lane on: the first, or the second. */
KERNEL __attribute__((noinline)) void some_cells(const struct plane *planes,
                                                 uint32_t lane, const uint64_t *hashes,
                                                 size_t n, const uint64_t *ask,
                                                 uint64_t *hits)
{
    struct cell cell[ITEM];
    size_t n_cells = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t m = ask[i]; m; m &= m - 1) {
            cell[n_cells++] =
                (struct cell){lane ? geometry_next_lane(hashes[i]) : hashes[i], i,
                              (uint32_t)__builtin_ctzll(m)};
            if (n_cells == ITEM) {
                cells_from_lane(planes, lane, cell, n_cells, hits);
                n_cells = 0;
            }
        }
    cells_from_lane(planes, lane, cell, n_cells, hits);
}

/* ---- the row ---- */

/* Which planes have the key in their first lane? In one pass: a processor has the lines
 * of all planes in flight by itself, and fetching them before would be more
 * instructions than it holds of two keys. */
KERNEL inline uint64_t planes_alive(const struct plane *planes, size_t n, uint64_t h)
{
    struct pattern x = pattern_of(h);
    uint64_t alive = 0;
    for (size_t i = 0; i < n; i++)
        alive |= (uint64_t)!pattern_lacks(&x, PLANE_WORDS(&planes[i]),
                                          plane_block(&planes[i], 0, h))
                 << i;
    return alive;
}

KERNEL inline uint64_t with_later_lanes(const struct plane *planes, uint64_t alive)
{
    uint64_t later = 0;
    for (uint64_t m = alive; m; m &= m - 1)
        later |= planes[__builtin_ctzll(m)].lanes > 1 ? m & -m : 0;
    return later;
}

/* Not inlined: else every probe pays for the registers that this needs. */
KERNEL __attribute__((noinline)) uint64_t row_hits(const struct plane_row *r,
                                                   uint64_t alive, uint64_t h)
{
    uint64_t later = with_later_lanes(r->planes, alive);
    alive &= ~later;
    if (later)
        some_cells(r->planes, 1, &h, 1, &later, &alive);
    return alive;
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
