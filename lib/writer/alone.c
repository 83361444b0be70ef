/* A writer that one thread has to itself: it adds without locked instructions, which is
 * most of the time of an add.
 *
 * WHY IT IS SAFE. Bits are set by plain stores of whole aligned words. Nobody else
 * stores to them: the file's lock keeps other writers away (R14), every thread but the
 * owner is refused, and so is a signal handler of the owner's in the middle of an add.
 * Commits, growth, seals and pages that are condemned are the owner's, too, so that no
 * page becomes ones, and no mark is taken, while an add is on its way. The SIGBUS guard
 * may put ones in place of a page between a load and its store, which then clears some
 * of them: this writer, and every other that has such ones, is poisoned by then.
 * Readers, in this process and in others, see each word as it was or as it is, as ever.
 *
 * WHO ELSE ADDS. A thread that adds to a writer without an owner announces itself, and
 * then looks for an owner; the owner puts itself there, and then looks for
 * announcements. One of the two sees the other. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <pthread.h>
#include <stdatomic.h>

static _Thread_local char here __attribute__((tls_model("initial-exec")));

int alone_check(const struct tamis_writer *w)
{
    const void *owner = atomic_load(&w->owner);
    bool mine =
        owner == &here && !atomic_load_explicit(&w->adding, memory_order_relaxed);
    return !owner || mine ? 0 : TAMIS_ERR_THREAD;
}

bool alone_may_grow(const struct tamis_writer *w)
{
    const void *owner = atomic_load(&w->owner);
    return !owner || owner == &here;
}

static bool adds_in_flight(const struct tamis_writer *w)
{
    uint32_t any = 0;
    for (size_t i = 0; i < N_STRIPES + N_SHARED; i++) {
        uint32_t n = atomic_load(&w->in_flight[i].n);
        any |= i < N_STRIPES ? n & 1 : n;
    }
    return any != 0;
}

/* With the mutex, and as one that is in an add, so that a signal handler does not add
 * before it is certain that nobody else does. */
static int take(struct tamis_writer *w)
{
    const void *owner = atomic_load(&w->owner);
    if (owner)
        return owner == &here ? 0 : TAMIS_ERR_THREAD;
    atomic_store(&w->adding, true);
    atomic_store(&w->owner, &here);
    SYNC_POINT("alone: owner is there");
    bool busy = adds_in_flight(w);
    if (busy)
        atomic_store(&w->owner, NULL);
    atomic_store(&w->adding, false);
    return busy ? TAMIS_ERR_BUSY : 0;
}

/* With the mutex no other thread is in a commit, a growth or a seal. */
int tamis_writer_one_thread(struct tamis_writer *w)
{
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    int err = alone_check(w);
    if (err)
        return err;
    pthread_mutex_lock(&w->mutex);
    err = take(w);
    pthread_mutex_unlock(&w->mutex);
    return err;
}

/* ---- adding ---- */

static bool all_good(const struct tamis_writer *w, uint32_t n)
{
    bool all = true;
    for (uint32_t i = 0; i < n; i++)
        all &= stage_all_good(&w->stages[i]->stage);
    return all;
}

/* Copies the hashes that no older stage has; returns their number. */
static size_t drop_known(const struct tamis_writer *w, uint32_t current,
                         const uint64_t *hashes, size_t n, size_t n_next, uint64_t *to)
{
    size_t kept = 0;
    uint64_t known = older_keys(w, current, hashes, n, n_next, NULL);
    for (size_t i = 0; i < n; i++) {
        to[kept] = hashes[i];
        kept += !(known >> i & 1);
    }
    return kept;
}

/* A sum that only the owner raises, and others read. */
static uint64_t raise(_Atomic uint64_t *sum, uint64_t n)
{
    n += atomic_load_explicit(sum, memory_order_relaxed);
    atomic_store_explicit(sum, n, memory_order_relaxed);
    return n;
}

