/* Which thread has a writer to itself, since it was opened. Its adds are in alone.c:
 * they lead to growth, and growth asks here. */
#include "lib/writer/inside.h"

_Thread_local char alone_here;
_Thread_local const void *mutex_of;

int alone_check(const struct tamis_writer *w)
{
    bool mine =
        alone_is_mine(w) && !atomic_load_explicit(&w->adding, memory_order_relaxed);
    return !atomic_load_explicit(&w->owner, memory_order_relaxed) || mine
               ? 0
               : TAMIS_ERR_THREAD;
}

void writer_own(struct tamis_writer *w)
{
    atomic_store(&w->owner, &alone_here);
}
