/* Which filters lie in one band.
 *
 * All columns of a band have the same number of blocks. A filter gets there by a fold,
 * to a divisor of its blocks that keeps its error, and by repeating: own_blocks divides
 * both. A band costs bytes, for repeated blocks and for padding of its rows, and every
 * probe `words` lines. So filters are grouped by the least blocks that keep their
 * error, and a group joins a larger one where that saves more bytes than it takes; a
 * band counts as a share of all bytes, so that few are left of small ones. */
#include "lib/pack/pack.h"
#include "lib/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A band counts as this share of the bytes of all blocks. */
enum { BAND_SHARE = 256 };

/* Sources that would have the same blocks a lane. */
struct group {
    struct geometry geometry;
    uint32_t first, n;  /* of the sorted sources */
    uint64_t common;    /* the greatest common divisor of their blocks */
    struct group *into; /* joined this group */
};

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- one filter ---- */

static bool keeps_error(const struct pack_source *s, uint64_t n_blocks)
{
    struct geometry g = s->geometry;
    double as_it_is = plan_geometry_error(&g, s->keys);
    g.n_blocks = n_blocks;
    double error = plan_geometry_error(&g, s->keys);
    return error <= s->target_error || error <= as_it_is;
}

/* The least divisor of its blocks that keeps its error. Divisors come in pairs; errors
 * fall as blocks rise. */
static uint64_t least_blocks(const struct pack_source *s)
{
    uint64_t n = s->geometry.n_blocks, least = n;
    for (uint64_t d = 1; d * d <= n; d++) {
        if (n % d != 0)
            continue;
        if (n / d < least && keeps_error(s, n / d))
            least = n / d;
        if (d < least && keeps_error(s, d))
            return d;
    }
    return least;
}

/* ---- groups ---- */

static int compare_sources(const void *left, const void *right)
{
    const struct pack_source *a = *(struct pack_source *const *)left;
    const struct pack_source *b = *(struct pack_source *const *)right;
    if (a->geometry.lanes != b->geometry.lanes)
        return a->geometry.lanes < b->geometry.lanes ? -1 : 1;
    if (a->geometry.words != b->geometry.words)
        return a->geometry.words < b->geometry.words ? -1 : 1;
    if (a->own_blocks != b->own_blocks)
        return a->own_blocks < b->own_blocks ? -1 : 1;
    return (a > b) - (a < b);
}

static bool same_shape(const struct geometry *a, const struct geometry *b)
{
    return a->lanes == b->lanes && a->words == b->words;
}

static size_t make_groups(struct pack_source *const *sorted, size_t n,
                          struct group *groups)
{
    size_t n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        const struct pack_source *s = sorted[i];
        struct group *g = n_groups ? &groups[n_groups - 1] : NULL;
        if (!g || g->geometry.n_blocks != s->own_blocks ||
            !same_shape(&g->geometry, &s->geometry)) {
            g = &groups[n_groups++];
            *g = (struct group){.geometry = s->geometry,
                                .first = (uint32_t)i,
                                .common = s->geometry.n_blocks};
            g->geometry.n_blocks = s->own_blocks;
        }
        g->common = greatest_common_divisor(g->common, s->geometry.n_blocks);
        g->n++;
    }
    return n_groups;
}

/* ---- joining ---- */

/* Bytes of the rows of n columns, at best, and what their bands count. *first: how many
 * go into the first band. Rows are as wide as a power of two, so that 71 columns would
 * leave 57 bits of each row empty: a band of 64 columns, and another one of seven, take
 * less. */
static double rows_cost(const struct geometry *g, uint32_t n, double band,
                        uint32_t *first)
{
    double row =
        (double)g->n_blocks * g->lanes * BLOCK_BITS; /* bytes, if a byte wide */
    uint32_t rest, whole = n < BAND_MAX_COLUMNS ? n : BAND_MAX_COLUMNS;
    double best = row * pack_row_bytes(whole) + band;
    *first = whole;
    if (n > whole)
        return best + rows_cost(g, n - whole, band, &rest);
    uint32_t part = pack_row_bytes(n) * 4; /* half as wide */
    if (n <= 8 || n > 512 || part >= n)    /* wider rows waste little */
        return best;
    double split = row * (part / 8) + band + rows_cost(g, n - part, band, &rest);
    if (split < best)
        *first = part;
    return split < best ? split : best;
}

/* Can all of a group lie in a band of b's blocks? Each is folded to the greatest common
 * divisor of its blocks and the band's. */
static bool fits_into(const struct group *g, const struct group *b)
{
    return same_shape(&g->geometry, &b->geometry) &&
           greatest_common_divisor(g->common, b->geometry.n_blocks) >=
               g->geometry.n_blocks;
}

/* The best group for g to join, of those behind it, which are larger; NULL: it stays.
 */
static struct group *best_to_join(struct group *g, struct group *end, double band)
{
    struct group *best = NULL;
    double most = 0;
    uint32_t first;
    for (struct group *b = g + 1; b < end; b++) {
        if (b->into || !fits_into(g, b))
            continue;
        double saved = rows_cost(&g->geometry, g->n, band, &first) +
                       rows_cost(&b->geometry, b->n, band, &first) -
                       rows_cost(&b->geometry, g->n + b->n, band, &first);
        if (saved > most) {
            most = saved;
            best = b;
        }
    }
    return best;
}

/* The cost of a band, in bytes. */
static double band_cost(const struct group *groups, size_t n)
{
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += (double)groups[i].geometry.n_blocks * groups[i].geometry.lanes *
               BLOCK_BYTES * groups[i].n;
    return all / BAND_SHARE;
}

