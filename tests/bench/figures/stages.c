/* A growing filter of ten stages against one stage built for as many keys: a negative
 * must miss in every stage. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { STAGES = 10 };

/* Adds keys until so many are in. */
static void fill(struct tamis_writer *writer, uint64_t *in, uint64_t until)
{
    enum { AT_ONCE = 4096 };
    uint64_t hashes[AT_ONCE];
    while (*in < until) {
        size_t n = until - *in < AT_ONCE ? until - *in : AT_ONCE;
        hashes_fill(*in, n, hashes);
        must(tamis_writer_add_hashes(writer, bench.domain.tag, hashes, n), NULL,
             "adding");
        *in += n;
    }
    struct tamis_diag diag = {0};
    must(tamis_writer_commit(writer, *in, &diag), &diag, "commit");
}

/* ---- the machine's limit: a line in the first lane of every stage ---- */

struct stage_lines stage_lines_of(struct tamis_filter *filter, const char *path,
                                  const uint64_t *hashes, size_t n)
{
    struct tamis_filter_info info;
    struct stage_lines l = {.bits = bits_map(path), .hashes = hashes, .n = n};
    must(tamis_filter_info(filter, &info), NULL, "info");
    l.n_stages = info.n_stages;
    for (uint32_t i = 0; i < l.n_stages; i++)
        must(tamis_filter_stage(filter, i, &l.stages[i]), NULL, "stage");
    return l;
}

static inline const uint64_t *line_in(const struct stage_lines *l, uint32_t i,
                                      uint64_t h)
{
    uint64_t block = geometry_block(h, l->stages[i].n_blocks);
    return (const uint64_t *)(const void *)(l->bits.map + l->stages[i].offset +
                                            BLOCK_BYTES * block);
}

double lap_stage_lines(void *ctx)
{
    const struct stage_lines *l = ctx;
    size_t ahead = (WINDOW + l->n_stages - 1) / l->n_stages;
    uint64_t sum = 0, began = now_ns();
    for (size_t k = 0; k < l->n + ahead; k++) {
        for (uint32_t i = 0; k < l->n && i < l->n_stages; i++)
            __builtin_prefetch(line_in(l, i, l->hashes[k]));
        for (uint32_t i = 0; k >= ahead && i < l->n_stages; i++)
            sum += *line_in(l, i, l->hashes[k - ahead]);
    }
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)l->n;
}

/* Loads of one key together, and no more of the next keys than the processor does by
 * itself. */
static double lap_stage_loads(void *ctx)
{
    const struct stage_lines *l = ctx;
    uint64_t sum = 0, began = now_ns();
    for (size_t k = 0; k < l->n; k++)
        for (uint32_t i = 0; i < l->n_stages; i++)
            sum += *line_in(l, i, l->hashes[k]);
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)l->n;
}

/* ---- ten stages, and each number on the way ---- */

static void against_one(struct tamis_filter *grown, uint64_t keys,
                        const uint64_t *hashes, size_t n)
{
    const char *path = filter_file(keys, 0.01);
    struct tamis_filter *one = filter_open(path, TAMIS_CHECK_LAZY);
    struct tamis_filter_info info;
    check_present(one, keys, n);
    tamis_filter_info(grown, &info);
    struct probing g = probing_of(grown, NULL, hashes, n), o = g;
    o.filter = one;
    struct lap laps[] = {
        {.run = lap_single, .ctx = &g},
        {.run = lap_single, .ctx = &o},
        {.run = lap_batch, .ctx = &g},
        {.run = lap_batch, .ctx = &o},
    };
    race(laps, 4, bench.sizes.reps);
    unsigned long long k = keys;
    figure("stages_single", laps[0].ns, laps[1].ns, "%u stages, %llu keys",
           info.n_stages, k);
    figure("stages_batch", laps[2].ns, laps[3].ns, "%u stages, %llu keys",
           info.n_stages, k);
    check_error(0.01, n - g.n_absent, n, "ten stages");
    tamis_filter_close(one);
}

/* A negative with so many keys in, and what it is compared with. */
static void measure(const char *path, uint64_t keys, const uint64_t *hashes, size_t n,
                    bool last, struct curve *curve)
{
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, keys, n);
    struct probing p = probing_of(filter, NULL, hashes, n);
    struct stage_lines l = stage_lines_of(filter, path, hashes, n);
    struct lap laps[] = {
        {.run = lap_batch, .ctx = &p},
        {.run = lap_single, .ctx = &p},
        {.run = lap_stage_lines, .ctx = &l},
        {.run = lap_stage_loads, .ctx = &l},
    };
    race(laps, last ? 4 : 3, bench.sizes.long_reps);
    curve_row(curve, 5,
              (double[]){l.n_stages, (double)keys, laps[0].ns, laps[1].ns, laps[2].ns});
    if (last) {
        limit("stages_lines", laps[2].ns, "ns for a random line in each stage");
        figure("stages_loads", laps[1].ns, laps[3].ns, "%u stages, %llu keys",
               l.n_stages, (unsigned long long)keys);
        figure_pairs("stages_loads", laps[1].samples, laps[3].samples,
                     bench.sizes.long_reps);
        against_one(filter, keys, hashes, n);
    }
    bits_unmap(&l.bits);
    tamis_filter_close(filter);
}

void figures_stages(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("stages.tamis"));
    size_t n = bench.sizes.probes / 2;
    uint64_t *hashes = hashes_of(fresh_negatives(n), n), in = 0;
    uint64_t first = bench.sizes.stage_keys;
    struct tamis_writer *writer = writer_new(path, first);
    struct curve *curve =
        curve_open("stages", "stages keys batch_ns single_ns lines_ns");
    for (unsigned stages = 1; stages <= STAGES; stages++) {
        /* Half a first stage less than what fills them: none more is begun. */
        fill(writer, &in, first * ((UINT64_C(1) << stages) - 1) - first / 2);
        measure(path, in, hashes, n, stages == STAGES, curve);
    }
    curve_close(curve);
    must(tamis_writer_close(writer), NULL, "closing a writer");
    free(hashes);
    file_remove(path);
}
