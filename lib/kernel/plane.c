/* Sets up what kernels ask: planes in a row (kernel.h), the stages of a filter, and
 * ribbon planes (ribbon.h). */
#include "lib/kernel/kernel.h"
#include "lib/kernel/ribbon.h"

void plane_row_begin(struct plane_row *row, const struct plane *planes, size_t n)
{
    memset(row, 0, sizeof *row);
    row->planes = planes;
    row->n = (uint32_t)n;
    if (n > ROW_COLUMNS)
        return;
    for (size_t i = 0; i < n; i++)
        if (planes[i].n_blocks > UINT32_MAX)
            return;
    for (size_t i = 0; i < ROW_COLUMNS; i++) {
        const struct plane *p = &planes[i < n ? i : 0];
        row->words[i] = (uint8_t)p->words;
        row->n_blocks[i] = p->n_blocks;
        row->bits[i] = p->bits;
    }
    row->n_columns = (uint32_t)n;
    row->all = (UINT32_C(1) << n) - 1;
}

/* ---- ribbons: tables of blocks ---- */

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
