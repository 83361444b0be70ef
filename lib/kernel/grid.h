/* Many keys on many planes, for loops.h: 64 keys on one plane are an item, and
 * items go plane by plane, then on to the next 64 keys. */

struct item {
    const struct plane *plane;
    const uint64_t *hashes;
    const struct pattern *patterns; /* of the hashes, where there are several planes */
    size_t n;
    const uint8_t *block[ITEM]; /* first ones, if they were fetched ahead */
};

/* The keys of an item alive after some lanes, with their hashes for the next lane. If
 * the item is whole, all its keys are listed, with their blocks. */
struct survivors {
    const struct plane *plane;
    uint64_t alive;
    uint64_t *hits;
    bool whole;
    uint64_t h[ITEM];
    const uint8_t *block[ITEM];
};

KERNEL inline void fetch(struct item *t)
{
    for (size_t i = 0; i < t->n; i++) {
        t->block[i] = plane_block(t->plane, 0, t->hashes[i]);
        __builtin_prefetch(t->block[i]);
    }
}

/* Returns the words of this block that lack a bit of key i. If `known`, its pattern is
 * computed already. */
KERNEL inline uint8_t item_lacks(const uint64_t *hashes, const struct pattern *patterns,
                                 size_t i, const uint8_t *block, uint32_t words,
                                 bool known)
{
    if (known)
        return pattern_lacks(&patterns[i], words, block);
    struct pattern x = pattern_of(hashes[i]);
    return pattern_lacks(&x, words, block);
}

/* The first lanes of an item. If `ahead`, its blocks are prefetched, and it prefetches
 * those of the next item. Constants are in local variables, for speed. */
KERNEL inline uint64_t first_lanes(const struct item *now, struct item *next,
                                   bool known, bool ahead)
{
    const struct plane p = *now->plane, q = *next->plane;
    const uint64_t *h = now->hashes, *g = next->hashes;
    const struct pattern *x = now->patterns;
    uint8_t lacks[ITEM];
    if (ahead && now->n == ITEM && next->n == ITEM) {
        for (size_t i = 0; i < ITEM; i++) {
            const uint8_t *block = plane_block(&q, 0, g[i]);
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
        lacks[i] =
            item_lacks(h, x, i, plane_block(&p, 0, h[i]), PLANE_WORDS(&p), known);
    return zero_bytes(lacks);
}

/* Keys alive after lane `lane`, with these hashes there, go on to the next. */
KERNEL inline void survive(struct survivors *to, const struct plane *p, uint64_t alive,
                           uint32_t lane, const uint64_t *h, uint64_t *hits)
{
    to->plane = p;
    to->alive = 0;
    to->hits = hits;
    to->whole = false;
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

KERNEL inline void later_lane(struct survivors *here, struct survivors *to,
                              uint32_t lane)
{
    const struct plane p = *here->plane;
    uint64_t alive = 0;
    for (uint64_t m = here->alive; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        uint64_t h = here->h[i];
        alive |= (uint64_t)has(plane_block(&p, lane, h), PLANE_WORDS(&p), h) << i;
    }
    here->alive = 0;
    if (alive)
        survive(to, here->plane, alive, lane, here->h, here->hits);
}

/* The last lane first, to make room for earlier ones. */
KERNEL inline void later_lanes(struct survivors **s, uint32_t first)
{
    for (uint32_t lane = MAX_LANES - 1; lane >= first; lane--)
        if (s[lane]->alive)
            later_lane(s[lane], s[lane + 1], lane);
}

/* Where most keys are present, the second lane reads as many lines as the first, and
 * has a rolling window, too: it asks the lines of the previous item while it prefetches
 * those of this one. Dead keys go along, all with one line, which costs less than a
 * loop over the bits of a mask. */
enum { MOST = ITEM * 3 / 4 };

KERNEL inline const uint8_t *second_block(const struct plane *p, uint64_t alive,
                                          size_t i, uint64_t h)
{
    const uint8_t *block = plane_block(p, 1, h & (0 - (alive >> i & 1)));
    __builtin_prefetch(block);
    return block;
}

KERNEL inline uint64_t second_lanes(const struct survivors *before,
                                    struct survivors *to, const struct item *now,
                                    uint64_t alive)
{
    const struct plane p = *before->plane, q = *now->plane;
    const uint64_t *h = now->hashes;
    uint8_t lacks[ITEM];
    for (size_t i = 0; i < ITEM; i++) {
        struct pattern x = pattern_of(before->h[i]);
        to->h[i] = geometry_next_lane(h[i]);
        to->block[i] = second_block(&q, alive, i, to->h[i]);
        lacks[i] = pattern_lacks(&x, PLANE_WORDS(&p), before->block[i]);
    }
    return zero_bytes(lacks) & before->alive;
}

KERNEL inline void most_survive(struct survivors **s, const struct item *now,
                                uint64_t alive, uint64_t *hits)
{
    struct survivors *before = s[1], *to = s[0];
    if (before->alive && before->whole) {
        uint64_t left = second_lanes(before, to, now, alive);
        survive(s[2], before->plane, left, 1, before->h, before->hits);
    } else {
        later_lanes(s, 1);
        for (size_t i = 0; i < ITEM; i++) {
            to->h[i] = geometry_next_lane(now->hashes[i]);
            to->block[i] = second_block(now->plane, alive, i, to->h[i]);
        }
    }
    before->alive = 0;
    to->plane = now->plane;
    to->alive = alive;
    to->hits = hits;
    to->whole = true;
    s[0] = before;
    s[1] = to;
}

/* From first lanes to later ones, whose lines of earlier items have arrived. */
KERNEL inline void carry_on(struct survivors **s, const struct item *now,
                            uint64_t alive, uint64_t *hits, bool ahead)
{
    bool lone = now->plane->lanes == 1;
    *hits = lone ? alive : 0;
    later_lanes(s, 2);
    if (ahead && !lone && now->n == ITEM && __builtin_popcountll(alive) >= MOST) {
        most_survive(s, now, alive, hits);
        return;
    }
    later_lanes(s, 1);
    if (!lone && alive)
        survive(s[1], now->plane, alive, 0, now->hashes, hits);
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
    struct survivors later[MAX_LANES + 1],
        *at[MAX_LANES + 1]; /* of a lane; [0] is spare */
};

/* The item after `now`: these keys on the next plane, or the next keys on the first. */
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
    next->n = g->n_left < ITEM ? g->n_left : ITEM;
    if (g->n_planes == 1)
        return;
    struct pattern *x = g->patterns[now->patterns == g->patterns[0]];
    for (size_t i = 0; i < next->n; i++)
        x[i] = pattern_of(next->hashes[i]);
    next->patterns = x;
}

/* known and ahead are constants: several planes; prefetching. */
KERNEL inline void grid_go(struct grid *g, size_t n_items, uint64_t *hits, bool known,
                           bool ahead)
{
    for (size_t t = 0; t < n_items; t++) {
        struct item *now = &g->item[t % 2], *next = &g->item[(t + 1) % 2];
        next_item(g, now, next);
        uint64_t alive = first_lanes(now, next, known, ahead);
        carry_on(g->at, now, alive, &hits[t], ahead);
    }
    for (size_t lane = 1; lane < MAX_LANES; lane++)
        later_lanes(g->at, 1);
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
    for (size_t lane = 0; lane <= MAX_LANES; lane++) {
        g.at[lane] = &g.later[lane];
        g.at[lane]->alive = 0;
    }
    /* Before the first item: the last plane, no keys. */
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
