/* Probes of one filter, one key or many at a time: what is common to all kinds. Which
 * view is to be asked, and does anything speak against the whole filter? If nothing
 * does, the functions of the filter's kind (kind.h) ask the pages of the view. */
#include "lib/filter/view.h"
#include "lib/sync_point.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
/* Functions that need many registers stay apart: the shortest ways do not pay then. */
#define APART __attribute__((noinline))

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

/* The view to ask, until question_end(); or why there is nothing to ask. */
static inline struct view *view_to_ask(struct tamis_filter *f, uint64_t min_watermark,
                                       uint64_t clock, struct question *r,
                                       enum tamis_reason *reason)
{
    struct standing now;
    struct view *v = filter_look(f, &now);
    if (now.refusal == TAMIS_NO_REASON)
        now.refusal = name_reason(f, v, clock);
    *reason = refusal(&now, at_least(min_watermark, f->min_watermark));
    int err = *reason == TAMIS_NO_REASON ? question_begin(f, r) : 0;
    if (err)
        *reason = reason_of_error(err);
    return v;
}

/* Answers with all looks, unless the view needs none after the clock's tick. */
static APART enum tamis_answer answer_slowly(struct tamis_filter *f,
                                             uint64_t min_watermark, uint64_t now,
                                             const struct tamis_key *key,
                                             enum tamis_reason *why)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    if (quick_left < 0) /* each probe took one, with any key */
        quick_tick();
    if (key->tag != f->tag)
        return answer_of(TAMIS_MISMATCH, why);
    if (min_watermark <= f->min_watermark && view_was_offered(v, key->tag))
        return v->answer(&v->head.plane, key, why);
    enum tamis_reason reason;
    struct question r;
    uint64_t epoch = quick_now();
    v = view_to_ask(f, min_watermark, now, &r, &reason);
    SYNC_POINT("probe: view chosen");
    if (reason == TAMIS_NO_REASON) {
        reason = f->probe(v, f->kernel, key->hash);
        view_offer(f, v, epoch);
        question_end(f, &r);
    }
    return answer_of(reason, why);
}

static APART enum tamis_answer answer_nothing(enum tamis_reason *why)
{
    return answer_of(TAMIS_UNREADABLE, why);
}

enum tamis_answer filter_probe_from(struct tamis_filter *f, uint64_t min_watermark,
                                    uint64_t now, const struct tamis_key *key,
                                    enum tamis_reason *why)
{
    if (!f || !key)
        return answer_nothing(why);
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    if (min_watermark <= f->min_watermark && view_is_quick(v, key->tag))
        return v->answer(&v->head.plane, key, why);
    return answer_slowly(f, min_watermark, now, key, why);
}

enum tamis_answer tamis_filter_probe(struct tamis_filter *f,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why)
{
    if (!LIKELY(f && key))
        return answer_nothing(why);
    /* The way of nearly all probes, in as few instructions as can be: how many of them
     * a processor has in flight decides how many lines it waits for at a time. */
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    if (LIKELY(stage_is_plain(&v->stages[0], key->tag)))
        return f->answer(&v->head.plane, key, why);
    if (LIKELY(view_is_quick(v, key->tag)))
        return v->answer(&v->head.plane, key, why);
    return answer_slowly(f, 0, 0, key, why);
}

bool filter_geometry(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                     struct geometry *g)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    struct standing now;
    if (!v->plain || f->tag != tag || !view_is_current(v, &now))
        return false;
    if (refusal(&now, at_least(min_watermark, f->min_watermark)) != TAMIS_NO_REASON)
        return false;
    *g = v->stages[0].geometry;
    return true;
}

bool filter_plane(struct tamis_filter *f, uint64_t tag, uint64_t min_watermark,
                  struct plane *plane)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    struct geometry g;
    if (!filter_geometry(f, tag, min_watermark, &g) || !stage_all_good(&v->stages[0]))
        return false;
    *plane = v->head.plane;
    return true;
}

void filter_prefetch(struct tamis_filter *f, uint64_t h)
{
    f->prefetch(atomic_load_explicit(&f->view, memory_order_acquire), h);
}

/* ---- many keys ---- */

enum { WORD = 64 }; /* keys to a word of answers */

size_t filter_probe_batch_from(struct tamis_filter *f, uint64_t min_watermark,
                               uint64_t now, uint64_t tag, const uint64_t *hashes,
                               size_t n, uint64_t *absent, enum tamis_reason *why)
{
    if (n && absent) /* of no keys it may be NULL */
        memset(absent, 0, ((n - 1) / WORD + 1) * sizeof *absent);
    if (quick_left < 0)
        quick_tick();
    if (!f || tag != f->tag || (n && (!hashes || !absent))) {
        answer_of(f ? TAMIS_MISMATCH : TAMIS_UNREADABLE, why);
        return 0;
    }
    enum tamis_reason reason;
    struct question r;
    uint64_t epoch = quick_now();
    struct view *v = view_to_ask(f, min_watermark, now, &r, &reason);
    if (why)
        *why = reason;
    if (reason != TAMIS_NO_REASON)
        return 0;
    size_t n_absent = f->probe_many(v, f->kernel, hashes, n, absent);
    view_offer(f, v, epoch);
    question_end(f, &r);
    return n_absent;
}

/* Takes the arguments of tamis_filter_probe_batch() as they are: then that one saves no
 * registers. */
static APART size_t batch_with_looks(struct tamis_filter *f, uint64_t tag,
                                     const uint64_t *hashes, size_t n, uint64_t *absent,
                                     enum tamis_reason *why)
{
    return filter_probe_batch_from(f, 0, 0, tag, hashes, n, absent, why);
}

size_t tamis_filter_probe_batch(struct tamis_filter *f, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why)
{
    /* The way of a few keys, as that of one in tamis_filter_probe(). */
    if (!LIKELY(f && hashes && absent && n - 1 < WORD))
        return batch_with_looks(f, tag, hashes, n, absent, why);
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    if (!LIKELY(stage_is_plain(&v->stages[0], tag)) &&
        !(v->n_stages == 1 && view_is_quick(v, tag)))
        return batch_with_looks(f, tag, hashes, n, absent, why);
    *absent = 0; /* a caller that jumps out of the probe has MAYBE */
    if (why)
        *why = TAMIS_NO_REASON;
    return f->answer_few(&v->head.plane, hashes, n, absent);
}
