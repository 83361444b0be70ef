/* The size of a ribbon stage (SPEC.md §19.4).
 *
 * A page has the same bytes whatever its blocks: more blocks have fewer digits, so
 * more keys and more errors. Pages of B and of B + 1 blocks are mixed so that the stage
 * has the error that is asked for. Each gets as many keys, so the longer ones have some
 * rows to spare, and of the shorter ones a few more keys are bumped.
 *
 * The fuller the pages, the more keys are bumped. In a large filter they are filled so
 * that few are. In a small one whole pages decide: those of its stages, their digests
 * and its last stage are counted, and the fewest in all are taken. */
#include "lib/plan/plan.h"
#include "format/integrity.h"

#include <math.h>

enum { SMALL_PAGES = 1024, MAX_DEPTH = RIBBON_MOST_STAGES };
#define LARGE_LOAD 0.985 /* keys a row */
#define LEAST_LOAD 0.97
#define MOST_LOAD  1.12

/* ---- pages of an error ---- */

struct page_sizes {
    uint32_t blocks; /* of a shorter page */
    double longer;   /* what part of the pages has one more */
};

static double a_page(const struct page_sizes *r)
{
    return (r->blocks + r->longer) * RIBBON_WIDTH;
}

static struct page_sizes page_sizes_of(double error)
{
    double most = PAGE_BYTES / 8 / -log2(error); /* as many digits everywhere */
    uint32_t low = (uint32_t)fmin(fmax(most, RIBBON_MIN_BLOCKS), RIBBON_MAX_BLOCKS);
    while (low > RIBBON_MIN_BLOCKS && ribbon_page_error(low) > error)
        low--;
    double few = ribbon_page_error(low), many = ribbon_page_error(low + 1);
    double longer = error < few ? 0 : error < many ? (error - few) / (many - few) : 1;
    return (struct page_sizes){low, longer};
}

/* ---- keys that are bumped ---- */

/* Rows that stay empty, by the load, as measured for 16 to 480 blocks: a part of all,
 * more at the ends of a page, and more if its last pair has only one block. */
struct empty {
    double load, part, at_ends, odd;
};

static double between(double a, double b, double at)
{
    return a + (b - a) * at;
}

static struct empty empty_rows(double load)
{
    static const struct empty measured[] = {
        {0.90, 0.1000, 0.0, 0.0},  {0.94, 0.0600, 0.6, 1.2}, {0.97, 0.0310, 3.1, 3.2},
        {0.985, 0.0183, 4.8, 6.5}, {1.00, 0.0087, 6.5, 9.0}, {1.01, 0.0047, 6.4, 9.7},
        {1.03, 0.0011, 4.7, 12.0}, {1.06, 0.0002, 3.0, 9.5}, {1.12, 0.0001, 3.1, 6.5}};
    const size_t n = sizeof measured / sizeof measured[0];
    for (size_t i = 1; i < n; i++) {
        const struct empty *a = &measured[i - 1], *b = &measured[i];
        double at = (load - a->load) / (b->load - a->load);
        if (load < b->load)
            return (struct empty){load, between(a->part, b->part, at),
                                  between(a->at_ends, b->at_ends, at),
                                  between(a->odd, b->odd, at)};
    }
    return measured[n - 1];
}

static double bumped_of_page(double n_keys, uint32_t blocks)
{
    double rows = (double)blocks * RIBBON_WIDTH;
    struct empty e = empty_rows(n_keys / rows);
    double filled = rows * (1 - e.part) - e.at_ends - (blocks % 2 ? e.odd : 0);
    return n_keys > filled ? n_keys - filled : 0;
}

/* On average. */
static double bumped_keys(double n_keys, double n_pages, const struct page_sizes *r)
{
    double a_page = n_keys / n_pages;
    return n_pages * ((1 - r->longer) * bumped_of_page(a_page, r->blocks) +
                      r->longer * bumped_of_page(a_page, r->blocks + 1));
}

/* ---- how many ---- */

static uint64_t with_digests(uint64_t n_pages)
{
    return n_pages + digests_bytes(n_pages) / PAGE_BYTES;
}

/* About what split blocks take: a twentieth more than the classic formula. */
static uint64_t last_pages(double n_keys, double error)
{
    double bits = n_keys * 1.4427 * 1.05 * -log2(error);
    return with_digests((uint64_t)ceil((bits + 1) / 8 / PAGE_BYTES));
}

