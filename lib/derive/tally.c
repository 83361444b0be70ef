/* Estimates the keys and the error of a derived filter from its bits: counts the bits
 * of every page as it is written, and measures a sample of the blocks. */
#include "lib/derive/inside.h"

enum { MEASURED_PAGES = 4096 }; /* of a large stage: at most, and half at least */
static const double LEAST_ERROR = 0x1p-40;

/* ---- page by page ---- */

static void measure_page(struct tally *f, const struct geometry *g, uint64_t page,
                         const uint8_t *bits)
{
    uint64_t block = page * BLOCKS_PER_PAGE, end = block + page_blocks(g, page);
    uint64_t lane = block / g->n_blocks;
    for (; block < end; block++, bits += BLOCK_BYTES) {
        lane += block == (lane + 1) * g->n_blocks;
        if (block_is_full(bits)) {
            f->n_full[lane]++;
        } else if (page % f->step == 0) {
            double error = plan_block_error(bits, g->words);
            f->n_measured[lane]++;
            f->sum[lane] += error;
            f->squares[lane] += error * error;
        }
    }
}

void derived_count_page(struct derived *d, uint32_t stage, uint64_t page,
                        const uint8_t bits[PAGE_BYTES])
{
    struct stage_desc *s = &d->commit.stages[stage];
    if (page == 0)
        d->tallies[stage].step = s->length / PAGE_BYTES / MEASURED_PAGES + 1;
    s->bits_set += page_bits(kernel_get(), bits);
    measure_page(&d->tallies[stage], &s->geometry, page, bits);
}

/* ---- what they tell ---- */

double derived_error(const struct commit *c)
{
    double passes = 1;
    for (uint32_t i = 0; i < c->n_stages; i++)
        passes *= 1 - c->stages[i].target_error;
    return 1 - passes;
}

static uint64_t full_blocks(const struct tally *f)
{
    uint64_t n = 0;
    for (uint32_t lane = 0; lane < MAX_LANES; lane++)
        n += f->n_full[lane];
    return n;
}

/* Blocks that are all ones do not come from keys: a damaged page was copied as ones,
 * now or before. If all blocks are so, the count is the most that it can be. */
static uint64_t keys_told(const struct stage_desc *s, const struct recipe *r,
                          const struct tally *f)
{
    const struct geometry *g = &s->geometry;
    uint64_t n_full = full_blocks(f), n_bits = g->lanes * g->n_blocks * BLOCK_BITS,
             full = n_full * BLOCK_BITS;
    uint64_t most = plan_keys_of_bits(g, n_bits - 1);
    if (full == n_bits)
        return r->keys && r->keys < most ? r->keys : most;
    double share = (double)(s->bits_set - full) / (double)(n_bits - full);
    uint64_t n_set = n_full ? (uint64_t)(share * (double)n_bits) : s->bits_set;
    uint64_t keys = plan_keys_of_bits(g, n_set);
    return keys < most ? keys : most;
}

/* The error by the number of keys, if the bits lie as keys would have set them: no
 * block is full, and their mean is at most 4 deviations above it. Else, and for an
 * intersection, whose bits are no keys', the error of the blocks as they are. */
static double stage_error(const struct stage_desc *s, const struct recipe *r,
                          const struct tally *f, uint64_t keys)
{
    double expected = plan_geometry_error(&s->geometry, r->unfold ? r->unfold : keys);
    double error = 1, variance = 0;
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        double full = (double)f->n_full[lane] / (double)s->geometry.n_blocks;
        double n = (double)f->n_measured[lane], mean = n > 0 ? f->sum[lane] / n : 1;
        error *= full + (1 - full) * mean;
        if (n > 0 && mean > 0)
            variance += (f->squares[lane] / n / (mean * mean) - 1) / n;
    }
    double above = error - expected;
    bool told = !r->common && !full_blocks(f) &&
                (above <= 0 || above * above <= 16 * variance * error * error);
    return told ? expected : error;
}

/* Sets keys and error from the bits. No answer rests on them (R9). */
void derived_judge(struct derived *d)
{
    struct commit *c = &d->commit;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        struct stage_desc *s = &c->stages[i];
        uint64_t keys = keys_told(s, &d->recipes[i], &d->tallies[i]);
        if (!s->keys)
            s->keys = keys;
        s->capacity = s->keys;
        s->target_error = stage_error(s, &d->recipes[i], &d->tallies[i], keys);
        if (s->target_error < LEAST_ERROR)
            s->target_error = LEAST_ERROR; /* an empty one: above 0 (SPEC.md 8.3) */
        c->keys += s->keys;
    }
    d->identity.target_error = d->target < ERROR_MAX ? d->target : ERROR_MAX;
}
