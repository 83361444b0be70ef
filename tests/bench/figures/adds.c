/* Adding to a growing filter: one key at a time, by one thread and by two, and in
 * batches, against random lines of the same file. */
#include "tests/bench/bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adding {
    struct tamis_writer *writer;
    size_t n; /* keys a lap */
    unsigned n_threads;
    size_t batch;   /* keys a call */
    uint64_t *next; /* number of the first key that nobody has added */
};

struct part {
    struct tamis_writer *writer;
    const uint64_t *hashes;
    size_t n, batch;
    int rc;
};

static void *add_part(void *ctx)
{
    struct part *p = ctx;
    for (size_t i = 0; i < p->n && !p->rc; i += p->batch) {
        size_t left = p->n - i;
        p->rc = tamis_writer_add_hashes(p->writer, bench.domain.tag, &p->hashes[i],
                                        left < p->batch ? left : p->batch);
    }
    return NULL;
}

static double add_by_two(struct part *parts)
{
    pthread_t threads[2];
    unpin();
    uint64_t began = now_ns();
    for (int t = 0; t < 2; t++)
        if (pthread_create(&threads[t], NULL, add_part, &parts[t]) != 0)
            give_up("no thread");
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    double ns = (double)(now_ns() - began);
    pin();
    return ns;
}

static double add_by_one(struct part *part)
{
    uint64_t began = now_ns();
    add_part(part);
    return (double)(now_ns() - began);
}

/* Nanoseconds a key, so half of what a thread takes when there are two. New keys for
 * each lap: one that is there already is no add. */
static double lap_add(void *ctx)
{
    struct adding *a = ctx;
    uint64_t *hashes = hashes_of(*a->next, a->n);
    size_t each = a->n / a->n_threads;
    struct part parts[2] = {{a->writer, hashes, each, a->batch, 0},
                            {a->writer, hashes + each, a->n - each, a->batch, 0}};
    double ns = a->n_threads == 2 ? add_by_two(parts) : add_by_one(parts);
    must(parts[0].rc ? parts[0].rc : parts[1].rc, NULL, "adding");
    *a->next += a->n;
    free(hashes);
    return ns / (double)a->n;
}

/* The least that an add costs if others may see it and add meanwhile, on memory of our
 * own: it announces itself, and sets a bit in so many words of a line of each lane.
 * Each step is one locked instruction, which waits for everything before it. The first
 * one in a line waits for the line, too. */
struct locked {
    uint8_t *bits;
    struct geometry g;
    const uint64_t *hashes;
    size_t n;
};

static double lap_locked(void *ctx)
{
    static uint64_t announced;
    const struct locked *l = ctx;
    uint64_t began = now_ns();
    for (size_t i = 0; i < l->n; i++) {
        uint64_t h = l->hashes[i], next = h;
        __atomic_exchange_n(&announced, 1, __ATOMIC_SEQ_CST);
        for (uint32_t lane = 0; lane < l->g.lanes; lane++) {
            __builtin_prefetch(l->bits + geometry_block_offset(&l->g, lane, next), 1);
            next = geometry_next_lane(next);
        }
        for (uint32_t lane = 0; lane < l->g.lanes; lane++) {
            uint8_t *block = l->bits + geometry_block_offset(&l->g, lane, h);
            uint64_t *word = (uint64_t *)(void *)block;
            for (uint32_t w = 0; w < l->g.words; w++)
                sink += __atomic_fetch_or(&word[w], h, __ATOMIC_RELAXED) & 1;
            h = geometry_next_lane(h);
        }
    }
    return (double)(now_ns() - began) / (double)l->n;
}

void figures_adds(void)
{
    enum { BATCH = 1000 };
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("adds.tamis"));
    size_t n = bench.sizes.adds;
    unsigned reps = bench.sizes.reps;
    /* The stage stays below its capacity, and is as large as the large filter. */
    uint64_t next = 0, needed = n * (3 * reps + 6);
    struct tamis_writer *writer =
        writer_new(path, needed > bench.sizes.large ? needed : bench.sizes.large);
    struct bits bits = bits_map(path);
    struct adding one = {writer, n, 1, 1, &next}, two = {writer, n, 2, 1, &next},
                  batches = {writer, n, 1, BATCH, &next};
    /* The first write to a page is the file system's affair: eight keys a page. */
    size_t to_touch = 8 * bits.n_bytes / PAGE_BYTES;
    for (size_t done = 0; done < to_touch && next < needed / 4; done += n)
        lap_add(&one);
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct probing lines = probing_of(NULL, &bits, hashes, n);
    struct locked locked = {allocate(bits.n_bytes), bits.geometry, hashes, n};
    memset(locked.bits, 0, bits.n_bytes);
    struct lap laps[] = {{.run = lap_add, .ctx = &one},
                         {.run = lap_add, .ctx = &two},
                         {.run = lap_add, .ctx = &batches},
                         {.run = lap_lines, .ctx = &lines},
                         {.run = lap_locked, .ctx = &locked}};
    race(laps, sizeof laps / sizeof laps[0], reps);
    unsigned lanes = bits.geometry.lanes;
    figure("add_single", laps[0].ns, laps[3].ns * lanes,
           "%llu MiB, %u lanes, %zu keys a lap", (unsigned long long)bits.n_bytes >> 20,
           lanes, n);
    figure("add_single_locked", laps[0].ns, laps[4].ns,
           "%u lanes of %u words, memory of ours", lanes, bits.geometry.words);
    figure("add_batch", laps[2].ns, laps[3].ns * lanes, "%d keys a call", BATCH);
    figure("add_threads", laps[1].ns, laps[0].ns, "%zu keys a lap", n);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, next, next);
    tamis_filter_close(filter);
    bits_unmap(&bits);
    must(tamis_writer_close(writer), NULL, "close");
    free(hashes), free(locked.bits);
    file_remove(path);
}
