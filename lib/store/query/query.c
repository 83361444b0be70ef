/* A query: which way it goes, and the public probes of many segments.
 *
 *     one stripe is all there is, one key ask_row(): one row is all answers
 *     a few segments that are ready       ask_some_cells(): the bits alone
 *     numbers that follow each other      ask_numbers()
 *     targets in no order                 ask_scattered()
 *
 * The first two are short ways of the others, for questions that take less time than it
 * takes to set up a struct asking. */
#include "lib/store/query/inside.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"

#include <string.h>

enum {
    FEW = 16,   /* segments */
    A_RUN = 16, /* so many numbers that follow each other are a run */
};

/* ---- a few segments: what an engine's get or MultiGet asks ---- */

/* The planes of these segments, if all are ready; NULL: one is not. */
static inline const struct plane *few_planes(const struct query *q, uint64_t epoch,
                                             struct plane *room)
{
    const struct planes *const p = &q->snapshot->planes;
    if (!q->targets)
        return planes_are_ready(p, 0, epoch) == first_bits(q->n) ? p->plane : NULL;
    for (size_t i = 0; i < q->n; i++) {
        size_t at = q->targets[i].slot - 1U;
        if (!target_plain(q->snapshot, &q->targets[i]) ||
            !plane_is_ready(q->snapshot, at, epoch))
            return NULL;
        room[i] = p->plane[at];
    }
    return room;
}

/* Takes out those that a range excludes: hits are few, so nothing else is compared. */
static __attribute__((noinline)) uint64_t
hits_in_range(const struct query *q, const struct tamis_key *key, uint64_t hits)
{
    for (uint64_t m = hits; m; m &= m - 1) {
        size_t i = (size_t)__builtin_ctzll(m);
        size_t number = q->targets ? q->targets[i].slot - 1U : i;
        if (outside_by_bytes(q->snapshot, number, key))
            hits &= ~(m & -m);
    }
    return hits;
}

/* False: nothing was asked. */
static inline bool ask_some_cells(const struct query *q, size_t *n_absent)
{
    struct tamis_snapshot *s = q->snapshot;
    struct plane room[FEW];
    const struct plane *planes;
    uint64_t hash[WORD], hits[WORD], foreign = 0;
    uint64_t epoch = stage_epoch(), all = first_bits(q->n);
    if (q->n > FEW || !q->keys || q->reasons || q->candidates ||
        (!q->targets && (!s->complete || s->n != s->n_loose)))
        return false;
    /* For a caller that jumps out of the probe: MAYBE. */
    for (size_t i = 0; i < q->n_keys; i++) {
        if (q->absent)
            __atomic_store_n(&q->absent[i], 0, __ATOMIC_RELAXED);
        hash[i] = q->keys[i].hash;
        foreign |= q->keys[i].tag ^ s->domain.tag;
    }
    if (foreign || !(planes = few_planes(q, epoch, room)) ||
        !snapshot_is_quick(s, q->n_keys))
        return false;
    s->planes.kernel->probe_tile(planes, q->n, 0, hash, q->n_keys, NULL, hits);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch, 0))
        return false;
    *n_absent = 0;
    for (size_t i = 0; i < q->n_keys; i++) {
        if (hits[i] && q->keys[i].bytes && s->planes.any_range)
            hits[i] = hits_in_range(q, &q->keys[i], hits[i]);
        if (q->absent)
            q->absent[i] = all & ~hits[i];
        *n_absent += !hits[i];
    }
    return true;
}

/* ---- one row is all answers ---- */

/* One key, and one band of all segments and one lane, whose pages were all good before.
 * The rows are on their way while it is made sure that nothing else is to be asked: how
 * much a processor has in flight at a time decides how long a key takes. False: nothing
 * was asked, or a range may exclude what the row lets through. */
static inline bool ask_row(const struct query *q, size_t *n_absent)
{
    struct tamis_snapshot *s = q->snapshot;
    const struct tamis_key *key = q->keys;
    const struct stripe *t = s->shared.stripes;
    const uint8_t *rows[MAX_WORDS];
    uint64_t hits[ROW_MAX_WORDS], any = 0;
    if (q->targets || q->n_keys != 1 || !key || !s->shared.whole || t->rows.lanes != 1)
        return false;
    pack_fetch_lane(&t->rows, 0, key->hash, rows);
    uint64_t epoch = stage_epoch();
    size_t n_words = bit_words(s->n);
    if (q->absent)
        memset(q->absent, 0, n_words * sizeof *q->absent);
    if (q->reasons || !s->complete || !stage_all_good(t->rows.stage) ||
        key->tag != s->domain.tag || !snapshot_is_quick(s, 1))
        return false;
    t->rows.kernel->and_rows(rows, t->rows.words, t->rows.row_bytes, t->living, hits);
    for (size_t i = 0; i < n_words; i++)
        any |= hits[i];
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch, 0) ||
        (any && (key->bytes || q->candidates)))
        return false;
    *n_absent = !any;
    for (size_t i = 0; q->absent && i < n_words; i++)
        q->absent[i] = t->living[i] ^ hits[i];
    return true;
}

