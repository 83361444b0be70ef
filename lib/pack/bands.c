/* Which filters lie in one band.
 *
 * All columns of a band have the same number of blocks. A filter gets there by a fold,
 * to a divisor of its blocks that keeps its error, and by repeating: own_blocks divides
 * both. One that is made from hashes may have any size from the least on.
 *
 * So each filter has the least blocks that keep its error, and can lie in any larger
 * band of its chain: 2^k times as many blocks, or, if it is made from hashes, any
 * number. A chain in order of these sizes is cut into runs, each a band as large as its
 * last filter. A band costs bytes, for what its smaller filters and the padding of its
 * rows take, and every probe `words` lines. The cheapest cut is found by dynamic
 * programming, run by run from the left. A filter that would leave a row nearly empty
 * goes into the padding of the next band. Among many, the few that would still widen a
 * band of large blocks stay in their files. */
#include "lib/pack/pack.h"
#include "lib/plan/plan.h"

#include <float.h>

/* A band of rows of one line counts as this share of the bytes of all blocks, and each
 * further line half as much: it is next to the first. */
enum { BAND_SHARE = 128 };

/* Files have a size already. If few files of a chain are alike, much is padding or
 * repeated, so a band counts a quarter. 600 files of 50 to 50,000 keys take 0.3 bits a
 * key less so, and a key has 30% more lines. */
enum { FEW_ALIKE = 256, BANDS_OF_FEW = 4 };

/* MANY_ALIKE filters of one size have little padding in one band, less than a line of a
 * long row. If they are cut into several bands, every key needs pages of rows and of
 * digests of each band: each band counts as OWN_PAGES bands more. */
enum { MANY_ALIKE = 4096, OWN_PAGES = 2 };

/* With so many files, some may stay as they are. A key then costs a line for each,
 * which counts as half a band. Fewer files are all packed, but for those that
 * bands_leave() marks. Columns of older packs do not count here: a merge would give
 * back what called for it. */
enum { MANY_BESIDE = 256 };

/* ---- one filter ---- */

static bool keeps_error(const struct geometry *as_it_is, uint64_t n_blocks,
                        uint64_t keys, double target_error)
{
    struct geometry g = *as_it_is;
    g.n_blocks = n_blocks;
    double error = plan_geometry_error(&g, keys);
    return error <= target_error || error <= plan_geometry_error(as_it_is, keys);
}

/* Divisors come in pairs; errors fall as blocks rise. */
uint64_t bands_fold(const struct geometry *g, uint64_t keys, double target_error)
{
    uint64_t n = g->n_blocks, least = n;
    for (uint64_t d = 1; target_error > 0 && d * d <= n; d++) {
        if (n % d != 0)
            continue;
        if (n / d < least && keeps_error(g, n / d, keys, target_error))
            least = n / d;
        if (d < least && keeps_error(g, d, keys, target_error))
            return d;
    }
    return least;
}

static uint64_t source_least_blocks(const struct pack_source *s)
{
    return s->folded_blocks ? s->folded_blocks : s->geometry.n_blocks;
}

uint64_t pack_own_blocks(const struct pack_source *s, const struct band *b)
{
    return s->folded_blocks
               ? greatest_common_divisor(s->geometry.n_blocks, b->geometry.n_blocks)
               : b->geometry.n_blocks;
}

/* ---- chains ---- */

/* All of a chain can lie in a band as large as the last of them. */
struct chain {
    uint32_t lanes, words;
    uint64_t odd; /* the odd factor of its sizes; 0: from hashes */
};

static struct chain chain_of(const struct pack_source *s)
{
    uint64_t odd = s->folded_blocks;
    while (odd && odd % 2 == 0)
        odd /= 2;
    return (struct chain){s->geometry.lanes, s->geometry.words, odd};
}

static int compare_chains(const struct chain *a, const struct chain *b)
{
    if (a->lanes != b->lanes)
        return a->lanes < b->lanes ? -1 : 1;
    if (a->words != b->words)
        return a->words < b->words ? -1 : 1;
    return (a->odd > b->odd) - (a->odd < b->odd);
}

