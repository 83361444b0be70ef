/* How a time is taken: a monotonic clock, rounds in rotating order, medians, and one
 * core for everything but what needs two. */
#include "tests/bench/bench.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile uint64_t sink;

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double percentile(double *samples, size_t n, double share)
{
    qsort(samples, n, sizeof *samples, by_size);
    return samples[(size_t)((double)(n - 1) * share)];
}

double median(const double *samples, size_t n)
{
    double sorted[MAX_REPS];
    memcpy(sorted, samples, n * sizeof *samples);
    return percentile(sorted, n, 0.5);
}

void race(struct lap *laps, size_t n, unsigned reps)
{
    if (reps > MAX_REPS)
        reps = MAX_REPS;
    for (size_t i = 0; i < n; i++)
        laps[i].run(laps[i].ctx);
    for (unsigned r = 0; r < reps; r++)
        for (size_t i = 0; i < n; i++) {
            struct lap *lap = &laps[(r + i) % n];
            lap->samples[r] = lap->run(lap->ctx);
        }
    for (size_t i = 0; i < n; i++)
        laps[i].ns = median(laps[i].samples, reps);
}

static cpu_set_t all_cores;

/* To the last core that we may use: the first one takes most interrupts. */
void pin(void)
{
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof all_cores, &all_cores) != 0)
        return;
    for (size_t core = CPU_SETSIZE; core-- > 0;)
        if (CPU_ISSET(core, &all_cores)) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

void unpin(void)
{
    sched_setaffinity(0, sizeof all_cores, &all_cores);
}
