/* Bare loads, one from each line of 64 bytes, keys side by side, none waiting for
 * another, and nothing else: no filter whose lines these are can be asked sooner. */
#include "tests/bench/peers/peers.h"

#include <stdlib.h>

enum { WINDOW = 64 };

void lines_add(struct lines *lines, const uint8_t *base, const struct geometry *g)
{
    lines->lanes = realloc(lines->lanes, (lines->n + g->lanes) * sizeof *lines->lanes);
    if (!lines->lanes)
        give_up("no memory for a list of lanes");
    for (uint32_t i = 0; i < g->lanes; i++, base += g->n_blocks * BLOCK_BYTES)
        lines->lanes[lines->n++] = (struct lane){base, g->n_blocks, i > 0};
}

static inline const uint64_t *line_at(const struct lane *lane, uint64_t h)
{
    const uint8_t *at = lane->base + geometry_block(h, lane->n_blocks) * BLOCK_BYTES;
    return (const uint64_t *)(const void *)at;
}

/* Nothing depends on it. */
static inline void load(const uint64_t *at)
{
    __asm__ volatile("" : : "r"(*at));
}

/* The lines of a key, loaded or only fetched. */
static inline void key_lines(const struct lines *l, uint64_t key, bool present,
                             bool fetch)
{
    uint64_t h = key;
    for (size_t i = 0; i < l->n; i++) {
        const struct lane *lane = &l->lanes[i];
        h = lane->next ? geometry_next_lane(h) : key;
        if (lane->next && !present)
            continue;
        if (fetch)
            __builtin_prefetch(line_at(lane, h));
        else
            load(line_at(lane, h));
    }
}

size_t ask_lines(void *lines, const struct piece *p)
{
    const struct lines *l = lines;
    const struct lane first = l->lanes[0];
    bool one = l->n == 1 || (l->lanes[1].next && !p->present);
    for (size_t i = 0; i < p->n; i++)
        if (one)
            load(line_at(&first, p->hashes[i]));
        else
            key_lines(l, p->hashes[i], p->present, false);
    return 0;
}

/* Lines are fetched some keys ahead: 64 lines are on their way. */
size_t ask_lines_ahead(void *lines, const struct piece *p)
{
    const struct lines *l = lines;
    size_t ahead = (WINDOW + l->n - 1) / l->n;
    for (size_t i = 0; i < p->n; i++) {
        if (i + ahead < p->n)
            key_lines(l, p->hashes[i + ahead], p->present, true);
        key_lines(l, p->hashes[i], p->present, false);
    }
    return 0;
}

size_t ask_line_of(void *lines, const struct piece *p)
{
    const struct lines *l = lines;
    for (size_t i = 0; i < p->n; i++)
        load(line_at(&l->lanes[p->segments[i]], p->hashes[i]));
    return 0;
}
