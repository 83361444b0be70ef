/* One key, many segments, 64 at a time: a list, or all that are loose.
 *
 * Most segments need nothing but their bits asked (planes.c): the kernel goes
 * over those in a window that rolls on from one 64 to the next. Key ranges come before
 * that, as numbers. What is left (filters that grow, that have several stages, that
 * were not opened or checked yet, targets that something speaks against) is asked with
 * care, its lines prefetched some 64 before. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/filter/filter.h"
#include "lib/kernel/kernel.h"
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"

#include <stdatomic.h>
#include <string.h>

enum { ITEM = 64, N_ITEMS = ROW_LAG + 1, FEW = 4 };

/* 64 segments on their way. */
struct item {
    size_t base;               /* of the list */
    uint64_t asked, absent;    /* all of them; those known to be so at once */
    uint64_t by_range;         /* of these */
    uint64_t slow;             /* to be asked with care */
    struct row_item fast;      /* by the kernel */
    uint64_t hits;             /* of the fast ones */
    struct plane planes[ITEM]; /* of a list: gathered */
};

struct question {
    struct tamis_snapshot *snapshot;
    const struct tamis_target *targets; /* NULL: all that are loose */
    size_t n;
    const struct tamis_key *key;
    const struct kernel *kernel;
    uint64_t now; /* origin_clock() */
    bool plain; /* the key is of the snapshot's domain, and the store is the same still
                 */
    bool ranged;
    uint64_t prefix;
    struct sheet *sheet; /* NULL: nothing is counted */
    struct outputs to;
    struct row row;
    struct item items[N_ITEMS];
};

static struct tamis_target target_at(const struct question *a, size_t i)
{
    return a->targets ? a->targets[i] : tamis_snapshot_target(a->snapshot, i);
}

/* ---- what is to be asked of 64 segments ---- */

/* Returns the segments whose range excludes the key. */
static uint64_t excluded(const struct question *a, size_t base, uint64_t asked)
{
    const struct planes *p = &a->snapshot->planes;
    size_t n = (size_t)__builtin_popcountll(asked);
    uint64_t out = 0, near = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t first = range_end(p->first, base + i);
        uint64_t last = range_end(p->last, base + i);
        out |= (uint64_t)((a->prefix < first) | (a->prefix > last)) << i;
        near |= (uint64_t)((a->prefix == first) | (a->prefix == last)) << i;
    }
    for (; near; near &= near - 1) {
        size_t i = (size_t)__builtin_ctzll(near);
        out |= (uint64_t)outside_by_bytes(a->snapshot, base + i, a->key) << i;
    }
    return out;
}

static void choose_of_all(struct question *a, struct item *t)
{
    struct planes *p = &a->snapshot->planes;
    size_t word = t->base / ITEM;
    if (!a->plain || !a->snapshot->complete)
        return;
    if (a->ranged)
        t->by_range = excluded(a, t->base, t->asked);
    t->absent = t->by_range;
    t->fast.ask = planes_are_ready(p, t->base, stage_epoch()) & ~t->absent;
    t->fast.deep = atomic_load_explicit(&p->deep[word], memory_order_relaxed);
    t->fast.planes = p->plane + t->base;
}

static void choose_of_list(struct question *a, struct item *t)
{
    struct planes *p = &a->snapshot->planes;
    uint64_t epoch = stage_epoch();
    for (uint64_t m = a->plain ? t->asked : 0; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        const struct tamis_target *target = &a->targets[t->base + i];
        if (!target_plain(a->snapshot, target))
            continue;
        size_t at = target->slot - 1;
        if (a->ranged && outside_gate(a->snapshot, at, a->prefix, a->key)) {
            t->absent |= UINT64_C(1) << i;
            t->by_range |= UINT64_C(1) << i;
        } else if (plane_is_ready(a->snapshot, at, epoch)) {
            t->fast.ask |= UINT64_C(1) << i;
            t->fast.deep |= (uint64_t)(p->plane[at].lanes > 1) << i;
            t->planes[i] = p->plane[at];
        }
    }
}

