/* A clock that stands still until a test says that time passes. */
#ifndef TAMIS_TESTS_STILL_CLOCK_H
#define TAMIS_TESTS_STILL_CLOCK_H

#include "lib/page/quick.h"
#include "support.h"

static UNUSED uint64_t nanoseconds;
static UNUSED unsigned n_clocks; /* how often somebody asked */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    n_clocks++;
    t->tv_sec = (time_t)(1000 + nanoseconds / 1000000000);
    t->tv_nsec = (long)(nanoseconds % 1000000000);
    return 0;
}

/* The next probe reads the clock, as each 64th does. */
static UNUSED void pass(uint64_t milliseconds)
{
    nanoseconds += milliseconds * 1000000;
    quick_left = 0;
}

static UNUSED void set_back(uint64_t seconds)
{
    nanoseconds -= seconds * 1000000000;
    quick_left = 0;
}

#endif
