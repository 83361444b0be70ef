/* At most 64 keys on at most 64 planes, for loops.h: a snapshot asks its segments so.
 * Each key is asked of all planes. While these look at its lines, lines of later keys
 * are fetched: some 64 lines are on their way. Many keys on many planes go plane by
 * plane, as in grid.h.
 *
 *     plane    0 1 2 ... 9      ahead: 7 keys
 *     key 0    look
 *     key 1     .
 *     ...       .
 *     key 7    fetch  */

enum { MANY_KEYS = 32 };

/* Looks at a key's lines, and fetches another key's. `more` is a constant. */
KERNEL inline uint64_t tile_look(const struct plane *planes, size_t n_planes,
                                 uint64_t h, const uint8_t *const *line, bool more,
                                 uint64_t next_h, const uint8_t **next_line)
{
    struct pattern x = pattern_of(h);
    uint8_t lacks[ITEM];
    if (n_planes < ITEM)
        memset(lacks, 1, sizeof lacks);
    for (size_t p = 0; p < n_planes; p++) {
        lacks[p] = pattern_lacks(&x, PLANE_WORDS(&planes[p]), line[p]);
        if (more) {
            next_line[p] = plane_block(&planes[p], 0, next_h);
            __builtin_prefetch(next_line[p], 0, 2);
        }
    }
    return zero_bytes(lacks);
}

/* The first lanes of all planes, for all keys. Segments of one size have a key's line
 * at one offset of a page, so that the lines of many keys evict each other from the
 * first-level cache. They go to the next level. */
KERNEL __attribute__((noinline)) void tile_first_lanes(const struct plane *planes,
                                                       size_t n_planes,
                                                       const uint64_t *hashes, size_t n,
                                                       uint64_t *hits)
{
    const uint8_t *ring[3 * ITEM], **next, **end;
    size_t ahead = (ITEM + n_planes - 1) / n_planes;
    ahead = ahead < n ? ahead : n;
    next = ring;
    for (size_t i = 0; i < ahead; i++)
        for (size_t p = 0; p < n_planes; p++) {
            *next = plane_block(&planes[p], 0, hashes[i]);
            __builtin_prefetch(*next++, 0, 2);
        }
    const uint8_t **line = ring;
    end = next + n_planes;
    for (size_t i = 0; i < n; i++) {
        if (i + ahead < n)
            hits[i] = tile_look(planes, n_planes, hashes[i], line, true,
                                hashes[i + ahead], next);
        else
            hits[i] = tile_look(planes, n_planes, hashes[i], line, false, 0, NULL);
        line = line + n_planes == end ? ring : line + n_planes;
        next = next + n_planes == end ? ring : next + n_planes;
    }
}

/* Bit j of word i becomes bit i of word j: in 64 words, then in halves of them. */
KERNEL inline void tile_turn(uint64_t words[ITEM])
{
    uint64_t low = UINT32_MAX; /* of each 2 * half bits */
    for (uint32_t part = ITEM / 2; part; part /= 2, low ^= low << part)
        for (uint32_t i = 0; i < ITEM; i++) {
            if (i & part)
                continue;
            uint64_t swap = (words[i] >> part ^ words[i + part]) & low;
            words[i + part] ^= swap;
            words[i] ^= swap << part;
        }
}

/* Many keys, plane by plane: lines of one plane do not evict each other. Nothing is
 * fetched ahead. */
KERNEL __attribute__((noinline)) void tile_by_planes(const struct plane *planes,
                                                     size_t n_planes,
                                                     const uint64_t *hashes, size_t n,
                                                     uint64_t *hits)
{
    uint64_t words[ITEM] = {0};
    probe_grid(planes, n_planes, hashes, n, 0, words);
    tile_turn(words);
    memcpy(hits, words, n * sizeof *hits);
}

/* One key: a processor has the lines of all planes in flight by itself. `more`, a
 * constant: fetches the lines of the planes behind, which are asked next. */
KERNEL inline uint64_t tile_of_a_key(const struct plane *planes, size_t n_planes,
                                     uint64_t h, bool more)
{
    struct pattern x = pattern_of(h);
    uint8_t lacks[ITEM];
    if (n_planes < ITEM)
        memset(lacks, 1, sizeof lacks);
    for (size_t p = 0; p < n_planes; p++) {
        if (more)
            __builtin_prefetch(plane_block(&planes[n_planes + p], 0, h), 0, 2);
        lacks[p] =
            pattern_lacks(&x, PLANE_WORDS(&planes[p]), plane_block(&planes[p], 0, h));
    }
    return zero_bytes(lacks);
}

KERNEL void probe_tile(const struct plane *planes, size_t n_planes, unsigned how,
                       const uint64_t *hashes, size_t n, const uint64_t *ask,
                       uint64_t *hits)
{
    uint64_t later[ITEM], any = 0;
    if (ask) {
        memset(hits, 0, n * sizeof *hits);
        some_cells(planes, 0, hashes, n, ask, hits);
        return;
    }
    if (n > MANY_KEYS && n_planes > ROW_COLUMNS && !(how & TILE_FAR)) {
        tile_by_planes(planes, n_planes, hashes, n, hits);
        return;
    }
    if (n == 1 && n_planes <= ROW_COLUMNS)
        hits[0] = planes_alive(planes, n_planes, hashes[0]);
    else if (n == 1)
        hits[0] = how & TILE_NEXT ? tile_of_a_key(planes, n_planes, hashes[0], true)
                                  : tile_of_a_key(planes, n_planes, hashes[0], false);
    else
        tile_first_lanes(planes, n_planes, hashes, n, hits);
    for (size_t i = 0; i < n; i++) {
        any |= later[i] = with_later_lanes(planes, hits[i]);
        hits[i] &= ~later[i];
    }
    if (any)
        some_cells(planes, 1, hashes, n, later, hits);
}