static void prefetch_segment(const struct tamis_snapshot *s, size_t index, uint64_t h)
{
    if (!is_loose(s, index)) {
        struct seat seat = packs_seat(s, index);
        if (seat.band)
            seat_prefetch(&seat, h);
        return;
    }
    struct tamis_filter *f =
        atomic_load_explicit(&s->entries[index]->filter, memory_order_acquire);
    if (f)
        filter_prefetch(f, h);
}

static void prefetch_slow(const struct question *a, const struct item *t)
{
    for (uint64_t m = a->plain ? t->slow : 0; m; m &= m - 1) {
        struct tamis_target target = target_at(a, t->base + (size_t)__builtin_ctzll(m));
        if (target_here(a->snapshot, &target))
            prefetch_segment(a->snapshot, target.slot - 1, a->key->hash);
    }
}

static void send_and_prefetch(struct question *a, struct item *t, size_t base)
{
    size_t n = a->n - base;
    t->base = base;
    t->asked = n < ITEM ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    t->absent = t->by_range = 0;
    t->fast = (struct row_item){t->planes, 0, 0, &t->hits};
    if (a->snapshot && a->targets)
        choose_of_list(a, t);
    else if (a->snapshot)
        choose_of_all(a, t);
    t->slow = t->asked & ~(t->absent | t->fast.ask);
    prefetch_slow(a, t);
    /* The kernel prefetches these lines, and tests those of earlier steps. */
    a->kernel->row_step(&a->row, &t->fast);
}

/* ---- answers ---- */

static void ask_with_care(struct question *a, struct item *t)
{
    for (uint64_t m = t->slow; m; m &= m - 1) {
        size_t i = t->base + (size_t)__builtin_ctzll(m);
        struct tamis_target target = target_at(a, i);
        bool by_range = false;
        enum tamis_reason reason =
            probe_target(a->snapshot, &target, a->now, a->key, &by_range);
        if (a->sheet)
            count_one(a->snapshot, &target, reason, by_range);
        if (a->to.reasons)
            a->to.reasons[i] = (uint8_t)reason;
        if (reason == TAMIS_NO_REASON)
            t->absent |= m & -m;
        if (a->snapshot && target_loose(a->snapshot, &target))
            planes_offer(a->snapshot, target.slot - 1);
    }
}

/* Writes the reasons of segments that took the fast way. */
static void give_reasons(struct question *a, const struct item *t)
{
    uint8_t *reasons = a->to.reasons + t->base;
    if (!t->slow)
        memset(reasons, TAMIS_NO_REASON, (size_t)__builtin_popcountll(t->asked));
    for (uint64_t m = t->slow ? t->absent & ~t->slow : 0; m; m &= m - 1)
        reasons[__builtin_ctzll(m)] = TAMIS_NO_REASON;
    for (uint64_t m = t->hits; m; m &= m - 1)
        reasons[__builtin_ctzll(m)] = TAMIS_HIT;
}

/* Counts the segments that took the fast way. */
static void count_fast(const struct question *a, const struct item *t)
{
    uint64_t absent = t->fast.ask & ~t->hits;
    if (t->by_range)
        count_excluded(a->snapshot, t->by_range);
    if (a->targets)
        count_of_list(a->sheet, a->targets + t->base, absent, t->hits);
    else
        count_of_all(a->sheet, t->base / ITEM, t->asked, absent, t->hits);
}

/* Answers leave when they are whole: whoever jumps out of a probe with care, from a
 * signal handler of the host's perhaps, is left with MAYBE. */
static size_t receive(struct question *a, struct item *t)
{
    t->absent |= t->fast.ask & ~t->hits;
    ask_with_care(a, t);
    if (a->to.reasons)
        give_reasons(a, t);
    if (a->to.absent)
        a->to.absent[t->base / ITEM] = t->absent;
    for (uint64_t m = a->to.candidates ? t->asked & ~t->absent : 0; m; m &= m - 1)
        outputs_add(a->snapshot, &a->to, t->base + (size_t)__builtin_ctzll(m));
    if (a->sheet)
        count_fast(a, t);
    return (size_t)__builtin_popcountll(t->absent);
}