static int compare_sources(const void *left, const void *right, void *sources)
{
    const struct pack_source *all = sources;
    const struct pack_source *a = all + *(const uint32_t *)left;
    const struct pack_source *b = all + *(const uint32_t *)right;
    struct chain of_a = chain_of(a), of_b = chain_of(b);
    int order = compare_chains(&of_a, &of_b);
    if (order)
        return order;
    uint64_t size_a = source_least_blocks(a), size_b = source_least_blocks(b);
    return size_a != size_b ? (size_a > size_b) - (size_a < size_b) : (a > b) - (a < b);
}

/* ---- a chain cut into runs ---- */

/* The cheapest cuts of the first filters of a chain, for each number of filters. A run
 * has at most BAND_MAX_COLUMNS filters, so the costs of RING cuts are enough. */
enum { RING = 2 * BAND_MAX_COLUMNS };
struct cuts {
    struct pack_source *sources;
    uint32_t *sorted; /* their numbers, chain by chain, in the order of their sizes */
    double costs[RING];
    double stays;     /* a filter that stays in its file costs this beside its pages */
    uint32_t n_alike; /* filters before the end that are as large as the last */
    uint16_t row_bytes[]; /* how wide the rows of the last run are */
};

static const struct pack_source *sorted_source(const struct cuts *cuts, uint32_t i)
{
    return &cuts->sources[cuts->sorted[i]];
}

/* Cuts the first n of a chain, which begins at `first`. A cut never gets cheaper as
 * filters come in, so the best run of one row width fills its rows. */
static void cut_at(struct cuts *cuts, uint32_t first, uint32_t n, double band)
{
    const struct pack_source *s = sorted_source(cuts, first + n - 1);
    uint64_t size = source_least_blocks(s);
    double row = (double)size * s->geometry.lanes * BLOCK_BITS, best = DBL_MAX;
    bool alike =
        n > 1 && source_least_blocks(sorted_source(cuts, first + n - 2)) == size;
    cuts->n_alike = alike ? cuts->n_alike + 1 : 1;
    for (uint32_t b = 1; b <= ROW_MAX_BYTES; b = b < 64 ? b * 2 : b + 64) {
        uint32_t before = n > b * 8 ? n - b * 8 : 0;
        uint32_t n_lines = (b * 8 + LINE_COLUMNS - 1) / LINE_COLUMNS;
        double cost = cuts->costs[before % RING] + row * b + band * (1 + n_lines) / 2;
        if (cuts->n_alike >= MANY_ALIKE && cuts->n_alike > n - before)
            cost += OWN_PAGES * band;
        if (cost < best) {
            best = cost;
            cuts->row_bytes[n] = (uint16_t)b;
        }
        if (!before)
            break;
    }
    double file = (double)s->file_pages * PAGE_BYTES + cuts->stays;
    if (s->file_pages && cuts->costs[(n - 1) % RING] + file < best) {
        best = cuts->costs[(n - 1) % RING] + file;
        cuts->row_bytes[n] = 0;
    }
    cuts->costs[n % RING] = best;
}

/* The bands of sorted filters [first, first + n), one chain. */
static int cut_chain(struct cuts *cuts, uint32_t first, uint32_t n, double band,
                     struct pack_plan *p)
{
    uint32_t n_sizes = 1;
    for (uint32_t i = first + 1; i < first + n; i++)
        n_sizes += source_least_blocks(sorted_source(cuts, i)) !=
                   source_least_blocks(sorted_source(cuts, i - 1));
    if (sorted_source(cuts, first)->folded_blocks && n / n_sizes < FEW_ALIKE)
        band /= BANDS_OF_FEW;
    cuts->costs[0] = 0;
    for (uint32_t i = 1; i <= n; i++)
        cut_at(cuts, first, i, band);
    for (uint32_t at = n, some; at; at -= some) {
        struct pack_source *last = &cuts->sources[cuts->sorted[first + at - 1]];
        uint32_t row_bytes = cuts->row_bytes[at];
        some = !row_bytes ? 1 : row_bytes * 8 < at ? row_bytes * 8 : at;
        if (!row_bytes) {
            last->column = NO_COLUMN;
            continue;
        }
        if (p->n_bands == PACK_MAX_BANDS)
            return TAMIS_ERR_RANGE;
        struct band *b = &p->bands[p->n_bands++];
        *b = (struct band){.geometry = last->geometry,
                           .n_columns = some,
                           .first_column = first + at - some,
                           .row_bytes = pack_row_bytes(some)};
        b->geometry.n_blocks = source_least_blocks(last);
    }
    return 0;
}

/* ---- the plan ---- */

