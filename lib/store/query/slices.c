/* Targets that lie anywhere, 64 at a time.
 *
 *     slice    ready    careful   ready   packed ...      classed once
 *     ranges   0        -         1       -               compared first, as numbers
 *     bits     1        (ask)     -       0               then the bits of what is left
 *
 * One key rolls over slices: while the lines of one are looked at, those of the next
 * but one are fetched. Several keys are asked of a slice as a tile. */
#include "lib/store/query/inside.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"

#include <string.h>

enum { A_ROLL = WORD }; /* for one slice a window is not worth its steps */

/* ---- classes ---- */

static void class_target(struct slice *t, const struct asking *a, size_t i)
{
    const struct tamis_target *target = &t->targets[i];
    const struct tamis_snapshot *s = a->snapshot;
    const uint64_t bit = UINT64_C(1) << i;
    if (target_plain(s, target)) {
        size_t at = target->slot - 1;
        t->ranges |= bit;
        if (a->ranged) {
            t->first_ends[i] = range_end(s->planes.first, at);
            t->last_ends[i] = range_end(s->planes.last, at);
        }
        if (!plane_is_ready(s, at, t->epoch))
            return;
        t->ready |= bit;
        t->gathered[i] = s->planes.plane[at];
        t->deep |= (uint64_t)(t->gathered[i].lanes > 1) << i;
    } else if (target_here(s, target) && !target->min_watermark &&
               stripe_of_number(&s->packs, target->slot - 1)) {
        t->packed |= bit;
    }
}

static struct slice *slice_begin(const struct asking *a, struct flow *f, size_t at,
                                 size_t n)
{
    struct slice *t = &f->slices[f->n_sent % FLOW_SLICES];
    memset(t, 0, offsetof(struct slice, gathered));
    t->at = t->first = at;
    t->targets = a->q->targets ? a->q->targets + at : NULL;
    t->epoch = stage_epoch();
    t->asked = first_bits(n);
    t->planes = t->gathered;
    t->range_first = t->first_ends;
    t->range_last = t->last_ends;
    return t;
}

static struct tamis_target slice_target(const struct asking *a, const struct slice *t,
                                        size_t i)
{
    return t->targets ? t->targets[i]
                      : tamis_snapshot_target(a->snapshot, t->first + i);
}

/* ---- ranges ---- */

/* The segments whose range excludes key i. */
static uint64_t outside_slice(const struct asking *a, const struct slice *t, size_t i)
{
    uint64_t near, out;
    if (!(a->ranged >> i & 1) || !t->ranges)
        return 0;
    out = a->snapshot->planes.kernel->outside_ends(
        t->range_first, t->range_last, n_bits(t->asked), a->prefix[i], &near);
    for (near &= t->ranges; near; near &= near - 1) {
        size_t j = (size_t)__builtin_ctzll(near);
        out |= (uint64_t)outside_by_bytes(a->snapshot, slice_number(t, j), &a->keys[i])
               << j;
    }
    return out & t->ranges;
}

/* ---- one key: a window that rolls on ---- */

void flow_begin(struct flow *f, const struct asking *a)
{
    f->n_sent = f->n_received = 0;
    f->rolls = a->n == 1 && a->q->n > A_ROLL;
    if (f->rolls)
        row_begin(&f->row, a->hash[0]);
}

/* The bits of a slice are looked at, and its lines fetched, by a few steps. */
static void send(struct asking *a, struct flow *f, struct slice *t)
{
    t->by_range = outside_slice(a, t, 0);
    t->by_bits = a->plain ? t->ready & ~t->by_range : 0;
    t->careful &= ~t->by_range;
    for (uint64_t m = a->plain ? t->careful : 0; m; m &= m - 1) {
        struct tamis_target target = slice_target(a, t, (size_t)__builtin_ctzll(m));
        prefetch_target(a->snapshot, &target, a->hash[0]);
    }
    struct row_item item = {t->planes, t->by_bits, t->deep, &t->hits};
    a->snapshot->planes.kernel->row_step(&f->row, &item);
    f->n_sent++;
}

/* Has nothing been found bad since the slice was classed? Else what was ready is asked
 * with care. */
static bool still_ready(struct slice *t)
{
    atomic_thread_fence(memory_order_acquire);
    if (__builtin_expect(stage_epoch() == t->epoch, 1))
        return true;
    t->careful |= t->ready;
    t->ready = 0;
    return false;
}

static void receive(struct asking *a, struct flow *f)
{
    struct slice *t = &f->slices[f->n_received++ % FLOW_SLICES];
    if (!still_ready(t))
        t->by_bits = t->hits = 0;
    uint64_t absent = t->by_range | (t->by_bits & ~t->hits);
    for (uint64_t m = t->careful & ~t->by_range; m; m &= m - 1) {
        size_t j = (size_t)__builtin_ctzll(m);
        struct tamis_target target = slice_target(a, t, j);
        if (ask_with_care(a, &target, t->at + j, 1))
            absent |= m & -m;
    }
    if (t->packed && a->plain)
        ask_packed(a, t, &absent, &t->by_bits);
    deliver(a, 0, t, absent, t->by_range, t->by_bits);
}

