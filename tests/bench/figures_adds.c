/* Adding to a growing filter one key at a time, by one thread and by two, against
 * random lines of the same file. */
#include "tests/bench/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct adding {
    struct tamis_writer *writer;
    const struct bits *bits;
    const uint64_t *hashes; /* of this lap */
    size_t n;
    uint64_t next; /* number of the next key that nobody has added */
    unsigned n_threads;
};

struct part {
    struct tamis_writer *writer;
    const uint64_t *hashes;
    size_t n;
    int rc;
};

static void *add_part(void *ctx)
{
    struct part *p = ctx;
    for (size_t i = 0; i < p->n && !p->rc; i++)
        p->rc = tamis_writer_add_hashes(p->writer, bench.domain.tag, &p->hashes[i], 1);
    return NULL;
}

/* Nanoseconds a key, so half of what a thread takes when there are two. */
static double add(const struct adding *a)
{
    struct part parts[2];
    pthread_t threads[2];
    size_t each = a->n / a->n_threads;
    uint64_t began = now_ns();
    for (unsigned t = 0; t < a->n_threads; t++) {
        parts[t] = (struct part){a->writer, a->hashes + t * each, each, 0};
        if (a->n_threads == 1)
            add_part(&parts[t]);
        else if (pthread_create(&threads[t], NULL, add_part, &parts[t]) != 0)
            give_up("no thread");
    }
    for (unsigned t = 0; a->n_threads > 1 && t < a->n_threads; t++)
        pthread_join(threads[t], NULL);
    double ns = (double)(now_ns() - began);
    for (unsigned t = 0; t < a->n_threads; t++)
        must(parts[t].rc, NULL, "adding");
    return ns / (double)(each * a->n_threads);
}

/* New keys for each lap: one that is there already is no add. */
struct shared {
    struct adding a;
    uint64_t *next;
    unsigned n_threads;
};

static double lap_add(void *ctx)
{
    struct shared *s = ctx;
    uint64_t *hashes = hashes_of(*s->next, s->a.n);
    *s->next += s->a.n;
    struct adding a = s->a;
    a.hashes = hashes;
    a.n_threads = s->n_threads;
    if (a.n_threads > 1)
        unpin();
    double ns = add(&a);
    if (a.n_threads > 1)
        pin();
    free(hashes);
    return ns;
}

static struct tamis_writer *create(const char *path, uint64_t capacity)
{
    struct tamis_writer *writer;
    struct tamis_diag diag = {0};
    struct tamis_writer_options options = {.size = sizeof options,
                                           .domain = &bench.domain};
    options.growth.first_capacity = capacity;
    file_remove(path);
    must(tamis_writer_create(path, &options, &writer, &diag), &diag, path);
    return writer;
}

void figures_adds(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("adds.tamis"));
    size_t n = bench.sizes.adds;
    unsigned reps = bench.sizes.reps;
    /* The stage stays below its capacity, and is as large as the large filter. */
    uint64_t next = 0, needed = n * (2 * reps + 6);
    struct tamis_writer *writer =
        create(path, needed > bench.sizes.large ? needed : bench.sizes.large);
    struct bits bits = bits_map(path);
    struct adding a = {.writer = writer, .bits = &bits, .n = n};
    struct shared one = {a, &next, 1}, two = {a, &next, 2};
    /* The first write to a page is the file system's affair: eight keys a page. */
    size_t to_touch = 8 * bits.n_bytes / PAGE_BYTES;
    for (size_t done = 0; done < to_touch && next < needed / 4; done += n)
        lap_add(&one);
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing lines = probing_of(NULL, &bits, hashes, n);
    struct lap laps[] = {{.run = lap_add, .ctx = &one},
                         {.run = lap_add, .ctx = &two},
                         {.run = lap_lines, .ctx = &lines}};
    race(laps, 3, reps);
    unsigned lanes = bits.geometry.lanes;
    figure("add_single", laps[0].ns, laps[2].ns * lanes,
           "%llu MiB, %u lanes, %zu keys a lap", (unsigned long long)bits.n_bytes >> 20,
           lanes, n);
    figure("add_threads", laps[1].ns, laps[0].ns, "%zu keys a lap", n);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, next, next);
    tamis_filter_close(filter);
    bits_unmap(&bits);
    must(tamis_writer_close(writer), NULL, "close");
    free(hashes);
    file_remove(path);
}