/* ---- up to 64 keys at a time ---- */

static void asking_begin(struct asking *a, struct query *q, uint64_t *hash,
                         uint64_t *prefix)
{
    struct tamis_snapshot *s = q->snapshot;
    snapshot_is_quick(s, q->n_keys); /* looks at the store, if that is due */
    enum tamis_reason lost = origin_known(s->origin);
    *a = (struct asking){
        .q = q,
        .snapshot = s,
        .sheet = counters_on(&s->counts) ? counters_sheet(&s->counts, s->n) : NULL,
        .n_words = bit_words(q->n),
        .each_hit = q->reasons || q->candidates,
        .keys = q->keys,
        .n = q->n_keys,
        .rows = q->absent,
        .all = first_bits(q->n_keys),
        .hash = hash,
        .prefix = prefix,
    };
    for (size_t i = 0; q->keys && i < q->n_keys; i++) {
        const struct tamis_key *key = &q->keys[i];
        bool plain = key->tag == s->domain.tag && lost == TAMIS_NO_REASON;
        bool ranged = plain && key->bytes && s->planes.any_range;
        hash[i] = key->hash;
        a->plain |= (uint64_t)plain << i;
        a->ranged |= (uint64_t)ranged << i;
        prefix[i] = ranged ? key_prefix(key->bytes, key->n_bytes) : 0;
    }
}

static void ask_numbers(struct asking *a, size_t at, size_t first, size_t n)
{
    size_t n_loose = a->snapshot->n_loose;
    for (size_t some; n && first < n_loose; at += some, first += some, n -= some) {
        some = n < WORD ? n : WORD;
        some = some < n_loose - first ? some : n_loose - first;
        ask_dense(a, at, some, first);
    }
    if (n)
        ask_columns(a, at, first, n);
}

static void ask_all(struct asking *a)
{
    const struct tamis_snapshot *s = a->snapshot;
    if (a->q->reasons) /* all that no row answers for */
        memset(a->q->reasons + s->n_loose, TAMIS_UNKNOWN_SEGMENT, s->n - s->n_loose);
    if (a->plain && s->complete)
        ask_numbers(a, 0, 0, s->n);
    else
        for (size_t at = 0; at < s->n_loose; at += WORD)
            ask_slice(a, at, s->n_loose - at < WORD ? s->n_loose - at : WORD, 0);
    if (s->shared.n_listed)
        tell_of_mute_columns(a);
}

/* How many targets from this one on have numbers that follow each other, and are all
 * there, with nothing against them? Less than a run: 0. */
static size_t run_length(const struct asking *a, size_t at)
{
    const struct tamis_target *t = &a->q->targets[at];
    const struct tamis_snapshot *s = a->snapshot;
    size_t max = a->q->n - at, n;
    if (!target_here(s, t) || t->min_watermark)
        return 0;
    if (max > s->n - (t->slot - 1))
        max = s->n - (t->slot - 1);
    n = s->planes.kernel->run_of_targets(t, max);
    if (t->slot - 1 + n > s->n_loose)
        n = numbers_alive(s, t->slot - 1, n);
    return n >= A_RUN ? n : 0;
}

/* It costs little to see that most targets begin no run. */
static inline size_t run_from(const struct asking *a, size_t at)
{
    const struct tamis_target *t = &a->q->targets[at];
    return at + A_RUN <= a->q->n && a->plain == a->all &&
                   t[A_RUN - 1].slot == t->slot + A_RUN - 1
               ? run_length(a, at)
               : 0;
}

/* n targets in no order. */
static void ask_scattered(struct asking *a, size_t at, size_t n)
{
    if (look_up_columns(a, at, n))
        return;
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < WORD ? n - i : WORD;
        ask_slice(a, at + i, some, ask_columns_apart(a, at + i, some));
    }
}

static void ask_list(struct asking *a)
{
    size_t run = run_from(a, 0);
    for (size_t at = 0, n, left; at < a->q->n; at += n) {
        left = a->q->n - at;
        if ((n = run)) {
            ask_numbers(a, at, a->q->targets[at].slot - 1, n);
            run = run_from(a, at + n);
            continue;
        }
        for (n = 1; n < left && !(run = run_from(a, at + n));)
            n += n < A_RUN ? 1 : A_RUN;
        n = n < left ? n : left;
        ask_scattered(a, at, n);
    }
}

static size_t ask_in_general(struct query *q)
{
    struct asking a;
    uint64_t hash[WORD], prefix[WORD];
    asking_begin(&a, q, hash, prefix);
    if (q->targets)
        ask_list(&a);
    else
        ask_all(&a);
    if (q->candidates)
        sort_candidates(q);
    return n_bits(a.all & ~a.some);
}

