/* (keys, error) -> lanes, words, blocks. Only this room uses libm, and tests/layers.sh
 * keeps it so.
 *
 * The error of one lane is exact for ideal hashes. A key sets a bit in each word
 * of a window of `words` words that starts at one of eight places. For a query
 * and a subset T of its words, let q(T) be the chance that one key in the same
 * block leaves T's bits clear: the mean over the eight windows of
 * (63/64)^|T and window|. A block gets each of n keys with chance 1/n_blocks, so
 * n keys leave T's bits clear with chance (1 - (1 - q(T)) / n_blocks)^n. By
 * inclusion and exclusion the query hits with
 *
 *     sum over T of (-1)^|T| (1 - (1 - q(T)) / n_blocks)^n
 *
 * Lanes use independent blocks and patterns, so their errors multiply. */
#include "lib/plan/plan.h"
#include "format/integrity.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

enum { WINDOWS = WORDS_PER_BLOCK };

/* A power of two in n_blocks may cost this much, so that filters fold. */
static const double FOLD_COST = 1.008;
/* Fewer lanes may cost this much: a lane is a cache miss. */
static const double LANE_COST = 1.04;

/* The sum for each number of words, terms of equal q merged: at most as many as a
 * window of eight has distinct overlaps. */
struct term {
    double miss; /* 1 - q */
    double coefficient;
};
static struct term terms[MAX_WORDS + 1][1 << MAX_WORDS];
static size_t n_terms[MAX_WORDS + 1];
static pthread_once_t terms_once = PTHREAD_ONCE_INIT;

static double subset_miss(uint32_t words, uint32_t subset)
{
    double q = 0;
    for (uint32_t start = 0; start < WINDOWS; start++) {
        uint32_t window = 0;
        for (uint32_t i = 0; i < words; i++)
            window |= 1U << ((start + i) % WORDS_PER_BLOCK);
        q += pow(63.0 / 64, __builtin_popcount(subset & window)) / WINDOWS;
    }
    return 1 - q;
}

static void fill_terms(void)
{
    for (uint32_t words = 1; words <= MAX_WORDS; words++) {
        struct term *t = terms[words];
        for (uint32_t subset = 0; subset < 1U << words; subset++) {
            double miss = subset_miss(words, subset);
            size_t i = 0;
            while (i < n_terms[words] && fabs(t[i].miss - miss) > 1e-14)
                i++;
            if (i == n_terms[words])
                t[n_terms[words]++] = (struct term){miss, 0};
            t[i].coefficient += __builtin_popcount(subset) % 2 ? -1 : 1;
        }
    }
}

static double lane_error(uint32_t words, uint64_t n_blocks, uint64_t n_keys)
{
    double sum = 0;
    pthread_once(&terms_once, fill_terms);
    for (size_t i = 0; i < n_terms[words]; i++)
        sum += terms[words][i].coefficient *
               exp((double)n_keys * log1p(-terms[words][i].miss / (double)n_blocks));
    return sum < 0 ? 0 : sum > 1 ? 1 : sum;
}

double plan_geometry_error(const struct geometry *g, uint64_t n_keys)
{
    return pow(lane_error(g->words, g->n_blocks, n_keys), g->lanes);
}

double tamis_plan_error(uint32_t lanes, uint32_t words, uint64_t n_blocks,
                        uint64_t n_keys)
{
    struct geometry g = {n_blocks, lanes, words};
    return geometry_valid(&g) ? plan_geometry_error(&g, n_keys) : 1;
}

/* The chance that one key sets one given bit of its lane. */
static double bit_chance(const struct geometry *g)
{
    return (double)g->words / ((double)g->n_blocks * BLOCK_BITS);
}

static double lane_bits(const struct geometry *g)
{
    return (double)g->lanes * (double)g->n_blocks * BLOCK_BITS;
}

uint64_t plan_expected_bits(const struct geometry *g, uint64_t n_keys)
{
    return (uint64_t)(-expm1((double)n_keys * log1p(-bit_chance(g))) * lane_bits(g));
}

uint64_t plan_keys_of_bits(const struct geometry *g, uint64_t n_bits)
{
    double fill = (double)n_bits / lane_bits(g);
    if (fill >= 1)
        return UINT64_MAX;
    return (uint64_t)llround(log1p(-fill) / log1p(-bit_chance(g)));
}

/* ---- the error of bits ---- */

/* As compilers make wide instructions of it: loops over eight words. */
static void fills_of(const uint8_t *block, double fill[WORDS_PER_BLOCK])
{
    uint64_t word[WORDS_PER_BLOCK];
    memcpy(word, block, sizeof word);
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++) {
        uint64_t x = word[i];
        x -= x >> 1 & UINT64_C(0x5555555555555555);
        x = (x & UINT64_C(0x3333333333333333)) +
            (x >> 2 & UINT64_C(0x3333333333333333));
        x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
        x += x >> 8;
        x += x >> 16;
        word[i] = (x + (x >> 32)) & 127;
    }
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++)
        fill[i] = (double)(int32_t)word[i] / 64;
}

