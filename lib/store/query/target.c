/* Asking one segment, with care. probe_target() says TAMIS_NO_REASON, the one thing
 * that becomes ABSENT, only where it has a proof: a healthy filter of this very
 * segment, or a key range of a sealed one whose file is the record's. Whatever asks
 * many segments at once ends here, or knows that all of this holds. */
#include "lib/store/query/inside.h"

/* So many keys are asked of a filter one by one. */
enum { ONE_BY_ONE = 16 };

enum tamis_reason target_reason(const struct tamis_snapshot *s,
                                const struct tamis_target *t, uint64_t tag)
{
    if (!s || !t)
        return TAMIS_UNKNOWN_SEGMENT;
    enum tamis_reason lost = origin_known(s->origin);
    if (lost != TAMIS_NO_REASON)
        return lost;
    if (t->refusal)
        return t->refusal <= TAMIS_UNREADABLE ? (enum tamis_reason)t->refusal
                                              : TAMIS_UNREADABLE;
    if (t->ordinal == 0)
        return TAMIS_UNKNOWN_SEGMENT;
    if (t->snapshot != s->serial) /* its number here is another segment's */
        return TAMIS_MISMATCH;
    if (t->ordinal > s->n)
        return TAMIS_UNKNOWN_SEGMENT;
    if (!is_loose(s, t->ordinal - 1))
        return tag != s->domain.tag ? TAMIS_MISMATCH : TAMIS_NO_REASON;
    const struct entry *e = s->entries[t->ordinal - 1];
    if (!e->state)
        return TAMIS_UNREADABLE;
    if (e->state == RECORD_NO_FILTER)
        return TAMIS_NO_FILTER;
    if (!e->borrowed && tag != s->domain.tag)
        return TAMIS_MISMATCH; /* filters of the caller's compare for themselves */
    if (e->state == RECORD_SEALED && e->watermark < t->min_watermark)
        return TAMIS_BEHIND;
    return TAMIS_NO_REASON;
}

/* The filter or the seat that answers for a target. If neither does: `why` not. */
struct answerer {
    enum tamis_reason why;
    const struct entry *entry;
    struct tamis_filter *filter;
    struct seat seat;
};

static inline void find_answerer(struct answerer *p, struct tamis_snapshot *s,
                                 const struct tamis_target *t, uint64_t tag)
{
    p->filter = NULL;
    p->why = target_reason(s, t, tag);
    if (p->why != TAMIS_NO_REASON)
        return;
    struct entry *e = loose_entry(s, t->ordinal - 1);
    p->entry = e;
    if (e && !e->elsewhere) {
        p->filter = entry_filter_or_reason(s, e, &p->why);
        return;
    }
    p->seat = segment_seat(s, t->ordinal - 1);
    p->why = p->seat.why;
}

/* The answerer has a filter or a seat. */
static inline enum tamis_reason ask_answerer(struct tamis_snapshot *s,
                                             const struct tamis_target *t,
                                             const struct answerer *p, uint64_t now,
                                             const struct tamis_key *key,
                                             bool *by_range)
{
    enum tamis_reason why;
    if (!p->filter)
        return seat_ask(s, t->ordinal - 1, &p->seat, t->min_watermark, key, by_range);
    /* Only now: a record whose file is there and matches is not an older one. */
    if (outside_range(p->entry, key)) {
        *by_range = true;
        return TAMIS_NO_REASON;
    }
    if (filter_probe_from(p->filter, t->min_watermark, now, key, &why) == TAMIS_ABSENT)
        return TAMIS_NO_REASON;
    return why != TAMIS_NO_REASON ? why : TAMIS_UNREADABLE;
}

enum tamis_reason probe_target(struct tamis_snapshot *s, const struct tamis_target *t,
                               uint64_t now, const struct tamis_key *key,
                               bool *by_range)
{
    struct answerer p;
    if (!key)
        return TAMIS_MISMATCH;
    find_answerer(&p, s, t, key->tag);
    return p.why == TAMIS_NO_REASON ? ask_answerer(s, t, &p, now, key, by_range)
                                    : p.why;
}

/* ---- many keys ---- */

/* Keys of the snapshot's domain, on a filter: in one batch, which says no reasons. */
static uint64_t ask_batch(const struct asking *a, const struct tamis_target *t,
                          const struct answerer *p, uint64_t mask)
{
    uint64_t by_range = 0, absent = 0;
    for (uint64_t m = mask & a->ranged; m; m &= m - 1)
        if (outside_range(p->entry, &a->keys[__builtin_ctzll(m)]))
            by_range |= m & -m;
    filter_probe_batch_from(p->filter, t->min_watermark, a->now,
                            a->snapshot->domain.tag, a->hash, a->n, &absent, NULL);
    return by_range | (absent & mask);
}

