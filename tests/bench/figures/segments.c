/* One key against all segments of a snapshot, and many keys; against as many random
 * lines, one of each segment, with the same window. A segment that is replaced must
 * cost the others nothing. */
#include "tests/bench/bench.h"
#include "tests/bench/segments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asking {
    struct tamis_snapshot *snapshot;
    struct bits *bits; /* of each segment */
    uint64_t *hashes;
    struct tamis_key *keys;
    size_t n_keys, n_segments;
    uint64_t *absent; /* n_keys rows */
    uint32_t *candidates;
    uint64_t n_maybe; /* pairs of the last lap */
};

/* ---- laps: nanoseconds a key ---- */

static uint64_t count(const uint64_t *words, size_t n)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits += (uint64_t)__builtin_popcountll(words[i]);
    return bits;
}

static double lap_all(void *ctx)
{
    struct asking *a = ctx;
    size_t words = (a->n_segments + 63) / 64;
    uint64_t n_absent = 0, began = now_ns();
    for (size_t i = 0; i < a->n_keys; i++)
        sink += tamis_snapshot_probe_all(a->snapshot, &a->keys[i],
                                         a->absent + i * words, NULL);
    double ns = (double)(now_ns() - began);
    n_absent = count(a->absent, a->n_keys * words);
    a->n_maybe = a->n_keys * a->n_segments - n_absent;
    return ns / (double)a->n_keys;
}

static double lap_candidates(void *ctx)
{
    struct asking *a = ctx;
    uint64_t n_maybe = 0, began = now_ns();
    for (size_t i = 0; i < a->n_keys; i++) {
        size_t n;
        tamis_snapshot_candidates(a->snapshot, &a->keys[i], a->candidates,
                                  a->n_segments, &n);
        n_maybe += n;
    }
    double ns = (double)(now_ns() - began);
    a->n_maybe = n_maybe;
    return ns / (double)a->n_keys;
}

static double lap_many(void *ctx)
{
    struct asking *a = ctx;
    size_t words = (a->n_segments + 63) / 64;
    uint64_t began = now_ns();
    sink +=
        tamis_snapshot_probe_keys(a->snapshot, NULL, 0, a->keys, a->n_keys, a->absent);
    double ns = (double)(now_ns() - began);
    a->n_maybe = a->n_keys * a->n_segments - count(a->absent, a->n_keys * words);
    return ns / (double)a->n_keys;
}

/* A random line of segment s; or the key's own: filters of one geometry have that at
 * the same place of a page, and all fight for one set of the first cache. */
static inline const uint64_t *line(const struct bits *bits, size_t s, uint64_t h,
                                   bool own)
{
    uint64_t random = own ? h : h * (s * LANE_MULTIPLIER | 1);
    uint64_t at = geometry_block(random, bits[s].n_bytes / BLOCK_BYTES);
    return (const uint64_t *)(const void *)(bits[s].base + BLOCK_BYTES * at);
}

static inline double segment_lines(struct asking *a, bool own)
{
    uint64_t sum = 0, began = now_ns();
    for (size_t i = 0; i < a->n_keys; i++) {
        uint64_t h = a->hashes[i];
        size_t n = a->n_segments, ahead = n > WINDOW ? n - WINDOW : 0;
        for (size_t s = 0; s < n && s < WINDOW; s++)
            __builtin_prefetch(line(a->bits, s, h, own));
        for (size_t s = 0; s < ahead; s++) {
            __builtin_prefetch(line(a->bits, s + WINDOW, h, own));
            sum += *line(a->bits, s, h, own);
        }
        for (size_t s = ahead; s < n; s++)
            sum += *line(a->bits, s, h, own);
    }
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)a->n_keys;
}

static double lap_random_lines(void *ctx)
{
    return segment_lines(ctx, false);
}

static double lap_own_lines(void *ctx)
{
    return segment_lines(ctx, true);
}

/* ---- one store ---- */