static void roll_on(struct asking *a, struct flow *f, struct slice *t)
{
    send(a, f, t);
    if (f->n_sent - f->n_received > ROW_LAG)
        receive(a, f);
}

void flow_end(struct flow *f, struct asking *a)
{
    size_t n_left = f->rolls ? f->n_sent - f->n_received : 0;
    /* The first of them needs as many steps more as its place is before the last. */
    for (size_t step = n_left ? 0 : ROW_LAG; step < ROW_LAG; step++) {
        a->snapshot->planes.kernel->row_step(&f->row, &(struct row_item){0});
        if (step + n_left >= ROW_LAG)
            receive(a, f);
    }
}

/* ---- several keys: a tile ---- */

/* Of each key at hand. */
struct tile {
    uint64_t absent[WORD], by_range[WORD], by_bits[WORD];
};

/* All planes for all keys; or pair by pair, where there are holes between planes, or
 * where ranges leave less than half of it. */
static void ask_planes(const struct asking *a, const struct slice *t, struct tile *x)
{
    uint64_t hits[WORD];
    size_t n_pairs = 0;
    for (size_t i = 0; i < a->n; i++)
        n_pairs += n_bits(x->by_bits[i]);
    bool whole = !(t->ready & (t->ready + 1)) && n_pairs * 2 > a->n * n_bits(t->ready);
    if (n_pairs)
        a->snapshot->planes.kernel->probe_tile(t->planes, t->ready, t->deep, a->hash,
                                               a->n, whole ? NULL : x->by_bits, hits);
    for (size_t i = 0; n_pairs && i < a->n; i++)
        x->absent[i] |= x->by_bits[i] & ~hits[i];
}

/* Those that need care, and keys of another domain, which no segment of a store has;
 * but filters of the caller's may. */
static void ask_the_rest(struct asking *a, const struct slice *t, struct tile *x)
{
    uint64_t others = a->all & ~a->plain;
    for (uint64_t m = others ? t->asked : t->careful; m; m &= m - 1) {
        size_t j = (size_t)__builtin_ctzll(m);
        struct tamis_target target = slice_target(a, t, j);
        uint64_t mask = t->careful >> j & 1 ? a->all : others;
        for (uint64_t k = mask & a->ranged; k; k &= k - 1)
            if (x->by_range[__builtin_ctzll(k)] >> j & 1)
                mask &= ~(k & -k);
        for (uint64_t k = ask_with_care(a, &target, t->at + j, mask); k; k &= k - 1)
            x->absent[__builtin_ctzll(k)] |= m & -m;
    }
}

static void ask_tile(struct asking *a, struct slice *t)
{
    struct tile x;
    for (size_t i = 0; i < a->n; i++) {
        x.absent[i] = x.by_range[i] = outside_slice(a, t, i);
        x.by_bits[i] = a->plain >> i & 1 ? t->ready & ~x.by_range[i] : 0;
    }
    ask_planes(a, t, &x);
    if (!still_ready(t)) {
        memcpy(x.absent, x.by_range, a->n * sizeof x.absent[0]);
        memset(x.by_bits, 0, a->n * sizeof x.by_bits[0]);
    }
    ask_the_rest(a, t, &x);
    if (t->packed && a->plain)
        ask_packed(a, t, x.absent, x.by_bits);
    for (size_t i = 0; i < a->n; i++)
        deliver(a, i, t, x.absent[i], x.by_range[i], x.by_bits[i]);
}

/* ---- slices ---- */

static void ask_classed(struct asking *a, struct flow *f, struct slice *t)
{
    t->careful = t->asked & ~(t->ready | t->packed);
    if (f->rolls)
        roll_on(a, f, t);
    else
        ask_tile(a, t);
}

void ask_slice(struct asking *a, struct flow *f, size_t at, size_t n)
{
    struct slice *t = slice_begin(a, f, at, n);
    for (size_t i = 0; t->targets && a->plain && i < n; i++)
        class_target(t, a, i);
    ask_classed(a, f, t);
}

void ask_dense(struct asking *a, struct flow *f, size_t at, size_t n, size_t first)
{
    struct slice *t = slice_begin(a, f, at, n);
    const struct planes *p = &a->snapshot->planes;
    size_t word = first / WORD, shift = first % WORD;
    uint64_t deep = atomic_load_explicit(&p->deep[word], memory_order_relaxed) >> shift;
    if (shift)
        deep |= atomic_load_explicit(&p->deep[word + 1], memory_order_relaxed)
                << (WORD - shift);
    t->first = first;
    t->planes = p->plane + first;
    t->range_first = p->first + first;
    t->range_last = p->last + first;
    t->ranges = t->asked;
    t->ready = planes_are_ready(p, first, t->epoch) & t->asked;
    t->deep = deep & t->ready;
    ask_classed(a, f, t);
}
