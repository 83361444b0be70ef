/* Blocks in the caller's memory: the geometry of a stage without a file around it, for
 * engines that keep tiny filters inside their own blocks. Their memory has any
 * alignment and kernels want aligned words: a block is copied, which is one line. */
#include "lib/kernel/kernel.h"
#include "format/geometry.h"

#include <string.h>

static struct geometry geometry_of(const struct tamis_blocks *b)
{
    return (struct geometry){b->n_blocks, b->lanes, b->words};
}

uint64_t tamis_blocks_bytes(const struct tamis_blocks *blocks)
{
    struct geometry g = geometry_of(blocks);
    return geometry_valid(&g) ? g.n_blocks * g.lanes * BLOCK_BYTES : 0; /* 2^40 */
}

static bool is_length_of(const struct tamis_blocks *b, const void *bits, size_t n_bytes)
{
    return bits && n_bytes && n_bytes == tamis_blocks_bytes(b);
}

/* Zero is the tag of no domain: of keys that nobody hashed. */
static bool is_of(const struct tamis_blocks *b, const struct tamis_key *key)
{
    return key->tag && key->tag == b->tag;
}

int tamis_blocks_add(const struct tamis_blocks *blocks, void *bits, size_t n_bytes,
                     const struct tamis_key *keys, size_t n)
{
    struct geometry g = geometry_of(blocks);
    if (!is_length_of(blocks, bits, n_bytes))
        return TAMIS_ERR_RANGE;
    for (size_t i = 0; i < n; i++)
        if (!is_of(blocks, &keys[i]))
            return TAMIS_ERR_MISMATCH;
    for (size_t i = 0; i < n; i++)
        geometry_add(bits, &g, keys[i].hash);
    return 0;
}

static bool may_have(const struct geometry *g, const uint8_t *bits, uint64_t h)
{
    const struct kernel *kernel = kernel_get();
    for (uint32_t lane = 0; lane < g->lanes; lane++, h = geometry_next_lane(h)) {
        _Alignas(BLOCK_BYTES) uint8_t block[BLOCK_BYTES];
        memcpy(block, bits + geometry_block_offset(g, lane, h), sizeof block);
        if (!kernel->block_probe(block, g->words, h))
            return false;
    }
    return true;
}

enum tamis_answer tamis_blocks_probe(const struct tamis_blocks *blocks,
                                     const void *bits, size_t n_bytes,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    struct geometry g = blocks ? geometry_of(blocks) : (struct geometry){0};
    enum tamis_reason reason = TAMIS_HIT;
    if (!blocks || !is_length_of(blocks, bits, n_bytes))
        reason = TAMIS_UNREADABLE;
    else if (!key || !is_of(blocks, key))
        reason = TAMIS_MISMATCH;
    else if (!may_have(&g, bits, key->hash))
        reason = TAMIS_NO_REASON;
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}