static void join_groups(struct group *groups, size_t n, double band)
{
    for (size_t i = 0; i < n; i++) {
        struct group *g = &groups[i];
        struct group *b = best_to_join(g, groups + n, band);
        if (!b)
            continue;
        b->n += g->n; /* its own sources are still those from `first` on */
        b->common = greatest_common_divisor(b->common, g->common);
        g->into = b;
    }
}

static struct group *group_at_last(struct group *g)
{
    while (g->into)
        g = g->into;
    return g;
}

/* ---- the plan ---- */

/* Its own blocks: all that the band has room for. */
static void place(struct pack_source *s, const struct band *b, uint32_t band,
                  uint32_t column)
{
    s->own_blocks = greatest_common_divisor(s->geometry.n_blocks, b->geometry.n_blocks);
    s->band = band;
    s->column = column;
}

static int add_bands(struct pack_plan *p, const struct group *g, uint32_t n,
                     double band)
{
    while (n) {
        uint32_t some;
        rows_cost(&g->geometry, n, band, &some);
        if (p->n_bands == PACK_MAX_BANDS)
            return TAMIS_ERR_RANGE;
        p->bands[p->n_bands++] = (struct band){.geometry = g->geometry,
                                               .n_columns = some,
                                               .row_bytes = pack_row_bytes(some)};
        n -= some;
    }
    return 0;
}

static int compare_bands(const void *left, const void *right)
{
    const struct band *a = left, *b = right;
    if (a->row_bytes != b->row_bytes) /* SPEC.md 17.1: blocks within pages */
        return a->row_bytes > b->row_bytes ? -1 : 1;
    if (a->geometry.n_blocks != b->geometry.n_blocks)
        return a->geometry.n_blocks > b->geometry.n_blocks ? -1 : 1;
    if (a->geometry.lanes != b->geometry.lanes)
        return a->geometry.lanes < b->geometry.lanes ? -1 : 1;
    return (a->geometry.words > b->geometry.words) -
           (a->geometry.words < b->geometry.words);
}

static int lay_out(struct pack_plan *p)
{
    uint64_t at = 0;
    uint32_t column = 0;
    if (p->n_bands > 1)
        qsort(p->bands, p->n_bands, sizeof *p->bands, compare_bands);
    for (uint32_t i = 0; i < p->n_bands; i++) {
        struct band *b = &p->bands[i];
        b->rows_offset = at;
        b->first_column = column;
        column += b->n_columns;
        at += band_bytes(b);
        if (at > INT64_MAX / 2)
            return EFBIG;
    }
    p->n_columns = column;
    align_up_u64(at, PAGE_BYTES, &p->rows_bytes);
    return 0;
}

/* Gives each source the next free column of a band of its group's geometry. */
static void fill_bands(struct pack_plan *p, const struct pack_source *sources,
                       struct pack_source *const *sorted, struct group *groups,
                       size_t n_groups, uint32_t *used, size_t n)
{
    for (size_t k = 0; k < n_groups; k++) {
        const struct group *g = group_at_last(&groups[k]);
        size_t end = k + 1 < n_groups ? groups[k + 1].first : n;
        uint32_t band = 0;
        for (size_t i = groups[k].first; i < end; i++) {
            struct pack_source *s = sorted[i];
            while (p->bands[band].geometry.n_blocks != g->geometry.n_blocks ||
                   !same_shape(&p->bands[band].geometry, &g->geometry) ||
                   used[band] == p->bands[band].n_columns)
                band++;
            p->order[p->bands[band].first_column + used[band]] =
                (uint32_t)(s - sources);
            place(s, &p->bands[band], band, used[band]++);
        }
    }
}

struct choosing {
    struct pack_source **sorted;
    uint32_t *used;
    struct group *groups;
};

static int choose(struct choosing *c, struct pack_source *sources, size_t n,
                  struct pack_plan *p)
{
    for (size_t i = 0; i < n; i++) {
        c->sorted[i] = &sources[i];
        sources[i].own_blocks = least_blocks(&sources[i]);
    }
    qsort(c->sorted, n, sizeof(struct pack_source *), compare_sources);
    size_t n_groups = make_groups(c->sorted, n, c->groups);
    double band = band_cost(c->groups, n_groups);
    join_groups(c->groups, n_groups, band);
    for (size_t i = 0; i < n_groups; i++) {
        int err =
            c->groups[i].into ? 0 : add_bands(p, &c->groups[i], c->groups[i].n, band);
        if (err)
            return err;
    }
    int err = lay_out(p);
    if (!err)
        fill_bands(p, sources, c->sorted, c->groups, n_groups, c->used, n);
    return err;
}

int bands_choose(struct pack_source *sources, size_t n, struct pack_plan *out)
{
    memset(out, 0, sizeof *out);
    if (n == 0 || n > PACK_MAX_COLUMNS)
        return TAMIS_ERR_RANGE;
    struct choosing c = {
        .sorted = malloc(n * sizeof(struct pack_source *)),
        .used = calloc(PACK_MAX_BANDS, sizeof *c.used),
        .groups = malloc(n * sizeof *c.groups),
    };
    out->bands = calloc(PACK_MAX_BANDS, sizeof *out->bands);
    out->order = malloc(n * sizeof *out->order);
    int err = c.sorted && c.used && c.groups && out->bands && out->order
                  ? choose(&c, sources, n, out)
                  : ENOMEM;
    free(c.sorted);
    free(c.used);
    free(c.groups);
    if (err)
        pack_plan_free(out);
    return err;
}

void pack_plan_free(struct pack_plan *p)
{
    free(p->bands);
    free(p->order);
    memset(p, 0, sizeof *p);
}
