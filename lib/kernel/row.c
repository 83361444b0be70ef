/* Sets up the planes that a key is asked of in a row (kernel.h): the stages of a
 * filter. */
#include "lib/kernel/kernel.h"

#include <string.h>

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
