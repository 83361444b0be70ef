/* Inline probes, one key at a time, as a compiler makes them for AVX-512 and for AVX2:
 * against loops by hand over the same bits, and against loads that do nothing else. */
#include "tests/bench/bench.h"
#include "tests/bench/segments.h"
#include "tests/support/inline/loops.h"

#include <lib/tamis_inline.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one filter ---- */

struct inlined {
    const struct inline_loops *loops;
    struct tamis_inline value;
    struct probing probing;
};

static double lap_inline(void *ctx)
{
    struct inlined *i = ctx;
    struct probing *p = &i->probing;
    uint64_t began = now_ns();
    p->n_absent = i->loops->count(&i->value, bench.domain.tag, p->hashes, p->n);
    double ns = (double)(now_ns() - began);
    sink += p->n_absent;
    return ns / (double)p->n;
}

/* Laps that count, as a caller's loop does that goes on with each answer. */
static struct probing counting_of(struct tamis_filter *filter, const struct bits *bits,
                                  const uint64_t *hashes, size_t n)
{
    struct probing p = probing_of(filter, bits, hashes, n);
    p.absent = NULL;
    return p;
}

static struct inlined inlined_of(const struct inline_loops *loops,
                                 struct tamis_filter *filter, struct probing probing)
{
    struct inlined i = {.loops = loops, .probing = probing};
    must(tamis_filter_inline(filter, TAMIS_INLINE_VERSION, &i.value), NULL, "inline");
    if (!tamis_inline_is_quick(&i.value, bench.domain.tag))
        give_up("a value of a filter that is good throughout is not quick");
    return i;
}

/* figure() by the loops' name, or why there is none. */
static void by_name(const char *id, const struct inline_loops *loops,
                    const struct lap *ours, const struct lap *other, double unit,
                    double mark, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", id, loops->name);
    if (mark > 0)
        figure_mark(name, mark);
    if (!loops->runs_here()) {
        figure_without(name, "this processor has no such instructions");
        return;
    }
    figure(name, ours->ns / unit, other->ns / unit, "%s", what);
    figure_pairs(name, ours->samples, other->samples, bench.sizes.reps);
}

static const struct inline_loops *const kinds[] = {&inline_avx512, &inline_avx2,
                                                   &inline_plain};
enum { KINDS = 3 };

static void all_the_same(const struct inlined *ours, size_t n_absent)
{
    for (size_t k = 0; k < KINDS; k++)
        if (ours[k].loops->runs_here() && ours[k].probing.n_absent != n_absent)
            wrong("inline, %s: ABSENT %zu times, elsewhere %zu", ours[k].loops->name,
                  ours[k].probing.n_absent, n_absent);
}

static void small(void)
{
    size_t n = bench.sizes.probes;
    const char *path = filter_file(bench.sizes.small, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, bench.sizes.small, UINT64_MAX);
    struct bits bits = bits_map(path);
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing p = counting_of(filter, &bits, hashes, n), call = p;
    struct probing by_hand[KINDS] = {p, p, p};
    struct inlined ours[KINDS];
    struct lap laps[2 * KINDS + 1] = {{.run = lap_single, .ctx = &call}};
    double (*const hand[KINDS])(void *) = {lap_avx512, lap_avx2, lap_scalar};
    for (size_t k = 0; k < KINDS; k++) {
        bool runs = kinds[k]->runs_here();
        ours[k] = inlined_of(kinds[k], filter, p);
        laps[1 + 2 * k].run = runs ? lap_inline : lap_single;
        laps[1 + 2 * k].ctx = runs ? (void *)&ours[k] : &call;
        laps[2 + 2 * k].run = runs ? hand[k] : lap_single;
        laps[2 + 2 * k].ctx = &by_hand[k];
    }
    race(laps, 2 * KINDS + 1, bench.sizes.reps);
    char what[100];
    snprintf(what, sizeof what, "%llu keys at 1%%, %u lanes of %u words",
             (unsigned long long)bench.sizes.small, bits.geometry.lanes,
             bits.geometry.words);
    for (size_t k = 0; k < KINDS; k++)
        by_name("inline_small", kinds[k], &laps[1 + 2 * k], &laps[2 + 2 * k], 1, 0,
                what);
    size_t best = 0;
    while (!kinds[best]->runs_here())
        best++;
    figure("inline_small_call", laps[1 + 2 * best].ns, laps[0].ns, "%s, %s", what,
           kinds[best]->name);
    all_the_same(ours, call.n_absent);
    for (size_t k = 0; k < KINDS; k++)
        tamis_inline_release(&ours[k].value);
    free(hashes);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}

