/* At most 64 keys on one plane, for loops.h: an engine's MultiGet. grid.h sets up a
 * window that rolls over items, which costs more than a few keys take. Here all lines
 * are fetched in one pass, and looked at in a second. */

/* The keys of `maybe` that the lanes from the second on have, too. */
KERNEL inline uint64_t few_later_lanes(const struct plane *p, const uint64_t *hashes,
                                       uint64_t maybe)
{
    uint64_t h[ITEM];
    for (uint64_t m = maybe; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        h[i] = hashes[i];
    }
    for (uint32_t lane = 1; lane < p->lanes && maybe; lane++) {
        for (uint64_t m = maybe; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(m);
            h[i] = geometry_next_lane(h[i]);
            __builtin_prefetch(plane_block(p, lane, h[i]));
        }
        for (uint64_t m = maybe; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(m);
            if (!has(plane_block(p, lane, h[i]), PLANE_WORDS(p), h[i]))
                maybe &= ~(m & -m);
        }
    }
    return maybe;
}

/* Apart, lest every answer pay for the registers that this needs. */
KERNEL __attribute__((noinline)) size_t few_by_later_lanes(const struct plane *plane,
                                                           const uint64_t *hashes,
                                                           uint64_t maybe,
                                                           uint64_t *absent)
{
    const struct plane p = *plane;
    *absent |= maybe & ~few_later_lanes(&p, hashes, maybe);
    return (size_t)__builtin_popcountll(*absent);
}

/* At least one key. */
KERNEL size_t answer_few(const struct plane *plane, const uint64_t *hashes, size_t n,
                         uint64_t *absent)
{
    const uint8_t *bits = plane->bits, *block[ITEM];
    uint64_t n_blocks = plane->n_blocks, lacks = 0;
    size_t i = 0, n_absent = 0;
    do {
        block[i] = bits + geometry_block(hashes[i], n_blocks) * BLOCK_BYTES;
        __builtin_prefetch(block[i]);
    } while (++i < n);
    i = 0;
    do {
        bool is = !has(block[i], PLANE_WORDS(plane), hashes[i]);
        lacks |= (uint64_t)is << i;
        n_absent += is;
    } while (++i < n);
    *absent = lacks;
    if (plane->lanes > 1 && n_absent < n)
        return few_by_later_lanes(plane, hashes, UINT64_MAX >> (ITEM - n) & ~lacks,
                                  absent);
    return n_absent;
}