uint64_t ask_with_care(struct asking *a, const struct tamis_target *t, size_t at,
                       uint64_t mask)
{
    struct tamis_snapshot *s = a->snapshot;
    struct answerer p;
    uint64_t absent = 0, plain = mask & a->plain;
    if (!a->now && target_loose(s, t))
        a->now = origin_clock(s->origin);
    if (plain)
        find_answerer(&p, s, t, s->domain.tag);
    if (plain && p.why == TAMIS_NO_REASON) {
        if (__builtin_popcountll(plain) > ONE_BY_ONE && p.filter && !a->sheet) {
            absent = ask_batch(a, t, &p, plain);
            mask &= ~plain;
        }
        for (uint64_t m = a->n > 1 && p.filter ? plain & mask : 0; m; m &= m - 1)
            filter_prefetch(p.filter, a->hash[__builtin_ctzll(m)]);
    }
    for (uint64_t m = mask; m; m &= m - 1) {
        const struct tamis_key *key = &a->keys[__builtin_ctzll(m)];
        bool by_range = false;
        enum tamis_reason why =
            !(m & -m & plain)          ? probe_target(s, t, a->now, key, &by_range)
            : p.why == TAMIS_NO_REASON ? ask_answerer(s, t, &p, a->now, key, &by_range)
                                       : p.why;
        absent |= why == TAMIS_NO_REASON ? m & -m : 0;
        if (a->sheet)
            count_one(s, t, why, by_range);
        a->why[at % WORD] = (uint8_t)why;
        if (a->reasons)
            a->reasons[at] = (uint8_t)why;
    }
    if (plain && target_loose(s, t))
        planes_offer(s, t->ordinal - 1);
    return absent;
}

void prefetch_target(const struct tamis_snapshot *s, const struct tamis_target *t,
                     uint64_t h)
{
    struct tamis_filter *f =
        target_loose(s, t) ? atomic_load(&s->entries[t->ordinal - 1]->filter) : NULL;
    if (f)
        filter_prefetch(f, h);
}

/* ---- the ways in ---- */

