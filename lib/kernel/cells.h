/* At most 64 keys on a few planes, for loops.h: an engine's MultiGet on the segments
 * that may hold its keys. A cell is a key on a plane. The lines of all cells are
 * fetched in one pass, and looked at in a second, as in few.h. */

/* A key on a plane; its hash is that of the lane which is asked next. */
struct cell {
    uint64_t h;
    uint32_t key, plane;
};

/* Asks cells from a lane on, and adds to the rows. Apart, lest every answer pay for the
 * registers that this needs. */
KERNEL __attribute__((noinline)) void cells_from_lane(const struct few_planes *f,
                                                      uint32_t lane, struct cell *cell,
                                                      size_t n, uint64_t *rows)
{
    for (size_t left; n; lane++, n = left) {
        for (size_t i = 0; i < n; i++)
            __builtin_prefetch(plane_block(f->plane[cell[i].plane], lane, cell[i].h));
        left = 0;
        for (size_t i = 0; i < n; i++) {
            const struct cell c = cell[i];
            const struct plane *p = f->plane[c.plane];
            if (!has(plane_block(p, lane, c.h), PLANE_WORDS(p), c.h))
                rows[c.key] |= UINT64_C(1) << c.plane;
            else if (p->lanes > lane + 1)
                cell[left++] = (struct cell){geometry_next_lane(c.h), c.key, c.plane};
        }
    }
}

KERNEL __attribute__((noinline)) void cells_later_lanes(const struct few_planes *f,
                                                        const struct tamis_key *keys,
                                                        size_t n, uint64_t *rows)
{
    struct cell cell[ITEM];
    size_t n_cells = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t m = f->deep & ~rows[i]; m; m &= m - 1)
            cell[n_cells++] = (struct cell){geometry_next_lane(keys[i].hash), i,
                                            (uint32_t)__builtin_ctzll(m)};
    cells_from_lane(f, 1, cell, n_cells, rows);
}

/* Asks only pairs that are not skipped. */
KERNEL __attribute__((noinline)) void some_cells(const struct few_planes *f,
                                                 const struct tamis_key *keys, size_t n,
                                                 const uint64_t *skip, uint64_t *rows)
{
    struct cell cell[ITEM];
    size_t n_cells = 0;
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = skip[i];
        for (uint64_t m = UINT64_MAX >> (ITEM - f->n) & ~skip[i]; m; m &= m - 1) {
            cell[n_cells++] =
                (struct cell){keys[i].hash, i, (uint32_t)__builtin_ctzll(m)};
            if (n_cells == ITEM) {
                cells_from_lane(f, 0, cell, n_cells, rows);
                n_cells = 0;
            }
        }
    }
    cells_from_lane(f, 0, cell, n_cells, rows);
}

/* Segments of one size have a key's line at one offset of a page, so that the lines of
 * many keys evict each other from the first-level cache: they may stay `past_first`. */
KERNEL inline void cells_fetch(const struct few_planes *f, size_t n_planes,
                               bool past_first, const struct tamis_key *keys, size_t n,
                               const uint8_t **line)
{
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < n_planes; p++, line++) {
            *line = first_block(f->plane[p], keys[i].hash);
            if (past_first)
                __builtin_prefetch(*line, 0, 2);
            else
                __builtin_prefetch(*line);
        }
}

/* Writes the rows of n keys, and fetches the lines of the n_next behind them in place
 * of theirs. Returns the planes that all of the n keys lack. `alike` is a constant. */
KERNEL inline uint64_t cells_lack(const struct few_planes *f, size_t n_planes,
                                  bool alike, const struct tamis_key *keys, size_t n,
                                  size_t n_next, const uint8_t **line, uint64_t *rows)
{
    uint64_t all_lack = UINT64_MAX;
    for (size_t i = 0; i < n; i++, line += n_planes) {
        struct pattern x = pattern_of(keys[i].hash);
        uint64_t lacks = 0;
        for (size_t p = 0; p < n_planes; p++) {
            uint32_t words = PLANE_WORDS(f->plane[alike ? 0 : p]);
            lacks |= (uint64_t) !!pattern_lacks(&x, words, line[p]) << p;
        }
        if (i < n_next)
            cells_fetch(f, n_planes, true, &keys[n + i], 1, line);
        rows[i] = lacks;
        all_lack &= lacks;
    }
    return all_lack;
}

KERNEL inline void cells_go(const struct few_planes *f, size_t n_planes,
                            const struct tamis_key *keys, size_t n, size_t n_next,
                            const uint8_t **line, uint64_t *rows)
{
    uint64_t all_lack =
        f->alike ? cells_lack(f, n_planes, true, keys, n, n_next, line, rows)
                 : cells_lack(f, n_planes, false, keys, n, n_next, line, rows);
    if (f->deep & ~all_lack)
        cells_later_lanes(f, keys, n, rows);
}

