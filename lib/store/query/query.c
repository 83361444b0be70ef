/* A query: which way it goes, and the public probes of many segments.
 *
 *     one stripe is all there is, one key ask_row(): one row is all answers
 *     a few segments, a few keys          ask_some_cells(): the bits alone
 *     else, up to 64 keys at a time:
 *       numbers that follow each other    ask_dense(), ask_columns()
 *       targets that lie anywhere         ask_slice()
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

/* False: nothing was asked. */
static inline bool ask_some_cells(const struct query *q, size_t *n_absent)
{
    struct tamis_snapshot *s = q->snapshot;
    struct plane room[FEW];
    const struct plane *planes;
    uint64_t hash[WORD], hits[WORD], foreign = 0, bytes = 0;
    uint64_t epoch = stage_epoch(), all = first_bits(q->n);
    if (q->n > FEW || q->n_keys > WORD || !q->keys || q->reasons || q->candidates ||
        counters_on(&s->counts) ||
        (!q->targets && (!s->complete || s->n != s->n_loose)))
        return false;
    /* For a caller that jumps out of the probe: MAYBE. */
    for (size_t i = 0; i < q->n_keys; i++) {
        if (q->absent)
            __atomic_store_n(&q->absent[i], 0, __ATOMIC_RELAXED);
        hash[i] = q->keys[i].hash;
        foreign |= q->keys[i].tag ^ s->domain.tag;
        bytes |= (uint64_t)(uintptr_t)q->keys[i].bytes;
    }
    if (foreign || (bytes && s->planes.any_range) ||
        !(planes = few_planes(q, epoch, room)) ||
        origin_quick(s->origin, q->n_keys) != TAMIS_NO_REASON)
        return false;
    s->planes.kernel->probe_tile(planes, q->n, false, hash, q->n_keys, NULL, hits);
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch, 0))
        return false;
    *n_absent = 0;
    for (size_t i = 0; i < q->n_keys; i++) {
        if (q->absent)
            q->absent[i] = all & ~hits[i];
        *n_absent += !hits[i];
    }
    return true;
}

/* ---- one row is all answers ---- */

/* memset() takes longer than a line, and a compiler makes it of a loop of lines. */
static inline void clear_words(uint64_t *words, size_t n)
{
    typedef uint64_t line __attribute__((vector_size(64), aligned(8), may_alias));
    if (n == sizeof(line) / sizeof *words)
        *(line *)(void *)words = (line){0};
    else
        memset(words, 0, n * sizeof *words);
}

static inline bool answer_by_row(const struct tamis_snapshot *s,
                                 const uint8_t *const *rows, uint64_t *absent)
{
    const struct stripe *t = s->shared.stripes;
    uint64_t hits[ROW_MAX_WORDS], any = 0;
    size_t n_words = bit_words(s->n);
    t->rows.kernel->and_rows(rows, t->rows.words, t->rows.row_bytes, t->living, hits);
    for (size_t i = 0; i < n_words; i++)
        any |= hits[i];
    for (size_t i = 0; absent && i < n_words; i++)
        absent[i] = t->living[i] ^ hits[i];
    return any != 0;
}

/* One key, and one band of all segments and one lane, whose pages were all good before.
 * The rows are on their way while it is made sure that nothing else is to be asked: how
 * much a processor has in flight at a time decides how long a key takes. False: nothing
 * was asked, or a range may exclude what the row lets through. */
static inline bool ask_row(const struct query *q, size_t *n_absent)
{
    struct tamis_snapshot *s = q->snapshot;
    const struct tamis_key *key = q->keys;
    const uint8_t *rows[MAX_WORDS];
    if (q->targets || q->n_keys != 1 || !key || !s->shared.whole ||
        s->shared.stripes->rows.lanes != 1)
        return false;
    pack_fetch_lane(&s->shared.stripes->rows, 0, key->hash, rows);
    uint64_t epoch = stage_epoch();
    if (q->absent)
        clear_words(q->absent, bit_words(s->n));
    if (q->reasons || !s->complete || !stage_all_good(s->shared.stripes->rows.stage) ||
        key->tag != s->domain.tag || counters_on(&s->counts) ||
        origin_quick(s->origin, 1) != TAMIS_NO_REASON)
        return false;
    bool any = answer_by_row(s, rows, q->absent);
    *n_absent = !any;
    atomic_thread_fence(memory_order_acquire);
    return __builtin_expect(stage_epoch() == epoch, 1) &&
           !(any && (key->bytes || q->candidates));
}

/* ---- up to 64 keys at a time ---- */

static void batch_begin(struct asking *a, struct query *q)
{
    struct tamis_snapshot *s = q->snapshot;
    a->q = q;
    a->snapshot = s;
    a->sheet = counters_on(&s->counts) ? counters_sheet(&s->counts, s->n) : NULL;
    a->n_words = bit_words(q->n);
    a->each_hit = q->reasons || q->candidates;
    a->proven = q->targets || s->complete;
}

/* Takes the next keys. */
static void keys_begin(struct asking *a, size_t done)
{
    const struct query *q = a->q;
    const struct tamis_snapshot *s = a->snapshot;
    a->n = q->n_keys - done < WORD ? q->n_keys - done : WORD;
    a->all = first_bits(a->n);
    a->plain = a->ranged = a->some = 0;
    a->rows = q->absent ? q->absent + done * a->n_words : NULL;
    a->keys = q->keys ? q->keys + done : NULL;
    a->now = origin_clock(s->origin);
    enum tamis_reason lost = origin_known(s->origin);
    for (size_t i = 0; a->keys && i < a->n; i++) {
        const struct tamis_key *key = &a->keys[i];
        bool plain = key->tag == s->domain.tag && lost == TAMIS_NO_REASON;
        bool ranged = plain && key->bytes && s->planes.any_range;
        a->hash[i] = key->hash;
        a->plain |= (uint64_t)plain << i;
        a->ranged |= (uint64_t)ranged << i;
        a->prefix[i] = ranged ? key_prefix(key->bytes, key->n_bytes) : 0;
    }
}

