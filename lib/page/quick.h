/* The one clock of what is believed without a look at anything but bits.
 *
 *     trust_clock    | pages found bad | anything else that may have changed |
 *                         ^                 ^
 *                         |                 +-- a file or a store is replaced; somebody
 *                         |                     counts probes; 62 ms pass
 *                         +-- a page of a stage that was, or may have been, all good
 *
 * A thread that finds that the bits alone decide reads the clock first, gathers its
 * evidence, and notes that clock beside its finding. Readers believe the finding while
 * the clock is the same. Planes of a snapshot are sealed for good: they compare the
 * upper half alone (stage_epoch()). Two more compare all of it: a filter that grows, or
 * has several stages (filter/view.h), and so looks at its slot and its name now and
 * then; and a snapshot, which looks at its store.
 *
 * Warning: a thread reads the time at every 64th probe only, for that takes as long as
 * a probe. A thread that pauses may ask up to 64 keys by what it knew before. */
#ifndef TAMIS_PAGE_QUICK_H
#define TAMIS_PAGE_QUICK_H

#include <stdatomic.h>
#include <stdint.h>

#define CLOCK_BAD    (UINT64_C(1) << 32) /* a page */
#define QUICK_STEP   UINT64_C(0x9E3779B97F4A7C15)
#define QUICK_PERIOD UINT64_C(62500000) /* nanoseconds of look_clock() */
enum { QUICK_PROBES = 64 };

#pragma GCC visibility push(hidden) /* no detour to them by a table of addresses */
extern _Atomic uint64_t trust_clock;
/* Probes of this thread until it reads the clock again. */
extern _Thread_local int quick_left __attribute__((tls_model("initial-exec")));
#pragma GCC visibility pop

/* Reads the clock. Waits for no thread; a signal handler may call it. */
void quick_tick(void);

/* From now on nothing is quick before it was looked at again. */
static inline void quick_end(void)
{
    atomic_fetch_add(&trust_clock, 1);
}

/* Never 0. */
static inline uint64_t quick_clock(void)
{
    return atomic_load_explicit(&trust_clock, memory_order_acquire);
}

/* Call it before all looks: view_offer() notes it. It moves in large odd steps, so that
 * no change of a sequence number makes up for one of them. */
static inline uint64_t quick_now(void)
{
    return quick_clock() * QUICK_STEP;
}

/* Grows, from 1, when a stage of this process stops being all good; now and then when
 * nothing has happened, too. */
static inline uint64_t stage_epoch(void)
{
    return quick_clock() / CLOCK_BAD;
}

#endif
