/* Queries: which way each goes, and the public call.
 *
 *     one key, one segment; one column    ask_by_probes()
 *     one stripe is all there is, one key ask_row(): one row is all answers
 *     up to 64 segments that are ready    ask_some_cells(): bits, ranges of hits
 *     numbers that follow each other      ask_numbers()
 *     targets in no order                 ask_scattered()
 *
 * The first three are short ways of the others, for questions that take less time than
 * it takes to set up a struct asking. */
#include "lib/store/query/inside.h"

enum {
    FEW = 16,   /* so few segments: a list stays a list */
    A_RUN = 16, /* so many numbers that follow each other are a run */
};

/* The reasons of all targets? Those of candidates come with the candidates. */
static inline bool tells_reasons(const struct tamis_query *q)
{
    return q->reasons && !q->n_candidates;
}

/* ---- a few segments: what an engine's get or MultiGet asks ---- */

/* The planes of these segments, if all are ready; NULL: one is not. */
static inline const struct plane *few_planes(const struct tamis_snapshot *s,
                                             const struct tamis_query *q, size_t n,
                                             uint64_t epoch, struct plane *room)
{
    const struct planes *const p = &s->planes;
    if (!q->targets)
        return planes_are_ready(p, 0, epoch) == first_bits(n) ? p->plane : NULL;
    for (size_t i = 0; i < n; i++) {
        size_t at = q->targets[i].ordinal - 1U;
        if (!target_plain(s, &q->targets[i]) || !plane_is_ready(s, at, epoch))
            return NULL;
        room[i] = p->plane[at];
    }
    return room;
}

/* Takes out those that a range excludes: hits are few, so nothing else is compared. */
static __attribute__((noinline)) uint64_t hits_in_range(const struct tamis_snapshot *s,
                                                        const struct tamis_query *q,
                                                        const struct tamis_key *key,
                                                        uint64_t hits)
{
    uint64_t x = key_prefix(key->bytes, key->n_bytes);
    for (uint64_t m = hits; m; m &= m - 1) {
        size_t i = (size_t)__builtin_ctzll(m);
        size_t number = q->targets ? q->targets[i].ordinal - 1U : i;
        uint64_t first = range_end(s->planes.first, number),
                 last = range_end(s->planes.last, number);
        if (x < first || x > last ||
            ((x == first || x == last) && outside_by_bytes(s, number, key)))
            hits &= ~(m & -m);
    }
    return hits;
}

/* The pairs that the ends of ranges leave, where there are so many segments that their
 * bits cost more. NULL: half of all pairs or more, which are asked sooner together. */
static __attribute__((noinline)) const uint64_t *
pairs_in_range(const struct tamis_snapshot *s, const struct tamis_query *q, size_t n,
               uint64_t *pairs)
{
    uint64_t firsts[WORD], lasts[WORD], near;
    const void *first = s->planes.first, *last = s->planes.last;
    size_t n_pairs = 0;
    for (size_t i = 0; q->targets && i < n; i++) {
        firsts[i] = range_end(s->planes.first, q->targets[i].ordinal - 1U);
        lasts[i] = range_end(s->planes.last, q->targets[i].ordinal - 1U);
        first = firsts;
        last = lasts;
    }
    for (size_t i = 0; i < q->n_keys; i++) {
        const struct tamis_key *key = &q->keys[i];
        pairs[i] = first_bits(n);
        if (key->bytes)
            pairs[i] &= ~s->planes.kernel->outside_ends(
                first, last, n, key_prefix(key->bytes, key->n_bytes), &near);
        n_pairs += n_bits(pairs[i]);
    }
    return n_pairs * 2 < n * q->n_keys ? pairs : NULL;
}

/* The candidates of key i, whose numbers are in the order of their ranks. */
static void list_hits(const struct tamis_query *q, size_t i, uint64_t hits)
{
    uint32_t *found = q->candidates ? q->candidates + i * q->max_candidates : NULL;
    size_t n = n_bits(hits);
    for (size_t k = 0; found && k < q->max_candidates && hits; k++, hits &= hits - 1)
        found[k] = (uint32_t)__builtin_ctzll(hits);
    q->n_candidates[i] = n;
}