/* `why`: nobody can be asked, for this reason. */
static __attribute__((noinline)) size_t ask_cleared(struct query *q,
                                                    enum tamis_reason why)
{
    struct tamis_snapshot *s = q->snapshot;
    if (q->absent)
        memset(q->absent, 0, q->n_keys * bit_words(q->n) * sizeof *q->absent);
    if (q->reasons)
        memset(q->reasons, (int)why, q->n);
    if (!s || !q->n || !q->n_keys)
        return 0;
    size_t n_absent = ask_in_general(q);
    /* An incomplete catalog proves nothing of the segments that it lacks. */
    return q->targets || (s->complete && s->n_segments) ? n_absent : 0;
}

/* A list of all segments, in order: it says nothing that the snapshot does not. */
static inline bool lists_all(const struct query *q)
{
    const struct tamis_snapshot *s = q->snapshot;
    const struct tamis_target *t = q->targets;
    return t && q->n && q->n == s->n && s->n_segments == s->n && s->complete &&
           t->slot == 1 && t[q->n - 1].slot == q->n && target_here(s, t) &&
           !t->min_watermark && s->planes.kernel->run_of_targets(t, q->n) == q->n;
}

/* At most 64 keys. */
static inline size_t ask_keys(struct query *q)
{
    size_t n_absent;
    return q->n_keys && q->n && (ask_row(q, &n_absent) || ask_some_cells(q, &n_absent))
               ? n_absent
               : ask_cleared(q, TAMIS_UNREADABLE);
}

/* More of them: all rows are cleared first, for a caller that jumps out of the probe.
 */
static __attribute__((noinline)) size_t ask_many_keys(const struct query *q)
{
    struct query some = *q;
    size_t n_absent = 0, n_words = bit_words(q->n);
    if (q->absent)
        memset(q->absent, 0, q->n_keys * n_words * sizeof *q->absent);
    for (size_t left = q->n_keys; left; left -= some.n_keys) {
        some.n_keys = left < WORD ? left : WORD;
        n_absent += ask_keys(&some);
        some.keys += some.n_keys;
        if (some.absent)
            some.absent += some.n_keys * n_words;
    }
    return n_absent;
}

size_t query_ask(struct query *q)
{
    if (!q->snapshot)
        return ask_cleared(q, q->keys ? TAMIS_UNKNOWN_SEGMENT : TAMIS_MISMATCH);
    if (lists_all(q))
        q->targets = NULL;
    return q->n_keys <= WORD ? ask_keys(q) : ask_many_keys(q);
}

/* ---- the ways in ---- */

/* By assignments: a compiler clears a whole struct by an instruction that takes longer
 * than a segment. targets NULL: all. */
static inline void question(struct query *q, struct tamis_snapshot *s,
                            const struct tamis_target *targets, size_t n,
                            const struct tamis_key *keys, size_t n_keys,
                            uint64_t *absent, uint8_t *reasons)
{
    q->snapshot = s;
    q->targets = targets;
    q->n = targets ? n : s ? s->n : 0;
    q->keys = keys;
    q->n_keys = n_keys;
    q->absent = absent;
    q->reasons = reasons;
    q->candidates = q->by_number = false;
    q->segments = NULL;
    q->max_segments = q->n_segments = 0;
}

enum tamis_answer tamis_snapshot_probe_list(struct tamis_snapshot *snapshot,
                                            const struct tamis_target *targets,
                                            size_t n, const struct tamis_key *key,
                                            uint64_t *absent, uint8_t *reasons)
{
    struct query q;
    question(&q, snapshot, targets, n, key, 1, absent, reasons);
    q.n = n;
    if (targets)
        return query_ask(&q) ? TAMIS_ABSENT : TAMIS_MAYBE;
    q.snapshot = NULL; /* nobody is meant */
    ask_cleared(&q, snapshot ? TAMIS_UNREADABLE
                    : key    ? TAMIS_UNKNOWN_SEGMENT
                             : TAMIS_MISMATCH);
    return TAMIS_MAYBE;
}

enum tamis_answer tamis_snapshot_probe_all(struct tamis_snapshot *snapshot,
                                           const struct tamis_key *key,
                                           uint64_t *absent, uint8_t *reasons)
{
    struct query q;
    question(&q, snapshot, NULL, 0, key, 1, absent, reasons);
    return query_ask(&q) ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                            const struct tamis_key *key,
                                            uint32_t *segments, size_t max, size_t *n)
{
    struct tamis_snapshot *s = snapshot;
    struct query q;
    question(&q, s, NULL, 0, key, 1, NULL, NULL);
    q.candidates = true;
    q.segments = segments;
    q.max_segments = segments ? max : 0;
    q.by_number =
        s && (!s->shared.n_listed || !s->complete || !key || key->tag != s->domain.tag);
    enum tamis_answer answer = query_ask(&q) ? TAMIS_ABSENT : TAMIS_MAYBE;
    if (n)
        *n = q.n_segments;
    return answer;
}

size_t tamis_snapshot_probe_keys(struct tamis_snapshot *snapshot,
                                 const struct tamis_target *targets, size_t n_targets,
                                 const struct tamis_key *keys, size_t n_keys,
                                 uint64_t *absent)
{
    struct query q;
    question(&q, snapshot, targets, n_targets, keys, n_keys, absent, NULL);
    q.snapshot = keys ? snapshot : NULL;
    return query_ask(&q);
}