/* Its bit in each word is set with the chance that is the word's fill; the window
 * begins at each of eight places as often. */
double plan_block_error(const uint8_t *block, uint32_t words)
{
    double fill[2 * WORDS_PER_BLOCK], all[WORDS_PER_BLOCK], sum = 0;
    fills_of(block, fill);
    memcpy(fill + WORDS_PER_BLOCK, fill, sizeof fill / 2);
    memcpy(all, fill, sizeof all);
    for (uint32_t i = 1; i < words; i++)
        for (uint32_t start = 0; start < WORDS_PER_BLOCK; start++)
            all[start] *= fill[start + i];
    for (uint32_t start = 0; start < WORDS_PER_BLOCK; start++)
        sum += all[start];
    return sum / WORDS_PER_BLOCK;
}

double plan_bits_error(const struct geometry *g, const uint8_t *bits)
{
    double error = 1;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        double sum = 0;
        for (uint64_t i = 0; i < g->n_blocks; i++, bits += BLOCK_BYTES)
            sum += plan_block_error(bits, g->words);
        error *= sum / (double)g->n_blocks;
    }
    return error;
}

/* ---- choosing a geometry ---- */

/* Whole pages, and the largest power of two of them that costs under FOLD_COST. */
static uint64_t round_blocks(uint64_t n_blocks)
{
    uint64_t best = 0;
    for (uint64_t unit = BLOCKS_PER_PAGE; unit <= MAX_BLOCKS; unit *= 2) {
        uint64_t up = (n_blocks + unit - 1) / unit * unit;
        if (best && (double)up > (double)n_blocks * FOLD_COST)
            break;
        best = up;
    }
    return best;
}

/* The fewest blocks, a multiple of `unit`, at which n_keys meet the error with this
 * many lanes and words; 0 if 2^32 blocks are not enough. Gallops up from a guess, then
 * bisects. */
static uint64_t least_blocks(uint32_t lanes, uint32_t words, uint64_t n_keys,
                             double error, uint64_t unit)
{
    double target = pow(error, 1.0 / lanes);
    double guess = (double)n_keys * -1.5 * log2(target) / BLOCK_BITS / (double)unit;
    uint64_t low = 0, max = MAX_BLOCKS / unit;
    uint64_t high = guess < 1 ? 1 : guess < (double)max ? (uint64_t)guess : max;
    while (lane_error(words, high * unit, n_keys) > target) {
        if (high == max)
            return 0;
        low = high;
        high = high + high / 2 + 1 < max ? high + high / 2 + 1 : max;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (lane_error(words, middle * unit, n_keys) <= target)
            high = middle;
        else
            low = middle;
    }
    return high * unit;
}

/* The best number of words for `lanes` lanes: fewest blocks, then least error. */
static bool best_words(uint32_t lanes, uint64_t n_keys, double error, uint64_t unit,
                       struct geometry *g)
{
    double best_error = 2, target = pow(error, 1.0 / lanes);
    *g = (struct geometry){0, lanes, 0};
    /* From the likely best on: geometries that need more blocks are skipped. */
    uint32_t first = (uint32_t)fmin(0.8 * -log2(target), MAX_WORDS - 1);
    for (uint32_t i = 0; i < MAX_WORDS; i++) {
        uint32_t words = 1 + (first + i) % MAX_WORDS;
        if (g->words && lane_error(words, g->n_blocks, n_keys) > target)
            continue;
        uint64_t n_blocks = least_blocks(lanes, words, n_keys, error, unit);
        if (!n_blocks)
            continue;
        if (unit == BLOCKS_PER_PAGE)
            n_blocks = round_blocks(n_blocks);
        if (n_blocks > MAX_BLOCKS || (g->words && n_blocks > g->n_blocks))
            continue;
        double e = lane_error(words, n_blocks, n_keys);
        if (!g->words || n_blocks < g->n_blocks || e < best_error ||
            (e == best_error && words < g->words)) {
            g->n_blocks = n_blocks;
            g->words = words;
            best_error = e;
        }
    }
    return g->words != 0;
}

static int least_geometry(uint64_t n_keys, double error, uint64_t unit,
                          struct geometry *g)
{
    struct geometry by_lanes[MAX_LANES];
    double least = INFINITY;
    for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes++) {
        struct geometry *c = &by_lanes[lanes - 1];
        if (best_words(lanes, n_keys, error, unit, c) && lane_bits(c) < least)
            least = lane_bits(c);
    }
    for (uint32_t i = 0; i < MAX_LANES; i++) {
        if (by_lanes[i].words && lane_bits(&by_lanes[i]) <= least * LANE_COST) {
            *g = by_lanes[i];
            return 0;
        }
    }
    return TAMIS_ERR_TOO_LARGE;
}

