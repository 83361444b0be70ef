/* Kind 1, Bloom: each stage is a plane of bits, and a key is absent if it misses in all
 * of them.
 *
 * As long as a page of a stage is still to be checked, each key is asked stage by
 * stage, with a look at the memory of good pages (page/check.c). Once all are good, the
 * kernel goes over the planes as fast as it can. */
#include "lib/filter/view.h"
#include "lib/plan/plan.h"

/* ---- what is mapped ---- */

static size_t bloom_memory(const struct commit *c)
{
    return c->n_stages * sizeof(struct plane) + sizeof(struct plane_row);
}

static void bloom_map(struct view *v, const struct commit *c, void *at)
{
    struct plane_row *row = at;
    (void)c;
    v->planes = (void *)(row + 1);
    for (uint32_t i = 0; i < v->n_stages; i++)
        v->planes[i] = plane_of(v->stages[i].bits, &v->stages[i].geometry);
    plane_row_begin(row, v->planes, v->n_stages);
    v->head = (struct plane_head){.plane = v->planes[0], .row = row};
    v->answer = v->n_stages == 1 ? kernel_get()->answer : kernel_get()->answer_row;
}

/* ---- one key ---- */

/* The planes that may be asked without a look at their pages: all lanes of stages that
 * are good throughout, the first lane of the others. A key that only it may have is no
 * more than a perhaps, to be asked with care. */
struct bloom_asking {
    enum { TO_CHECK, PERHAPS, FOR_CERTAIN } how;
    const struct plane_row *row; /* of all stages; not if there is something to check */
    uint32_t perhaps; /* a bit for each stage of which only one lane is asked */
    struct plane_row of_mixed;
    struct plane mixed[MAX_STAGES];
};

static inline void bloom_asking_begin(struct bloom_asking *a, struct view *v)
{
    bool all = true, first = true;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        all &= stage_all_good(&v->stages[i]);
        first &= stage_first_good(&v->stages[i]);
    }
    a->how = all ? FOR_CERTAIN : first ? PERHAPS : TO_CHECK;
    a->row = v->head.row;
    a->perhaps = 0;
    if (a->how != PERHAPS)
        return;
    a->row = &a->of_mixed;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        a->mixed[i] = v->planes[i];
        if (stage_all_good(&v->stages[i]))
            continue;
        a->mixed[i].lanes = 1;
        a->perhaps |= UINT32_C(1) << i;
    }
    a->of_mixed.planes = a->mixed;
    if (v->n_stages > 1) /* a lone stage is asked by itself */
        plane_row_begin(&a->of_mixed, a->mixed, v->n_stages);
}

/* A negative has to miss in every stage: their lines are fetched side by side. Inlined
 * by force: gcc 12 takes a function that only prefetches for one without effects, and
 * drops its calls. */
__attribute__((always_inline)) static inline void bloom_prefetch(const struct view *v,
                                                                 uint64_t h)
{
    const struct plane *p = v->planes, *end = p + v->n_stages;
    do /* a view has a stage at least */
        __builtin_prefetch(plane_block(p, 0, h));
    while (++p < end);
}

static enum tamis_reason probe_checking(struct view *v, const struct kernel *k,
                                        uint64_t h)
{
    /* The last stages hold most keys. */
    for (uint32_t i = v->n_stages; i-- > 0;) {
        enum tamis_reason r = stage_probe(&v->stages[i], k, h);
        if (r != TAMIS_NO_REASON)
            return r;
    }
    return TAMIS_NO_REASON;
}

static enum tamis_reason bloom_probe_one(struct view *v, const struct kernel *k,
                                         uint64_t h)
{
    struct bloom_asking a;
    uint64_t hits = 1;
    bloom_asking_begin(&a, v);
    if (a.how != TO_CHECK && v->n_stages == 1)
        hits = k->probe(a.row->planes, h);
    else if (a.how != TO_CHECK)
        hits = k->probe_row(a.row, h);
    if (!hits)
        return TAMIS_NO_REASON;
    if (a.how != TO_CHECK && hits & ~(uint64_t)a.perhaps)
        return TAMIS_HIT;
    if (v->n_stages > 1)
        bloom_prefetch(v, h);
    return probe_checking(v, k, h);
}

/* ---- many keys ---- */

enum {
    WORD = 64, /* keys to a word of answers */
    /* Words of answers that are made at a time, for all stages together. */
    GRID_WORDS = 8 * MAX_STAGES,
};

/* Answers leave only when they are whole: a caller that jumps out of a probe, perhaps
 * from a signal handler, is left with MAYBE. */
static size_t answer_word(uint64_t *absent, uint64_t hits, size_t n)
{
    uint64_t asked = n < WORD ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    *absent = ~hits & asked;
    return (size_t)__builtin_popcountll(*absent);
}

