/* Geometry of one stage: the reference probe and add, byte by byte, so that they
 * read like SPEC.md §4 and behave the same on every machine. */
#include "geometry.h"

const uint32_t geometry_salt[WORDS_PER_BLOCK] = {
    SALT_0, SALT_1, SALT_2, SALT_3, SALT_4, SALT_5, SALT_6, SALT_7,
};

bool geometry_valid(const struct geometry *g)
{
    return g->lanes >= 1 && g->lanes <= MAX_LANES && g->words >= 1 &&
           g->words <= MAX_WORDS && g->n_blocks >= 1 && g->n_blocks <= MAX_BLOCKS;
}

bool geometry_bytes(const struct geometry *g, uint64_t *n_bytes)
{
    return mul_u64(g->n_blocks, g->lanes, n_bytes) &&
           mul_u64(*n_bytes, BLOCK_BYTES, n_bytes);
}

bool geometry_stage_bytes(const struct geometry *g, uint64_t *n_bytes)
{
    return geometry_bytes(g, n_bytes) && align_up_u64(*n_bytes, PAGE_BYTES, n_bytes);
}

/* Bit b of little-endian word w is bit b % 8 of byte 8w + b / 8. */
bool geometry_block_probe(const uint8_t block[BLOCK_BYTES], uint32_t words, uint64_t h)
{
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        uint32_t bit = geometry_bit(h, word);
        if (!(block[word * 8 + bit / 8] >> (bit % 8) & 1))
            return false;
    }
    return true;
}

void geometry_block_add(uint8_t block[BLOCK_BYTES], uint32_t words, uint64_t h)
{
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        uint32_t bit = geometry_bit(h, word);
        block[word * 8 + bit / 8] |= (uint8_t)(1U << (bit % 8));
    }
}

bool geometry_probe(const uint8_t *bits, const struct geometry *g, uint64_t h)
{
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        if (!geometry_block_probe(bits + geometry_block_offset(g, lane, h), g->words,
                                  h))
            return false;
        h = geometry_next_lane(h);
    }
    return true;
}

void geometry_add(uint8_t *bits, const struct geometry *g, uint64_t h)
{
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        geometry_block_add(bits + geometry_block_offset(g, lane, h), g->words, h);
        h = geometry_next_lane(h);
    }
}
