/* Growth rules of the search, measured: the stages of a rule in memory, filled with
 * random hashes, the last one in part; that one folded where the rule folds. Folding is
 * done on the bits: neighbouring blocks are OR-ed, as SPEC.md section 4 lets them be.
 * Seeds are fixed. */
#include "tests/paper/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROBES = 400000 };

struct memory_stage {
    struct geometry g;
    uint8_t *bits;
};

static uint64_t next_hash; /* splitmix64 (Steele, Lea, Flood 2014) */

static uint64_t random_hash(void)
{
    uint64_t z = next_hash += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint64_t stage_bytes(const struct geometry *g)
{
    return g->n_blocks * g->lanes * BLOCK_BYTES;
}

static void fill(struct memory_stage *s, uint64_t n_keys)
{
    const struct kernel *k = kernel_get();
    s->bits = aligned_alloc(PAGE_BYTES, stage_bytes(&s->g));
    if (!s->bits)
        exit(3);
    memset(s->bits, 0, stage_bytes(&s->g));
    for (uint64_t i = 0; i < n_keys; i++) {
        uint64_t h = random_hash();
        for (uint32_t lane = 0; lane < s->g.lanes; lane++) {
            k->block_add(s->bits + geometry_block_offset(&s->g, lane, h), s->g.words,
                         h);
            h = geometry_next_lane(h);
        }
    }
}

/* In place: a block never comes after those it is made of. */
static void fold(struct memory_stage *s, uint64_t factor)
{
    struct geometry folded = {s->g.n_blocks / factor, s->g.lanes, s->g.words};
    uint64_t n = folded.n_blocks * folded.lanes;
    for (uint64_t block = 0; block < n; block++) {
        uint8_t together[BLOCK_BYTES] = {0};
        for (uint64_t i = 0; i < factor * BLOCK_BYTES; i++)
            together[i % BLOCK_BYTES] |= s->bits[block * factor * BLOCK_BYTES + i];
        memcpy(s->bits + block * BLOCK_BYTES, together, BLOCK_BYTES);
    }
    s->g = folded;
}

static bool maybe(const struct memory_stage *s, uint64_t h)
{
    const struct kernel *k = kernel_get();
    uint32_t lane = 0;
    while (lane < s->g.lanes &&
           k->block_probe(s->bits + geometry_block_offset(&s->g, lane, h), s->g.words,
                          h)) {
        h = geometry_next_lane(h);
        lane++;
    }
    return lane == s->g.lanes;
}

/* Counts the lost keys among those added from this state of the random numbers on. */
static uint64_t count_lost(const struct memory_stage *s, uint64_t began,
                           uint64_t n_keys)
{
    uint64_t now = next_hash, lost = 0;
    next_hash = began;
    for (uint64_t i = 0; i < n_keys; i++)
        lost += !maybe(s, random_hash());
    next_hash = now;
    return lost;
}

static double hit_rate(const struct memory_stage *stages, uint32_t n)
{
    uint64_t hits = 0;
    for (int i = 0; i < N_PROBES; i++) {
        uint64_t h = random_hash();
        uint32_t k = 0;
        while (k < n && !maybe(&stages[k], h))
            k++;
        hits += k < n;
    }
    return (double)hits / N_PROBES;
}

void measure_rule(const char *name, double error, double growth,
                  struct rule_measured *out)
{
    const struct rule *r = rule_named(name);
    struct memory_stage stages[MAX_STAGES] = {0};
    struct stages s;
    double left = LANES_FIRST * growth, budget = error, bytes = 0, expected;
    uint32_t n = 0;
    next_hash = 2007;
    memset(out, 0, sizeof *out);
    for (rule_stages(r, error, &s); n < s.n && left >= 1; n++) {
        double keys = fmin(left, s.keys[n]);
        plan_stage_geometry((uint64_t)s.keys[n], s.errors[n], &stages[n].g, &expected);
        uint64_t began = next_hash;
        fill(&stages[n], (uint64_t)keys);
        left -= keys;
        out->factor = 1;
        if (left < 1 && r->fold)
            out->factor = fold_factor(&stages[n].g, keys, budget);
        fold(&stages[n], out->factor);
        out->lost += count_lost(&stages[n], began, (uint64_t)keys);
        budget -= s.errors[n];
        bytes += (double)stage_bytes(&stages[n].g);
    }
    out->stages = n;
    out->bits_per_key = 8 * bytes / (LANES_FIRST * growth);
    out->error = hit_rate(stages, n);
    out->half_width = 2.576 * sqrt(out->error / N_PROBES);
    while (n-- > 0)
        free(stages[n].bits);
}
