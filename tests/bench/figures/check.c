/* The cost of checks: nothing once they are done, about a hash of each page until then;
 * and the longest single probe meanwhile. */
#include "tests/bench/bench.h"

#include <stdlib.h>

static void when_checked(const char *path)
{
    size_t n = bench.sizes.probes, n_pages;
    struct tamis_filter *lazy = filter_open(path, TAMIS_CHECK_LAZY);
    struct tamis_filter *none = filter_open(path, TAMIS_CHECK_NONE);
    struct bits bits = bits_map(path);
    n_pages = bits.n_bytes / PAGE_BYTES;
    uint64_t *pages = hashes_spread(n_pages);
    struct probing touch = probing_of(lazy, &bits, pages, n_pages);
    lap_batch(&touch);
    touch.filter = none;
    lap_batch(&touch);
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing p[2] = {probing_of(lazy, &bits, hashes, n),
                           probing_of(none, &bits, hashes, n)};
    struct lap laps[] = {
        {.run = lap_batch, .ctx = &p[0]},
        {.run = lap_batch, .ctx = &p[1]},
        {.run = lap_single, .ctx = &p[0]},
        {.run = lap_single, .ctx = &p[1]},
    };
    unsigned reps = 2 * bench.sizes.reps - 1;
    race(laps, 4, reps);
    unsigned long long mib = bits.n_bytes >> 20;
    figure("checked_batch", laps[0].ns, laps[1].ns, "%llu MiB", mib);
    figure("checked_single", laps[2].ns, laps[3].ns, "%llu MiB", mib);
    figure_pairs("checked_batch", laps[0].samples, laps[1].samples, reps);
    figure_pairs("checked_single", laps[2].samples, laps[3].samples, reps);
    free(pages), free(hashes);
    bits_unmap(&bits);
    tamis_filter_close(lazy), tamis_filter_close(none);
}

/* ---- until then ---- */

struct touching {
    const char *path;
    enum tamis_check check;
    const struct bits *bits;
    const uint64_t *hashes;
    size_t n;
};

/* A filter just opened, asked once for each page; a new mapping each time. */
static double lap_touch(void *ctx)
{
    struct touching *t = ctx;
    struct tamis_filter *filter = filter_open(t->path, t->check);
    struct probing p = probing_of(filter, t->bits, t->hashes, t->n);
    double ns = lap_batch(&p) * (double)t->n;
    tamis_filter_close(filter);
    return ns;
}

static double lap_xxh3_pages(void *ctx)
{
    struct touching *t = ctx;
    return xxh3_pages_ns(t->bits, t->hashes, t->n);
}

/* The cost that checks add to first touches. */
static void checking_total(const char *path)
{
    struct bits bits = bits_map(path);
    size_t n = bits.geometry.n_blocks / BLOCKS_PER_PAGE;
    uint64_t *pages = hashes_spread(n);
    struct touching lazy = {path, TAMIS_CHECK_LAZY, &bits, pages, n}, none = lazy;
    none.check = TAMIS_CHECK_NONE;
    struct lap laps[] = {
        {.run = lap_touch, .ctx = &lazy},
        {.run = lap_touch, .ctx = &none},
        {.run = lap_xxh3_pages, .ctx = &lazy},
    };
    race(laps, 3, bench.sizes.reps);
    figure("checking_total", (laps[0].ns - laps[1].ns) / 1e6, laps[2].ns / 1e6,
           "%zu pages in random order; less the same probes with mode none, %.2f ms", n,
           laps[1].ns / 1e6);
    free(pages);
    bits_unmap(&bits);
}

static double lap_open_full(void *ctx)
{
    struct touching *t = ctx;
    uint64_t began = now_ns();
    struct tamis_filter *filter = filter_open(t->path, TAMIS_CHECK_FULL);
    double ns = (double)(now_ns() - began);
    tamis_filter_close(filter);
    return ns;
}

static double lap_xxh3_file(void *ctx)
{
    struct touching *t = ctx;
    return xxh3_file_ns(t->bits);
}

/* The same in the order of the file, all at once. */
static void checking_while_opening(const char *path)
{
    struct bits bits = bits_map(path);
    struct touching t = {.path = path, .bits = &bits};
    struct lap laps[] = {{.run = lap_open_full, .ctx = &t},
                         {.run = lap_xxh3_file, .ctx = &t}};
    race(laps, 2, bench.sizes.reps);
    figure("checking_open_full", laps[0].ns / 1e6, laps[1].ns / 1e6,
           "%zu pages in the order of the file, page faults included",
           bits.map_bytes / PAGE_BYTES);
    bits_unmap(&bits);
}

/* The cost of reading the clock twice. */
static double clock_ns(void)
{
    enum { N = 1001 };
    static double samples[N];
    for (size_t i = 0; i < N; i++) {
        uint64_t began = now_ns();
        samples[i] = (double)(now_ns() - began);
    }
    return percentile(samples, N, 0.5);
}

static void single_while_checking(const char *path)
{
    struct bits bits = bits_map(path);
    size_t n = 2 * (bits.n_bytes / PAGE_BYTES); /* about 86% of the pages get touched */
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    double *samples = allocate(n * sizeof *samples), overhead = clock_ns();
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    struct tamis_key key = tamis_key_of_hash(bench.domain.tag, 0);
    for (size_t i = 0; i < n; i++) {
        key.hash = hashes[i];
        uint64_t began = now_ns();
        sink += tamis_filter_probe(filter, &key, NULL);
        samples[i] = (double)(now_ns() - began) - overhead;
    }
    tamis_filter_close(filter);
    double middle = percentile(samples, n, 0.5);
    figure(
        "checking_single_p50", middle, 0,
        "%zu random probes of a filter just opened, the clock's own %.0f ns taken off",
        n, overhead);
    figure("checking_single_p999", percentile(samples, n, 0.999), 0,
           "the same; the longest %.0f ns", samples[n - 1]);
    free(samples), free(hashes);
    bits_unmap(&bits);
}

void figures_check(void)
{
    const char *path = filter_file(bench.sizes.large, 0.01);
    when_checked(path);
    checking_total(path);
    checking_while_opening(path);
    single_while_checking(path);
}
