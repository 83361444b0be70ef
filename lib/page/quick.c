/* The clock of what is believed (quick.h). */
#include "lib/page/quick.h"
#include "lib/io/io.h"

_Atomic uint64_t trust_clock = CLOCK_BAD + 1;
_Thread_local int quick_left;

static _Atomic uint64_t period_began;
static _Thread_local uint64_t last_tick __attribute__((tls_model("initial-exec")));

/* A thread that finds the period over ends it for all. One whose last probes took long
 * reads the clock at the next one, too. */
void quick_tick(void)
{
    uint64_t now = look_clock(), began = atomic_load(&period_began);
    if (now - began >= QUICK_PERIOD) { /* also if the clock was set back */
        quick_end();                   /* first: once too often costs a look */
        atomic_compare_exchange_strong(&period_began, &began, now);
    }
    quick_left = now - last_tick < QUICK_PERIOD ? QUICK_PROBES : 0;
    last_tick = now;
}
