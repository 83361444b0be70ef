/* Targets that lie anywhere, 64 at a time.
 *
 *     slice    ready    careful   ready   shared ...      classed once
 *     ranges   0        -         1       -               compared first, as numbers
 *     bits     1        (ask)     -       0               then the bits of what is left
 *
 * All keys at hand are asked of a slice as a tile. While one key is asked of 64 planes,
 * the lines of the next 64 are fetched. */
#include "lib/store/query/inside.h"

/* So many planes have their lines in a cache nearby, mostly. */
enum { NEAR_PLANES = 1024 };

/* ---- classes ---- */

/* Ready planes are gathered; if they are many, one of them stands in for those between,
 * so that all lie side by side. */
static void class_targets(struct slice *t, const struct asking *a)
{
    const struct tamis_snapshot *s = a->snapshot;
    const struct planes *p = &s->planes;
    uint64_t ready = 0, ranges = 0;
    for (uint64_t m = t->asked; m; m &= m - 1) {
        size_t i = (size_t)__builtin_ctzll(m), at = t->targets[i].ordinal - 1U;
        if (!target_plain(s, &t->targets[i]))
            continue;
        ranges |= m & -m;
        if (a->ranged) {
            t->first_ends[i] = range_end(p->first, at);
            t->last_ends[i] = range_end(p->last, at);
        }
        if (!plane_is_ready(s, at, t->epoch))
            continue;
        ready |= m & -m;
        t->gathered[i] = p->plane[at];
        if (a->n == 1) /* beyond the first cache, where lines evict each other */
            __builtin_prefetch(plane_block(&p->plane[at], 0, a->hash[0]), 0, 2);
    }
    t->filled = n_bits(ready) * 4 > t->n ? first_bits(t->n) : ready;
    for (uint64_t m = t->filled & ~ready; m; m &= m - 1)
        t->gathered[__builtin_ctzll(m)] = t->gathered[__builtin_ctzll(ready)];
    t->ready = ready;
    t->ranges = ranges;
}

void slice_begin(struct slice *t, const struct asking *a, size_t at, size_t n)
{
    t->at = t->first = at;
    t->targets = NULL; /* numbers */
    t->epoch = stage_epoch();
    t->n = n;
    t->asked = first_bits(n);
    t->ready = t->careful = t->filled = t->ranges = 0;
    t->how = a->n_targets > NEAR_PLANES ? TILE_FAR : 0;
    t->planes = t->gathered;
    t->range_first = t->first_ends;
    t->range_last = t->last_ends;
}

static struct tamis_target slice_target(const struct asking *a, const struct slice *t,
                                        size_t i)
{
    if (t->targets)
        return t->targets[i];
    struct tamis_target target = tamis_snapshot_target(a->snapshot, t->first + i);
    target.refusal = a->q->targets ? 0 : target.refusal; /* ask_dense() */
    return target;
}

/* ---- ranges ---- */

/* The segments whose range excludes key i. */
static uint64_t outside_slice(const struct asking *a, const struct slice *t, size_t i)
{
    uint64_t near, out;
    if (!(a->ranged >> i & 1) || !t->ranges)
        return 0;
    out = a->snapshot->planes.kernel->outside_ends(t->range_first, t->range_last, t->n,
                                                   a->prefix[i], &near);
    for (near &= t->ranges; near; near &= near - 1) {
        size_t j = (size_t)__builtin_ctzll(near);
        out |= (uint64_t)outside_by_bytes(a->snapshot, slice_number(t, j), &a->keys[i])
               << j;
    }
    return out & t->ranges;
}

/* ---- keys on a slice ---- */

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

/* For each key at hand, a bit for each target. */
struct tile {
    uint64_t absent[WORD], by_range[WORD], by_bits[WORD];
};

/* All planes that lie side by side for all keys; or pair by pair, where ranges leave
 * less than half of it. */