static struct bits *bits_of_all(struct tamis_snapshot *snapshot, const char *store)
{
    size_t n = tamis_snapshot_n_segments(snapshot);
    struct bits *bits = allocate(n * sizeof *bits);
    for (size_t i = 0; i < n; i++) {
        struct tamis_segment_info info;
        char path[700];
        must(tamis_snapshot_segment(snapshot, i, &info), NULL, "segment");
        snprintf(path, sizeof path, "%s/%s", store, info.file);
        bits[i] = bits_map(path);
    }
    return bits;
}

static struct asking asking_of(struct tamis_snapshot *snapshot, const char *store)
{
    struct asking a = {.snapshot = snapshot};
    a.n_segments = tamis_snapshot_n_segments(snapshot);
    a.n_keys = bench.sizes.probes / a.n_segments / 4 + 64;
    if (a.n_keys > 4096)
        a.n_keys = 4096;
    a.bits = bits_of_all(snapshot, store);
    uint64_t *hashes = hashes_of(fresh_negatives(a.n_keys), a.n_keys);
    a.hashes = hashes;
    a.keys = allocate(a.n_keys * sizeof *a.keys);
    for (size_t i = 0; i < a.n_keys; i++)
        a.keys[i] = tamis_key_of_hash(bench.domain.tag, hashes[i]);
    a.absent = allocate(a.n_keys * ((a.n_segments + 63) / 64) * sizeof *a.absent);
    a.candidates = allocate(a.n_segments * sizeof *a.candidates);
    return a;
}

static void asking_free(struct asking *a)
{
    for (size_t i = 0; i < a->n_segments; i++)
        bits_unmap(&a->bits[i]);
    free(a->bits), free(a->hashes);
    free(a->keys), free(a->absent), free(a->candidates);
}

/* Does every way to ask say that a key may be in segment i? */
static void check_key(struct tamis_snapshot *snapshot, size_t i, uint64_t number,
                      uint64_t *absent, uint32_t *candidates)
{
    uint64_t hash, bit = UINT64_C(1) << (i % 64);
    size_t n = tamis_snapshot_n_segments(snapshot), n_found, at = 0;
    hashes_fill(number, 1, &hash);
    struct tamis_key key = tamis_key_of_hash(bench.domain.tag, hash);
    tamis_snapshot_probe_all(snapshot, &key, absent, NULL);
    if (absent[i / 64] & bit)
        wrong("a key of segment %zu is ABSENT there", i);
    tamis_snapshot_probe_keys(snapshot, NULL, 0, &key, 1, absent);
    if (absent[i / 64] & bit)
        wrong("a key of segment %zu is ABSENT there, asked with others", i);
    tamis_snapshot_candidates(snapshot, &key, candidates, n, &n_found);
    while (at < n_found && candidates[at] != i)
        at++;
    if (at == n_found)
        wrong("segment %zu is no candidate for a key of its own: ABSENT", i);
}

static void check_segments(struct tamis_snapshot *snapshot, uint64_t keys_each)
{
    size_t n = tamis_snapshot_n_segments(snapshot);
    uint64_t *absent = allocate((n + 63) / 64 * sizeof *absent);
    uint32_t *candidates = allocate(n * sizeof *candidates);
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < keys_each; k += keys_each / 4 + 1)
            check_key(snapshot, i, i * keys_each + k, absent, candidates);
    free(absent), free(candidates);
}

/* ---- after an edit ---- */

/* So many keys, others than the last time: their lines are not in a cache. */
static double some_keys(const struct asking *a)
{
    enum { KEYS = 64 };
    static size_t at;
    struct asking some = *a;
    at = (at + KEYS) % (a->n_keys - KEYS + 1);
    some.keys += at;
    some.n_keys = KEYS;
    return lap_all(&some);
}

/* Asked after an edit with the snapshot from before it, and with the new one after as
 * many edits: what a commit does to the caches, both meet. */
