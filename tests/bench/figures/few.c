/* Short batches, as an engine's MultiGet has them: 4 to 32 keys a call, against a loop
 * by hand of the same size. */
#include "tests/bench/bench.h"
#include "tests/support/inline/loops.h"

#include <lib/tamis_inline.h>

#include <stdio.h>
#include <stdlib.h>

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
    p->n_absent = i->loops->probe_few(&i->value, bench.domain.tag, p->hashes, p->n,
                                      p->few, p->absent);
    double ns = (double)(now_ns() - began);
    sink += p->n_absent;
    return ns / (double)p->n;
}

static void report(const char *id, const struct lap *ours, const struct lap *other,
                   uint64_t n_keys, unsigned lanes)
{
    figure(id, ours->ns, other->ns, "%llu keys at 1%%, %u lanes",
           (unsigned long long)n_keys, lanes);
    figure_pairs(id, ours->samples, other->samples, bench.sizes.reps);
}

static void one_size(const char *name, uint64_t n_keys)
{
    static const size_t few[] = {4, 8, 16, 32};
    enum { SIZES = sizeof few / sizeof few[0] };
    size_t n = bench.sizes.probes / 32 * 32;
    const char *path = filter_file(n_keys, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, n_keys, n); /* and checks the pages */
    must(tamis_filter_verify(filter, &(struct tamis_verify){0}, NULL), NULL, "verify");
    struct bits bits = bits_map(path);
    if (bits.geometry.lanes != 1 && n_keys >= 1000000)
        give_up("the comparator is for one lane");
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing ours[SIZES], other[SIZES];
    struct inlined inlined[SIZES];
    struct lap laps[3 * SIZES];
    uint64_t *words = allocate((n / few[0] + 1) * sizeof *words);
    for (size_t i = 0; i < SIZES; i++) {
        ours[i] = probing_of(filter, &bits, hashes, n);
        ours[i].few = few[i];
        other[i] = ours[i];
        inlined[i] = (struct inlined){.loops = inline_loops_at(0), .probing = ours[i]};
        inlined[i].probing.absent = words;
        must(tamis_filter_inline(filter, TAMIS_INLINE_VERSION, &inlined[i].value), NULL,
             "inline");
        laps[3 * i] = (struct lap){.run = lap_calls, .ctx = &ours[i]};
        laps[3 * i + 1] = (struct lap){.run = lap_inline, .ctx = &inlined[i]};
        laps[3 * i + 2] = (struct lap){.run = lap_few, .ctx = &other[i]};
    }
    race(laps, 3 * SIZES, bench.sizes.reps);
    for (size_t i = 0; i < SIZES; i++) {
        char id[40];
        unsigned lanes = bits.geometry.lanes;
        snprintf(id, sizeof id, "few_%s_%zu", name, few[i]);
        report(id, &laps[3 * i], &laps[3 * i + 2], n_keys, lanes);
        snprintf(id, sizeof id, "few_inline_%s_%zu", name, few[i]);
        report(id, &laps[3 * i + 1], &laps[3 * i + 2], n_keys, lanes);
        if (inlined[i].probing.n_absent != ours[i].n_absent ||
            (lanes == 1 && ours[i].n_absent != other[i].n_absent))
            wrong("%zu keys a call: %zu are ABSENT, inline %zu, by hand %zu", few[i],
                  ours[i].n_absent, inlined[i].probing.n_absent, other[i].n_absent);
        tamis_inline_release(&inlined[i].value);
    }
    check_error(0.01, n - ours[0].n_absent, n, "few keys a call");
    free(hashes), free(words);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}

void figures_few(void)
{
    one_size("small", bench.sizes.small);
    one_size("large", bench.sizes.large);
}
