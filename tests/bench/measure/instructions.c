/* How many instructions the hot paths take: valgrind counts them exactly, whatever the
 * machine is doing meanwhile. This program runs itself under callgrind, which collects
 * within measured() alone. Valgrind knows no AVX-512: it is the AVX2 kernel. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILTERS = 100, FEW = 8, FEW_KEYS = 4 };

struct subject {
    struct probing probing;
    struct tamis_filter *filters[FILTERS];
    struct tamis_snapshot *snapshot;
    struct tamis_writer *writer;
    struct tamis_builder *builder;
    char path[512];
};

/* ---- the child ---- */

static void make(struct subject *s, uint64_t n_keys, double error, uint64_t first,
                 size_t n)
{
    snprintf(s->path, sizeof s->path, "%s", filter_file(n_keys, error));
    struct tamis_filter *filter = filter_open(s->path, TAMIS_CHECK_LAZY);
    check_present(filter, n_keys, n_keys); /* checks every page */
    s->probing = probing_of(filter, NULL, hashes_of(first, n), n);
}

static void run_single(struct subject *s)
{
    lap_single(&s->probing);
}

static void run_batch(struct subject *s)
{
    lap_batch(&s->probing);
}

static void run_segments(struct subject *s)
{
    uint64_t absent[(FILTERS + 63) / 64];
    for (size_t i = 0; i < s->probing.n; i++) {
        struct tamis_key key =
            tamis_key_of_hash(bench.domain.tag, s->probing.hashes[i]);
        sink += tamis_snapshot_probe_all(s->snapshot, &key, absent, NULL);
    }
}

static void run_few_keys(struct subject *s)
{
    struct tamis_key keys[FEW_KEYS];
    uint64_t absent[FEW_KEYS];
    for (size_t i = 0; i + FEW_KEYS <= s->probing.n; i += FEW_KEYS) {
        for (size_t k = 0; k < FEW_KEYS; k++)
            keys[k] = tamis_key_of_hash(bench.domain.tag, s->probing.hashes[i + k]);
        sink += tamis_snapshot_probe_keys(s->snapshot, NULL, 0, keys, FEW_KEYS, absent);
    }
}

static void run_add(struct subject *s)
{
    for (size_t i = 0; i < s->probing.n; i++)
        sink += (uint64_t)tamis_writer_add_hashes(s->writer, bench.domain.tag,
                                                  &s->probing.hashes[i], 1);
}

static void run_build(struct subject *s)
{
    uint64_t n_bytes;
    int fd = memfd_create("built", MFD_CLOEXEC);
    must(tamis_builder_add_hashes(s->builder, bench.domain.tag, s->probing.hashes,
                                  s->probing.n),
         NULL, "adding");
    must(tamis_builder_finish_fd(s->builder, fd, 0, &n_bytes, NULL), NULL, "finish");
    close(fd);
}

/* Opened so often, asked once, so that every page that counts is checked. */
static void many_filters(struct subject *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->filters[i] = filter_open(s->path, TAMIS_CHECK_LAZY);
        struct probing p = s->probing;
        p.filter = s->filters[i];
        lap_batch(&p);
    }
    must(tamis_snapshot_from_filters(s->filters, n, &s->snapshot), NULL, "snapshot");
}

static void writer_and_builder(struct subject *s)
{
    struct tamis_writer_options w = {.size = sizeof w, .domain = &bench.domain};
    struct tamis_builder_options b = {.size = sizeof b, .domain = &bench.domain};
    const char *path = path_in("instructions.tamis");
    file_remove(path);
    must(tamis_writer_create(path, &w, &s->writer, NULL), NULL, "writer");
    file_remove(path);
    must(tamis_builder_create(&b, &s->builder, NULL), NULL, "builder");
}

/* The filter of the writer, with a key, all pages checked. */
static void growing(struct subject *s)
{
    uint64_t hash = s->probing.hashes[0];
    const char *path = path_in("growing.tamis");
    struct tamis_writer *writer = writer_new(path, 20000);
    must(tamis_writer_add_hashes(writer, bench.domain.tag, &hash, 1), NULL, "adding");
    must(tamis_writer_commit(writer, 1, NULL), NULL, "a commit");
    s->probing.filter = filter_open(path, TAMIS_CHECK_LAZY);
    must(tamis_filter_verify(s->probing.filter, &(struct tamis_verify){0}, NULL), NULL,
         "verify");
    lap_single(&s->probing);
    file_remove(path);
}