static void large(void)
{
    size_t n = bench.sizes.probes, n_in = n < bench.sizes.large ? n : bench.sizes.large;
    const char *path = filter_file(bench.sizes.large, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, bench.sizes.large, n); /* and checks the pages */
    must(tamis_filter_verify(filter, &(struct tamis_verify){0}, NULL), NULL, "verify");
    struct bits bits = bits_map(path);
    uint64_t *absent = hashes_of(fresh_negatives(n), n), *present = hashes_of(0, n_in);
    struct probing p = counting_of(filter, &bits, absent, n), loads = p;
    struct probing q = counting_of(filter, &bits, present, n_in), its_loads = q;
    struct probing by_hand[2] = {p, p};
    struct inlined misses[2], hits[2];
    struct lap laps[8] = {{.run = lap_loads, .ctx = &loads},
                          {.run = lap_loads, .ctx = &its_loads},
                          {.run = have_avx512() ? lap_avx512 : lap_loads},
                          {.run = have_avx2() ? lap_avx2 : lap_loads}};
    for (size_t k = 0; k < 2; k++) {
        laps[2 + k].ctx = &by_hand[k];
        misses[k] = inlined_of(kinds[k], filter, p);
        hits[k] = inlined_of(kinds[k], filter, q);
        bool runs = kinds[k]->runs_here();
        laps[4 + 2 * k].run = laps[5 + 2 * k].run = runs ? lap_inline : lap_loads;
        laps[4 + 2 * k].ctx = runs ? (void *)&misses[k] : &loads;
        laps[5 + 2 * k].ctx = runs ? (void *)&hits[k] : &its_loads;
    }
    race(laps, 8, bench.sizes.reps);
    char what[100];
    snprintf(what, sizeof what, "%llu keys, %llu MiB, %u lanes",
             (unsigned long long)bench.sizes.large,
             (unsigned long long)(bits.n_bytes >> 20), bits.geometry.lanes);
    for (size_t k = 0; k < 2; k++) {
        by_name("inline_large", kinds[k], &laps[4 + 2 * k], &laps[0], 1, 0, what);
        by_name("inline_hand", kinds[k], &laps[4 + 2 * k], &laps[2 + k], 1, 0, what);
        by_name("inline_positives", kinds[k], &laps[5 + 2 * k], &laps[1], 1,
                bits.geometry.lanes + 0.3, what);
        if (kinds[k]->runs_here() && hits[k].probing.n_absent)
            wrong("inline: %zu present keys are ABSENT", hits[k].probing.n_absent);
        if (kinds[k]->runs_here())
            check_error(0.01, n - misses[k].probing.n_absent, n,
                        "inline, a large filter");
        tamis_inline_release(&misses[k].value);
        tamis_inline_release(&hits[k].value);
    }
    free(absent), free(present);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}

/* ---- many segments, each by itself ---- */

struct asking {
    const struct inline_loops *loops;
    const struct tamis_inline *values;
    struct each *each;
    uint64_t n_absent;
};

static double lap_asking(void *ctx)
{
    struct asking *a = ctx;
    const struct each *e = a->each;
    uint64_t n_absent = 0, began = now_ns();
    for (size_t i = 0; i < e->n; i++) {
        struct tamis_key key = {NULL, 0, e->hashes[i], bench.domain.tag};
        n_absent += a->loops->probe_each(a->values, e->n_filters, &key);
    }
    double ns = (double)(now_ns() - began);
    sink += a->n_absent = n_absent;
    return ns / (double)e->n;
}

