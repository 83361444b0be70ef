/* Building from hashes on two threads, against the peers' rates a thread, and against
 * what no builder can be quicker than: copying the hashes and writing the file. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct building {
    const uint64_t *keys, *hashes;
    size_t n;
    unsigned n_threads;
    const char *path;
    uint64_t *copy; /* as large as the hashes */
    uint64_t file_bytes;
};

/* Everything from the builder's making to the last pwrite; no sync, as for the peers,
 * which stay in memory. */
static double lap_build(void *ctx)
{
    enum { AT_ONCE = 1 << 20 };
    struct building *b = ctx;
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    struct tamis_builder_options options = {
        .size = sizeof options, .domain = &bench.domain, .error = 0.01};
    options.memory_limit = UINT64_C(4) << 30;
    options.n_threads = b->n_threads;
    file_remove(b->path);
    uint64_t began = now_ns();
    int fd = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(tamis_builder_create(&options, &builder, &diag), &diag, "builder");
    for (size_t at = 0; at < b->n; at += AT_ONCE) {
        size_t n = b->n - at < AT_ONCE ? b->n - at : AT_ONCE;
        must(tamis_builder_add_hashes(builder, bench.domain.tag, b->hashes + at, n),
             NULL, "adding to a builder");
    }
    must(tamis_builder_finish_fd(builder, fd, 0, &b->file_bytes, &diag), &diag,
         "finishing a filter");
    tamis_builder_free(builder);
    double ns = (double)(now_ns() - began);
    close(fd);
    return ns / (double)b->n;
}

/* The copy goes to memory that is there already. */
static double lap_copy_and_write(void *ctx)
{
    struct building *b = ctx;
    file_remove(b->path);
    uint64_t began = now_ns();
    memcpy(b->copy, b->hashes, b->n * sizeof *b->hashes);
    int fd = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (uint64_t at = 0; at < b->file_bytes;) {
        uint64_t left = b->file_bytes - at, most = UINT64_C(4) << 20;
        ssize_t put = pwrite(fd, (const char *)b->copy + at % (b->n * 4),
                             left < most ? left : most, (off_t)at);
        if (put <= 0)
            give_up("%s cannot be written", b->path);
        at += (uint64_t)put;
    }
    double ns = (double)(now_ns() - began);
    close(fd);
    return ns / (double)b->n;
}

static double lap_libbloom(void *ctx)
{
    struct building *b = ctx;
    struct peer *peer = libbloom_build(b->keys, b->n, 0.01);
    double ns = peer ? peer_build_ns(peer) : NAN;
    peer_free(peer);
    return ns / (double)b->n;
}

static double lap_leveldb(void *ctx)
{
    struct building *b = ctx;
    struct peer *peer = leveldb_build(b->keys, b->n, 10);
    double ns = peer ? peer_build_ns(peer) : NAN;
    peer_free(peer);
    return ns / (double)b->n;
}

static void report(const struct lap *laps, const struct building *b)
{
    unsigned long long n = b->n;
    double two = laps[0].ns;
    figure("build_libbloom", two * 2, laps[2].ns, "%llu keys at 1%%", n);
    figure("build_leveldb", two * 2, laps[3].ns, "%llu keys, 10 bits each", n);
    double ms = (double)b->n / 1e6;
    figure("build_copy", two * ms, laps[4].ns * ms,
           "%llu keys, file of %llu MiB, no sync; one thread %.0f ms", n,
           (unsigned long long)b->file_bytes >> 20, laps[1].ns * ms);
}

static void one_size(size_t n, struct curve *curve)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("build.tamis"));
    uint64_t *keys = keys_of(0, n), *hashes = hashes_of(0, n);
    struct building two = {.keys = keys, .hashes = hashes, .n = n, .n_threads = 2};
    two.path = path;
    lap_build(&two); /* says how long the file is */
    two.copy = allocate(n * sizeof *hashes);
    memset(two.copy, 1, n * sizeof *hashes);
    struct building one = two;
    one.n_threads = 1;
    struct lap laps[] = {
        {.run = lap_build, .ctx = &two},          {.run = lap_build, .ctx = &one},
        {.run = lap_libbloom, .ctx = &two},       {.run = lap_leveldb, .ctx = &two},
        {.run = lap_copy_and_write, .ctx = &two},
    };
    race(laps, 5, n > 10000000 ? 3 : bench.sizes.long_reps);
    lap_build(&two);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, n, n);
    tamis_filter_close(filter);
    curve_row(curve, 6,
              (double[]){(double)n, 1e3 / laps[0].ns, 1e3 / laps[1].ns,
                         1e3 / laps[2].ns, 1e3 / laps[3].ns, 1e3 / laps[4].ns});
    if (n == bench.sizes.build)
        report(laps, &two);
    file_remove(path);
    free(keys), free(hashes), free(two.copy);
}

void figures_build(void)
{
    struct curve *curve =
        curve_open("build", "keys two_threads one_thread libbloom leveldb copy");
    unpin();
    for (size_t n = 10000; n < bench.sizes.build; n *= 10)
        one_size(n, curve);
    one_size(bench.sizes.build, curve);
    pin();
    curve_close(curve);
}