int plan_stage_geometry(uint64_t n_keys, double error, struct geometry *g,
                        double *expected_error)
{
    int err = least_geometry(n_keys, error, BLOCKS_PER_PAGE, g);
    if (!err)
        *expected_error = plan_geometry_error(g, n_keys);
    return err;
}

/* ---- sealed filters ---- */

/* The shape of a large filter of this error: small ones would differ by what a page has
 * room for. It is the same for one filter after the other. */
static int shape_of_error(double error, struct geometry *g)
{
    enum { MANY = 1000000 };
    static _Thread_local struct {
        double error;
        struct geometry shape;
    } last;
    int err = 0;
    if (last.error != error)
        err = least_geometry(MANY, error, 1, &last.shape);
    last.error = err ? 0 : error;
    *g = last.shape;
    return err;
}

int plan_packed_geometry(uint64_t n_keys, double error, struct geometry *g)
{
    int err = shape_of_error(error, g);
    if (!err)
        g->n_blocks = least_blocks(g->lanes, g->words, n_keys, error, 1);
    return !err && g->n_blocks == 0 ? TAMIS_ERR_TOO_LARGE : err;
}

/* The next of 1, 2, 3 and 4, 5, 6 times a power of two. With more sizes files are
 * smaller, but fewer have one size, and take more side by side. With fewer, both are
 * larger. */
static uint64_t round_to_grid(uint64_t n_blocks)
{
    uint64_t unit = 1;
    while (n_blocks > 6 * unit)
        unit *= 2;
    return (n_blocks + unit - 1) / unit * unit;
}

int plan_sealed_geometry(uint64_t n_keys, double error, double allowed,
                         struct geometry *g)
{
    struct geometry down;
    if (n_keys <= GRID_KEYS) {
        int err = shape_of_error(error, g);
        if (!err)
            g->n_blocks =
                round_to_grid(least_blocks(g->lanes, g->words, n_keys, error, 1));
        /* No file has less than a page: there a larger error saves nothing, and a
         * shared file could not fold to it. */
        if (!err && allowed > error && g->n_blocks * g->lanes > BLOCKS_PER_PAGE)
            g->n_blocks =
                round_to_grid(least_blocks(g->lanes, g->words, n_keys, allowed, 1));
        while (!err && 2 * g->n_blocks * g->lanes <= BLOCKS_PER_PAGE)
            g->n_blocks *= 2; /* a page has this room anyhow */
        return err;
    }
    int err = least_geometry(n_keys, error, BLOCKS_PER_PAGE, g);
    if (!err && allowed > error &&
        least_geometry(n_keys, allowed, BLOCKS_PER_PAGE, &down) == 0 &&
        lane_bits(&down) < lane_bits(g))
        *g = down;
    return err;
}

static double times_apart(double a, double b)
{
    return a > b ? a / b : b / a;
}

double plan_error_of_shape(const struct geometry *shape, uint64_t n_keys, double near)
{
    double found = 0;
    for (double unit = 1e-9; unit < 0.1; unit *= 10)
        for (int digits = 10; digits < 100; digits++) {
            double error = digits * unit;
            struct geometry g;
            if ((found == 0 || times_apart(error, near) < times_apart(found, near)) &&
                plan_error_valid(error) &&
                plan_sealed_geometry(n_keys, error, error, &g) == 0 &&
                g.lanes == shape->lanes && g.words == shape->words)
                found = error;
        }
    return found;
}

/* ---- the public plans ---- */

void plan_describe(const struct geometry *g, uint64_t n_keys, struct tamis_plan *plan)
{
    uint64_t n_bytes = g->n_blocks * g->lanes * BLOCK_BYTES;
    uint64_t n_pages = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    plan->lanes = g->lanes;
    plan->words = g->words;
    plan->n_blocks = g->n_blocks;
    plan->bits_bytes = n_bytes;
    plan->file_bytes = PAGE_BYTES * (1 + n_pages) + digests_bytes(n_pages);
    plan->n_keys = n_keys;
    plan->error = plan_geometry_error(g, n_keys);
    plan->bits_per_key = n_keys ? (double)n_bytes * 8 / (double)n_keys : 0;
}

bool plan_error_valid(double error)
{
    return error >= ERROR_MIN && error <= ERROR_MAX;
}

