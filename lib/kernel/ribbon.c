/* Shared by ribbon kernels: tables of blocks. */
#include "lib/kernel/ribbon.h"

static struct ribbon_entry entry_of(const struct ribbon_shape *s, uint32_t block)
{
    uint32_t n = ribbon_columns(s, block), at = ribbon_block_at(s, block);
    /* Keys that begin in the last block end there. */
    uint32_t next = ribbon_block_at(s, block + (block + 1 < s->blocks));
    uint32_t end = next + 8 * RIBBON_WORDS;
    uint32_t before = end > PAGE_BYTES ? (end - PAGE_BYTES + 7) / 8 : 0;
    uint32_t n_first = n < RIBBON_WORDS ? n : RIBBON_WORDS;
    return (struct ribbon_entry){
        .here = (uint16_t)(at - 8 * before),
        .next = (uint16_t)(next - 8 * before),
        .threshold = (uint16_t)ribbon_threshold_at(s, block),
        .before = (uint8_t)before,
        .first = (uint8_t)(((1U << n_first) - 1) << before),
    };
}

void ribbon_plane_init(struct ribbon_plane *p, const uint8_t *bits,
                       const struct ribbon_geometry *g)
{
    struct ribbon_entry *e = p->entries;
    p->bits = bits;
    p->n_pages = g->n_pages;
    p->n_long = g->n_long;
    p->blocks = g->blocks;
    for (uint32_t more = 0; more < 2; more++) {
        struct ribbon_shape s = ribbon_shape_of(g->blocks + more);
        p->sizes[more] = (struct ribbon_size){s.blocks * RIBBON_WIDTH + 1,
                                              ribbon_last_row(s.blocks), e};
        for (uint32_t b = 0; b < s.blocks; b++)
            *e++ = entry_of(&s, b);
    }
}