__attribute__((noinline)) void measured(void (*run)(struct subject *),
                                        struct subject *s);
void measured(void (*run)(struct subject *), struct subject *s)
{
    run(s);
    __asm__ volatile("" : : : "memory"); /* no tail call: the end must be seen */
}

int instructions_main(const char *what, const char *count)
{
    static struct subject s;
    size_t n = strtoul(count, NULL, 10);
    bool positive = strcmp(what, "positive") == 0;
    make(&s, 20000, positive ? 0.001 : 0.01, positive ? 0 : fresh_negatives(n), n);
    if (strcmp(what, "single") == 0)
        measured(run_single, &s);
    else if (strcmp(what, "batch") == 0 || positive)
        measured(run_batch, &s);
    else if (strcmp(what, "segments") == 0)
        many_filters(&s, FILTERS), measured(run_segments, &s);
    else if (strcmp(what, "few") == 0)
        many_filters(&s, FEW), measured(run_segments, &s);
    else if (strcmp(what, "few_keys") == 0)
        many_filters(&s, FEW), measured(run_few_keys, &s);
    else if (strcmp(what, "growing") == 0)
        growing(&s), measured(run_single, &s);
    else if (strcmp(what, "owner") == 0) {
        writer_and_builder(&s);
        must(tamis_writer_one_thread(s.writer), NULL, "one thread");
        measured(run_add, &s);
    } else
        writer_and_builder(&s), measured(what[0] == 'a' ? run_add : run_build, &s);
    filters_remove();
    return n_wrong() ? 1 : 0;
}

/* ---- the parent ---- */

/* Instructions in measured(), or a negative number if valgrind cannot say. */
static double collected(const char *what, const char *kernel, uint64_t n)
{
    char command[1024], line[512];
    unsigned long long sum = 0;
    snprintf(command, sizeof command,
             "TAMIS_KERNEL=%s valgrind --tool=callgrind --callgrind-out-file=/dev/null "
             "--toggle-collect=measured '%s' --out '%s' --seed %llu --instructions %s "
             "%llu 2>&1",
             kernel, bench.program, bench.dir, (unsigned long long)bench.seed, what,
             (unsigned long long)n);
    FILE *f = popen(command, "r");
    bool found = false;
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "Collected :");
        if (at)
            found = sscanf(at, "Collected : %llu", &sum) == 1;
        if (strncmp(line, "WRONG", 5) == 0)
            wrong("under valgrind: %s", line);
    }
    return f && pclose(f) == 0 && found ? (double)sum : -1;
}

void figures_instructions(void)
{
    static const struct {
        const char *id, *what, *kernel;
        unsigned share; /* of the keys: what is long takes fewer */
        unsigned divisor;
    } all[] = {
        {"instructions_single", "single", "avx2", 1, 1},
        {"instructions_batch", "batch", "avx2", 1, 1},
        {"instructions_batch_scalar", "batch", "scalar", 1, 1},
        {"instructions_positive", "positive", "avx2", 1, 1},
        {"instructions_segments", "segments", "avx2", 20, FILTERS},
        {"instructions_few", "few", "avx2", 20, FEW},
        {"instructions_growing", "growing", "avx2", 1, 1},
        {"instructions_few_keys", "few_keys", "avx2", 10, FEW},
        {"instructions_add", "add", "avx2", 1, 1},
        {"instructions_alone", "owner", "avx2", 1, 1},
        {"instructions_build", "build", "avx2", 1, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t n = bench.sizes.instructions / all[i].share;
        double sum = collected(all[i].what, all[i].kernel, n);
        if (sum < 0)
            figure_without(all[i].id, "valgrind could not run it");
        else
            figure(all[i].id, sum / (double)(n * all[i].divisor), 0,
                   "callgrind, %llu keys", (unsigned long long)n);
    }
}
