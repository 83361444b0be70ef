/* Some keys of an engine's MultiGet on the few segments that may hold them: 1 to 32
 * keys on 1 to 16 segments a call, against a loop by hand over the same bits. */
#include "tests/bench/bench.h"
#include "tests/bench/compare/cells.h"
#include "tests/bench/segments.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- laps: nanoseconds a pair ---- */

static double end_of(struct cells *c, uint64_t began)
{
    return (double)(now_ns() - began) /
           (double)(c->n_calls * c->n_keys * c->n_segments);
}

static double lap_keys(void *ctx)
{
    struct cells *c = ctx;
    uint64_t began = now_ns();
    for (size_t call = 0; call < c->n_calls; call++) {
        sink += tamis_snapshot_probe_keys(c->snapshot, c->targets[call % N_LISTS],
                                          c->n_segments, c->keys + call * c->n_keys,
                                          c->n_keys, c->absent);
        if (c->counting)
            cells_count(c);
    }
    return end_of(c, began);
}

static double lap_list(void *ctx)
{
    struct cells *c = ctx;
    uint64_t began = now_ns();
    for (size_t call = 0; call < c->n_calls; call++) {
        sink +=
            tamis_snapshot_probe_list(c->snapshot, c->targets[call % N_LISTS],
                                      c->n_segments, c->keys + call, c->absent, NULL);
        if (c->counting)
            cells_count(c);
    }
    return end_of(c, began);
}

static double lap_all(void *ctx)
{
    struct cells *c = ctx;
    uint64_t began = now_ns();
    for (size_t call = 0; call < c->n_calls; call++) {
        sink += tamis_snapshot_probe_all(c->snapshot, c->keys + call, c->absent, NULL);
        if (c->counting)
            cells_count(c);
    }
    return end_of(c, began);
}

/* ---- a store, and what is asked of it ---- */

struct shape {
    const char *way, *name;
    double (*run)(void *ctx);
    size_t n_segments, n_keys;
};

struct subject {
    const char *name;
    uint64_t n_segments, keys_each;
    struct tamis_snapshot *snapshot;
    struct bits *bits;
    uint32_t lists[N_LISTS][MOST_SEGMENTS];
    struct tamis_target targets[N_LISTS][MOST_SEGMENTS];
    struct tamis_key *keys;
    size_t n_keys;
};

/* Every page is checked, and every segment known to be so. */
static void ready(struct tamis_snapshot *snapshot)
{
    struct tamis_key key = tamis_key_of_hash(bench.domain.tag, 0);
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++) {
        struct tamis_filter *filter;
        must(tamis_snapshot_filter(snapshot, i, &filter, NULL), NULL, "filter");
        must(tamis_filter_verify(filter, &(struct tamis_verify){0}, NULL), NULL,
             "verify");
    }
    sink += tamis_snapshot_probe_all(snapshot, &key, NULL, NULL);
}

static void choose_lists(struct subject *s)
{
    for (size_t i = 0; i < N_LISTS; i++)
        for (size_t at = 0; at < MOST_SEGMENTS; at++) {
            size_t n = i * MOST_SEGMENTS + at;
            s->lists[i][at] = (uint32_t)(n * 7919 % s->n_segments);
            s->targets[i][at] = tamis_snapshot_target(s->snapshot, s->lists[i][at]);
        }
}

static void subject_begin(struct subject *s, const char *store)
{
    s->bits = allocate(s->n_segments * sizeof *s->bits);
    for (size_t i = 0; i < s->n_segments; i++) {
        struct tamis_segment_info info;
        char path[700];
        must(tamis_snapshot_segment(s->snapshot, i, &info), NULL, "segment");
        snprintf(path, sizeof path, "%s/%s", store, info.file);
        s->bits[i] = bits_map(path);
        if (s->bits[i].geometry.lanes != 1 && s->keys_each >= 50000)
            give_up("the comparator is for one lane");
    }
    ready(s->snapshot);
    choose_lists(s);
    s->n_keys = bench.sizes.probes / 2;
    uint64_t *hashes = hashes_of(fresh_negatives(s->n_keys), s->n_keys);
    s->keys = allocate(s->n_keys * sizeof *s->keys);
    for (size_t i = 0; i < s->n_keys; i++)
        s->keys[i] = tamis_key_of_hash(bench.domain.tag, hashes[i]);
    free(hashes);
}

static void subject_end(struct subject *s)
{
    for (size_t i = 0; i < s->n_segments; i++)
        bits_unmap(&s->bits[i]);
    free(s->bits), free(s->keys);
}

static struct cells cells_of(struct subject *s, const struct shape *shape)
{
    static uint64_t absent[MOST_KEYS];
    size_t n = bench.sizes.probes / (shape->n_segments * shape->n_keys);
    if (n > s->n_keys / shape->n_keys)
        n = s->n_keys / shape->n_keys;
    return (struct cells){
        s->snapshot,   s->bits, s->lists, s->targets, n, shape->n_segments,
        shape->n_keys, s->keys, absent,   false,      0};
}

