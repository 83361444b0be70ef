/* Adding keys to an open writer, from any number of threads; alone.c has the adds of a
 * thread that has the writer to itself. */
#include "lib/writer/inside.h"
#include "format/hash.h"

/* Inlined in both callers: a call would slow down an add of one key. */
#define INLINED static inline __attribute__((always_inline))

/* Threads spread over the shards by their order of arrival. */
static unsigned my_shard(void)
{
    static atomic_uint next;
    static _Thread_local unsigned mine;
    if (mine == 0)
        mine = 1 + atomic_fetch_add(&next, 1) % N_SHARDS;
    return mine - 1;
}

INLINED void leave(struct tamis_writer *w, unsigned shard)
{
    _Atomic uint32_t *n = &w->in_flight[shard].n;
    if (shard >= SHARED_SHARD)
        atomic_fetch_sub(n, 1);
    else /* even, and a number that the shard did not have before */
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                              memory_order_release);
}

/* Takes the thread's shard: its counters are then this thread's alone, and it says
 * that an add is in flight. If another thread has it, perhaps for ever, as it left its
 * add by a jump, a shared shard is used, another one after each growth. The
 * add is announced before the state and the newest stage are looked at; a sealer
 * changes the state, and growth the newest stage, before they look at the
 * announcements: one of the two sees the other. */
INLINED int enter(struct tamis_writer *w, unsigned *shard)
{
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    *shard = my_shard();
    if (atomic_fetch_or(&w->in_flight[*shard].n, 1) & 1) {
        *shard = SHARED_SHARD + atomic_load(&w->n_stages) % N_SHARED;
        atomic_fetch_add(&w->in_flight[*shard].n, 1);
    }
    int err = writer_error(w);
    if (err)
        leave(w, *shard);
    return err;
}

/* Not inlined: it needs registers, for which an add of one key would pay. */
static __attribute__((noinline)) int add_many(struct tamis_writer *w, uint64_t tag,
                                              const uint64_t *hashes, size_t n)
{
    unsigned shard;
    if (tag != w->domain.tag)
        return TAMIS_ERR_MISMATCH;
    if (atomic_load_explicit(&w->owner, memory_order_relaxed))
        return alone_add(w, hashes, n);
    for (size_t done = 0; done < n;) {
        size_t some = n - done;
        int err = enter(w, &shard);
        if (err)
            return err;
        bool full = writer_add_some(w, shard, hashes + done, &some, NULL);
        leave(w, shard);
        done += some;
        err = writer_after_some(w, full);
        if (err)
            return err;
    }
    return n ? 0 : writer_error(w);
}

int tamis_writer_add_hashes(struct tamis_writer *w, uint64_t tag,
                            const uint64_t *hashes, size_t n)
{
    if (n == 1 && tag == w->domain.tag && alone_is_mine(w))
        return alone_add_one(w, hashes);
    return add_many(w, tag, hashes, n);
}

int tamis_writer_add_key(struct tamis_writer *w, const void *key, size_t n_bytes)
{
    uint64_t h = hash_key(w->domain.seed, key, n_bytes);
    return tamis_writer_add_hashes(w, w->domain.tag, &h, 1);
}

/* ---- is it new? ---- */

/* A key is new if the add sets a bit of it, and each older stage proves that it lacks
 * the key: good pages have all bits of the keys that are in. If the filter has grown
 * since, the key may be in a stage that was not asked. */
static int add_if_new(struct tamis_writer *w, uint64_t h, bool *is_new, bool *full)
{
    bool own = atomic_load_explicit(&w->owner, memory_order_relaxed), lacks = true;
    unsigned shard = 0;
    uint64_t changed = 0;
    size_t one = 1;
    int err = own ? alone_enter(w) : enter(w, &shard);
    if (err)
        return err;
    uint32_t current = atomic_load(&w->n_stages) - 1;
    for (uint32_t i = 0; i < current && lacks; i++)
        lacks = stage_probe(&w->stages[i]->stage, w->kernel, h) == TAMIS_NO_REASON;
    *full = writer_add_some(w, shard, &h, &one, &changed);
    *is_new = lacks && changed && atomic_load(&w->n_stages) == current + 1;
    if (!own)
        leave(w, shard);
    else if (atomic_load(&w->plain) != NOT_PLAIN)
        atomic_store(&w->plain, 0); /* the next add looks at everything again */
    if (own)
        alone_leave(w);
    return 0;
}

/* Threads with the same key take turns: the second one finds it. */
static int add_in_turn(struct tamis_writer *w, uint64_t h, bool *is_new, bool *full)
{
    static _Thread_local volatile bool in_turn;
    if (in_turn) /* a signal handler: it would wait for itself */
        return TAMIS_ERR_THREAD;
    if (w->fork_epoch != io_fork_epoch())
        return TAMIS_ERR_FORKED;
    in_turn = true;
    pthread_mutex_lock(&w->turns[h % N_TURNS]);
    int err = add_if_new(w, h, is_new, full);
    pthread_mutex_unlock(&w->turns[h % N_TURNS]);
    in_turn = false;
    return err;
}

int tamis_writer_add_new(struct tamis_writer *w, uint64_t tag, const uint64_t *hashes,
                         size_t n, uint64_t *is_new)
{
    if (n && is_new)
        memset(is_new, 0, ((n - 1) / 64 + 1) * sizeof *is_new);
    if (n && (!hashes || !is_new))
        return TAMIS_ERR_RANGE;
    int err = tag == w->domain.tag ? 0 : TAMIS_ERR_MISMATCH;
    for (size_t i = 0; i < n && !err; i++) {
        bool first = false, full = false;
        err = add_in_turn(w, hashes[i], &first, &full);
        if (!err)
            err = writer_after_some(w, full);
        is_new[i / 64] |= (uint64_t)(first && !err) << (i % 64);
    }
    return err || n ? err : writer_error(w);
}