/* Which of at most 64 keys are absent from all n targets? False: this cannot tell. */
static inline bool ask_some_cells(struct tamis_snapshot *s, const struct tamis_query *q,
                                  size_t n, uint64_t *absent)
{
    struct plane room[WORD];
    const struct plane *planes;
    uint64_t hash[WORD], hits[WORD], pairs[WORD], other = 0;
    const uint64_t *ask = NULL;
    uint64_t epoch = stage_epoch(), all = first_bits(n);
    if (n > WORD || q->reasons || (!q->targets && (!s->complete || s->n != s->n_loose)))
        return false;
    /* For a caller that jumps out of the probe: MAYBE. */
    for (size_t i = 0; i < q->n_keys; i++) {
        if (q->absent)
            __atomic_store_n(&q->absent[i], 0, __ATOMIC_RELAXED);
        hash[i] = q->keys[i].hash;
        other |= q->keys[i].tag ^ s->domain.tag;
    }
    if (other || !(planes = few_planes(s, q, n, epoch, room)) ||
        !snapshot_is_quick(s, q->n_keys))
        return false;
    if (n > FEW && s->planes.any_range)
        ask = pairs_in_range(s, q, n, pairs);
    if (n > 1)
        s->planes.kernel->probe_tile(planes, n, 0, hash, q->n_keys, ask, hits);
    else
        s->planes.kernel->answer_few(planes, hash, q->n_keys, absent);
    for (size_t i = 0; n == 1 && i < q->n_keys; i++)
        hits[i] = ~*absent >> i & 1;
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch, 0))
        return false;
    *absent = 0;
    for (size_t i = 0; i < q->n_keys; i++) {
        if (hits[i] && q->keys[i].bytes && s->planes.any_range)
            hits[i] = hits_in_range(s, q, &q->keys[i], hits[i]);
        if (q->absent)
            q->absent[i] = all & ~hits[i];
        if (q->n_candidates)
            list_hits(q, i, hits[i]);
        *absent |= (uint64_t)!hits[i] << i;
    }
    return true;
}

/* ---- one row is all answers ---- */

/* Targets look their answers up in a row of hits. False: more is to be asked. */
static inline bool look_up_in_row(const struct tamis_snapshot *s,
                                  const struct tamis_query *q, uint64_t *row,
                                  uint64_t *any)
{
    const struct stripe *t = s->shared.stripes;
    uint32_t place[WORD];
    for (size_t i = 0; i < t->n_words; i++)
        row[i] = stripe_living(t, i) & ~row[i];
    *any = 0;
    for (size_t at = 0; at < q->n_targets; at += WORD) {
        size_t n = q->n_targets - at < WORD ? q->n_targets - at : WORD;
        if (!places_among(s, q->targets + at, n, 0, s->n, place))
            return false;
        uint64_t absent = look_up(row, place, n);
        *any |= absent ^ first_bits(n);
        if (q->absent)
            q->absent[at / WORD] = absent;
    }
    return true;
}

/* One key, and one band of all segments and one lane, whose pages were all good before.
 * The rows are on their way while it is made sure that nothing else is to be asked: how
 * much a processor has in flight at a time decides how long a key takes. False: nothing
 * was asked, or a range may exclude what the row lets through. */
static inline bool ask_row(struct tamis_snapshot *s, const struct tamis_query *q,
                           uint64_t *absent)
{
    const struct tamis_key *key = q->keys;
    const struct stripe *t = s->shared.stripes;
    const uint8_t *rows[MAX_WORDS];
    uint64_t hits[ROW_MAX_WORDS], any = 0;
    if (q->n_keys != 1 || !s->shared.whole || t->rows.lanes != 1 ||
        (q->targets && q->n_targets < t->n_words / WORDS_PER_BLOCK))
        return false;
    pack_fetch_lane(&t->rows, 0, key->hash, rows);
    uint64_t epoch = stage_epoch();
    size_t n_words = bit_words(q->targets ? q->n_targets : s->n);
    if (q->absent)
        memset(q->absent, 0, n_words * sizeof *q->absent);
    if (tells_reasons(q) || !s->complete || !stage_all_good(t->rows.stage) ||
        key->tag != s->domain.tag || !snapshot_is_quick(s, 1))
        return false;
    t->rows.kernel->and_rows(rows, t->rows.words, t->rows.row_bytes, t->living, hits);
    for (size_t i = 0; i < t->n_words; i++)
        any |= hits[i];
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() != epoch, 0) ||
        (any && (key->bytes || q->n_candidates)) ||
        (q->targets && !look_up_in_row(s, q, hits, &any)))
        return false;
    *absent = !any;
    for (size_t i = 0; q->absent && !q->targets && i < n_words; i++)
        q->absent[i] = stripe_living(t, i) & ~hits[i];
    return true;
}

