/* Bare loads, one from each line of 64 bytes, keys side by side, none waiting for
 * another, and nothing else: no filter whose lines these are can be asked sooner. Lines
 * of a pack are those of whole rows. */
#include "tests/bench/peers/peers.h"

enum { WINDOW = 64 };

static struct lane *lines_more(struct lines *lines, uint32_t n)
{
    lines->lanes = realloc(lines->lanes, (lines->n + n) * sizeof *lines->lanes);
    if (!lines->lanes)
        give_up("no memory for a list of lanes");
    lines->n += n;
    return lines->lanes + lines->n - n;
}

void lines_add(struct lines *lines, const uint8_t *base, const struct geometry *g)
{
    struct lane *lanes = lines_more(lines, g->lanes);
    lines->n_lines += g->lanes;
    for (uint32_t i = 0; i < g->lanes; i++, base += g->n_blocks * BLOCK_BYTES)
        lanes[i] = (struct lane){.base = base, .n_blocks = g->n_blocks, .next = i > 0};
}

const uint8_t *lines_add_rows(struct lines *lines, const uint8_t *rows,
                              const struct tamis_pack_place *p)
{
    struct lane *lanes = lines_more(lines, p->lanes);
    uint64_t row = p->row_bytes;
    lines->n_lines += p->words * (row + BLOCK_BYTES - 1) / BLOCK_BYTES;
    for (uint32_t i = 0; i < p->lanes; i++, rows += p->n_blocks * BLOCK_BITS * row)
        lanes[i] = (struct lane){rows, p->n_blocks, i > 0, p->words, row, row};
    return rows;
}

/* Nothing depends on it. */
static inline void load(const void *at, bool fetch)
{
    if (fetch)
        __builtin_prefetch(at);
    else
        __asm__ volatile("" : : "r"(*(const volatile uint8_t *)at));
}

static inline void lane_lines(const struct lane *lane, uint64_t h, bool fetch)
{
    uint64_t block = geometry_block(h, lane->n_blocks);
    if (!lane->words)
        load(lane->base + block * BLOCK_BYTES, fetch);
    for (uint32_t i = 0; i < lane->words; i++) {
        uint32_t w = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        uint64_t row = block * BLOCK_BITS + w * 64 + geometry_bit(h, w);
        for (uint64_t at = 0; at < lane->n_bytes; at += BLOCK_BYTES)
            load(lane->base + row * lane->row_bytes + at, fetch);
    }
}

/* The lines of a key, loaded or only fetched. */
static inline void key_lines(const struct lines *l, uint64_t key, bool present,
                             bool fetch)
{
    uint64_t h = key;
    for (size_t i = 0; i < l->n; i++) {
        const struct lane *lane = &l->lanes[i];
        h = lane->next ? geometry_next_lane(h) : key;
        if (present || !lane->next)
            lane_lines(lane, h, fetch);
    }
}

size_t ask_lines(void *lines, const struct piece *p)
{
    const struct lines *l = lines;
    const struct lane first = l->lanes[0];
    bool one = l->n == 1 || (l->lanes[1].next && !p->present);
    for (size_t i = 0; i < p->n; i++)
        if (one)
            lane_lines(&first, p->hashes[i], false);
        else
            key_lines(l, p->hashes[i], p->present, false);
    return 0;
}

/* Lines are fetched some keys ahead: 64 lines are on their way. */
size_t ask_lines_ahead(void *lines, const struct piece *p)
{
    const struct lines *l = lines;
    size_t ahead = (WINDOW + l->n_lines - 1) / l->n_lines;
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
        lane_lines(&l->lanes[p->segments[i]], p->hashes[i], false);
    return 0;
}
