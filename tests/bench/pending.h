/* Functions that the benchmark uses and that the header may not have yet; pending.c
 * makes them of older ones. Both go when lib/tamis.h has them all. */
#ifndef TAMIS_TESTS_BENCH_PENDING_H
#define TAMIS_TESTS_BENCH_PENDING_H

#include <tamis.h>

enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                            const struct tamis_key *key,
                                            uint32_t *segments, size_t max, size_t *n);
size_t tamis_snapshot_probe_keys(struct tamis_snapshot *snapshot,
                                 const struct tamis_target *targets, size_t n_targets,
                                 const struct tamis_key *keys, size_t n_keys,
                                 uint64_t *absent);

/* Whether options of a builder have n_threads is seen in the header by rules.mk. */
#ifdef BENCH_BUILDER_THREADS
#define SET_THREADS(options, n) ((options).n_threads = (n))
#else
#define SET_THREADS(options, n) ((void)(n))
#endif

#endif
