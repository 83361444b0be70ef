/* The first answer of a filter whose file is in the page cache, from the open call on:
 * the same however large it is, and long before the file could be read. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

/* A sealed filter of about so many bytes and few keys: its stage is made for many. */
static void make(const char *path, uint64_t n_bytes)
{
    struct tamis_plan plan;
    struct tamis_diag diag = {0};
    double first_error = 0.01 * (1 - 0.85); /* of stage 0, at the defaults */
    must(tamis_plan_within(n_bytes, 0, first_error, &plan), NULL, "plan");
    struct tamis_writer *writer = writer_new(path, plan.n_keys);
    uint64_t hashes[1000];
    hashes_fill(0, 1000, hashes);
    must(tamis_writer_add_hashes(writer, bench.domain.tag, hashes, 1000), NULL, "add");
    must(tamis_writer_seal(writer, 1, NULL, &diag), &diag, "seal");
    must(tamis_writer_close(writer), NULL, "close");
}

struct first {
    const char *path;
    uint64_t next;
};

static double lap_first(void *ctx)
{
    struct first *f = ctx;
    uint64_t hash;
    hashes_fill(f->next++, 1, &hash);
    struct tamis_key key = tamis_key_of_hash(bench.domain.tag, hash);
    uint64_t began = now_ns();
    struct tamis_filter *filter = filter_open(f->path, TAMIS_CHECK_LAZY);
    sink += tamis_filter_probe(filter, &key, NULL);
    double ns = (double)(now_ns() - began);
    tamis_filter_close(filter);
    return ns;
}

static double lap_read(void *ctx)
{
    return read_file_ns(ctx);
}

void figures_first(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("first.tamis"));
    double slowest = 0, quickest = INFINITY;
    uint64_t gib = UINT64_C(1) << 30, max = bench.sizes.first_max;
    uint64_t at = max < gib ? max : gib;
    struct curve *curve = curve_open("first", "file_bytes first_ns read_ns");
    for (uint64_t size = 1 << 20; size <= max; size *= 4) {
        make(path, size);
        struct stat st;
        stat(path, &st);
        read_file_ns(path); /* into the page cache */
        struct first first = {path, fresh_negatives(1000)};
        struct lap answer = {.run = lap_first, .ctx = &first};
        struct lap reading = {.run = lap_read, .ctx = path};
        race(&answer, 1, MAX_REPS);
        race(&reading, 1, bench.sizes.long_reps);
        curve_row(curve, 3, (double[]){(double)st.st_size, answer.ns, reading.ns});
        slowest = fmax(slowest, answer.ns);
        quickest = fmin(quickest, answer.ns);
        if (size == at)
            limit("read_file", (double)st.st_size / reading.ns, "GB/s of a file read");
        if (size == at)
            figure("first_answer", answer.ns / 1e3, reading.ns / 1e3,
                   "%lld MiB, sealed, in the page cache", (long long)st.st_size >> 20);
        file_remove(path);
    }
    curve_close(curve);
    figure("first_answer_flat", slowest / 1e3, quickest / 1e3, "1 MiB to %llu MiB",
           (unsigned long long)max >> 20);
}
