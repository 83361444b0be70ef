/* Adding keys to an open writer, from any number of threads. */
#include "lib/writer/inside.h"
#include "format/hash.h"
#include "lib/sync_point.h"

#include <stdatomic.h>

/* Threads spread over the stripes by their order of arrival. */
static unsigned my_stripe(void)
{
    static atomic_uint next;
    static _Thread_local unsigned mine;
    if (mine == 0)
        mine = 1 + atomic_fetch_add(&next, 1) % N_STRIPES;
    return mine - 1;
}

static int state_error(uint32_t state)
{
    return state == WRITER_OPEN       ? 0
           : state == WRITER_POISONED ? TAMIS_ERR_POISONED
                                      : TAMIS_ERR_SEALED;
}

static int writer_error(const struct tamis_writer *w)
{
    int err = state_error(atomic_load(&w->state));
    return !err && atomic_load(&w->lost) ? TAMIS_ERR_POISONED : err;
}

static void leave(struct tamis_writer *w, unsigned stripe)
{
    _Atomic uint32_t *n = &w->in_flight[stripe].n;
    if (stripe >= SHARED_STRIPE)
        atomic_fetch_sub(n, 1);
    else /* even, and a number that the stripe did not have before */
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                              memory_order_release);
}

/* Takes the thread's stripe: its counters are then this thread's alone, and it says
 * that an add is in flight. Where another thread has it (or has left its add by a jump,
 * and will have it for ever) a shared stripe serves, another one after each growth. The
 * add is announced before the state and the newest stage are looked at; a sealer
 * changes the state, and growth the newest stage, before they look at the
 * announcements: one of the two sees the other. */
static int enter(struct tamis_writer *w, unsigned *stripe)
{
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    *stripe = my_stripe();
    if (atomic_fetch_or(&w->in_flight[*stripe].n, 1) & 1) {
        *stripe = SHARED_STRIPE + atomic_load(&w->n_stages) % N_SHARED;
        atomic_fetch_add(&w->in_flight[*stripe].n, 1);
    }
    int err = writer_error(w);
    if (err)
        leave(w, *stripe);
    return err;
}

/* Returns the sum. Others read it meanwhile. */
static uint64_t count(_Atomic uint64_t *counter, unsigned stripe, uint64_t n)
{
    if (stripe >= SHARED_STRIPE)
        return n + atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    n += atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, n, memory_order_relaxed);
    return n;
}

/* The lines that adding this key will want. Inlined by force: gcc 12 takes a function
 * that only prefetches for one without effects, and drops its calls. */
__attribute__((always_inline)) static inline void prefetch(const struct tamis_writer *w,
                                                           uint32_t current, uint64_t h)
{
    for (uint32_t i = 0; i < current; i++)
        __builtin_prefetch(plane_block(&w->planes[i], 0, h));
    const struct plane *p = &w->planes[current];
    for (uint32_t lane = 0; lane < p->lanes; lane++) {
        __builtin_prefetch(plane_block(p, lane, h), 1);
        h = geometry_next_lane(h);
    }
}

/* The add relies on the bits of stage i, and leaves marks as if it had set them: the
 * thread that did may still be on its way to its own, unless it has gone (drained). */
static bool found_in(struct tamis_writer *w, uint32_t i, uint64_t h)
{
    struct writer_stage *s = w->stages[i];
    const struct geometry *g = &s->stage.geometry;
    if (atomic_load_explicit(&s->drained, memory_order_acquire))
        return true;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        stage_set_found(s, geometry_block_offset(g, lane, h) / PAGE_BYTES);
        h = geometry_next_lane(h);
    }
    return true;
}