/* A key sets so many bits at most, so that a stage that is not full needs no look
 * before as many keys as fill it. */
static bool look_at_fill(const struct tamis_writer *w, struct writer_stage *s,
                         uint64_t n_keys)
{
    const struct geometry *g = &s->stage.geometry;
    uint64_t bits = stage_bits_now(s), keys = s->check_interval;
    bool full = stage_is_full(w, s);
    if (bits < s->n_full_bits)
        keys = 1 + (s->n_full_bits - bits - 1) / (g->lanes * g->words);
    s->next_look = n_keys + (full ? 0 : keys); /* full: until it has grown */
    return full;
}

/* Adds to the counts of the stage. Is it full? */
static inline bool count(struct tamis_writer *w, struct writer_stage *s, uint64_t keys,
                         uint64_t bits)
{
    raise(&s->stripes[0].bits, bits);
    keys = raise(&s->stripes[0].keys, keys);
    return __builtin_expect(keys >= s->next_look, 0) && look_at_fill(w, s, keys);
}

/* To the newest stage, where all pages are good. Is it full? */
static bool add_new(struct tamis_writer *w, uint32_t current, const uint64_t *hashes,
                    size_t n)
{
    struct writer_stage *s = w->stages[current];
    uint64_t bits = 0;
    uint64_t keys =
        w->kernel->add_alone(&w->planes[current], s->dirty, hashes, n, &bits);
    return count(w, s, keys, bits);
}

static inline bool add_new_one(struct tamis_writer *w, uint64_t h)
{
    struct writer_stage *s = w->stages[0];
    uint32_t bits = w->kernel->add_one_alone(&w->planes[0], s->dirty, h);
    return count(w, s, bits > 0, bits);
}

bool alone_add_some(struct tamis_writer *w, const uint64_t *hashes, size_t *n)
{
    uint64_t fresh[ADDS_AT_ONCE];
    uint32_t current = atomic_load_explicit(&w->n_stages, memory_order_acquire) - 1;
    struct writer_stage *s = w->stages[current];
    if (!all_good(w, current + 1))
        return writer_add_some(w, 0, hashes, n);
    size_t left = *n, some = adds_at_once(s, left), kept = some;
    *n = some;
    if (current) {
        kept = drop_known(w, current, hashes, some, left - some, fresh);
        hashes = fresh;
    }
    return add_new(w, current, hashes, kept);
}

/* First it says that it adds, and then it looks: what a signal handler does in between
 * is refused, or seen. */
static bool begin(struct tamis_writer *w)
{
    bool mine = atomic_load_explicit(&w->owner, memory_order_relaxed) == &here &&
                !atomic_load_explicit(&w->adding, memory_order_relaxed);
    if (mine)
        atomic_store_explicit(&w->adding, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return mine;
}

void alone_leave(struct tamis_writer *w)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&w->adding, false, memory_order_relaxed);
}

int alone_enter(struct tamis_writer *w)
{
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    if (!begin(w))
        return TAMIS_ERR_THREAD;
    int err = writer_error(w);
    if (err)
        alone_leave(w);
    return err;
}

/* The way of nearly all adds of one key: how many instructions an add takes decides for
 * how many lines the processor waits at a time. */
bool alone_add_one(struct tamis_writer *w, const uint64_t *hash)
{
    if (w->fork_epoch != io_fork_epoch() || !begin(w))
        return false;
    bool plain = atomic_load_explicit(&w->state, memory_order_relaxed) == WRITER_OPEN;
    plain &= !atomic_load_explicit(&w->lost, memory_order_relaxed);
    plain &= atomic_load_explicit(&w->n_stages, memory_order_acquire) == 1;
    bool done = plain && stage_all_good(&w->stages[0]->stage) && !add_new_one(w, *hash);
    alone_leave(w);
    return done && !atomic_load_explicit(&w->lost, memory_order_relaxed);
}
