/* Some keys on some segments, call by call: ours in figures/few_segments.c, by hand in
 * cells.c. */
#ifndef TAMIS_TESTS_BENCH_CELLS_H
#define TAMIS_TESTS_BENCH_CELLS_H

#include <tamis.h>

#include "tests/bench/bench.h"

/* Calls take turns with lists of segments. */
enum { MOST_SEGMENTS = 16, MOST_KEYS = 32, N_LISTS = 61 };
struct cells {
    struct tamis_snapshot *snapshot;
    const struct bits *bits; /* of all its segments, of one lane and geometry */
    uint32_t (*lists)[MOST_SEGMENTS];
    struct tamis_target (*targets)[MOST_SEGMENTS]; /* the same */
    size_t n_calls, n_segments, n_keys;            /* in each call */
    const struct tamis_key *keys;                  /* of all calls */
    uint64_t *absent;                              /* n_keys rows */
    bool counting;                                 /* pairs that are ABSENT */
    size_t n_absent;
};
static inline void cells_count(struct cells *c)
{
    for (size_t i = 0; i < c->n_keys; i++)
        c->n_absent += (size_t)__builtin_popcountll(c->absent[i]);
}
double lap_cells(void *cells); /* nanoseconds a pair */

#endif
