/* The reference probe of a column, by SPEC.md §17.1. */
#ifndef TAMIS_TESTS_BAND_REFERENCE_H
#define TAMIS_TESTS_BAND_REFERENCE_H

#include "format/pack.h"

/* May column `column` of the band have the key? */
static inline bool band_probe(const uint8_t *rows, const struct band *b,
                              uint32_t column, uint64_t h)
{
    const struct geometry *g = &b->geometry;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        uint64_t block = geometry_block(h, g->n_blocks);
        for (uint32_t i = 0; i < g->words; i++) {
            uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
            uint64_t row = band_row(b, lane, block, word * 64 + geometry_bit(h, word));
            if (!(rows[row + column / 8] >> column % 8 & 1))
                return false;
        }
        h = geometry_next_lane(h);
    }
    return true;
}

#endif