/* ---- up to 64 keys at a time ---- */

static void asking_begin(struct asking *a, struct tamis_snapshot *s,
                         const struct tamis_query *q, size_t n, uint64_t *hash,
                         uint64_t *prefix)
{
    snapshot_is_quick(s, q->n_keys); /* looks at the store, if that is due */
    enum tamis_reason lost = origin_known(s->origin);
    *a = (struct asking){
        .q = q,
        .snapshot = s,
        .sheet = counters_on(&s->counts) ? counters_sheet(&s->counts, s->n) : NULL,
        .n_targets = n,
        .n_words = bit_words(n),
        .reasons = tells_reasons(q) ? q->reasons : NULL,
        .each_hit = q->reasons || q->n_candidates,
        .by_number = s->shared.n_listed && s->complete ? 0 : UINT64_MAX,
        .keys = q->keys,
        .n = q->n_keys,
        .rows = q->absent,
        .all = first_bits(q->n_keys),
        .hash = hash,
        .prefix = prefix,
    };
    for (size_t i = 0; i < q->n_keys; i++) {
        const struct tamis_key *key = &q->keys[i];
        bool plain = key->tag == s->domain.tag && lost == TAMIS_NO_REASON;
        bool ranged = plain && key->bytes && s->planes.any_range;
        hash[i] = key->hash;
        a->plain |= (uint64_t)plain << i;
        a->by_number |= (uint64_t)(key->tag != s->domain.tag) << i;
        a->ranged |= (uint64_t)ranged << i;
        prefix[i] = ranged ? key_prefix(key->bytes, key->n_bytes) : 0;
    }
}

static void ask_all(struct asking *a)
{
    const struct tamis_snapshot *s = a->snapshot;
    if (a->reasons) /* all that no row answers for */
        memset(a->reasons + s->n_loose, TAMIS_UNKNOWN_SEGMENT, s->n - s->n_loose);
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
    size_t max = a->n_targets - at, n;
    if (!target_here(s, t) || t->min_watermark)
        return 0;
    if (max > s->n - (t->ordinal - 1))
        max = s->n - (t->ordinal - 1);
    n = s->planes.kernel->run_of_targets(t, max);
    if (t->ordinal - 1 + n > s->n_loose)
        n = numbers_alive(a, t->ordinal - 1, n);
    return n >= A_RUN ? n : 0;
}

/* It costs little to see that most targets begin no run. */
static inline size_t run_from(const struct asking *a, size_t at)
{
    const struct tamis_target *t = &a->q->targets[at];
    return at + A_RUN <= a->n_targets && a->plain == a->all &&
                   t[A_RUN - 1].ordinal == t->ordinal + A_RUN - 1
               ? run_length(a, at)
               : 0;
}

/* n targets in no order. */
static void ask_scattered(struct asking *a, size_t at, size_t n)
{
    if (look_up_targets(a, at, n))
        return;
    for (size_t i = 0, some; i < n && !is_told(a); i += some) {
        some = n - i < WORD ? n - i : WORD;
        ask_slice(a, at + i, some, ask_columns_apart(a, at + i, some, 0));
    }
}

static void ask_list(struct asking *a)
{
    size_t run = run_from(a, 0), first = a->q->targets[0].ordinal - 1U;
    /* Many loose ones before columns are asked behind these, as by ask_numbers(). */
    size_t held =
        asks_any(a) && run > WORD && first + run <= a->snapshot->n_loose ? run : 0;
    if (held)
        run = run_from(a, held);
    for (size_t at = held, n, left; at < a->n_targets && !is_told(a); at += n) {
        left = a->n_targets - at;
        if ((n = run)) {
            ask_numbers(a, at, a->q->targets[at].ordinal - 1, n);
            run = run_from(a, at + n);
            continue;
        }
        for (n = 1; n < left && !(run = run_from(a, at + n));)
            n += n < A_RUN ? 1 : A_RUN;
        n = n < left ? n : left;
        ask_scattered(a, at, n);
    }
    if (held && !is_told(a))
        ask_numbers(a, 0, first, held);
}

