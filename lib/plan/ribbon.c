/* The size of a ribbon stage (SPEC.md §19.4).
 *
 * A page has the same bytes whatever its blocks: more blocks have fewer columns, so
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

/* The part of the rows that stays empty, by the load: as measured, for 40 to 80 blocks.
 */
static double empty_rows(double load)
{
    static const struct {
        double load, empty;
    } measured[] = {{0.97, 0.031},  {0.985, 0.020}, {1.0, 0.0110},
                    {1.01, 0.0065}, {1.03, 0.0022}, {1.06, 0.0010}};
    const size_t n = sizeof measured / sizeof measured[0];
    if (load <= measured[0].load)
        return 1 - load;
    for (size_t i = 1; i < n; i++) {
        double a = measured[i - 1].load, b = measured[i].load;
        if (load < b)
            return measured[i].empty +
                   (b - load) / (b - a) * (measured[i - 1].empty - measured[i].empty);
    }
    return measured[n - 1].empty;
}

static double bumped_keys(double n_keys, double rows)
{
    double bumped = n_keys - rows * (1 - empty_rows(n_keys / rows));
    return bumped > 0 ? bumped : 0;
}

/* ---- pages of an error ---- */

struct rows {
    uint32_t blocks; /* of a shorter page */
    double longer;   /* what part of the pages has one more */
};

static double a_page(const struct rows *r)
{
    return (r->blocks + r->longer) * RIBBON_WIDTH;
}

static struct rows rows_for(double error)
{
    uint32_t low = RIBBON_MIN_BLOCKS, high = RIBBON_MAX_BLOCKS;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (ribbon_page_error(middle) <= error)
            low = middle;
        else
            high = middle - 1;
    }
    double few = ribbon_page_error(low), many = ribbon_page_error(low + 1);
    double longer = error < few ? 0 : error < many ? (error - few) / (many - few) : 1;
    return (struct rows){low, longer};
}

double plan_ribbon_error(const struct ribbon_geometry *g)
{
    double longer = (double)g->n_long / (double)g->n_pages;
    return ribbon_page_error(g->blocks) * (1 - longer) +
           ribbon_page_error(g->blocks + 1) * longer;
}

/* ---- how many ---- */

static uint64_t with_digests(double n_pages)
{
    return (uint64_t)n_pages + digests_bytes((uint64_t)n_pages) / PAGE_BYTES;
}

/* About what split blocks take: a twentieth more than the classic formula. */
static uint64_t last_pages(double n_keys, double error)
{
    double bits = n_keys * 1.4427 * 1.05 * -log2(error);
    return with_digests(ceil((bits + 1) / 8 / PAGE_BYTES));
}

/* The pages of all stages that so many keys need, and how many the next one has. */
static uint64_t least_pages(double n_keys, const struct rows *r, double error,
                            unsigned depth, uint64_t *n_pages)
{
    double rows = a_page(r), first = floor(n_keys / rows / MOST_LOAD);
    uint64_t least = UINT64_MAX, last;
    double n = first < 1 ? 1 : first;
    *n_pages = 0;
    for (; n <= SMALL_PAGES && (n == 1 || n_keys / ((n - 1) * rows) > LEAST_LOAD);
         n++) {
        uint64_t next;
        double left = bumped_keys(n_keys, n * rows);
        uint64_t all = with_digests(n);
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

static int choose(uint64_t n_keys, double error, unsigned depth,
                  struct ribbon_geometry *g)
{
    struct rows r = rows_for(error);
    double pages = (double)n_keys / LARGE_LOAD / a_page(&r);
    if (!(pages < (double)RIBBON_MAX_PAGES))
        return TAMIS_ERR_TOO_LARGE;
    g->n_pages = (uint64_t)pages + 1;
    if (pages < SMALL_PAGES)
        least_pages((double)n_keys, &r, error, depth, &g->n_pages);
    g->blocks = r.blocks;
    g->n_long = (uint64_t)(r.longer * (double)g->n_pages);
    return 0;
}

int plan_ribbon_geometry(uint64_t n_keys, double error, uint32_t stage,
                         struct ribbon_geometry *g)
{
    if (stage < RIBBON_MOST_STAGES)
        return choose(n_keys, error, stage, g);
    g->n_pages = 0;
    return 0;
}

/* Stage by stage, as the builder makes them, but for the keys that are in fact bumped.
 */
int tamis_plan_ribbon(uint64_t n_keys, double error, struct tamis_plan *plan)
{
    uint64_t left = n_keys, n_pages = 0, digests = 0;
    struct ribbon_geometry g;
    struct geometry last;
    double expected;
    *plan = (struct tamis_plan){0};
    if (!plan_error_valid(error))
        return TAMIS_ERR_RANGE;
    for (uint32_t i = 0;; i++) {
        int err = plan_ribbon_geometry(left, error, i, &g);
        if (err)
            return err;
        if (g.n_pages == 0)
            break;
        struct rows r = {g.blocks, (double)g.n_long / (double)g.n_pages};
        n_pages += g.n_pages;
        digests += digests_bytes(g.n_pages);
        left = (uint64_t)bumped_keys((double)left, (double)g.n_pages * a_page(&r));
        plan->error = i == 0 ? plan_ribbon_error(&g) : plan->error;
    }
    int err = plan_stage_geometry(left, error, &last, &expected);
    if (err)
        return err;
    uint64_t last_pages = last.n_blocks * last.lanes / BLOCKS_PER_PAGE;
    n_pages += last_pages;
    digests += digests_bytes(last_pages);
    plan->bits_bytes = n_pages * PAGE_BYTES;
    plan->file_bytes = PAGE_BYTES + plan->bits_bytes + digests;
    plan->n_keys = n_keys;
    plan->bits_per_key = n_keys ? (double)plan->bits_bytes * 8 / (double)n_keys : 0;
    return 0;
}
