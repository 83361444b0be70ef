/* The bits that a filter must have after it was folded and repeated. They are made from
 * its keys, block by block, without the library's kernels, builders and packs. */
#ifndef TAMIS_TESTS_FOLDED_SUPPORT_H
#define TAMIS_TESTS_FOLDED_SUPPORT_H

#include "tests/support/support.h"

struct folded {
    struct geometry g;
    uint8_t *bits;
};

static UNUSED void folded_free(struct folded *f)
{
    free(f->bits);
    *f = (struct folded){.bits = NULL};
}

static UNUSED void folded_empty(struct folded *f, struct geometry g)
{
    folded_free(f);
    f->g = g;
    f->bits = calloc(g.n_blocks * g.lanes, BLOCK_BYTES);
    assert_non_null(f->bits);
}

static UNUSED uint8_t *folded_block(const struct folded *f, uint32_t lane, uint64_t b)
{
    return f->bits + (lane * f->g.n_blocks + b) * BLOCK_BYTES;
}

/* To n_blocks, of which the blocks are a multiple: each is the OR of a run. Or the
 * other way round: each is there several times. */
static UNUSED void folded_resize(struct folded *f, uint64_t n_blocks)
{
    struct folded to = {.bits = NULL};
    uint64_t from = f->g.n_blocks, most = from > n_blocks ? from : n_blocks;
    if (from == n_blocks)
        return;
    assert_true(from % n_blocks == 0 || n_blocks % from == 0);
    folded_empty(&to, (struct geometry){n_blocks, f->g.lanes, f->g.words});
    for (uint32_t lane = 0; lane < f->g.lanes; lane++)
        for (uint64_t b = 0; b < most; b++)
            for (size_t i = 0; i < BLOCK_BYTES; i++)
                folded_block(&to, lane, b * n_blocks / most)[i] |=
                    folded_block(f, lane, b * from / most)[i];
    folded_free(f);
    *f = to;
}

static UNUSED uint64_t folded_divisor(uint64_t a, uint64_t b)
{
    return b ? folded_divisor(b, a % b) : a;
}

#endif