static uint64_t ask_in_general(struct tamis_snapshot *s, const struct tamis_query *q,
                               size_t n)
{
    struct asking a;
    uint64_t hash[WORD], prefix[WORD];
    size_t n_candidates[WORD];
    asking_begin(&a, s, q, n, hash, prefix);
    a.n_candidates = n_candidates;
    if (q->n_candidates)
        memset(n_candidates, 0, q->n_keys * sizeof *n_candidates);
    if (q->targets)
        ask_list(&a);
    else
        ask_all(&a);
    if (q->n_candidates)
        finish_candidates(&a);
    return a.all & ~a.some;
}

/* For a caller that jumps out of the probe, too. */
static void clear_answers(const struct tamis_query *q, size_t n, enum tamis_reason why)
{
    if (q->absent)
        memset(q->absent, 0, q->n_keys * bit_words(n) * sizeof *q->absent);
    if (q->absent_from_all)
        memset(q->absent_from_all, 0, bit_words(q->n_keys) * sizeof *q->absent);
    if (tells_reasons(q))
        memset(q->reasons, (int)why, q->n_keys * n);
    if (q->n_candidates)
        memset(q->n_candidates, 0, q->n_keys * sizeof *q->n_candidates);
}

static __attribute__((noinline)) uint64_t
ask_cleared(struct tamis_snapshot *s, const struct tamis_query *q, size_t n)
{
    clear_answers(q, n, TAMIS_UNREADABLE);
    uint64_t absent = n ? ask_in_general(s, q, n) : 0;
    /* An incomplete catalog proves nothing of the segments that it lacks. */
    return q->targets || (s->complete && s->n_segments) ? absent : 0;
}

/* A list of all segments, in order: it says nothing that the snapshot does not. */
static inline bool lists_all(const struct tamis_snapshot *s,
                             const struct tamis_query *q)
{
    const struct tamis_target *t = q->targets;
    size_t n = q->n_targets;
    return t && (n > FEW || s->shared.n_listed) && n == s->n && s->n_segments == n &&
           s->complete && t->ordinal == 1 && t[n - 1].ordinal == n &&
           target_here(s, t) && !t->min_watermark &&
           s->planes.kernel->run_of_targets(t, n) == n;
}

/* At most 64 keys, one segment. */
static inline __attribute__((always_inline)) uint64_t
ask_by_probes(struct tamis_snapshot *s, const struct tamis_query *q, size_t n_keys)
{
    uint64_t absent = 0;
    /* For a caller that jumps out of a probe. */
    for (size_t i = 0; q->absent && i < n_keys; i++)
        q->absent[i] = 0;
    if (q->absent_from_all)
        *q->absent_from_all = 0;
    for (size_t i = 0; i < n_keys; i++) {
        const struct tamis_key key =
            q->keys ? q->keys[i]
                    : (struct tamis_key){.tag = q->tag, .hash = q->hashes[i]};
        uint64_t is = tamis_snapshot_probe(s, q->targets, &key, NULL) == TAMIS_ABSENT;
        absent |= is << i;
        if (q->absent)
            q->absent[i] = is;
    }
    if (q->absent_from_all)
        *q->absent_from_all = absent;
    return absent;
}

/* Which of at most 64 keys are absent from all? If somebody asks for reasons: of
 * one key. */
static uint64_t ask_keys(struct tamis_snapshot *s, const struct tamis_query *q,
                         size_t n)
{
    struct tamis_query some;
    struct tamis_key room[WORD];
    uint64_t absent;
    bool all = lists_all(s, q);
    if (q->targets && n == 1 && q->targets->ordinal > s->n_loose && !q->reasons)
        return ask_by_probes(s, q, q->n_keys); /* less than whole rows */
    for (size_t i = 0; q->hashes && i < q->n_keys; i++)
        room[i] = (struct tamis_key){.tag = q->tag, .hash = q->hashes[i]};
    if (all || q->hashes) {
        some = *q;
        some.targets = all ? NULL : q->targets;
        some.keys = q->hashes ? room : q->keys;
        q = &some;
    }
    return n && (ask_row(s, q, &absent) || ask_some_cells(s, q, n, &absent))
               ? absent
               : ask_cleared(s, q, n);
}

/* ---- the public call ---- */