static void ask_all(struct asking *a)
{
    const struct tamis_snapshot *s = a->snapshot;
    bool dense = a->proven && a->plain;
    for (size_t at = 0, n; at < s->n_loose; at += n) {
        n = s->n_loose - at < WORD ? s->n_loose - at : WORD;
        if (dense)
            ask_dense(a, at, n, at);
        else
            ask_slice(a, at, n);
    }
    if (s->n > s->n_loose)
        ask_all_columns(a);
}

/* It costs little to see that most targets begin no run. */
static inline bool may_begin_run(const struct asking *a, size_t at)
{
    const struct tamis_target *t = a->q->targets;
    return a->plain && a->q->n - at >= A_RUN &&
           t[at + A_RUN - 1].slot == t[at].slot + A_RUN - 1;
}

/* How many targets from this one on have numbers that follow each other, and nothing
 * against them? Less than a run: 0. */
static size_t run_from(const struct asking *a, size_t at)
{
    const struct tamis_target *t = &a->q->targets[at];
    const struct tamis_snapshot *s = a->snapshot;
    size_t max = a->q->n - at, n;
    if (!target_here(s, t) || t->min_watermark)
        return 0;
    if (max > s->n - (t->slot - 1))
        max = s->n - (t->slot - 1);
    n = s->planes.kernel->run_of_targets(t, max);
    return n >= A_RUN ? n : 0;
}

/* A run of loose segments, and of those that share files. */
static void ask_run(struct asking *a, size_t at, size_t n)
{
    size_t number = a->q->targets[at].slot - 1, n_loose = a->snapshot->n_loose;
    for (size_t some; n && number < n_loose; at += some, number += some, n -= some) {
        some = n < WORD ? n : WORD;
        some = some < n_loose - number ? some : n_loose - number;
        ask_dense(a, at, some, number);
    }
    if (n)
        ask_columns(a, at, number, n);
}

/* A run, or up to 64 targets that lie anywhere until the next one begins. */
static void ask_list(struct asking *a)
{
    size_t run = may_begin_run(a, 0) ? run_from(a, 0) : 0;
    for (size_t at = 0, n; at < a->q->n; at += n) {
        size_t left = a->q->n - at;
        n = run;
        if (run)
            ask_run(a, at, n);
        run = n && n < left && may_begin_run(a, at + n) ? run_from(a, at + n) : 0;
        if (n)
            continue;
        for (n = 1; n < left && n < WORD && !run; n += !run)
            run = may_begin_run(a, at + n) ? run_from(a, at + n) : 0;
        ask_slice(a, at, n);
    }
}

static __attribute__((noinline)) size_t ask_in_general(struct query *q)
{
    struct asking a;
    size_t n_absent = 0;
    batch_begin(&a, q);
    for (size_t done = 0; done < q->n_keys; done += a.n) {
        keys_begin(&a, done);
        if (q->targets)
            ask_list(&a);
        else
            ask_all(&a);
        n_absent += (size_t)__builtin_popcountll(a.all & ~a.some);
    }
    if (q->candidates)
        sort_candidates(q);
    return n_absent;
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

size_t query_ask(struct query *q)
{
    size_t n_absent;
    if (!q->snapshot)
        return ask_cleared(q, q->keys ? TAMIS_UNKNOWN_SEGMENT : TAMIS_MISMATCH);
    if (q->n_keys && q->n && (ask_row(q, &n_absent) || ask_some_cells(q, &n_absent)))
        return n_absent;
    return ask_cleared(q, TAMIS_UNREADABLE);
}

/* ---- the ways in ---- */

enum tamis_answer tamis_snapshot_probe_list(struct tamis_snapshot *snapshot,
                                            const struct tamis_target *targets,
                                            size_t n, const struct tamis_key *key,
                                            uint64_t *absent, uint8_t *reasons)
{
    struct query q = {.snapshot = snapshot,
                      .targets = targets,
                      .n = n,
                      .keys = key,
                      .n_keys = 1,
                      .absent = absent,
                      .reasons = reasons};
    if (n && !targets)
        q.snapshot = NULL; /* nobody is meant */
    if (!q.snapshot && snapshot)
        return ask_cleared(&q, TAMIS_UNREADABLE) ? TAMIS_ABSENT : TAMIS_MAYBE;
    return query_ask(&q) ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer tamis_snapshot_probe_all(struct tamis_snapshot *snapshot,
                                           const struct tamis_key *key,
                                           uint64_t *absent, uint8_t *reasons)
{
    struct query q = {.snapshot = snapshot,
                      .n = snapshot ? snapshot->n : 0,
                      .keys = key,
                      .n_keys = 1,
                      .absent = absent,
                      .reasons = reasons};
    return query_ask(&q) ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                            const struct tamis_key *key,
                                            uint32_t *segments, size_t max, size_t *n)
{
    struct tamis_snapshot *s = snapshot;
    struct query q = {.snapshot = s,
                      .n = s ? s->n : 0,
                      .keys = key,
                      .n_keys = 1,
                      .candidates = true,
                      .segments = segments,
                      .max_segments = segments ? max : 0};
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
    struct query q = {.snapshot = keys ? snapshot : NULL,
                      .targets = targets,
                      .n = targets    ? n_targets
                           : snapshot ? snapshot->n
                                      : 0,
                      .keys = keys,
                      .n_keys = n_keys,
                      .absent = absent};
    return query_ask(&q);
}