static void changed(struct tamis_store *store, struct asking *a)
{
    double before[MAX_REPS], after[MAX_REPS];
    unsigned reps = bench.sizes.reps;
    struct tamis_diag diag = {0};
    for (unsigned r = 0; r < reps; r++) {
        size_t i = r % a->n_segments;
        segments_replace(store, i, bench.sizes.segment_keys);
        before[r] = some_keys(a);
        segments_replace(store, i, bench.sizes.segment_keys);
        struct tamis_snapshot *next;
        struct tamis_filter *filter;
        must(tamis_snapshot_current(store, &next, &diag), &diag, "snapshot");
        /* The changed one is opened and checked: that is its own affair. */
        must(tamis_snapshot_filter(next, i, &filter, &diag), &diag, "filter");
        struct probing own = probing_of(filter, NULL, a->hashes, a->n_keys);
        lap_batch(&own);
        tamis_snapshot_release(a->snapshot);
        a->snapshot = next;
        after[r] = some_keys(a);
    }
    figure("segments_changed", median(after, reps) / 1e3, median(before, reps) / 1e3,
           "%zu segments, the first 64 keys after the edit; medians of %u edits",
           a->n_segments, reps);
    figure_pairs("segments_changed", after, before, reps);
}

static void report(const struct lap *laps, const struct asking *a)
{
    static const char *const ids[] = {"segments_one_key", "segments_candidates",
                                      "segments_many_keys"};
    for (int i = 0; i < 3; i++)
        figure(ids[i], laps[i].ns / 1e3, laps[3].ns / 1e3,
               "%zu segments of %llu keys, %zu keys a lap", a->n_segments,
               (unsigned long long)bench.sizes.segment_keys, a->n_keys);
    figure("segments_own_lines", laps[0].ns / 1e3, laps[4].ns / 1e3,
           "%zu segments, one line of each", a->n_segments);
}

static void one_store(uint64_t n, struct curve *curve)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("store"));
    struct tamis_store *store = segments_store(path, n, bench.sizes.segment_keys);
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag = {0};
    must(tamis_snapshot_current(store, &snapshot, &diag), &diag, "snapshot");
    check_segments(snapshot, bench.sizes.segment_keys);
    struct asking a = asking_of(snapshot, path);
    struct lap laps[] = {
        {.run = lap_all, .ctx = &a},       {.run = lap_candidates, .ctx = &a},
        {.run = lap_many, .ctx = &a},      {.run = lap_random_lines, .ctx = &a},
        {.run = lap_own_lines, .ctx = &a},
    };
    race(laps, sizeof laps / sizeof laps[0], bench.sizes.reps);
    double per = (double)a.n_segments;
    curve_row(curve, 5,
              (double[]){per, laps[0].ns / per, laps[1].ns / per, laps[2].ns / per,
                         laps[3].ns / per});
    uint64_t maybe[3];
    for (int i = 0; i < 3; i++) {
        laps[i].run(&a);
        maybe[i] = a.n_maybe;
    }
    if (maybe[0] != maybe[1] || maybe[0] != maybe[2])
        wrong("segments: %llu pairs may be by bitmap, %llu by candidates, %llu by rows",
              (unsigned long long)maybe[0], (unsigned long long)maybe[1],
              (unsigned long long)maybe[2]);
    check_error(0.01, maybe[0], a.n_keys * a.n_segments, "segments");
    if (n == bench.sizes.segments) {
        report(laps, &a);
        changed(store, &a);
    }
    asking_free(&a);
    tamis_snapshot_release(a.snapshot);
    tamis_store_close(store);
    tree_remove(path);
}

void figures_segments(void)
{
    struct curve *curve =
        curve_open("segments", "segments all_ns candidates_ns many_keys_ns lines_ns");
    for (uint64_t n = 1; n < bench.sizes.segments; n *= 10)
        one_store(n, curve);
    one_store(bench.sizes.segments, curve);
    curve_close(curve);
}