/* The fault of a question; NULL: it has none. */
static const char *query_fault(const struct tamis_snapshot *s,
                               const struct tamis_query *q)
{
    if (!s)
        return "no snapshot";
    if (q->n_keys && !q->keys == !q->hashes)
        return "keys or hashes: one of them";
    if (q->all ? q->targets || q->n_targets : q->n_targets && !q->targets)
        return "a list of targets, or all: one of them";
    if (q->n_candidates ? !q->all : q->candidates != NULL)
        return "candidates are those of all segments, with their number";
    return NULL;
}

/* The next keys, from `at` on, and where their answers go. */
static void next_keys(struct tamis_query *some, const struct tamis_query *q, size_t at,
                      size_t n)
{
    some->keys = q->keys ? q->keys + at : NULL;
    some->hashes = q->hashes ? q->hashes + at : NULL;
    if (q->absent)
        some->absent = q->absent + at * bit_words(n);
    if (q->reasons)
        some->reasons = q->reasons + at * (q->n_candidates ? q->max_candidates : n);
    if (q->candidates)
        some->candidates = q->candidates + at * q->max_candidates;
    if (q->n_candidates)
        some->n_candidates = q->n_candidates + at;
}

/* Any question: up to 64 keys at a time, or one. */
static __attribute__((noinline)) size_t ask_in_parts(struct tamis_snapshot *s,
                                                     const struct tamis_query *query,
                                                     struct tamis_diag *diag)
{
    struct tamis_query q, some;
    if (!query || options_copy(&q, sizeof q, query))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a query has another size"), 0;
    const char *fault = query_fault(s, &q);
    size_t n = !q.all ? q.n_targets : s ? s->n : 0, n_absent = 0;
    /* A list and `all`: nobody knows which of them the answers have room for, unless
     * the list is of none. */
    if (q.all && q.n_targets && q.n_targets < n)
        n = q.n_targets;
    size_t step = q.reasons ? 1 : WORD;
    clear_answers(&q, n,
                  !s                     ? TAMIS_UNKNOWN_SEGMENT
                  : !q.keys && !q.hashes ? TAMIS_MISMATCH
                                         : TAMIS_UNREADABLE);
    if (fault)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "%s", fault), 0;
    if (lists_all(s, &q))
        q.targets = NULL;
    some = q;
    some.absent_from_all = NULL;
    for (size_t at = 0; at < q.n_keys; at += some.n_keys) {
        some.n_keys = q.n_keys - at < step ? q.n_keys - at : step;
        next_keys(&some, &q, at, n);
        uint64_t absent = ask_keys(s, &some, n);
        if (q.absent_from_all)
            put_bits(q.absent_from_all, (ptrdiff_t)at, absent);
        n_absent += n_bits(absent);
    }
    return n_absent;
}

/* Is it one key, and one segment? Then it is a probe. */
static inline bool is_probe(const struct tamis_snapshot *s, const struct tamis_query *q)
{
    return s && q && q->size == sizeof *q && q->n_targets == 1 && q->n_keys == 1 &&
           q->targets && !q->all && !q->keys == !!q->hashes && !q->reasons &&
           !q->candidates && !q->n_candidates;
}

size_t tamis_snapshot_query(struct tamis_snapshot *s, const struct tamis_query *q,
                            struct tamis_diag *diag)
{
    uint64_t absent;
    if (RARELY(diag))
        diag_clear(diag);
    if (is_probe(s, q))
        return ask_by_probes(s, q, 1);
    /* The way of nearly all: up to 64 keys, and a row of bits for each; or one key. */
    if (RARELY(!s || !q) || q->size != sizeof *q || q->n_keys - 1 >= WORD ||
        !q->keys == !q->hashes || (q->candidates && !q->n_candidates) ||
        (q->reasons && q->n_keys > 1) ||
        (q->all ? q->targets || q->n_targets : !q->targets || q->n_candidates))
        return ask_in_parts(s, q, diag);
    if (q->absent_from_all)
        *q->absent_from_all = 0; /* for a caller that jumps out of the probe */
    if (q->n_candidates)
        memset(q->n_candidates, 0, q->n_keys * sizeof *q->n_candidates);
    absent = ask_keys(s, q, q->all ? s->n : q->n_targets);
    if (q->absent_from_all)
        *q->absent_from_all = absent;
    return q->n_keys == 1 ? (size_t)absent : n_bits(absent);
}