static int compare_bands(const void *left, const void *right)
{
    const struct band *a = left, *b = right;
    if (a->row_bytes != b->row_bytes) /* SPEC.md 17.1: blocks within pages */
        return a->row_bytes > b->row_bytes ? -1 : 1;
    if (a->geometry.n_blocks != b->geometry.n_blocks)
        return a->geometry.n_blocks > b->geometry.n_blocks ? -1 : 1;
    return (a->first_column > b->first_column) - (a->first_column < b->first_column);
}

/* Until here the first column of a band was the number of its first sorted source. */
static int lay_out(struct pack_plan *p, const struct cuts *cuts)
{
    uint64_t at = 0;
    uint32_t column = 0;
    if (p->n_bands > 1)
        qsort(p->bands, p->n_bands, sizeof *p->bands, compare_bands);
    for (uint32_t i = 0; i < p->n_bands; i++) {
        struct band *b = &p->bands[i];
        uint32_t run = b->first_column;
        b->rows_offset = at;
        b->first_column = column;
        for (; column < b->first_column + b->n_columns; column++, run++) {
            p->order[column] = cuts->sorted[run];
            cuts->sources[cuts->sorted[run]].column = column;
        }
        at += band_bytes(b);
        if (at > INT64_MAX / 2)
            return EFBIG;
    }
    p->n_columns = column;
    align_up_u64(at, PAGE_BYTES, &p->rows_bytes);
    return 0;
}

static int chains_choose(struct cuts *cuts, uint32_t n, struct pack_plan *p)
{
    uint32_t n_files = 0;
    double all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct pack_source *s = &cuts->sources[i];
        cuts->sorted[i] = i;
        n_files += s->file_pages > 0;
        all += (double)source_least_blocks(s) * s->geometry.lanes;
    }
    qsort_r(cuts->sorted, n, sizeof *cuts->sorted, compare_sources, cuts->sources);
    double band = all * BLOCK_BYTES / BAND_SHARE; /* the cost of a band, in bytes */
    cuts->stays = n_files < MANY_BESIDE ? DBL_MAX : band / 2;
    for (uint32_t first = 0, end; first < n; first = end) {
        struct chain chain = chain_of(sorted_source(cuts, first)), other;
        for (end = first + 1; end < n; end++)
            if (other = chain_of(sorted_source(cuts, end)),
                compare_chains(&chain, &other) != 0)
                break;
        int err = cut_chain(cuts, first, end - first, band, p);
        if (err)
            return err;
    }
    return lay_out(p, cuts);
}

int bands_choose(struct pack_source *sources, size_t n, struct pack_plan *out)
{
    memset(out, 0, sizeof *out);
    if (n == 0 || n > PACK_MAX_COLUMNS)
        return TAMIS_ERR_RANGE;
    uint32_t *sorted = malloc(n * sizeof *sorted);
    struct cuts *cuts = malloc(sizeof *cuts + (n + 1) * sizeof cuts->row_bytes[0]);
    out->bands = calloc(PACK_MAX_BANDS, sizeof *out->bands);
    out->order = malloc(n * sizeof *out->order);
    int err = ENOMEM;
    if (sorted && cuts && out->bands && out->order) {
        cuts->sources = sources;
        cuts->sorted = sorted;
        err = chains_choose(cuts, (uint32_t)n, out);
    }
    free(sorted);
    free(cuts);
    if (err)
        pack_plan_free(out);
    return err;
}

/* The bytes that the columns of a band take by themselves. *largest: the last column
 * with a file, for columns are in the order of their sizes. */
static uint64_t band_alone(const struct pack_source *sources, const struct pack_plan *p,
                           const struct band *b, uint32_t *largest)
{
    uint64_t alone = 0;
    *largest = UINT32_MAX;
    for (uint32_t i = b->first_column; i < b->first_column + b->n_columns; i++) {
        const struct pack_source *s = &sources[p->order[i]];
        /* A column of another pack takes at least a row of a byte. */
        alone += s->file_pages ? (uint64_t)s->file_pages * PAGE_BYTES
                               : pack_own_blocks(s, b) * s->geometry.lanes * BLOCK_BITS;
        if (s->file_pages)
            *largest = p->order[i];
    }
    return alone;
}

/* Marks the largest of each band that takes more than twice what its columns take by
 * themselves, and more than `more` bytes beyond. */
