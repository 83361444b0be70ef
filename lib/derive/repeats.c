/* Blocks that repeat. A column of a pack may have fewer blocks than a page; as a filter
 * of its own it has each of them several times (SPEC.md 17). Keys that are counted by
 * bits would be counted as often. */
#include "lib/derive/inside.h"
#include "lib/derive/derive.h"

#include <string.h>

uint32_t page_repeats(const uint8_t page[PAGE_BYTES], uint32_t run)
{
    for (uint32_t b = 1; b < BLOCKS_PER_PAGE; b++)
        while (b % run && memcmp(page + b * BLOCK_BYTES, page + (b - 1) * BLOCK_BYTES,
                                 BLOCK_BYTES) != 0)
            run /= 2;
    return run;
}

uint32_t stage_repeats(struct stage *s)
{
    uint8_t page[PAGE_BYTES];
    uint32_t run = BLOCKS_PER_PAGE;
    for (uint64_t i = 0; i < s->n_pages && run > 1; i++)
        run = stage_copy_page(s, i, page) ? page_repeats(page, run) : 1;
    return run;
}

uint32_t filter_repeats(struct tamis_filter *f)
{
    return stage_repeats(&filter_view(f)->stages[0]);
}

void fold_runs(uint8_t page[PAGE_BYTES], uint32_t run)
{
    for (uint32_t b = 0; run > 1 && b < BLOCKS_PER_PAGE; b++) {
        uint8_t *block = page + b * BLOCK_BYTES, *to = page + b / run * BLOCK_BYTES;
        if (b % run == 0)
            memmove(to, block, BLOCK_BYTES);
        else
            for (size_t i = 0; i < BLOCK_BYTES; i++)
                to[i] |= block[i];
    }
    memset(page + PAGE_BYTES / run, 0, PAGE_BYTES - PAGE_BYTES / run);
}
