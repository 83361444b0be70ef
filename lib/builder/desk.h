/* Ribbon pages made from hashes, one by one. */
#ifndef TAMIS_BUILDER_DESK_H
#define TAMIS_BUILDER_DESK_H

#include "lib/kernel/ribbon.h"

enum {
    RIBBON_MAX_ROWS = (RIBBON_MAX_BLOCKS + 1) * RIBBON_WIDTH,
    RIBBON_MAX_PLACES = RIBBON_MAX_ROWS + 2 * RIBBON_PAIR_ROWS,
    /* A page that gets more bumps all of them: it gets them from a poor hash or an
     * attacker only. */
    RIBBON_MOST_A_ROW = 4,
};

/* A thread's memory for making pages of a stage. */
struct ribbon_desk {
    struct ribbon_geometry geometry;
    const struct ribbon_kernel *kernel;
    struct ribbon_room room;
    uint32_t places[RIBBON_MAX_PLACES];
    struct ribbon_equation equations[RIBBON_MOST_A_ROW * RIBBON_MAX_ROWS];
};

/* NULL: no memory. free() ends it. */
struct ribbon_desk *ribbon_desk_create(const struct ribbon_geometry *g,
                                       const struct kernel *k);

/* Makes page `number` of all hashes that map to it. */
void ribbon_page_make(struct ribbon_desk *d, uint64_t number, const uint64_t *hashes,
                      size_t n, uint8_t page[PAGE_BYTES]);

#endif