/* More than 64 pairs: lines are fetched as many keys ahead as 64 lines are. */
KERNEL __attribute__((noinline)) void cells_by_turns(const struct few_planes *f,
                                                     const struct tamis_key *keys,
                                                     size_t n, uint64_t *rows)
{
    const uint8_t *line[ITEM];
    size_t now = ITEM / f->n;
    cells_fetch(f, f->n, true, keys, now, line);
    for (; n > now; n -= now, keys += now, rows += now)
        cells_go(f, f->n, keys, now, n - now < now ? n - now : now, line, rows);
    cells_go(f, f->n, keys, n, 0, line, rows);
}

/* How many keys do all planes lack? */
KERNEL inline size_t n_full_rows(const struct few_planes *f, size_t n,
                                 const uint64_t *rows)
{
    size_t n_full = 0;
    for (size_t i = 0; i < n; i++)
        n_full += rows[i] == UINT64_MAX >> (ITEM - f->n);
    return n_full;
}

KERNEL __attribute__((noinline)) size_t cells_at_once(const struct few_planes *f,
                                                      const struct tamis_key *keys,
                                                      size_t n, uint64_t *rows)
{
    const uint8_t *line[ITEM];
    cells_fetch(f, f->n, false, keys, n, line);
    cells_go(f, f->n, keys, n, 0, line, rows);
    return n_full_rows(f, n, rows);
}

/* On planes of one lane that have the same number of words. */
KERNEL __attribute__((noinline)) size_t cells_alike(const struct few_planes *f,
                                                    const struct tamis_key *keys,
                                                    size_t n, uint64_t *rows)
{
    const uint8_t *lines[ITEM], **line = lines;
    const uint32_t words = PLANE_WORDS(f->plane[0]);
    const size_t n_planes = f->n;
    size_t n_full = 0;
    cells_fetch(f, n_planes, false, keys, n, line);
    for (size_t i = 0; i < n; i++, line += n_planes) {
        struct pattern x = pattern_of(keys[i].hash);
        uint64_t lacks = 0;
        size_t p = 0;
        do
            lacks |= (uint64_t) !!pattern_lacks(&x, words, line[p]) << p;
        while (++p < n_planes);
        rows[i] = lacks;
        n_full += lacks == UINT64_MAX >> (ITEM - n_planes);
    }
    return n_full;
}

/* On one plane of one lane. */
KERNEL __attribute__((noinline)) size_t cells_of_one(const struct plane *plane,
                                                     const struct tamis_key *keys,
                                                     size_t n, uint64_t *rows)
{
    const uint8_t *bits = plane->bits, *line[ITEM];
    const uint64_t n_blocks = plane->n_blocks;
    const uint32_t words = PLANE_WORDS(plane);
    size_t n_full = 0;
    for (size_t i = 0; i < n; i++) {
        line[i] = bits + geometry_block(keys[i].hash, n_blocks) * BLOCK_BYTES;
        __builtin_prefetch(line[i]);
    }
    for (size_t i = 0; i < n; i++)
        n_full += rows[i] = !has(line[i], words, keys[i].hash);
    return n_full;
}

/* Asks one key, whose lines are on their way, on planes alike of one lane. */
KERNEL inline size_t cells_of_a_key(const struct few_planes *f, uint64_t h,
                                    uint64_t *row)
{
    const uint32_t words = PLANE_WORDS(f->plane[0]);
    const size_t n_planes = f->n;
    struct pattern x = pattern_of(h);
    uint64_t lacks = 0;
    size_t p = 0;
    do
        lacks |= (uint64_t) !!pattern_lacks(&x, words, f->line[p]) << p;
    while (++p < n_planes);
    *row = lacks;
    return lacks == UINT64_MAX >> (ITEM - n_planes);
}

/* Apart, lest planes alike pay for the registers that this needs. */
KERNEL __attribute__((noinline)) size_t cells_unlike(const struct few_planes *f,
                                                     const struct tamis_key *keys,
                                                     size_t n, const uint64_t *skip,
                                                     uint64_t *rows)
{
    if (skip)
        some_cells(f, keys, n, skip, rows);
    else if (n * f->n > ITEM)
        cells_by_turns(f, keys, n, rows);
    else
        return cells_at_once(f, keys, n, rows);
    return n_full_rows(f, n, rows);
}

KERNEL size_t answer_cells(const struct few_planes *f, const struct tamis_key *keys,
                           size_t n, const uint64_t *skip, uint64_t *rows)
{
    if (!f->alike || f->deep || skip || n * f->n > ITEM)
        return cells_unlike(f, keys, n, skip, rows);
    if (n == 1)
        return cells_of_a_key(f, keys->hash, rows);
    return f->n == 1 ? cells_of_one(f->plane[0], keys, n, rows)
                     : cells_alike(f, keys, n, rows);
}