int plan_of_bloom(uint64_t n_keys, double error, bool in_file, struct tamis_plan *plan)
{
    struct geometry g;
    memset(plan, 0, sizeof *plan);
    if (!plan_error_valid(error))
        return TAMIS_ERR_RANGE;
    int err = in_file ? plan_sealed_geometry(n_keys, error, error, &g)
                      : least_geometry(n_keys, error, 1, &g);
    if (!err)
        plan_describe(&g, n_keys, plan);
    if (!in_file)
        plan->file_bytes = 0;
    return err;
}

/* The geometry of at most bits_bytes with the least error for n_keys. */
static bool best_within(uint64_t bits_bytes, uint64_t n_keys, struct geometry *best)
{
    double best_error = 2;
    for (uint32_t lanes = 1; lanes <= MAX_LANES; lanes++) {
        uint64_t n_blocks = bits_bytes / PAGE_BYTES / lanes * BLOCKS_PER_PAGE;
        if (n_blocks == 0 || n_blocks > MAX_BLOCKS)
            continue;
        for (uint32_t words = 1; words <= MAX_WORDS; words++) {
            struct geometry g = {n_blocks, lanes, words};
            double e = plan_geometry_error(&g, n_keys);
            /* One more lane must pay for its cache miss. */
            if (e < best_error * (lanes == best->lanes ? 1 : 0.9) || best_error > 1) {
                *best = g;
                best_error = e;
            }
        }
    }
    return best_error <= 1;
}

int plan_in_bytes(uint64_t bits_bytes, uint64_t n_keys, double error,
                  struct tamis_plan *plan)
{
    struct geometry g = {0, 0, 0};
    memset(plan, 0, sizeof *plan);
    if (bits_bytes < PAGE_BYTES || (!n_keys && !plan_error_valid(error)))
        return TAMIS_ERR_RANGE;
    if (!n_keys) {
        uint64_t low = 0, high = bits_bytes * 4; /* 2 bits a key: over 50% error */
        while (high - low > 1) {
            uint64_t middle = low + (high - low) / 2;
            if (!best_within(bits_bytes, middle, &g))
                return TAMIS_ERR_TOO_LARGE;
            if (plan_geometry_error(&g, middle) <= error)
                low = middle;
            else
                high = middle;
        }
        n_keys = low;
    }
    if (!best_within(bits_bytes, n_keys, &g))
        return TAMIS_ERR_TOO_LARGE;
    plan_describe(&g, n_keys, plan);
    return 0;
}

/* ---- the series of a growing filter: capacity and error of each stage (Almeida et
 * al., *Scalable Bloom Filters*, 2007, section 4) ---- */

/* Below this the pattern's 32 bits, not the geometry, would set the error. */
static const double STAGE_ERROR_MIN = 0x1p-40;

/* The defaults take 6% fewer bits than n0 65,536 and s 2, as a mean over sizes from
 * 10^4 to 10^9, with 11% more stages. tests/paper/README.md compares others. */
int growth_complete(struct tamis_growth *growth)
{
    if (growth->error == 0)
        growth->error = 0.01;
    if (growth->factor == 0)
        growth->factor = 1.9;
    if (growth->tightening == 0)
        growth->tightening = 0.85;
    if (growth->first_capacity == 0)
        growth->first_capacity = 50000;
    bool good =
        plan_error_valid(growth->error) && growth->factor >= GROWTH_FACTOR_MIN &&
        growth->factor <= GROWTH_FACTOR_MAX && growth->tightening >= TIGHTENING_MIN &&
        growth->tightening <= TIGHTENING_MAX &&
        growth->first_capacity <= FIRST_CAPACITY_MAX;
    return good ? 0 : TAMIS_ERR_RANGE;
}

void growth_stage(const struct tamis_growth *growth, uint32_t i, uint64_t *capacity,
                  double *error)
{
    double keys = ceil((double)growth->first_capacity * pow(growth->factor, i));
    double p0 = growth->error * (1 - growth->tightening);
    /* 2^37 keys have 64 bits each in 2^32 blocks of 4 lanes, enough for 2^-40;
     * beyond that stages stay as they are. */
    *capacity = keys < 0x1p37 ? (uint64_t)keys : UINT64_C(1) << 37;
    *error = fmax(p0 * pow(growth->tightening, i), STAGE_ERROR_MIN);
}

int tamis_plan_stage(const struct tamis_growth *growth, uint32_t stage,
                     struct tamis_plan *plan)
{
    struct tamis_growth g = *growth;
    struct geometry geometry;
    uint64_t capacity;
    double error, expected;
    memset(plan, 0, sizeof *plan);
    if (growth_complete(&g) != 0 || stage >= MAX_STAGES)
        return TAMIS_ERR_RANGE;
    growth_stage(&g, stage, &capacity, &error);
    int err = plan_stage_geometry(capacity, error, &geometry, &expected);
    if (!err)
        plan_describe(&geometry, capacity, plan);
    return err;
}
