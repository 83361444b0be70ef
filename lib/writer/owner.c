/* Which thread has a writer to itself: alone.c has its adds.
 *
 * A thread that adds to a writer without an owner announces itself, and then looks for
 * an owner. The owner puts itself there, and then looks for announcements. One of the
 * two sees the other. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

_Thread_local char alone_here;
_Thread_local const void *mutex_of;

int alone_check(const struct tamis_writer *w)
{
    const void *owner = atomic_load(&w->owner);
    bool mine =
        owner == &alone_here && !atomic_load_explicit(&w->adding, memory_order_relaxed);
    return !owner || mine ? 0 : TAMIS_ERR_THREAD;
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
        return owner == &alone_here ? 0 : TAMIS_ERR_THREAD;
    atomic_store(&w->adding, true);
    atomic_store(&w->owner, &alone_here);
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
    int err = call_may_begin(w);
    if (err)
        return err;
    mutex_take(w);
    err = take(w);
    mutex_give(w);
    return err;
}