/* A word of keys, with pages to be checked; the next word's lines are fetched. */
static uint64_t word_checking(struct view *v, const struct kernel *k,
                              const uint64_t *hashes, size_t n, size_t n_next)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < n; i++) {
        if (i < n_next)
            bloom_prefetch(v, hashes[n + i]);
        hits |= (uint64_t)(probe_checking(v, k, hashes[i]) != TAMIS_NO_REASON) << i;
    }
    return hits;
}

/* Asks the later lanes for the keys of a word that the first lanes may have. */
static uint64_t survivors_checking(struct view *v, const struct kernel *k,
                                   const uint64_t *hashes, uint64_t hits)
{
    for (uint64_t m = hits; m; m &= m - 1) {
        uint64_t h = geometry_next_lane(hashes[__builtin_ctzll(m)]);
        for (uint32_t i = 0; i < v->n_stages; i++)
            if (v->planes[i].lanes > 1)
                __builtin_prefetch(plane_block(&v->planes[i], 1, h));
    }
    for (uint64_t m = hits; m; m &= m - 1)
        if (probe_checking(v, k, hashes[__builtin_ctzll(m)]) == TAMIS_NO_REASON)
            hits &= ~(m & -m);
    return hits;
}

/* Many words of keys on planes whose bits may be believed; n_next hashes follow. */
static size_t bloom_probe_grid(struct view *v, const struct kernel *k,
                               const struct bloom_asking *a, const uint64_t *hashes,
                               size_t n, size_t n_next, uint64_t *absent)
{
    uint64_t of_stages[GRID_WORDS];
    const uint64_t *of = of_stages;
    size_t n_absent = 0;
    k->probe_grid(a->row->planes, v->n_stages, hashes, n, n_next, of_stages);
    for (size_t done = 0; done < n; done += WORD) {
        uint64_t hits = 0, perhaps = 0;
        for (uint32_t i = 0; i < v->n_stages; i++, of++) {
            hits |= a->perhaps >> i & 1 ? 0 : *of;
            perhaps |= *of;
        }
        if (perhaps & ~hits)
            hits |= survivors_checking(v, k, hashes + done, perhaps & ~hits);
        n_absent += answer_word(absent++, hits, n - done);
    }
    return n_absent;
}

static size_t bloom_probe_many(struct view *v, const struct kernel *k,
                               const uint64_t *hashes, size_t n, uint64_t *absent)
{
    size_t n_absent = 0;
    for (size_t done = 0, some; done < n; done += some) {
        const uint64_t *now = hashes + done;
        size_t left = n - done;
        struct bloom_asking a;
        bloom_asking_begin(&a, v);
        some = a.how == TO_CHECK ? WORD : GRID_WORDS / v->n_stages * WORD;
        some = some < left ? some : left;
        if (a.how != TO_CHECK) {
            n_absent += bloom_probe_grid(v, k, &a, now, some, left - some,
                                         absent + done / WORD);
            continue;
        }
        size_t next = left - some < WORD ? left - some : WORD;
        uint64_t hits = word_checking(v, k, now, some, next);
        n_absent += answer_word(absent + done / WORD, hits, some);
    }
    return n_absent;
}

/* ---- for people ---- */

static void explain(struct stage *s, const struct kernel *k, uint64_t begin, uint64_t h,
                    struct tamis_stage_answer *out)
{
    struct stage_finding f = stage_find(s, k, h);
    *out = (struct tamis_stage_answer){f.reason, f.lane,
                                       f.reason == TAMIS_HIT ? 0 : begin + f.at};
}

/* By the keys; or by the blocks, where those are fuller and were measured: a stage that
 * was made of others states that, one that was built states what the filter aims at
 * (SPEC.md 16.4). */
static double error_now(const struct identity *id, const struct stage_desc *s)
{
    uint64_t by_bits = plan_keys_of_bits(&s->geometry, s->bits_set);
    uint64_t keys = by_bits > s->keys ? by_bits : s->keys;
    double by_keys = plan_geometry_error(&s->geometry, keys);
    bool measured = id->growth_rule == 0 && s->target_error != id->target_error;
    return measured && s->target_error > by_keys ? s->target_error : by_keys;
}

/* Threads look at the fill now and then: a little over is not over. */
static bool over_target(const struct stage_desc *last)
{
    return last->bits_set >
           plan_expected_bits(&last->geometry,
                              last->capacity + last->capacity / 256 + 1);
}

const struct filter_kind kind_bloom = {
    .number = KIND_BLOOM,
    .name = "Bloom",
    .algebra = CAN_UNITE | CAN_INTERSECT | CAN_FOLD | CAN_COMPARE | CAN_ESTIMATE,
    .planes = true,
    .memory = bloom_memory,
    .map = bloom_map,
    .probe = bloom_probe_one,
    .probe_many = bloom_probe_many,
    .prefetch = bloom_prefetch,
    .explain = explain,
    .error_now = error_now,
    .over_target = over_target,
};
