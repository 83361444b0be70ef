/* Pages made from pages: folds, unions, intersections. Every source page is copied and
 * the copy checked before a bit of it goes on, whatever the filter's own mode: damage
 * must not leave with a good digest. Bits have no byte order. */
#include "lib/derive/inside.h"

static void meet_block(uint8_t *restrict to, const uint8_t *restrict from)
{
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        to[i] &= from[i];
}

bool block_is_full(const uint8_t *block)
{
    return block[0] == 0xff && memcmp(block, block + 1, BLOCK_BYTES - 1) == 0;
}

uint64_t full_blocks_in(const uint8_t page[PAGE_BYTES], uint64_t n)
{
    uint64_t n_full = 0;
    for (uint64_t b = 0; b < n; b++)
        n_full += block_is_full(page + b * BLOCK_BYTES);
    return n_full;
}

/* They are asked for one after the other. */
static bool source_page(const struct operand *o, uint64_t page, enum damaged_as as,
                        uint8_t out[PAGE_BYTES])
{
    stage_read_ahead(o->stage, page);
    if (!stage_copy_page(o->stage, page, out)) {
        memset(out, as == DAMAGED_AS_ZEROS ? 0 : 0xff, PAGE_BYTES);
        return false;
    }
    /* A block of nothing but ones is no keys' work: a damaged page became so when it
     * was sealed, or copied into this filter, and its digest is good by now. */
    for (size_t at = 0; at < PAGE_BYTES && as == DAMAGED_AS_ZEROS; at += BLOCK_BYTES)
        if (block_is_full(out + at))
            memset(out + at, 0, BLOCK_BYTES);
    return as != FULL_IS_DAMAGED || !full_blocks_in(out, BLOCKS_PER_PAGE);
}

struct operand operand_folded_to(const struct source *s, const struct geometry *g)
{
    return (struct operand){&s->view->stages[0], only_stage(s)->n_blocks / g->n_blocks};
}

uint64_t page_blocks(const struct geometry *g, uint64_t page)
{
    uint64_t left = g->lanes * g->n_blocks - page * BLOCKS_PER_PAGE;
    return left < BLOCKS_PER_PAGE ? left : BLOCKS_PER_PAGE;
}

static void unite_runs(const struct operand *o, uint64_t page, enum damaged_as as,
                       uint8_t out[PAGE_BYTES], uint64_t *n_damaged)
{
    _Alignas(BLOCK_BYTES) uint8_t source[PAGE_BYTES];
    uint64_t run = 0; /* blocks so far of those that make the block at `out` */
    uint64_t from = page * o->factor, left = o->stage->n_pages - from;
    memset(out, 0, PAGE_BYTES);
    for (uint64_t i = 0; i < o->factor && i < left; i++) {
        *n_damaged += !source_page(o, from + i, as, source);
        for (size_t at = 0; at < PAGE_BYTES; at += BLOCK_BYTES) {
            block_join(out, source + at);
            if (++run == o->factor) {
                run = 0;
                out += BLOCK_BYTES;
            }
        }
    }
}

/* Block choice is a multiply-high, so a key's block among n_blocks / f is its block
 * among n_blocks, divided by f (SPEC.md §4). Lanes leave no gap between them. */
void operand_page(const struct operand *o, uint64_t page, enum damaged_as as,
                  uint8_t out[PAGE_BYTES], uint64_t *n_damaged)
{
    struct geometry g = o->stage->geometry;
    g.n_blocks /= o->factor;
    if (o->factor == 1)
        *n_damaged += !source_page(o, page, as, out);
    else
        unite_runs(o, page, as, out, n_damaged);
    /* Behind the last block are zeros, whatever the source has there. */
    size_t end = (size_t)page_blocks(&g, page) * BLOCK_BYTES;
    memset(out + end, 0, PAGE_BYTES - end);
}

int operands_take(struct tamis_filter *one, struct tamis_filter *other,
                  const char *doing, struct operand o[2], struct geometry *g,
                  struct tamis_diag *diag)
{
    struct tamis_filter *const both[] = {one, other};
    struct source *s;
    int err = sources_take(both, 2, CAN_COMPARE, &s, diag);
    if (err)
        return err;
    err = common_geometry(s, 2, doing, g, diag);
    for (int i = 0; i < 2 && !err; i++)
        o[i] = operand_folded_to(&s[i], g);
    free(s);
    return err;
}

void recipe_page(const struct recipe *r, uint64_t page, uint8_t out[PAGE_BYTES],
                 uint64_t *n_damaged)
{
    uint8_t next[PAGE_BYTES];
    operand_page(&r->operands[0], page, DAMAGED_AS_ONES, out, n_damaged);
    for (size_t i = 1; i < r->n_operands; i++) {
        operand_page(&r->operands[i], page, DAMAGED_AS_ONES, next, n_damaged);
        for (size_t at = 0; at < PAGE_BYTES; at += BLOCK_BYTES)
            (r->common ? meet_block : block_join)(out + at, next + at);
    }
}
