/* Union, intersection and fold of filters, durable, against reading and writing as many
 * bytes of the same files, durable too. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SOURCES = 2, PIECE = 1 << 20 };

struct combining {
    const char *sources[N_SOURCES];
    size_t n; /* of them that are used */
    const char *path;
    uint64_t written; /* bytes of the result */
    int (*make)(struct tamis_filter **sources, const char *path,
                struct tamis_derive_report *report, struct tamis_diag *diag);
};

static int make_union(struct tamis_filter **f, const char *path,
                      struct tamis_derive_report *report, struct tamis_diag *diag)
{
    return tamis_filter_derive(f, N_SOURCES,
                               &(struct tamis_derivation){.operation = TAMIS_UNION},
                               path, NULL, report, diag);
}

static int make_common(struct tamis_filter **f, const char *path,
                       struct tamis_derive_report *report, struct tamis_diag *diag)
{
    return tamis_filter_derive(
        f, N_SOURCES, &(struct tamis_derivation){.operation = TAMIS_INTERSECTION}, path,
        NULL, report, diag);
}

static int make_fold(struct tamis_filter **f, const char *path,
                     struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct tamis_stage_info stage;
    uint64_t factor = 2;
    must(tamis_filter_stage(f[0], 0, &stage), NULL, "stage");
    while (stage.n_blocks / 64 % factor)
        factor++;
    return tamis_filter_derive(
        &f[0], 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = factor},
        path, NULL, report, diag);
}

static double lap_make(void *ctx)
{
    struct combining *c = ctx;
    struct tamis_filter *f[N_SOURCES];
    struct tamis_derive_report report;
    struct tamis_diag diag = {0};
    file_remove(c->path);
    uint64_t began = now_ns();
    for (size_t i = 0; i < N_SOURCES; i++)
        f[i] = filter_open(c->sources[i], TAMIS_CHECK_LAZY);
    must(c->make(f, c->path, &report, &diag), &diag, "combining filters");
    double ns = (double)(now_ns() - began);
    for (size_t i = 0; i < N_SOURCES; i++)
        tamis_filter_close(f[i]);
    c->written = report.file_bytes;
    return ns;
}

static double lap_copy(void *ctx)
{
    struct combining *c = ctx;
    static uint8_t piece[PIECE];
    int from[N_SOURCES], to;
    uint64_t written = 0;
    ssize_t got = 1;
    file_remove(c->path);
    uint64_t began = now_ns();
    to = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (size_t i = 0; i < c->n; i++)
        from[i] = open(c->sources[i], O_RDONLY | O_CLOEXEC);
    for (off_t at = 0; got > 0; at += got) {
        for (size_t i = 0; i < c->n; i++)
            got = pread(from[i], piece, sizeof piece, at);
        uint64_t left = c->written - written;
        size_t n = got <= 0 ? 0 : left < (size_t)got ? (size_t)left : (size_t)got;
        if (n && pwrite(to, piece, n, (off_t)written) != (ssize_t)n)
            give_up("%s cannot be written", c->path);
        written += n;
    }
    if (fsync(to) != 0)
        give_up("%s cannot be synced", c->path);
    double ns = (double)(now_ns() - began);
    for (size_t i = 0; i < c->n; i++)
        close(from[i]);
    close(to);
    return ns;
}

static const char *built(const char *name, uint64_t first, uint64_t n)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &bench.domain, .error = 0.01};
    struct tamis_builder *b;
    struct tamis_diag diag = {0};
    const char *path = path_in(name);
    opt.memory_limit = UINT64_C(4) << 30;
    uint64_t *hashes = hashes_of(first, n);
    file_remove(path);
    must(tamis_builder_create(&opt, &b, &diag), &diag, "builder");
    must(tamis_builder_add_hashes(b, bench.domain.tag, hashes, n), NULL, "adding");
    must(tamis_builder_finish_file(b, path, &diag), &diag, "finishing a filter");
    tamis_builder_free(b);
    free(hashes);
    return path;
}

static void measure(const char *id, struct combining *c)
{
    struct lap laps[] = {{.run = lap_make, .ctx = c}, {.run = lap_copy, .ctx = c}};
    race(laps, 2, bench.sizes.long_reps);
    figure(id, laps[0].ns / 1e6, laps[1].ns / 1e6, "%llu MiB written, durable",
           (unsigned long long)c->written >> 20);
    file_remove(c->path);
}

void figures_algebra(void)
{
    uint64_t n = bench.sizes.build;
    char one[512], other[512], path[512];
    snprintf(one, sizeof one, "%s", built("one.tamis", 0, n));
    snprintf(other, sizeof other, "%s", built("other.tamis", n / 2, n));
    snprintf(path, sizeof path, "%s", path_in("combined.tamis"));
    struct combining c = {{one, other}, N_SOURCES, path, 0, make_union};
    measure("algebra_union", &c);
    c.make = make_common;
    measure("algebra_intersection", &c);
    c.make = make_fold;
    c.n = 1;
    measure("algebra_fold", &c);
    file_remove(one), file_remove(other);
}
