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

void figures_stages(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("stages.tamis"));
    size_t n = bench.sizes.probes / 2;
    uint64_t *hashes = hashes_of(fresh_negatives(n), n), in = 0;
    struct tamis_writer *writer = writer_new(path, bench.sizes.stage_keys);
    struct curve *curve = curve_open("stages", "stages keys batch_ns single_ns");
    for (unsigned stages = 1; stages <= STAGES; stages++) {
        /* Half a first stage less than what fills them: none more is begun. */
        fill(writer, &in,
             bench.sizes.stage_keys * ((UINT64_C(1) << stages) - 1) -
                 bench.sizes.stage_keys / 2);
        struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
        struct tamis_filter_info info;
        tamis_filter_info(filter, &info);
        check_present(filter, in, n);
        struct probing p = probing_of(filter, NULL, hashes, n);
        struct lap laps[] = {{.run = lap_batch, .ctx = &p},
                             {.run = lap_single, .ctx = &p}};
        race(laps, 2, 3);
        curve_row(curve, 4,
                  (double[]){info.n_stages, (double)in, laps[0].ns, laps[1].ns});
        if (stages == STAGES)
            against_one(filter, in, hashes, n);
        tamis_filter_close(filter);
    }
    curve_close(curve);
    must(tamis_writer_close(writer), NULL, "closing a writer");
    free(hashes);
    file_remove(path);
}
