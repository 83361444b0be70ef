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

/* Everything that was asked the same must have answered the same. */
static void check(const struct probing *same, size_t n, struct by_key *by_key,
                  const uint64_t *present, size_t n_present)
{
    for (size_t i = 0; i < n; i++)
        if (same[i].n_absent != by_key->n_absent)
            wrong("way %zu to ask says ABSENT %zu times, by key it is %zu times", i,
                  same[i].n_absent, by_key->n_absent);
    check_error(0.01, by_key->n - by_key->n_absent, by_key->n, "the small filter");
    by_key->keys = present;
    by_key->n = n_present < by_key->n ? n_present : by_key->n;
    lap_keys(by_key);
    if (by_key->n_absent)
        wrong("%zu present keys are ABSENT by key", by_key->n_absent);
}

static void compare(struct tamis_filter *filter, const struct bits *bits,
                    const uint64_t *keys, size_t n)
{
    size_t n_probes = bench.sizes.probes;
    uint64_t first = fresh_negatives(n_probes);
    uint64_t *hashes = hashes_of(first, n_probes), *asked = keys_of(first, n_probes);
    struct probing p = probing_of(filter, bits, hashes, n_probes);
    struct probing same[] = {p, p, p, p};
    struct tamis_key their[1024];
    struct by_key by_key = {.filter = filter,
                            .keys = asked,
                            .their = their,
                            .n = n_probes,
                            .absent = p.absent};
    struct by_key bloom = by_key, level = by_key;
    struct peer *built[] = {libbloom_build(keys, n, 0.01), leveldb_build(keys, n, 10)};
    if (!built[0] || !built[1])
        give_up("a peer could not be built");
    bloom.peer = built[0], bloom.misses = libbloom_misses;
    level.peer = built[1], level.misses = leveldb_misses;
    struct lap laps[] = {
        {.run = lap_batch, .ctx = &same[0]},
        {.run = lap_single, .ctx = &same[1]},
        {.run = lap_scalar, .ctx = &same[2]},
        {.run = have_avx512() ? lap_avx512 : lap_scalar, .ctx = &same[3]},
        {.run = lap_keys, .ctx = &by_key},
        {.run = lap_peer, .ctx = &bloom},
        {.run = lap_peer, .ctx = &level},
    };
    race(laps, sizeof laps / sizeof laps[0], bench.sizes.reps);
    report(laps);
    check(same, 4, &by_key, keys, n);
    peer_free(built[0]), peer_free(built[1]);
    free(asked), free(hashes);
}

void figures_small(void)
{
    size_t n = bench.sizes.small;
    const char *path = filter_file(n, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, n, UINT64_MAX);
    struct bits bits = bits_map(path);
    uint64_t *keys = keys_of(0, n);
    compare(filter, &bits, keys, n);
    free(keys);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}