static void no_key_is_lost(struct subject *s)
{
    for (size_t i = 0; i < N_LISTS; i++) {
        struct tamis_key keys[MOST_SEGMENTS];
        uint64_t absent[MOST_SEGMENTS], word;
        for (size_t at = 0; at < MOST_SEGMENTS; at++) {
            uint64_t hash;
            hashes_fill(s->lists[i][at] * s->keys_each + i, 1, &hash);
            keys[at] = tamis_key_of_hash(bench.domain.tag, hash);
        }
        sink += tamis_snapshot_probe_keys(s->snapshot, s->targets[i], MOST_SEGMENTS,
                                          keys, MOST_SEGMENTS, absent);
        for (size_t at = 0; at < MOST_SEGMENTS; at++) {
            sink += tamis_snapshot_probe_list(s->snapshot, s->targets[i], MOST_SEGMENTS,
                                              &keys[at], &word, NULL);
            if ((absent[at] | word) >> at & 1)
                wrong("few segments: a key of segment %u is ABSENT there",
                      s->lists[i][at]);
        }
    }
}

/* ---- races ---- */

enum { MOST_SHAPES = 12 };

/* Pairs that are ABSENT, in a lap that is not timed. */
static size_t counted(const struct lap *lap)
{
    struct cells *c = lap->ctx;
    c->counting = true;
    lap->run(c);
    return c->n_absent;
}

static void race_shapes(struct subject *s, const struct shape *shapes, size_t n)
{
    struct cells cells[MOST_SHAPES][2];
    struct lap laps[2 * MOST_SHAPES];
    for (size_t i = 0; i < n; i++) {
        cells[i][0] = cells[i][1] = cells_of(s, &shapes[i]);
        laps[2 * i] = (struct lap){.run = shapes[i].run, .ctx = &cells[i][0]};
        laps[2 * i + 1] = (struct lap){.run = lap_cells, .ctx = &cells[i][1]};
    }
    race(laps, 2 * n, bench.sizes.reps);
    for (size_t i = 0; i < n; i++) {
        char id[40];
        size_t n_ours = counted(&laps[2 * i]), n_other = counted(&laps[2 * i + 1]);
        size_t asked = cells[i][0].n_calls * shapes[i].n_segments * shapes[i].n_keys;
        snprintf(id, sizeof id, "few_%s_%s%s", shapes[i].way, s->name, shapes[i].name);
        figure(id, laps[2 * i].ns, laps[2 * i + 1].ns,
               "a pair; %llu segments of %llu keys at 1%%",
               (unsigned long long)s->n_segments, (unsigned long long)s->keys_each);
        figure_pairs(id, laps[2 * i].samples, laps[2 * i + 1].samples,
                     bench.sizes.reps);
        if (s->bits->geometry.lanes == 1 && n_ours != n_other)
            wrong("%s: %zu pairs are ABSENT, by hand %zu", id, n_ours, n_other);
        check_error(0.01, asked - n_ours, asked, id);
    }
}

static void of_a_list(const char *name, uint64_t n_segments, uint64_t keys_each)
{
    static const struct shape shapes[] = {
        {"keys", "_1x1", lap_keys, 1, 1},     {"keys", "_1x4", lap_keys, 1, 4},
        {"keys", "_1x32", lap_keys, 1, 32},   {"keys", "_4x4", lap_keys, 4, 4},
        {"keys", "_8x8", lap_keys, 8, 8},     {"keys", "_16x1", lap_keys, 16, 1},
        {"keys", "_16x32", lap_keys, 16, 32}, {"list", "_1", lap_list, 1, 1},
        {"list", "_4", lap_list, 4, 1},       {"list", "_8", lap_list, 8, 1},
        {"list", "_16", lap_list, 16, 1},
    };
    static struct subject s;
    s = (struct subject){
        .name = name, .n_segments = n_segments, .keys_each = keys_each};
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("store"));
    struct tamis_store *store = segments_store(path, n_segments, keys_each);
    must(tamis_snapshot_current(store, &s.snapshot, NULL), NULL, "snapshot");
    subject_begin(&s, path);
    no_key_is_lost(&s);
    race_shapes(&s, shapes, sizeof shapes / sizeof shapes[0]);
    subject_end(&s);
    tamis_snapshot_release(s.snapshot);
    tamis_store_close(store);
    tree_remove(path);
}

/* Stores of no more segments than are asked. */
static void of_all(size_t n_segments, uint64_t keys_each)
{
    const struct shape shape = {"all", "", lap_all, n_segments, 1};
    char name[8], path[512];
    static struct subject s;
    snprintf(name, sizeof name, "%zu", n_segments);
    s = (struct subject){
        .name = name, .n_segments = n_segments, .keys_each = keys_each};
    snprintf(path, sizeof path, "%s", path_in("store"));
    struct tamis_store *store = segments_store(path, n_segments, keys_each);
    must(tamis_snapshot_current(store, &s.snapshot, NULL), NULL, "snapshot");
    subject_begin(&s, path);
    for (size_t i = 0; i < N_LISTS; i++)
        for (size_t at = 0; at < n_segments; at++)
            s.lists[i][at] = (uint32_t)at;
    race_shapes(&s, &shape, 1);
    subject_end(&s);
    tamis_snapshot_release(s.snapshot);
    tamis_store_close(store);
    tree_remove(path);
}

void figures_few_segments(void)
{
    static const size_t all[] = {1, 4, 8, 16};
    const uint64_t each = bench.sizes.small / MOST_SEGMENTS;
    of_a_list("small", MOST_SEGMENTS, each);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        of_all(all[i], each);
    of_a_list("large", bench.sizes.large / each, each);
}