static size_t leave_beyond(const struct pack_source *sources, const struct pack_plan *p,
                           uint64_t more, bool *leave)
{
    size_t n_left = 0;
    for (uint32_t i = 0; i < p->n_bands; i++) {
        uint32_t largest;
        uint64_t n_bytes = band_bytes(&p->bands[i]);
        uint64_t alone = band_alone(sources, p, &p->bands[i], &largest);
        if (largest == UINT32_MAX || n_bytes / 2 <= alone || n_bytes - alone <= more)
            continue;
        leave[largest] = true;
        n_left++;
    }
    return n_left;
}

/* Some of many bands have few columns. They may waste little beside the bytes that the
 * other bands save. */
size_t bands_leave(const struct pack_source *sources, size_t n,
                   const struct pack_plan *p, bool *leave)
{
    enum { MUCH = 8 };
    uint64_t alone = 0;
    uint32_t largest;
    for (size_t i = 0; i < n; i++)
        leave[i] = sources[i].column == NO_COLUMN;
    if (p->n_columns < n)
        return n - p->n_columns;
    for (uint32_t i = 0; i < p->n_bands; i++)
        alone += band_alone(sources, p, &p->bands[i], &largest);
    size_t n_left = leave_beyond(sources, p, p->rows_bytes / MUCH, leave);
    return n_left || p->rows_bytes <= alone ? n_left
                                            : leave_beyond(sources, p, 0, leave);
}

void pack_plan_free(struct pack_plan *p)
{
    free(p->bands);
    free(p->order);
    memset(p, 0, sizeof *p);
}

/* ---- how large the pack of some segments will be ---- */

static int source_of(uint64_t n_keys, double error, bool from_files,
                     struct pack_source *s)
{
    *s = (struct pack_source){.column = 0};
    if (!from_files)
        return plan_packed_geometry(n_keys, error, &s->geometry);
    int err = plan_sealed_geometry(n_keys, error, error, &s->geometry);
    if (!err) {
        struct tamis_plan file;
        plan_describe(&s->geometry, n_keys, &file);
        s->file_pages = (uint32_t)(file.file_bytes / PAGE_BYTES);
        s->folded_blocks = bands_fold(&s->geometry, n_keys, error);
    }
    return err;
}

static void packed_plan_describe(const struct pack_plan *p,
                                 const struct pack_source *sources, size_t n,
                                 uint64_t n_keys, struct tamis_plan_packed *out)
{
    enum { LINE_BYTES = 64 };
    out->n_bands = p->n_bands;
    out->rows_bytes = p->rows_bytes + digests_bytes(p->rows_bytes / PAGE_BYTES);
    for (size_t i = 0; i < n; i++) {
        uint64_t file_bytes = (uint64_t)sources[i].file_pages * PAGE_BYTES;
        bool stays = sources[i].column == NO_COLUMN;
        out->files_bytes += file_bytes;
        out->rows_bytes += stays ? file_bytes : 0;
        out->n_lines += stays ? sources[i].geometry.lanes : 0;
    }
    out->bits_per_key = n_keys ? (double)out->rows_bytes * 8 / (double)n_keys : 0;
    for (uint32_t i = 0; i < p->n_bands; i++) {
        const struct band *b = &p->bands[i];
        out->n_lines += (b->row_bytes + LINE_BYTES - 1) / LINE_BYTES *
                        b->geometry.lanes * b->geometry.words;
    }
}

int tamis_plan_pack(const uint64_t *n_keys, size_t n, double error, int from_files,
                    struct tamis_plan_packed *plan)
{
    struct pack_plan p;
    uint64_t keys = 0;
    memset(plan, 0, sizeof *plan);
    if (!plan_error_valid(error) || n == 0 || n > PACK_MAX_COLUMNS)
        return TAMIS_ERR_RANGE;
    struct pack_source *sources = malloc(n * sizeof *sources);
    if (!sources)
        return ENOMEM;
    int err = 0;
    for (size_t i = 0; i < n && !err; i++) {
        if (n_keys[i] > UINT64_C(1) << 48)
            err = TAMIS_ERR_RANGE;
        else
            err = source_of(n_keys[i], error, from_files, &sources[i]);
        keys += err ? 0 : n_keys[i];
    }
    if (!err)
        err = bands_choose(sources, n, &p);
    if (!err) {
        packed_plan_describe(&p, sources, n, keys, plan);
        pack_plan_free(&p);
    }
    free(sources);
    return err;
}
