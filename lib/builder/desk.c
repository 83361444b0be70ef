/* A page of a ribbon from its hashes: their equations, sorted by counting, and solved
 * by the kernel.
 *
 * Pairs of blocks are filled from the left to the right, and each from its last row to
 * its first: the rows of a pair overflow into the next one, and take what room the
 * keys of its first rows would need. So those are the keys that are bumped
 * (Dillinger, Huebschle-Schneider, Sanders, Walzer: BuRR, 2022). */
#include "lib/builder/layer.h"

#include <stdlib.h>

struct ribbon_desk *ribbon_desk_create(const struct ribbon_geometry *g,
                                       const struct kernel *k)
{
    struct ribbon_desk *d = malloc(sizeof *d);
    if (d) {
        d->geometry = *g;
        d->kernel = k->ribbon;
    }
    return d;
}

/* Pair by pair, the rows of each falling. */
static uint32_t order_of(uint32_t row)
{
    return row ^ (RIBBON_PAIR_ROWS - 1);
}

static void bump_all(const struct ribbon_shape *s, uint8_t page[PAGE_BYTES])
{
    memset(page, 0, PAGE_BYTES);
    for (uint32_t block = 0; block < s->blocks; block += 2)
        page[ribbon_threshold_at(s, block)] = RIBBON_PAIR_ROWS;
}

void ribbon_page_make(struct ribbon_desk *d, uint64_t number, const uint64_t *hashes,
                      size_t n, uint8_t page[PAGE_BYTES])
{
    struct ribbon_geometry g = d->geometry;
    struct ribbon_shape s = ribbon_shape_of(g.blocks + (number < g.n_long));
    uint32_t n_places = s.blocks * RIBBON_WIDTH + RIBBON_PAIR_ROWS, at = 0;
    if (n > RIBBON_MOST_A_ROW * (size_t)s.blocks * RIBBON_WIDTH) {
        bump_all(&s, page);
        return;
    }
    memset(d->places, 0, n_places * sizeof d->places[0]);
    for (size_t i = 0; i < n; i++)
        d->places[order_of(ribbon_row(hashes[i] * g.n_pages, s.blocks))]++;
    for (uint32_t i = 0; i < n_places; i++) {
        uint32_t here = d->places[i];
        d->places[i] = at;
        at += here;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t row = ribbon_row(hashes[i] * g.n_pages, s.blocks);
        struct ribbon_key k = ribbon_key_of(hashes[i]);
        d->equations[d->places[order_of(row)]++] =
            (struct ribbon_equation){k.coefficients, k.fingerprint, row};
    }
    d->kernel->solve(&s, d->equations, n, &d->room, page);
}
