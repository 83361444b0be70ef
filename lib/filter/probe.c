/* Probes of one filter, one key or many at a time.
 *
 * As long as a page of a stage is still to be checked, each key is asked stage by
 * stage, with a look at the memory of good pages (page/check.c). Once all are good, the
 * stages are nothing but planes of bits, and the kernel goes over them as fast as it
 * can. */
#include "lib/filter/view.h"
#include "lib/sync_point.h"

#include <stdatomic.h>
#include <string.h>

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* What may be asked of the stages without a look at their pages: all lanes of those
 * that are good throughout, the first one of the others. What only that one has is no
 * more than a perhaps, to be asked with care. */
struct asking {
    enum { TO_CHECK, PERHAPS, FOR_CERTAIN } how;
    const struct plane *planes; /* one a stage; not if there is something to check */
    uint32_t perhaps; /* a bit for each stage of which only one lane is asked */
    struct plane mixed[MAX_STAGES];
};

static inline void asking_begin(struct asking *a, struct view *v)
{
    bool all = true, first = true;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        all &= stage_all_good(&v->stages[i]);
        first &= stage_first_good(&v->stages[i]);
    }
    a->how = all ? FOR_CERTAIN : first ? PERHAPS : TO_CHECK;
    a->planes = v->planes;
    a->perhaps = 0;
    if (a->how != PERHAPS)
        return;
    a->planes = a->mixed;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        a->mixed[i] = v->planes[i];
        if (stage_all_good(&v->stages[i]))
            continue;
        a->mixed[i].lanes = 1;
        a->perhaps |= UINT32_C(1) << i;
    }
}

/* A negative has to miss in every stage: their lines are fetched side by side. */
static void view_prefetch(const struct view *v, uint64_t h)
{
    for (uint32_t i = 0; i < v->n_stages; i++)
        __builtin_prefetch(plane_block(&v->planes[i], 0, h));
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

static inline enum tamis_reason probe_view(struct view *v, const struct kernel *k,
                                           uint64_t h)
{
    struct asking a;
    uint64_t hits = 1;
    asking_begin(&a, v);
    if (a.how != TO_CHECK && v->n_stages == 1)
        hits = k->probe(a.planes, h);
    else if (a.how != TO_CHECK)
        k->probe_row(a.planes, v->n_stages, h, &hits);
    if (!hits)
        return TAMIS_NO_REASON;
    if (a.how != TO_CHECK && hits & ~(uint64_t)a.perhaps)
        return TAMIS_HIT;
    if (v->n_stages > 1)
        view_prefetch(v, h);
    return probe_checking(v, k, h);
}

/* Why every probe of a view of this standing is MAYBE, or NO_REASON. */
static inline enum tamis_reason refusal(const struct standing *now,
                                        uint64_t min_watermark)
{
    if (now->refusal != TAMIS_NO_REASON)
        return now->refusal;
    return now->watermark < min_watermark ? TAMIS_BEHIND : TAMIS_NO_REASON;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The view to ask, or why there is nothing to ask. */
static inline struct view *view_to_ask(struct tamis_filter *f, uint64_t min_watermark,
                                       uint64_t clock, enum tamis_reason *reason)
{
    struct standing now;
    struct view *v = filter_look(f, &now);
    if (now.refusal == TAMIS_NO_REASON)
        now.refusal = name_reason(f, v, clock);
    *reason = refusal(&now, at_least(min_watermark, f->min_watermark));
    return v;
}

static enum tamis_answer answer(enum tamis_reason reason, enum tamis_reason *why)
{
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    uint64_t now, const struct tamis_key *key,
                                    enum tamis_reason *why)
{
    if (!f || !key)
        return answer(TAMIS_UNREADABLE, why);
    if (key->tag != f->tag)
        return answer(TAMIS_MISMATCH, why);
    enum tamis_reason reason;
    struct view *v = view_to_ask(f, min_watermark, now, &reason);
    SYNC_POINT("probe: view chosen");
    if (reason == TAMIS_NO_REASON)
        reason = probe_view(v, f->kernel, key->hash);
    return answer(reason, why);
}

enum tamis_answer tamis_filter_probe(struct tamis_filter *f,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    /* The way of nearly all probes, in as few instructions as can be: how many of them
     * a processor has in flight decides how many lines it waits for at a time. */
    if (LIKELY(f && key && key->tag == f->tag)) {
        struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
        if (LIKELY(stage_plain_good(&v->stages[0])))
            return f->answer(&v->plane, key, why);
    }
    return filter_probe_from(f, 0, 0, key, why);
}

bool filter_plane(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                  struct plane *plane)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    struct standing now;
    if (!v->plain || f->tag != tag || !view_is_current(v, &now))
        return false;
    if (refusal(&now, at_least(min_watermark, f->min_watermark)) != TAMIS_NO_REASON)
        return false;
    if (!stage_all_good(&v->stages[0]))
        return false;
    *plane = v->plane;
    return true;
}

void filter_prefetch(struct tamis_filter *f, uint64_t h)
{
    view_prefetch(atomic_load_explicit(&f->view, memory_order_acquire), h);
}

/* ---- many keys ---- */

enum {
    WORD = 64, /* keys to a word of answers */
    /* So many words of answers, of all stages together, are at hand at a time. */
    GRID_WORDS = 8 * MAX_STAGES,
};

/* Answers leave only when they are whole: whoever jumps out of a probe, from a signal
 * handler of the host's perhaps, is left with MAYBE. */
static size_t answer_word(uint64_t *absent, uint64_t hits, size_t n)
{
    uint64_t asked = n < WORD ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    *absent = ~hits & asked;
    return (size_t)__builtin_popcountll(*absent);
}

static void clear_answers(uint64_t *absent, size_t n)
{
    if (n && absent) /* of no keys it may be NULL */
        memset(absent, 0, (n / WORD + (n % WORD != 0)) * sizeof *absent);
}

/* A word of keys, with pages to be checked; the next word's lines are fetched. */
static uint64_t word_checking(struct view *v, const struct kernel *k,
                              const uint64_t *hashes, size_t n, size_t n_next)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < n; i++) {
        if (i < n_next)
            view_prefetch(v, hashes[n + i]);
        hits |= (uint64_t)(probe_checking(v, k, hashes[i]) != TAMIS_NO_REASON) << i;
    }
    return hits;
}