static void ask_planes(const struct asking *a, const struct slice *t, struct tile *x)
{
    const struct kernel *kernel = a->snapshot->planes.kernel;
    uint64_t hits[WORD];
    size_t n_pairs = 0;
    for (size_t i = 0; a->ranged && i < a->n; i++)
        n_pairs += n_bits(x->by_bits[i]);
    if (a->ranged && n_pairs * 2 <= a->n * n_bits(t->ready)) {
        if (n_pairs)
            kernel->probe_tile(t->planes, WORD, 0, a->hash, a->n, x->by_bits, hits);
        for (size_t i = 0; n_pairs && i < a->n; i++)
            x->absent[i] |= x->by_bits[i] & ~hits[i];
        return;
    }
    for (uint64_t left = t->filled; left;) {
        size_t at = (size_t)__builtin_ctzll(left), n = WORD;
        if (~(left >> at)) /* else all; so many lie side by side */
            n = (size_t)__builtin_ctzll(~(left >> at));
        uint64_t its = first_bits(n) << at;
        kernel->probe_tile(t->planes + at, n, t->how, a->hash, a->n, NULL, hits);
        for (size_t i = 0; i < a->n; i++)
            x->absent[i] |= x->by_bits[i] & its & ~(hits[i] << at);
        left &= ~its;
    }
}

/* Asks the targets that need care, and all targets about keys of another domain: a
 * filter of the caller's may have those. */
static void ask_the_rest(struct asking *a, const struct slice *t, struct tile *x)
{
    uint64_t others = a->all & ~a->plain, out = t->asked;
    for (size_t i = 0; i < a->n; i++)
        out &= x->by_range[i]; /* excluded for all keys */
    uint64_t ask = others ? t->asked : t->careful & ~out;
    for (uint64_t m = a->n == 1 && a->plain ? ask & (ask - 1) : 0; m; m &= m - 1) {
        struct tamis_target target = slice_target(a, t, (size_t)__builtin_ctzll(m));
        prefetch_target(a->snapshot, &target, a->hash[0]);
    }
    for (uint64_t m = ask; m; m &= m - 1) {
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
    if (a->plain && t->ready)
        ask_planes(a, t, &x);
    t->careful = t->asked & ~t->ready;
    if (!still_ready(t)) {
        memcpy(x.absent, x.by_range, a->n * sizeof x.absent[0]);
        memset(x.by_bits, 0, a->n * sizeof x.by_bits[0]);
    }
    ask_the_rest(a, t, &x);
    for (size_t i = 0; i < a->n; i++)
        deliver(a, i, t, x.absent[i], x.by_range[i], x.by_bits[i]);
}

void ask_slice(struct asking *a, size_t at, size_t n, uint64_t but)
{
    struct slice t;
    slice_begin(&t, a, at, n);
    t.targets = a->q->targets ? a->q->targets + at : NULL;
    t.asked &= ~but;
    if (t.targets && a->plain)
        class_targets(&t, a);
    if (t.asked)
        ask_tile(a, &t);
}

void ask_dense(struct asking *a, size_t at, size_t n, size_t first)
{
    struct slice t;
    const struct planes *p = &a->snapshot->planes;
    slice_begin(&t, a, at, n);
    t.first = first;
    t.planes = p->plane + first;
    t.range_first = p->first + first;
    t.range_last = p->last + first;
    t.ranges = t.asked;
    t.filled = planes_are_ready(p, first, t.epoch) & t.asked;
    if (a->listed)
        t.asked &= listed_word(a, first);
    t.ready = t.filled & t.asked;
    if (n_bits(t.ready) * 4 <= n) /* few are asked sooner apart */
        t.filled = t.ready;
    if (t.filled == UINT64_MAX && first + 2 * WORD <= a->snapshot->n_loose &&
        planes_are_ready(p, first + WORD, t.epoch) == UINT64_MAX)
        t.how |= TILE_NEXT;
    if (t.asked)
        ask_tile(a, &t);
}
