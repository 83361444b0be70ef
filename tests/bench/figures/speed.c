/* Speed of negatives against the size of the filter, from the first cache to memory:
 * ours, loops written by hand, the machine's random lines, the peers. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdlib.h>

struct theirs {
    const struct peer *peer;
    size_t (*misses)(const struct peer *, const uint64_t *, size_t);
    const uint64_t *keys;
    size_t n;
};

static double lap_theirs(void *ctx)
{
    struct theirs *t = ctx;
    uint64_t began = now_ns();
    sink += t->misses(t->peer, t->keys, t->n);
    return (double)(now_ns() - began) / (double)t->n;
}

static void one_size(size_t n_keys, const uint64_t *asked, const uint64_t *hashes,
                     size_t n, struct curve *curve)
{
    const char *path = filter_file(n_keys, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    struct bits bits = bits_map(path);
    uint64_t *keys = keys_of(0, n_keys);
    struct peer *bloom = libbloom_build(keys, n_keys, 0.01);
    struct peer *level = leveldb_build(keys, n_keys, 10);
    if (!bloom || !level)
        give_up("a peer could not be built");
    free(keys);
    check_present(filter, n_keys, n); /* and checks the pages */
    struct probing p = probing_of(filter, &bits, hashes, n);
    struct theirs by_bloom = {bloom, libbloom_misses, asked, n / 4};
    struct theirs by_level = {level, leveldb_misses, asked, n / 4};
    struct lap laps[] = {
        {.run = lap_batch, .ctx = &p},         {.run = lap_single, .ctx = &p},
        {.run = lap_lines, .ctx = &p},         {.run = lap_loads, .ctx = &p},
        {.run = lap_scalar, .ctx = &p},        {.run = lap_theirs, .ctx = &by_bloom},
        {.run = lap_theirs, .ctx = &by_level}, {.run = lap_avx512, .ctx = &p},
    };
    size_t n_laps = have_avx512() ? 8 : 7;
    race(laps, n_laps, bench.sizes.long_reps);
    double row[10] = {(double)n_keys, (double)bits.n_bytes};
    for (size_t i = 0; i < 8; i++)
        row[2 + i] = i < n_laps ? laps[i].ns : NAN;
    curve_row(curve, 10, row);
    peer_free(bloom), peer_free(level);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}

void figures_speed(void)
{
    struct curve *curve = curve_open("speed", "keys bytes batch single lines loads "
                                              "scalar libbloom leveldb avx512");
    size_t n = bench.sizes.probes;
    uint64_t first = fresh_negatives(n);
    uint64_t *asked = keys_of(first, n), *hashes = hashes_of(first, n);
    for (size_t n_keys = 1000; n_keys < bench.sizes.large; n_keys *= 10)
        one_size(n_keys, asked, hashes, n, curve);
    one_size(bench.sizes.large, asked, hashes, n, curve);
    free(asked), free(hashes);
    curve_close(curve);
}
