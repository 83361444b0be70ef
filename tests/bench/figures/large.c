/* Filters far beyond the cache: a negative costs a random line, a positive one for
 * each lane. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

struct large {
    double error;
    const char *negatives, *positives, *lines_id, *loads_id;
};

static void one_error(const struct large *l)
{
    size_t n = bench.sizes.probes;
    const char *path = filter_file(bench.sizes.large, l->error);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    /* Present keys touch every page of every lane: from here on all is checked. */
    check_present(filter, bench.sizes.large, n);
    struct bits bits = bits_map(path);
    uint64_t *absent = hashes_of(fresh_negatives(n), n);
    uint64_t *present = hashes_of(0, n < bench.sizes.large ? n : bench.sizes.large);
    struct probing misses = probing_of(filter, &bits, absent, n), single = misses;
    struct probing hits = misses;
    hits.hashes = present;
    hits.n = n < bench.sizes.large ? n : bench.sizes.large;
    struct lap laps[] = {
        {.run = lap_batch, .ctx = &misses},  {.run = lap_batch, .ctx = &hits},
        {.run = lap_single, .ctx = &single}, {.run = lap_lines, .ctx = &misses},
        {.run = lap_loads, .ctx = &misses},  {.run = lap_spaced_loads, .ctx = &misses},
    };
    race(laps, sizeof laps / sizeof laps[0], bench.sizes.reps);
    unsigned long long keys = bench.sizes.large, mib = bits.n_bytes >> 20;
    unsigned lanes = bits.geometry.lanes;
    figure(l->negatives, laps[0].ns, laps[3].ns, "%llu keys, %llu MiB, %u lanes", keys,
           mib, lanes);
    figure(l->positives, laps[1].ns, laps[3].ns, "%llu keys, %llu MiB, %u lanes", keys,
           mib, lanes);
    figure_mark(l->positives, lanes + 0.3);
    if (l->error == 0.01) {
        figure("large_single", laps[2].ns, laps[4].ns, "%llu keys, %llu MiB", keys,
               mib);
        figure("large_single_spaced", laps[2].ns, laps[5].ns,
               "56 instructions that do nothing after each load");
    }
    double middle = laps[3].ns, *samples = laps[3].samples;
    unsigned reps = bench.sizes.reps;
    if (l->error == 0.01)
        limit(
            "noise",
            100 * (percentile(samples, reps, 0.75) - percentile(samples, reps, 0.25)) /
                middle,
            "% of their median lie between the quartiles of the random lines' rounds");
    if (l->error == 0.01)
        limit("large_pages", memory_bytes("FilePmdMapped:") / (1 << 20),
              "MiB of two mappings of the 1% filter, by pages of 2 MiB");
    limit(l->lines_id, laps[3].ns, "ns a line, rolling window of 64");
    limit(l->loads_id, laps[4].ns, "ns a load, independent");
    check_error(l->error, n - misses.n_absent, n, "a large filter");
    if (hits.n_absent)
        wrong("%zu present keys are ABSENT", hits.n_absent);
    free(absent), free(present);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}

void figures_large(void)
{
    static const struct large all[] = {
        {0.01, "large_batch_1pct", "large_positives_1pct", "lines_1pct", "loads_1pct"},
        {0.001, "large_batch_01pct", "large_positives_01pct", "lines_01pct",
         "loads_01pct"},
        {0.0001, "large_batch_001pct", "large_positives_001pct", "lines_001pct",
         "loads_001pct"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        one_error(&all[i]);
}
