/* How many bytes filters take. Packs, and how many lines a key: planned, as packs are
 * made. The columns' table is not among them. Files of one edit: as they are built. */
#include "tests/bench/bench.h"
#include "tests/bench/segments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct tamis_plan_packed planned(const uint64_t *keys, size_t n, int from_files)
{
    struct tamis_plan_packed plan;
    must(tamis_plan_pack(keys, n, 0.01, from_files, &plan), NULL, "planning a pack");
    return plan;
}

/* ---- one edit ---- */

static struct tamis_store *store_of_edit(const char *path, size_t n, uint64_t n_keys)
{
    struct tamis_store *store;
    struct tamis_edit *edit;
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &bench.domain};
    tree_remove(path);
    must(tamis_store_create(path, &opt, &diag), &diag, path);
    must(tamis_store_open(path, &store, &diag), &diag, path);
    must(tamis_edit_begin(store, &edit, &diag), &diag, "edit");
    for (size_t i = 0; i < n; i++) {
        char name[16];
        uint64_t *hashes = hashes_of(i * n_keys, n_keys);
        int n_bytes = snprintf(name, sizeof name, "%zu", i);
        must(tamis_edit_builder(edit, name, (size_t)n_bytes, 0, NULL, &builder, &diag),
             &diag, "builder");
        must(tamis_builder_add_hashes(builder, bench.domain.tag, hashes, n_keys), NULL,
             "adding");
        must(tamis_edit_put(edit, builder, &diag), &diag, "put");
        tamis_builder_free(builder);
        free(hashes);
    }
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
    return store;
}

static void figures_edit(void)
{
    enum { N = 64, KEYS = 100000 };
    struct tamis_store *store = store_of_edit(path_in("edit"), N, KEYS);
    struct tamis_snapshot *now;
    struct tamis_filter *filter;
    struct tamis_stage_info stage;
    struct tamis_plan plan;
    double bits = 0, error = 0;
    must(tamis_snapshot_current(store, &now, NULL), NULL, "snapshot");
    must(tamis_plan_filter(KEYS, 0.01, &plan), NULL, "planning");
    for (size_t i = 0; i < N; i++) {
        must(tamis_snapshot_filter(now, i, &filter, NULL), NULL, "filter");
        must(tamis_filter_stage(filter, 0, &stage), NULL, "stage");
        bits += (double)stage.bits_bytes * 8 / KEYS / N;
        error += tamis_plan_error(stage.lanes, stage.words, stage.n_blocks, KEYS) / N;
    }
    figure("sizes_edit", bits, plan.bits_per_key, "the bits alone");
    figure("sizes_edit_error", error * 100, 0, "each alone: %.4g", plan.error * 100);
    tamis_snapshot_release(now);
    tamis_store_close(store);
    tree_remove(path_in("edit"));
}

/* 1,000 segments, log-uniform from 50 to 50,000 keys; 10,000 of 64 keys. */
void figures_sizes(void)
{
    enum { MIXED = 1000, SMALL = 10000 };
    uint64_t *keys = allocate(SMALL * sizeof *keys), n_keys = 0;
    srand48((long)bench.seed);
    for (size_t i = 0; i < MIXED; i++)
        n_keys += keys[i] = (uint64_t)(50 * pow(1000, drand48()));
    struct tamis_plan_packed files = planned(keys, MIXED, 1),
                             from_keys = planned(keys, MIXED, 0);
    figure("sizes_files", files.bits_per_key, 0, "%llu keys, %u bands",
           (unsigned long long)n_keys, files.n_bands);
    figure("sizes_keys", from_keys.bits_per_key, 0, "%llu keys, %u bands",
           (unsigned long long)n_keys, from_keys.n_bands);
    figure("sizes_lines", files.n_lines, MIXED, "of files; of keys: %u lines",
           from_keys.n_lines);
    for (size_t i = 0; i < SMALL; i++)
        keys[i] = 64;
    files = planned(keys, SMALL, 1);
    figure("sizes_small", files.bits_per_key, 0, "%d segments of 64 keys", SMALL);
    free(keys);
    figures_edit();
}
