/* How many bytes packs take, and how many lines a key: planned, as packs are made. The
 * columns' table is not among them. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdlib.h>

static struct tamis_plan_packed planned(const uint64_t *keys, size_t n, int from_files)
{
    struct tamis_plan_packed plan;
    must(tamis_plan_pack(keys, n, 0.01, from_files, &plan), NULL, "planning a pack");
    return plan;
}

/* 1,000 segments, log-uniform from 50 to 50,000 keys; 10,000 of 64 keys. */
void figures_sizes(void)
{
    enum { MIXED = 1000, SMALL = 10000 };
    uint64_t *keys = allocate(SMALL * sizeof *keys), n_keys = 0;
    srand48((long)bench.seed);
    for (size_t i = 0; i < MIXED; i++)
        n_keys += keys[i] = (uint64_t)(50 * pow(1000, drand48()));
    struct tamis_plan_packed files = planned(keys, MIXED, 1),
                             from_keys = planned(keys, MIXED, 0);
    figure("sizes_files", files.bits_per_key, 0, "%llu keys, %u bands",
           (unsigned long long)n_keys, files.n_bands);
    figure("sizes_keys", from_keys.bits_per_key, 0, "%llu keys, %u bands",
           (unsigned long long)n_keys, from_keys.n_bands);
    figure("sizes_lines", files.n_lines, MIXED, "of files; of keys: %u lines",
           from_keys.n_lines);
    for (size_t i = 0; i < SMALL; i++)
        keys[i] = 64;
    files = planned(keys, SMALL, 1);
    figure("sizes_small", files.bits_per_key, 0, "%d segments of 64 keys", SMALL);
    free(keys);
}