/* Of those keys of a word that the first lanes may have, those that all lanes may. */
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
static size_t probe_grid(struct view *v, const struct kernel *k, const struct asking *a,
                         const uint64_t *hashes, size_t n, size_t n_next,
                         uint64_t *absent)
{
    uint64_t of_stages[GRID_WORDS];
    const uint64_t *of = of_stages;
    size_t n_absent = 0;
    k->probe_grid(a->planes, v->n_stages, hashes, n, n_next, of_stages);
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

static size_t probe_hashes(struct view *v, const struct kernel *k,
                           const uint64_t *hashes, size_t n, uint64_t *absent)
{
    size_t n_absent = 0;
    for (size_t done = 0, some; done < n; done += some) {
        const uint64_t *now = hashes + done;
        size_t left = n - done;
        struct asking a;
        asking_begin(&a, v);
        some = a.how == TO_CHECK ? WORD : GRID_WORDS / v->n_stages * WORD;
        some = some < left ? some : left;
        if (a.how != TO_CHECK) {
            n_absent +=
                probe_grid(v, k, &a, now, some, left - some, absent + done / WORD);
            continue;
        }
        size_t next = left - some < WORD ? left - some : WORD;
        uint64_t hits = word_checking(v, k, now, some, next);
        n_absent += answer_word(absent + done / WORD, hits, some);
    }
    return n_absent;
}

size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t now, uint64_t tag, const uint64_t *hashes,
                               size_t n, uint64_t *absent, enum tamis_reason *why)
{
    clear_answers(absent, n);
    if (!f || tag != f->tag || (n && (!hashes || !absent))) {
        answer(f ? TAMIS_MISMATCH : TAMIS_UNREADABLE, why);
        return 0;
    }
    enum tamis_reason reason;
    struct view *v = view_to_ask(f, min_watermark, now, &reason);
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? probe_hashes(v, f->kernel, hashes, n, absent)
                                     : 0;
}

size_t tamis_filter_probe_batch(struct tamis_filter *f, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why)
{
    return filter_probe_batch_from(f, 0, 0, tag, hashes, n, absent, why);
}

/* Gathers the hashes; keys of another domain are asked too, and their answers dropped.
 */
size_t tamis_filter_probe_keys(struct tamis_filter *f, const struct tamis_key *keys,
                               size_t n, uint64_t *absent, enum tamis_reason *why)
{
    enum { GATHER = 16 * WORD };
    uint64_t hashes[GATHER], answers[GATHER / WORD];
    size_t n_absent = 0;
    clear_answers(absent, n);
    if (!f || (n && (!keys || !absent))) {
        answer(f ? TAMIS_MISMATCH : TAMIS_UNREADABLE, why);
        return 0;
    }
    answer(TAMIS_NO_REASON, why);
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done < GATHER ? n - done : GATHER;
        for (size_t i = 0; i < some; i++)
            hashes[i] = keys[done + i].hash;
        enum tamis_reason reason;
        filter_probe_batch_from(f, 0, 0, f->tag, hashes, some, answers, &reason);
        if (reason != TAMIS_NO_REASON)
            answer(reason, why);
        for (size_t i = 0; i < some; i++) {
            uint64_t bit = answers[i / WORD] >> (i % WORD) & 1;
            if (keys[done + i].tag != f->tag) {
                answer(TAMIS_MISMATCH, why);
                continue;
            }
            absent[(done + i) / WORD] |= bit << ((done + i) % WORD);
            n_absent += bit;
        }
    }
    return n_absent;
}