/* Values of all segments, every page of which is checked. */
static struct tamis_inline *values_of(struct tamis_snapshot *snapshot, size_t n)
{
    struct tamis_inline *values = allocate(n * sizeof *values);
    for (size_t s = 0; s < n; s++) {
        struct tamis_target t = tamis_snapshot_target(snapshot, s);
        struct tamis_filter *filter;
        must(tamis_snapshot_filter(snapshot, s, &filter, NULL), NULL, "filter");
        uint64_t each = bench.sizes.segment_keys;
        uint64_t *own = hashes_of(s * each, each);
        struct probing p = probing_of(filter, NULL, own, each);
        lap_batch(&p);
        if (p.n_absent)
            wrong("segment %zu: %zu present keys are ABSENT", s, p.n_absent);
        free(own);
        must(tamis_snapshot_inline(snapshot, &t, TAMIS_INLINE_VERSION, &values[s]),
             NULL, "inline");
        if (!tamis_inline_is_quick(&values[s], bench.domain.tag))
            give_up("the value of a segment that is good throughout is not quick");
    }
    return values;
}

/* The same filters, for the comparators; of how many words. */
static uint32_t filters_of(const struct tamis_inline *values, size_t n,
                           struct each_filter *filters)
{
    uint32_t words = (uint32_t)__builtin_popcount(values[0].geometry.words[0]);
    for (size_t s = 0; s < n; s++) {
        filters[s] = (struct each_filter){values[s].bits, values[s].geometry.n_blocks};
        if (!values[s].one ||
            values[s].geometry.words[0] != values[0].geometry.words[0])
            give_up("segments of the same size have other lanes or words");
    }
    return words;
}

static void segments(void)
{
    enum { KEYS = 1000 };
    char path[512], what[100];
    snprintf(path, sizeof path, "%s", path_in("store"));
    size_t n = bench.sizes.segments;
    struct tamis_store *store = segments_store(path, n, bench.sizes.segment_keys);
    struct tamis_snapshot *snapshot;
    must(tamis_snapshot_current(store, &snapshot, NULL), NULL, "snapshot");
    struct tamis_inline *values = values_of(snapshot, n);
    struct each_filter *filters = allocate(n * sizeof *filters);
    uint64_t *hashes = hashes_of(fresh_negatives(KEYS), KEYS);
    struct each loads = {filters, n, filters_of(values, n, filters), hashes, KEYS, 0};
    struct each by_hand[2] = {loads, loads};
    struct asking asking[2];
    struct lap laps[5] = {{.run = lap_each_loads, .ctx = &loads},
                          {.run = have_avx512() ? lap_each_avx512 : lap_each_loads},
                          {.run = have_avx2() ? lap_each_avx2 : lap_each_loads}};
    for (size_t k = 0; k < 2; k++) {
        bool runs = kinds[k]->runs_here();
        asking[k] = (struct asking){kinds[k], values, &loads, 0};
        laps[1 + k].ctx = &by_hand[k];
        laps[3 + k].run = runs ? lap_asking : lap_each_loads;
        laps[3 + k].ctx = runs ? (void *)&asking[k] : &loads;
    }
    race(laps, 5, bench.sizes.reps);
    snprintf(what, sizeof what, "%zu segments of %llu keys", n,
             (unsigned long long)bench.sizes.segment_keys);
    for (size_t k = 0; k < 2; k++) {
        by_name("inline_segments", kinds[k], &laps[3 + k], &laps[0], 1e3, 0, what);
        by_name("inline_segments_hand", kinds[k], &laps[3 + k], &laps[1 + k], 1e3, 0,
                what);
        if (!kinds[k]->runs_here())
            continue;
        check_error(0.01, KEYS * n - asking[k].n_absent, KEYS * n, "inline, segments");
        if (asking[k].n_absent != by_hand[k].n_absent)
            wrong("inline, segments: ABSENT %llu times, by hand %llu",
                  (unsigned long long)asking[k].n_absent,
                  (unsigned long long)by_hand[k].n_absent);
    }
    for (size_t s = 0; s < n; s++)
        tamis_inline_release(&values[s]);
    free(values), free(hashes), free(filters);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    tree_remove(path);
}

void figures_inline(void)
{
    small();
    large();
    segments();
}
