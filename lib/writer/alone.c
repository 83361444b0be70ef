/* A writer that one thread has to itself: it adds without locked instructions, which is
 * most of the time of an add.
 *
 * WHY IT IS SAFE. Bits are set by plain stores of whole aligned words. Nobody else
 * stores to them: the file's lock keeps other writers away (R14), every thread but the
 * owner is refused, and so is a signal handler of the owner's in the middle of an add.
 * Commits, growth, seals and pages that are condemned are the owner's, too, so that no
 * page becomes ones, and no mark is taken, while an add is on its way. The SIGBUS guard
 * may put ones in place of a page between a load and its store, which then clears some
 * of them: this writer is poisoned by then, and so is every other with such ones.
 * Readers, in this process and in others, see each word as it was or as it is. */
#include "lib/writer/inside.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

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

/* A key sets at most lanes * words bits. Until enough keys were added to fill the
 * stage, its fill need not be computed. */
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
static inline bool alone_count(struct tamis_writer *w, struct writer_stage *s,
                               uint64_t keys, uint64_t bits)
{
    shard_count(&s->shards[0].bits, 0, bits);
    keys = shard_count(&s->shards[0].keys, 0, keys);
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
    return alone_count(w, s, keys, bits);
}

static bool add_some(struct tamis_writer *w, const uint64_t *hashes, size_t *n)
{
    uint64_t fresh[ADDS_AT_ONCE];
    uint32_t current = atomic_load_explicit(&w->n_stages, memory_order_acquire) - 1;
    struct writer_stage *s = w->stages[current];
    if (!stages_all_good(w, current + 1))
        return writer_add_some(w, 0, hashes, n, NULL);
    size_t left = *n, some = adds_at_once(s, left), kept = some;
    *n = some;
    if (current) {
        kept = drop_known(w, current, hashes, some, left - some, fresh);
        hashes = fresh;
    }
    return add_new(w, current, hashes, kept);
}

/* Announces the add, then reads the state: what a signal handler does in between is
 * refused, or read. */
static inline bool alone_begin(struct tamis_writer *w)
{
    bool free = !atomic_load_explicit(&w->adding, memory_order_relaxed);
    if (LIKELY(free))
        atomic_store_explicit(&w->adding, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return free;
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
    if (!alone_is_mine(w) || !alone_begin(w))
        return TAMIS_ERR_THREAD;
    int err = writer_error(w);
    if (err)
        alone_leave(w);
    return err;
}

/* Is there nothing to look at but the bits of one stage? */
static void note_plain(struct tamis_writer *w)
{
    bool plain = atomic_load(&w->state) == WRITER_OPEN && w->n_stages == 1 &&
                 stage_all_good(&w->stages[0]->stage);
    if (atomic_load(&w->plain) != NOT_PLAIN)
        atomic_store(&w->plain, plain ? w->fork_epoch + 1 : 0);
}

static __attribute__((noinline)) int alone_after(struct tamis_writer *w, bool full)
{
    int err = alone_enter(w);
    if (err)
        return err;
    err = writer_after_some(w, full);
    note_plain(w);
    alone_leave(w);
    return err;
}

int alone_add(struct tamis_writer *w, const uint64_t *hashes, size_t n)
{
    int err = alone_enter(w);
    if (err)
        return err;
    for (size_t done = 0, some; done < n && !err; done += some) {
        some = n - done;
        err = writer_after_some(w, add_some(w, hashes + done, &some));
    }
    note_plain(w);
    alone_leave(w);
    return err;
}

/* The path of nearly all adds of one key. The fewer instructions it has, the more cache
 * lines the processor waits for at once.
 *
 * WHY `plain` MAY BE BELIEVED. The state, the stages and the memory of good pages
 * change in calls of the owner only, or of a signal handler that interrupts it outside
 * of an add. An add that changes them notes `plain` anew at its end. Commits, growths
 * and seals change them between writer_lock() and writer_unlock(), and an add that a
 * handler makes in between cannot note it. A forked child has another epoch. A page may
 * be lost at any time: that is looked at after the add, as ever. */
int alone_add_one(struct tamis_writer *w, const uint64_t *hash)
{
    if (!LIKELY(alone_begin(w)))
        return alone_add(w, hash, 1);
    if (!LIKELY(atomic_load_explicit(&w->plain, memory_order_relaxed) ==
                io_fork_epoch_again() + 1)) {
        alone_leave(w);
        return alone_add(w, hash, 1);
    }
    uint32_t bits = w->add_one(&w->planes[0], w->stages[0]->dirty, *hash);
    bool full = alone_count(w, w->stages[0], bits > 0, bits);
    alone_leave(w);
    if (LIKELY(!full && !atomic_load_explicit(&w->lost, memory_order_relaxed)))
        return 0;
    return alone_after(w, full);
}
