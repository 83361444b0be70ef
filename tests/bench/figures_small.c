/* A filter that fits the cache: batches against loops written by hand over the same
 * bits, one call a key against batches, and the peers on the same keys. */
#include "tests/bench/bench.h"

#include <stdlib.h>

struct by_key {
    struct tamis_filter *filter;
    const struct peer *peer;
    size_t (*misses)(const struct peer *, const uint64_t *, size_t);
    const uint64_t *keys;
    struct tamis_key *their; /* the same as structs */
    size_t n, n_absent;
    uint64_t *absent;
};

static double lap_peer(void *ctx)
{
    struct by_key *k = ctx;
    uint64_t began = now_ns();
    k->n_absent = k->misses(k->peer, k->keys, k->n);
    double ns = (double)(now_ns() - began);
    sink += k->n_absent;
    return ns / (double)k->n;
}

/* As libbloom gets them: nothing but bytes; hashing is part of it. */
static double lap_keys(void *ctx)
{
    struct by_key *k = ctx;
    enum { AT_ONCE = 1024 };
    k->n_absent = 0;
    uint64_t began = now_ns();
    for (size_t at = 0; at < k->n; at += AT_ONCE) {
        size_t n = k->n - at < AT_ONCE ? k->n - at : AT_ONCE;
        for (size_t i = 0; i < n; i++)
            k->their[i] = (struct tamis_key){&k->keys[at + i], sizeof *k->keys, 0, 0};
        tamis_keys_hash(&bench.domain, k->their, n);
        k->n_absent +=
            tamis_filter_probe_keys(k->filter, k->their, n, k->absent + at / 64, NULL);
    }
    double ns = (double)(now_ns() - began);
    sink += k->n_absent;
    return ns / (double)k->n;
}

static uint64_t *keys_of(uint64_t first, size_t n)
{
    uint64_t *keys = allocate(n * sizeof *keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = key_of(first + i);
    return keys;
}

static void report(const struct lap *laps)
{
    enum { BATCH, SINGLE, SCALAR, AVX512, KEYS, LIBBLOOM, LEVELDB };
    double batch = laps[BATCH].ns;
    unsigned long long n = bench.sizes.small;
    if (have_avx512())
        figure("small_batch_avx512", batch, laps[AVX512].ns, "%llu keys at 1%%", n);
    else
        figure_without("small_batch_avx512", "this processor has no AVX-512");
    figure("small_batch_scalar", batch, laps[SCALAR].ns, "%llu keys at 1%%", n);
    figure("small_single", laps[SINGLE].ns, batch, "%llu keys at 1%%", n);
    figure("small_libbloom", batch, laps[LIBBLOOM].ns, "%llu keys at 1%%", n);
    figure("small_leveldb", batch, laps[LEVELDB].ns, "%llu keys, 10 bits each", n);
    figure("small_keys_libbloom", laps[KEYS].ns, laps[LIBBLOOM].ns,
           "%llu keys of 8 bytes at 1%%", n);
    figure("small_keys_leveldb", laps[KEYS].ns, laps[LEVELDB].ns,
           "%llu keys of 8 bytes, 10 bits each", n);
}

void figures_small(void)
{
    size_t n = bench.sizes.small, n_probes = bench.sizes.probes;
    const char *path = filter_file(n, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, n, UINT64_MAX);
    struct bits bits = bits_map(path);
    uint64_t first = fresh_negatives(n_probes);
    uint64_t *hashes = hashes_of(first, n_probes), *asked = keys_of(first, n_probes);
    uint64_t *keys = keys_of(0, n);
    struct peer *bloom = libbloom_build(keys, n, 0.01);
    struct peer *level = leveldb_build(keys, n, 10);
    if (!bloom || !level)
        give_up("a peer could not be built");
    struct probing p = probing_of(filter, &bits, hashes, n_probes);
    struct tamis_key their[1024];
    struct by_key by_key = {.filter = filter,
                            .keys = asked,
                            .their = their,
                            .n = n_probes,
                            .absent = p.absent};
    struct by_key by_bloom = by_key, by_level = by_key;
    by_bloom.peer = bloom, by_bloom.misses = libbloom_misses;
    by_level.peer = level, by_level.misses = leveldb_misses;
    struct probing fast = p, slow = p, single = p;
    struct lap laps[] = {
        {.run = lap_batch, .ctx = &p},
        {.run = lap_single, .ctx = &single},
        {.run = lap_scalar, .ctx = &slow},
        {.run = have_avx512() ? lap_avx512 : lap_scalar, .ctx = &fast},
        {.run = lap_keys, .ctx = &by_key},
        {.run = lap_peer, .ctx = &by_bloom},
        {.run = lap_peer, .ctx = &by_level},
    };
    race(laps, 7, bench.sizes.reps);
    report(laps);
    check_error(0.01, n_probes - p.n_absent, n_probes, "the small filter");
    if (p.n_absent != fast.n_absent || p.n_absent != slow.n_absent ||
        p.n_absent != by_key.n_absent || p.n_absent != single.n_absent)
        wrong("answers differ: batch %zu, one at a time %zu, by key %zu, loops %zu %zu",
              p.n_absent, single.n_absent, by_key.n_absent, fast.n_absent,
              slow.n_absent);
    peer_free(bloom), peer_free(level);
    free(keys), free(asked), free(hashes);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}