static size_t n_items_of(const struct question *a)
{
    return a->n / ITEM + (a->n % ITEM != 0);
}

static void clear_answers(const struct question *a)
{
    if (a->to.absent)
        memset(a->to.absent, 0, n_items_of(a) * sizeof *a->to.absent);
    if (a->to.reasons)
        memset(a->to.reasons, TAMIS_UNREADABLE, a->n);
}

/* For so few a window is not worth its steps. */
static size_t ask_few(struct question *a)
{
    struct item *t = &a->items[0];
    t->base = 0;
    t->asked = t->slow = (UINT64_C(1) << a->n) - 1;
    t->absent = t->hits = t->by_range = 0;
    t->fast = (struct row_item){0};
    prefetch_slow(a, t);
    return receive(a, t);
}

/* Returns the number of segments from which the key is absent. */
static size_t ask(struct question *a)
{
    size_t n_absent = 0, n_items = n_items_of(a);
    clear_answers(a);
    if (a->n <= FEW)
        return a->n ? ask_few(a) : 0;
    row_begin(&a->row, a->key ? a->key->hash : 0);
    for (size_t i = 0; i < n_items + ROW_LAG; i++) {
        if (i < n_items)
            send_and_prefetch(a, &a->items[i % N_ITEMS], i * ITEM);
        else
            a->kernel->row_step(&a->row, &(struct row_item){0});
        if (i >= ROW_LAG)
            n_absent += receive(a, &a->items[(i - ROW_LAG) % N_ITEMS]);
    }
    return n_absent;
}

/* ---- the ways in ---- */

/* All but the row and the items: they are large. */
static void question_begin(struct question *a, struct tamis_snapshot *s,
                           const struct tamis_key *key, size_t n)
{
    memset(a, 0, offsetof(struct question, row));
    a->snapshot = s;
    a->key = key;
    a->n = n;
    a->kernel = kernel_get();
    if (s && counters_on(&s->counts))
        a->sheet = counters_sheet(&s->counts, s->n);
    if (!s || !key)
        return;
    a->now = origin_clock(s->origin);
    a->plain = origin_known(s->origin) == TAMIS_NO_REASON && key->tag == s->domain.tag;
    a->ranged = key->bytes && s->planes.any_range;
    a->prefix = a->ranged ? key_prefix(key->bytes, key->n_bytes) : 0;
}

static __attribute__((noinline)) enum tamis_answer
probe_list(struct tamis_snapshot *s, const struct tamis_target *targets, size_t n,
           const struct tamis_key *key, const struct outputs *to)
{
    struct question a;
    question_begin(&a, s, key, n);
    a.targets = targets;
    a.to = *to;
    if (n && !targets) {
        clear_answers(&a);
        return TAMIS_MAYBE;
    }
    return ask(&a) == n && n ? TAMIS_ABSENT : TAMIS_MAYBE;
}

enum tamis_answer tamis_snapshot_probe_list(struct tamis_snapshot *snapshot,
                                            const struct tamis_target *targets,
                                            size_t n, const struct tamis_key *key,
                                            uint64_t *absent, uint8_t *reasons)
{
    struct outputs to = {.absent = absent, .reasons = reasons};
    enum tamis_answer answer;
    if (targets && probe_few_segments(snapshot, targets, n, key, &to, &answer))
        return answer;
    return probe_list(snapshot, targets, n, key, &to);
}

bool probe_loose(struct tamis_snapshot *s, const struct tamis_key *key,
                 struct outputs *to)
{
    struct question a;
    question_begin(&a, s, key, s->n_loose);
    a.to = *to;
    bool all = ask(&a) == a.n;
    to->n_segments = a.to.n_segments;
    return all;
}
