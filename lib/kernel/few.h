/* At most 64 keys on one plane, for loops.h: an engine's MultiGet. grid.h sets up a
 * window that rolls over items, which costs more than a few keys take. Here one pass
 * fetches all lines, and a second looks at them. Four keys need only the second. */

/* Asks the lanes from the second on for the keys of `maybe`. Not inlined: it needs
 * registers, for which every answer would pay. */
KERNEL __attribute__((noinline)) size_t few_by_later_lanes(const struct plane *plane,
                                                           const uint64_t *hashes,
                                                           uint64_t maybe,
                                                           uint64_t *absent)
{
    const struct plane p = *plane;
    const uint64_t *before = hashes;
    uint64_t h[ITEM], left = maybe;
    for (uint32_t lane = 1; lane < p.lanes && left; lane++, before = h) {
        for (uint64_t m = left; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(m);
            h[i] = geometry_next_lane(before[i]);
            __builtin_prefetch(plane_block(&p, lane, h[i]));
        }
        for (uint64_t m = left; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(m);
            if (!has(plane_block(&p, lane, h[i]), PLANE_WORDS(&p), h[i]))
                left &= ~(m & -m);
        }
    }
    *absent |= maybe & ~left;
    return (size_t)__builtin_popcountll(*absent);
}

/* Writes what the first lanes of n keys lack, and asks the other lanes for the rest. */
KERNEL inline size_t few_end(const struct plane *plane, const uint64_t *hashes,
                             size_t n, uint64_t lacks, uint64_t *absent)
{
    uint64_t maybe = UINT64_MAX >> (ITEM - n) & ~lacks;
    *absent = lacks;
    if (plane->lanes > 1 && maybe)
        return few_by_later_lanes(plane, hashes, maybe, absent);
    return (size_t)__builtin_popcountll(lacks);
}

/* Not inlined: it needs registers, for which four keys would pay. */
KERNEL __attribute__((noinline)) size_t few_in_two_passes(const struct plane *plane,
                                                          const uint64_t *hashes,
                                                          size_t n, uint64_t *absent)
{
    const uint8_t *bits = plane->bits, *block[ITEM];
    const uint64_t n_blocks = plane->n_blocks;
    const uint32_t words = PLANE_WORDS(plane);
    uint64_t lacks = 0;
    size_t i = 0;
    do {
        block[i] = bits + geometry_block(hashes[i], n_blocks) * BLOCK_BYTES;
        __builtin_prefetch(block[i]);
    } while (++i < n);
    i = 0;
    do
        lacks |= (uint64_t)!has(block[i], words, hashes[i]) << i;
    while (++i < n);
    return few_end(plane, hashes, n, lacks, absent);
}

/* Does the first lane of a plane lack key i of these? */
#define LACKS(i)                                                                       \
    ((uint64_t)!has(bits + geometry_block(h[i], n_blocks) * BLOCK_BYTES, words, h[i])  \
     << (i))

/* Asks one key or more. The lines of four keys are not fetched before: that takes as
 * long as a look at them, and a processor has four in flight by itself. */
KERNEL size_t answer_few(const struct plane *plane, const uint64_t *hashes, size_t n,
                         uint64_t *absent)
{
    if (n != 4)
        return few_in_two_passes(plane, hashes, n, absent);
    const uint8_t *bits = plane->bits;
    const uint64_t n_blocks = plane->n_blocks, *h = hashes;
    const uint32_t words = PLANE_WORDS(plane);
    uint64_t lacks = LACKS(0) | LACKS(1) | LACKS(2) | LACKS(3);
    return few_end(plane, hashes, n, lacks, absent);
}
