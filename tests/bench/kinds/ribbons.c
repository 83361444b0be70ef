/* Ribbon filters: their size against log2(1/error), their probes against those of our
 * Bloom filters of the same keys and error, and how long they take to build. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct made {
    uint64_t n_keys;
    double error;
    unsigned n_threads;
    const char *path;
    const uint64_t *hashes; /* NULL: made now, piece by piece */
};

/* Returns nanoseconds a key, without those for hashing. */
static double make(const struct made *m)
{
    enum { AT_ONCE = 1 << 16 };
    uint64_t *some = m->hashes ? NULL : allocate(AT_ONCE * sizeof *some), spent = 0;
    struct tamis_builder *b;
    struct tamis_diag diag = {0};
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &bench.domain,
                                      .error = m->error,
                                      .memory_limit = UINT64_C(4) << 30,
                                      .n_threads = m->n_threads,
                                      .kind = TAMIS_RIBBON};
    file_remove(m->path);
    must(tamis_builder_create(&o, &b, &diag), &diag, "builder");
    for (uint64_t at = 0; at < m->n_keys; at += AT_ONCE) {
        size_t n = m->n_keys - at < AT_ONCE ? (size_t)(m->n_keys - at) : AT_ONCE;
        if (some)
            hashes_fill(at, n, some);
        uint64_t began = now_ns();
        must(tamis_builder_add_hashes(b, bench.domain.tag, some ? some : m->hashes + at,
                                      n),
             NULL, "adding to a builder");
        spent += now_ns() - began;
    }
    uint64_t began = now_ns();
    must(tamis_builder_finish_file(b, m->path, &diag), &diag, "finishing a ribbon");
    spent += now_ns() - began;
    tamis_builder_free(b);
    free(some);
    return (double)spent / (double)m->n_keys;
}

static double lap_make(void *ctx)
{
    return make(ctx);
}

/* Bits a key of the whole file against the bound, and probes against those of Bloom. */
static void one_size(const char *which, uint64_t n_keys, double error, const char *name)
{
    char id[64], path[64];
    snprintf(path, sizeof path, "ribbon-%s-%s.tamis", which, name);
    struct made m = {n_keys, error, 2, path_in(path), NULL};
    make(&m);
    struct tamis_filter *f = filter_open(m.path, TAMIS_CHECK_FULL);
    struct tamis_filter *bloom =
        filter_open(filter_file(n_keys, error), TAMIS_CHECK_FULL);
    struct tamis_filter_info info;
    must(tamis_filter_info(f, &info), NULL, "info");
    snprintf(id, sizeof id, "ribbon_%s_bits_%s", which, name);
    figure(id, (double)info.file_bytes * 8 / (double)n_keys, -log2(error),
           "%llu keys at %g%%, everything counted", (unsigned long long)n_keys,
           100 * error);
    check_present(f, n_keys, bench.sizes.probes);
    size_t n = bench.sizes.probes;
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing ours = probing_of(f, NULL, hashes, n), one = ours;
    struct probing theirs = probing_of(bloom, NULL, hashes, n), their_one = theirs;
    struct lap laps[] = {{.run = lap_batch, .ctx = &ours},
                         {.run = lap_batch, .ctx = &theirs},
                         {.run = lap_single, .ctx = &one},
                         {.run = lap_single, .ctx = &their_one}};
    race(laps, error == 0.01 ? 4 : 1, bench.sizes.reps);
    if (error == 0.01) {
        snprintf(id, sizeof id, "ribbon_%s_batch", which);
        figure(id, laps[0].ns, laps[1].ns, "%llu keys", (unsigned long long)n_keys);
        snprintf(id, sizeof id, "ribbon_%s_single", which);
        figure(id, laps[2].ns, laps[3].ns, "%llu keys", (unsigned long long)n_keys);
    }
    check_error(error, n - ours.n_absent, n, "a ribbon");
    free(hashes);
    tamis_filter_close(f);
    tamis_filter_close(bloom);
    file_remove(m.path);
}

static void building(void)
{
    uint64_t n = bench.sizes.build;
    uint64_t *hashes = hashes_of(0, n);
    struct made one = {n, 0.01, 1, path_in("ribbon-1.tamis"), hashes}, two = one;
    two.n_threads = 2;
    struct lap laps[] = {{.run = lap_make, .ctx = &one},
                         {.run = lap_make, .ctx = &two}};
    unpin();
    race(laps, 2, n > 10000000 ? 1 : bench.sizes.long_reps);
    pin();
    figure("ribbon_build", laps[0].ns, 1, "%llu keys at 1%%, one thread",
           (unsigned long long)n);
    figure("ribbon_threads", laps[1].ns, laps[0].ns, "%llu keys at 1%%",
           (unsigned long long)n);
    file_remove(one.path);
    free(hashes);
}

void figures_ribbon(void)
{
    static const struct {
        double error;
        const char *name;
    } errors[] = {{0.01, "1pct"}, {0.001, "01pct"}, {0.0001, "001pct"}};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        one_size("small", bench.sizes.small, errors[i].error, errors[i].name);
        one_size("large", bench.sizes.large, errors[i].error, errors[i].name);
    }
    building();
}