/* A key that an older stage holds in healthy pages need not be added again. */
static bool in_older_stage(struct tamis_writer *w, uint32_t current, uint64_t h)
{
    bool all_good = true;
    for (uint32_t i = 0; i < current; i++)
        all_good &= stage_all_good(&w->stages[i]->stage);
    if (all_good) {
        uint64_t hits = 0;
        if (current)
            w->kernel->probe_row(w->planes, current, h, &hits);
        return hits && found_in(w, (uint32_t)__builtin_ctzll(hits), h);
    }
    for (uint32_t i = current; i-- > 0;)
        if (stage_probe(&w->stages[i]->stage, w->kernel, h) == TAMIS_HIT)
            return found_in(w, i, h);
    return false;
}

static uint32_t stage_add(struct tamis_writer *w, struct writer_stage *s, uint64_t h)
{
    const struct geometry *g = &s->stage.geometry;
    uint32_t fresh = 0;
    for (uint32_t lane = 0; lane < g->lanes; lane++) {
        uint64_t at = geometry_block_offset(g, lane, h), page = at / PAGE_BYTES;
        /* Our bits could mask a loss that only the floors of the last commit show. */
        if (!stage_page_good(&s->stage, page)) {
            if (atomic_load(&w->lost))
                return fresh; /* perhaps it can't be read, and all is well with it */
            if (!writer_condemn_page(w, s, page))
                return fresh;
        }
        SYNC_POINT("add: page looked at");
        uint32_t n = w->kernel->block_add(s->stage.bits + at, g->words, h);
        SYNC_POINT("add: bits set");
        if (n)
            stage_set_dirty(s, page);
        else
            stage_set_found(s, page);
        fresh += n;
        h = geometry_next_lane(h);
    }
    return fresh;
}

/* Adds up to the next look at the fill; says whether the stage is full. */
static bool add_some(struct tamis_writer *w, unsigned stripe, const uint64_t *hashes,
                     size_t *n)
{
    enum { AHEAD = 16 };
    uint32_t current = atomic_load(&w->n_stages) - 1; /* after enter() announced it */
    struct writer_stage *s = w->stages[current];
    SYNC_POINT("add: stage chosen");
    uint64_t keys = 0, bits = 0;
    size_t i = 0;
    for (size_t k = 0; k < *n && k < AHEAD; k++)
        prefetch(w, current, hashes[k]);
    while (i < *n && keys < s->check_interval) {
        if (i + AHEAD < *n)
            prefetch(w, current, hashes[i + AHEAD]);
        uint64_t h = hashes[i++];
        uint32_t fresh = in_older_stage(w, current, h) ? 0 : stage_add(w, s, h);
        bits += fresh;
        keys += fresh > 0;
    }
    *n = i;
    if (!keys)
        return false;
    uint64_t after = count(&s->stripes[stripe].keys, stripe, keys);
    count(&s->stripes[stripe].bits, stripe, bits);
    return (after - keys) / s->check_interval != after / s->check_interval &&
           stage_bits_now(s) >= s->n_full_bits &&
           !atomic_load_explicit(&w->grow_failed, memory_order_relaxed);
}

int tamis_writer_add_hashes(struct tamis_writer *w, uint64_t tag,
                            const uint64_t *hashes, size_t n)
{
    unsigned stripe;
    if (tag != w->domain.tag)
        return TAMIS_ERR_MISMATCH;
    for (size_t done = 0; done < n;) {
        size_t some = n - done;
        int err = enter(w, &stripe);
        if (err)
            return err;
        bool full = add_some(w, stripe, hashes + done, &some);
        leave(w, stripe);
        done += some;
        /* Keys that met a lost page are not in, or were thought to be; nor are those
         * that met one which could not be condemned. */
        if (writer_is_broken(w))
            return TAMIS_ERR_POISONED;
        /* Outside the section that a sealer waits for, as growing takes the mutex.
         * A stage that can't grow takes the keys all the same. */
        if (full) {
            SYNC_POINT("add: stage full");
            writer_grow(w);
        }
    }
    return n ? 0 : writer_error(w);
}

int tamis_writer_add_key(struct tamis_writer *w, const void *key, size_t n_bytes)
{
    uint64_t h = hash_key(w->domain.seed, key, n_bytes);
    return tamis_writer_add_hashes(w, w->domain.tag, &h, 1);
}
