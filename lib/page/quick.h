/* May a probe look at the bits alone, though its filter grows, or has several stages?
 *
 * The things that speak against it change rarely: a page is found bad, a copy takes the
 * file's name. Each of them, and the passing of time, raises one number of the process.
 * A probe with all looks notes the number (filter/view.h); later ones compare it.
 *
 *     a page is found bad ---+
 *                            +--->  quick_epoch  is what the view has noted?
 *     62 ms have passed -----+        yes: the bits alone
 *                                     no:  all looks, and note it anew
 *
 * Warning: a thread reads the clock at every 64th probe only, for the clock takes as
 * long as a probe. A thread that pauses may ask up to 64 keys by what it knew before.
 */
#ifndef TAMIS_PAGE_QUICK_H
#define TAMIS_PAGE_QUICK_H

#include <stdatomic.h>
#include <stdint.h>

/* Grows in large odd steps, so that it makes up for no change of a sequence number. */
#define QUICK_STEP   UINT64_C(0x9E3779B97F4A7C15)
#define QUICK_PERIOD UINT64_C(62500000) /* nanoseconds of look_clock() */
enum { QUICK_PROBES = 64 };

#pragma GCC visibility push(hidden) /* no detour to them by a table of addresses */
extern _Atomic uint64_t quick_epoch;
/* Probes of this thread until it reads the clock again. */
extern _Thread_local int quick_left __attribute__((tls_model("initial-exec")));
#pragma GCC visibility pop

/* Reads the clock. Waits for no thread; a signal handler may call it. */
void quick_tick(void);

/* From now on no view is quick before it was looked at again. */
static inline void quick_end(void)
{
    atomic_fetch_add(&quick_epoch, QUICK_STEP);
}

/* Before all looks: what view_offer() notes. */
static inline uint64_t quick_now(void)
{
    return atomic_load_explicit(&quick_epoch, memory_order_acquire);
}

#endif