/* The pages of all stages that n_keys keys need; *n_pages: those of the next stage. */
static uint64_t least_pages(double n_keys, const struct page_sizes *r, double error,
                            unsigned depth, uint64_t *n_pages)
{
    double rows = a_page(r), first = floor(n_keys / rows / MOST_LOAD);
    uint64_t least = UINT64_MAX, last;
    double n = first < 1 ? 1 : first;
    *n_pages = 0;
    for (; n <= SMALL_PAGES && (n == 1 || n_keys / ((n - 1) * rows) > LEAST_LOAD);
         n++) {
        uint64_t next;
        double left = bumped_keys(n_keys, n, r);
        uint64_t all = with_digests((uint64_t)n);
        all += depth + 1 < MAX_DEPTH ? least_pages(left, r, error, depth + 1, &next)
                                     : last_pages(left, error);
        if (all <= least) { /* more pages bump fewer */
            least = all;
            *n_pages = (uint64_t)n;
        }
    }
    last = last_pages(n_keys, error);
    if (depth == 0 || least < last)
        return least;
    *n_pages = 0; /* not worth a stage */
    return last;
}

int plan_ribbon_geometry(uint64_t n_keys, double error, uint32_t stage,
                         struct ribbon_geometry *g)
{
    struct page_sizes r = page_sizes_of(error);
    double pages = (double)n_keys / LARGE_LOAD / a_page(&r);
    *g = (struct ribbon_geometry){0};
    if (stage == RIBBON_MOST_STAGES)
        return 0;
    if (!(pages < (double)RIBBON_MAX_PAGES))
        return TAMIS_ERR_TOO_LARGE;
    g->n_pages = (uint64_t)pages + 1;
    if (pages < SMALL_PAGES)
        least_pages((double)n_keys, &r, error, stage, &g->n_pages);
    g->blocks = r.blocks;
    g->n_long = (uint64_t)(r.longer * (double)g->n_pages);
    return 0;
}

/* How many keys a stage bumps, if these are `sigmas` sigmas above the average. Over
 * random keys the variance is about 30 times the mean. */
static uint64_t bumped_by_luck(const struct ribbon_geometry *g, uint64_t n_keys,
                               double sigmas)
{
    struct page_sizes r = {g->blocks, (double)g->n_long / (double)g->n_pages};
    double mean = bumped_keys((double)n_keys, (double)g->n_pages, &r);
    double n = mean + sigmas * sqrt(30 * mean);
    return n < 0 ? 0 : n < (double)n_keys ? (uint64_t)n : n_keys;
}

/* Stage by stage, as the builder makes them, behind the first one. */
static int later_stages(const struct ribbon_geometry *first, uint64_t n_keys,
                        double error, double sigmas, struct tamis_plan *plan)
{
    struct ribbon_geometry g = *first;
    struct geometry last;
    double expected, reach = 1;
    for (uint32_t i = 1; g.n_pages; i++) {
        plan->bits_bytes += g.n_pages * PAGE_BYTES;
        plan->file_bytes += with_digests(g.n_pages) * PAGE_BYTES;
        uint64_t bumped = bumped_by_luck(&g, n_keys, sigmas);
        double part = n_keys ? (double)bumped / (double)n_keys : 0;
        double longer = (double)g.n_long / (double)g.n_pages;
        plan->error += reach * (1 - part) *
                       (ribbon_page_error(g.blocks) * (1 - longer) +
                        ribbon_page_error(g.blocks + 1) * longer);
        reach *= part;
        n_keys = bumped;
        int err = plan_ribbon_geometry(n_keys, error, i, &g);
        if (err)
            return err;
    }
    int err = plan_stage_geometry(n_keys, error, &last, &expected);
    if (err)
        return err;
    plan->error += reach * expected;
    uint64_t n_pages = last.n_blocks * last.lanes / BLOCKS_PER_PAGE;
    plan->bits_bytes += n_pages * PAGE_BYTES;
    plan->file_bytes += with_digests(n_pages) * PAGE_BYTES;
    return 0;
}

/* The larger file of two: more bumped keys may make a smaller one, if they are enough
 * for another stage. */
int plan_of_ribbon(uint64_t n_keys, double error, struct tamis_plan *plan)
{
    static const double luck[] = {0, 2};
    struct ribbon_geometry first;
    *plan = (struct tamis_plan){0};
    int err = plan_error_valid(error) ? plan_ribbon_geometry(n_keys, error, 0, &first)
                                      : TAMIS_ERR_RANGE;
    for (size_t i = 0; !err && i < sizeof luck / sizeof luck[0]; i++) {
        struct tamis_plan one = {.file_bytes = PAGE_BYTES};
        err = later_stages(&first, n_keys, error, luck[i], &one);
        if (one.file_bytes > plan->file_bytes)
            *plan = one;
    }
    if (err) {
        *plan = (struct tamis_plan){0};
        return err;
    }
    plan->n_keys = n_keys;
    plan->bits_per_key = n_keys ? (double)plan->bits_bytes * 8 / (double)n_keys : 0;
    return 0;
}