/* `now`: as from look_at_store(); 0: the time is read if a filter asks for it. */
static __attribute__((noinline)) enum tamis_answer
probe_and_count(struct tamis_snapshot *s, const struct tamis_target *t,
                const struct tamis_key *key, enum tamis_reason *why, uint64_t now)
{
    bool by_range = false;
    enum tamis_reason reason = probe_target(s, t, now, key, &by_range);
    if (s && counters_on(&s->counts))
        count_one(s, t, reason, by_range);
    if (s && t && key && !by_range && target_loose(s, t))
        planes_offer(s, t->ordinal - 1);
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

_Static_assert(offsetof(struct tamis_snapshot, watch) == 0, "take_otherwise() casts");

/* The clock has moved; or a hit of a key that is short, or that the range may
 * exclude. */
static enum tamis_answer take_otherwise(struct plane_watch *w,
                                        const struct tamis_target *t,
                                        const struct tamis_key *key,
                                        enum tamis_reason *why,
                                        const struct watched_plane *p, uint64_t clock)
{
    struct tamis_snapshot *s = (void *)w;
    if (quick_clock() != clock)
        return probe_and_count(s, t, key, why, look_at_store(s));
    bool outside = outside_by_bytes(s, (size_t)(p - s->planes.watched) - 1, key);
    if (why)
        *why = outside ? TAMIS_NO_REASON : TAMIS_HIT;
    return outside ? TAMIS_ABSENT : TAMIS_MAYBE;
}

uint64_t look_at_store(struct tamis_snapshot *s)
{
    uint64_t clock = quick_clock(), now = origin_clock(s->origin);
    if (origin_known(s->origin) == TAMIS_NO_REASON && !counters_on(&s->counts)) {
        atomic_store_explicit(&s->watch.otherwise, take_otherwise,
                              memory_order_relaxed);
        atomic_store_explicit(&s->quick, clock, memory_order_release);
    }
    return now;
}

bool quick_after_look(struct tamis_snapshot *s, uint64_t clock)
{
    if (quick_left < 0)
        quick_tick();
    if (atomic_load(&s->quick) != quick_clock())
        look_at_store(s);
    return atomic_load(&s->quick) == clock && quick_clock() == clock;
}

/* Looks whether the plane alone decides, and notes it for other probes. */
static __attribute__((noinline)) enum tamis_answer
probe_after_look(struct tamis_snapshot *s, const struct tamis_target *t,
                 const struct tamis_key *key, enum tamis_reason *why)
{
    uint64_t clock = quick_clock();
    if (!s || !quick_after_look(s, clock) || !t || !key || !target_plain(s, t) ||
        key->tag != s->domain.tag ||
        !plane_is_ready(s, t->ordinal - 1, clock / CLOCK_BAD))
        return probe_and_count(s, t, key, why, 0);
    struct watched_plane *p = &s->planes.watched[t->ordinal];
    if (!t->min_watermark) /* the others come here each time */
        atomic_store_explicit(&p->trusted, clock, memory_order_release);
    return s->watch.answer(&s->watch, t, key, why, p, clock);
}

/* A segment of a stripe whose pages are all good, in a snapshot that is quick: its bits
 * decide. */
static __attribute__((noinline)) enum tamis_answer
probe_column(struct tamis_snapshot *s, const struct tamis_target *t,
             const struct tamis_key *key, enum tamis_reason *why)
{
    uint64_t clock = quick_clock();
    size_t number = t->ordinal - 1U;
    const struct stripe *p = stripe_of(&s->shared, number);
    uint32_t at = p ? (uint32_t)(number - p->first) : 0;
    if (!p || !plain_between(s, t, s->n_loose, s->n) || key->tag != s->domain.tag ||
        atomic_load_explicit(&s->quick, memory_order_acquire) != clock ||
        !stage_all_good(p->rows.stage) || !(p->living[at / WORD] >> at % WORD & 1))
        return probe_after_look(s, t, key, why);
    bool hit = pack_column_set(&p->rows, at, key->hash), by_range;
    atomic_thread_fence(memory_order_acquire);
    if (RARELY(quick_clock() != clock))
        return probe_and_count(s, t, key, why, look_at_store(s));
    enum tamis_reason reason =
        column_hit(p->view, p->band->first_column + at,
                   hit ? TAMIS_HIT : TAMIS_NO_REASON, key, &by_range);
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* Nearly all probes take the last way, which costs little more than a probe of a
 * filter. Its conditions are merged into one: a processor takes one branch faster than
 * five. */
enum tamis_answer tamis_snapshot_probe(struct tamis_snapshot *snapshot,
                                       const struct tamis_target *target,
                                       const struct tamis_key *key,
                                       enum tamis_reason *why)
{
    uint64_t clock = quick_clock(), ordinal;
    if (RARELY(!snapshot) || RARELY(--quick_left < 0) || RARELY(!target || !key))
        return probe_after_look(snapshot, target, key, why);
    ordinal = (uint64_t)target->refusal << 32 | target->ordinal;
    if (RARELY(ordinal > snapshot->n_loose))
        return probe_column(snapshot, target, key, why);
    const struct watched_plane *p = &snapshot->planes.watched[ordinal];
    if (RARELY((atomic_load_explicit(&p->trusted, memory_order_acquire) ^ clock) |
               (key->tag ^ snapshot->domain.tag) |
               (target->snapshot ^ snapshot->serial) | target->min_watermark))
        return probe_after_look(snapshot, target, key, why);
    return snapshot->watch.answer(&snapshot->watch, target, key, why, p, clock);
}

/* ---- why an answer is what it is: the key range, the filter, or neither ---- */

static enum tamis_answer explain_by(struct tamis_explanation *out,
                                    enum tamis_decider by, enum tamis_reason reason)
{
    out->by = by;
    out->reason = reason;
    out->answer = reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
    return out->answer;
}

enum tamis_answer tamis_snapshot_explain(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target,
                                         const struct tamis_key *key,
                                         struct tamis_explanation *out)
{
    bool by_range = false;
    memset(out, 0, sizeof *out);
    uint64_t now = snapshot ? origin_clock(snapshot->origin) : 0;
    enum tamis_reason reason = probe_target(snapshot, target, now, key, &by_range);
    if (by_range)
        return explain_by(out, TAMIS_BY_RANGE, reason);
    if ((reason != TAMIS_NO_REASON && reason != TAMIS_HIT && reason != TAMIS_DAMAGED) ||
        target->refusal)
        return explain_by(out, TAMIS_BY_NOTHING, reason);
    /* The filter was there a moment ago: the target is this snapshot's. */
    size_t index = target->ordinal - 1;
    struct entry *e = loose_entry(snapshot, index);
    if (!e || e->elsewhere)
        return explain_by(out, TAMIS_BY_FILTER, reason);
    struct tamis_filter *f = entry_filter_or_reason(snapshot, e, &reason);
    return f ? filter_explain_from(f, target->min_watermark, key, out)
             : explain_by(out, TAMIS_BY_NOTHING, reason);
}
