/* The filters that are measured, their bits as the comparators see them, and what
 * must be right of their answers: no present key ABSENT, no more errors than meant. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *path_in(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", bench.dir, name);
    return path;
}

void file_remove(const char *path)
{
    unlink(path);
}

/* ---- files, built once a run ---- */

static struct {
    uint64_t n_keys;
    double error;
    char path[512];
} built[64];
static size_t n_built;

static void build(const char *path, uint64_t n_keys, double error)
{
    enum { AT_ONCE = 1 << 16 };
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    struct tamis_builder_options options = {
        .size = sizeof options, .domain = &bench.domain, .error = error};
    options.memory_limit = UINT64_C(4) << 30;
    options.n_threads = 2;
    must(tamis_builder_create(&options, &builder, &diag), &diag, "builder");
    uint64_t *hashes = allocate(AT_ONCE * sizeof *hashes);
    for (uint64_t done = 0; done < n_keys; done += AT_ONCE) {
        size_t n = n_keys - done < AT_ONCE ? n_keys - done : AT_ONCE;
        hashes_fill(done, n, hashes);
        must(tamis_builder_add_hashes(builder, bench.domain.tag, hashes, n), NULL,
             "adding to a builder");
    }
    free(hashes);
    must(tamis_builder_finish_file(builder, path, &diag), &diag, "finishing a filter");
    tamis_builder_free(builder);
}

const char *filter_file(uint64_t n_keys, double error)
{
    for (size_t i = 0; i < n_built; i++)
        if (built[i].n_keys == n_keys && built[i].error == error)
            return built[i].path;
    if (n_built == sizeof built / sizeof built[0])
        give_up("too many filters");
    char name[64];
    snprintf(name, sizeof name, "%llu-%g.tamis", (unsigned long long)n_keys, error);
    const char *path = path_in(name);
    file_remove(path);
    unpin();
    build(path, n_keys, error);
    pin();
    built[n_built].n_keys = n_keys;
    built[n_built].error = error;
    snprintf(built[n_built].path, sizeof built[0].path, "%s", path);
    return built[n_built++].path;
}

void filters_remove(void)
{
    while (n_built)
        file_remove(built[--n_built].path);
}

struct tamis_filter *filter_open(const char *path, enum tamis_check check)
{
    struct tamis_filter *filter;
    struct tamis_diag diag = {0};
    struct tamis_filter_options options = {.size = sizeof options, .check = check};
    must(tamis_filter_open(path, &options, &filter, &diag), &diag, path);
    return filter;
}

struct tamis_writer *writer_new(const char *path, uint64_t first_capacity)
{
    struct tamis_writer *writer;
    struct tamis_diag diag = {0};
    struct tamis_writer_options options = {.size = sizeof options,
                                           .domain = &bench.domain};
    options.growth.first_capacity = first_capacity;
    options.growth.factor = 2; /* figures name their stages by it */
    file_remove(path);
    must(tamis_writer_create(path, &options, &writer, &diag), &diag, path);
    return writer;
}

struct bits bits_map(const char *path)
{
    struct bits bits = {0};
    struct tamis_stage_info stage;
    struct stat st;
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_NONE);
    must(tamis_filter_stage(filter, 0, &stage), NULL, "the first stage");
    tamis_filter_close(filter);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        give_up("%s cannot be opened", path);
    bits.map_bytes = (size_t)st.st_size;
    bits.map = mmap(NULL, bits.map_bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (bits.map == MAP_FAILED)
        give_up("%s cannot be mapped", path);
    madvise(bits.map, bits.map_bytes, MADV_RANDOM);
    bits.base = bits.map + stage.offset;
    bits.n_bytes = stage.bits_bytes;
    bits.geometry = (struct geometry){stage.n_blocks, stage.lanes, stage.words};
    for (size_t at = 0; at < bits.map_bytes; at += PAGE_BYTES)
        sink += bits.map[at];
    return bits;
}

void bits_unmap(struct bits *bits)
{
    munmap(bits->map, bits->map_bytes);
    *bits = (struct bits){0};
}

/* ---- probes ---- */

enum { BATCH = 8192 }; /* hashes a call, as an engine would have them at hand */

struct probing probing_of(struct tamis_filter *filter, const struct bits *bits,
                          const uint64_t *hashes, size_t n)
{
    static uint64_t *absent;
    static size_t n_words;
    if (n_words < (n + 63) / 64) {
        /* Not freed: earlier probings may have it. */
        n_words = (n + 63) / 64;
        absent = allocate(n_words * sizeof *absent);
        memset(absent, 0, n_words * sizeof *absent);
    }
    return (struct probing){filter, bits, hashes, n, absent, 0, 0};
}

double lap_batch(void *probing)
{
    struct probing *p = probing;
    size_t n_absent = 0;
    uint64_t began = now_ns();
    for (size_t at = 0; at < p->n; at += BATCH) {
        size_t n = p->n - at < BATCH ? p->n - at : BATCH;
        n_absent += tamis_filter_probe_batch(
            p->filter, bench.domain.tag, p->hashes + at, n, p->absent + at / 64, NULL);
    }
    double ns = (double)(now_ns() - began);
    p->n_absent = n_absent;
    sink += n_absent;
    return ns / (double)p->n;
}

double lap_calls(void *probing)
{
    struct probing *p = probing;
    size_t n_absent = 0;
    uint64_t began = now_ns();
    for (size_t at = 0; at + p->few <= p->n; at += p->few)
        n_absent +=
            tamis_filter_probe_batch(p->filter, bench.domain.tag, p->hashes + at,
                                     p->few, p->absent + at / 64, NULL);
    double ns = (double)(now_ns() - began);
    p->n_absent = n_absent;
    sink += n_absent;
    return ns / (double)p->n;
}

double lap_single(void *probing)
{
    struct probing *p = probing;
    struct tamis_key key = tamis_key_of_hash(bench.domain.tag, 0);
    size_t n_absent = 0;
    uint64_t began = now_ns();
    for (size_t i = 0; i < p->n; i++) {
        key.hash = p->hashes[i];
        n_absent += tamis_filter_probe(p->filter, &key, NULL);
    }
    double ns = (double)(now_ns() - began);
    p->n_absent = n_absent;
    sink += n_absent;
    return ns / (double)p->n;
}

/* ---- what must be right ---- */

void check_present(struct tamis_filter *filter, uint64_t n, uint64_t limit)
{
    if (n > limit)
        n = limit;
    uint64_t first = strcmp(bench.planted, "loss") == 0 ? NEGATIVES : 0;
    uint64_t *hashes = hashes_of(first, n);
    struct probing p = probing_of(filter, NULL, hashes, n);
    lap_batch(&p);
    if (p.n_absent)
        wrong("%zu of %llu present keys are ABSENT in a batch", p.n_absent,
              (unsigned long long)n);
    p.n = n < 100000 ? n : 100000;
    lap_single(&p);
    if (p.n_absent)
        wrong("%zu of %zu present keys are ABSENT one at a time", p.n_absent, p.n);
    free(hashes);
}

/* With 400 expected their standard deviation is 5%: 1.3 times as many are no chance. Of
 * fewer, five deviations more are. */
void check_error(double target, uint64_t n_maybe, uint64_t n, const char *what)
{
    double expected = target * (double)n, most = 1.3 * expected;
    if (expected < 400)
        most += 5 * sqrt(expected) + 1;
    if ((double)n_maybe > most)
        wrong("%s: error %g, meant was %g", what, (double)n_maybe / (double)n, target);
}
