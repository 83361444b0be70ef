/* Adding by a thread that has the writer to itself: one stage against a loop by hand
 * over bits of the same geometry, without locks; and ten stages, whose lines an add
 * must look at, against those lines. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adding {
    struct tamis_writer *writer;
    size_t n, batch; /* keys a lap, a call */
    uint64_t *next;  /* number of the first key that nobody has added */
};

static double lap_add(void *ctx)
{
    struct adding *a = ctx;
    uint64_t *hashes = hashes_of(*a->next, a->n);
    int rc = 0;
    uint64_t began = now_ns();
    for (size_t i = 0; i + a->batch <= a->n && !rc; i += a->batch)
        rc = tamis_writer_add_hashes(a->writer, bench.domain.tag, &hashes[i], a->batch);
    double ns = (double)(now_ns() - began);
    must(rc, NULL, "adding");
    *a->next += a->n;
    free(hashes);
    return ns / (double)a->n;
}

/* Keys that are new, as those of lap_add(). */
struct by_hand {
    struct filling_bits filling;
    uint64_t next;
};

static double lap_by_hand(void *ctx)
{
    struct by_hand *b = ctx;
    uint64_t *hashes = hashes_of(b->next, b->filling.n);
    b->filling.hashes = hashes;
    double ns = lap_add_by_hand(&b->filling);
    b->next += b->filling.n;
    free(hashes);
    return ns;
}

/* Every page is written once before: the first write is the file system's affair. */
static void touch(struct adding *a, const struct bits *bits)
{
    for (size_t done = 0; done < 8 * bits->n_bytes / PAGE_BYTES; done += a->n)
        lap_add(a);
}

static void one_size(const char *id, uint64_t n_keys, size_t n, bool batches)
{
    char path[512], other_path[512];
    snprintf(path, sizeof path, "%s", path_in("alone.tamis"));
    snprintf(other_path, sizeof other_path, "%s", path_in("shared.tamis"));
    unsigned reps = bench.sizes.reps;
    uint64_t next = 0, other_next = 0;
    struct tamis_writer *writer = writer_new(path, n_keys),
                        *other = writer_new(other_path, n_keys);
    must(tamis_writer_one_thread(writer), NULL, "one thread");
    struct bits bits = bits_map(path);
    struct adding one = {writer, n, 1, &next}, thousand = {writer, n, 1000, &next},
                  shared = {other, n, 1, &other_next};
    struct by_hand by_hand = {{.bits = aligned_alloc(BLOCK_BYTES, bits.n_bytes),
                               .geometry = bits.geometry,
                               .n = n},
                              0};
    if (!by_hand.filling.bits)
        give_up("no memory for a loop by hand");
    memset(by_hand.filling.bits, 0, bits.n_bytes);
    touch(&one, &bits);
    touch(&shared, &bits);
    struct lap laps[] = {{.run = lap_add, .ctx = &one},
                         {.run = lap_by_hand, .ctx = &by_hand},
                         {.run = lap_add, .ctx = &thousand},
                         {.run = lap_add, .ctx = &shared}};
    race(laps, batches ? 4 : 2, reps);
    figure(id, laps[0].ns, laps[1].ns, "%llu KiB, %u lanes of %u words, %zu keys a lap",
           (unsigned long long)bits.n_bytes >> 10, bits.geometry.lanes,
           bits.geometry.words, n);
    figure_pairs(id, laps[0].samples, laps[1].samples, reps);
    if (batches) {
        figure("alone_batch", laps[2].ns, laps[1].ns, "%llu KiB",
               (unsigned long long)bits.n_bytes >> 10);
        figure("alone_locked", laps[0].ns, laps[3].ns, "%llu KiB",
               (unsigned long long)bits.n_bytes >> 10);
    }
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, next, next);
    tamis_filter_close(filter);
    bits_unmap(&bits);
    free(by_hand.filling.bits);
    must(tamis_writer_close(writer), NULL, "close");
    must(tamis_writer_close(other), NULL, "close");
    file_remove(path);
    file_remove(other_path);
}

/* ---- ten stages ---- */

static void ten_stages(void)
{
    enum { STAGES = 10, BATCH = 1000 };
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("alone_stages.tamis"));
    struct tamis_writer *writer = writer_new(path, bench.sizes.stage_keys);
    struct tamis_filter_info info = {0};
    uint64_t next = 0;
    size_t n = bench.sizes.adds / BATCH / 4 * BATCH;
    struct adding adding = {writer, n, BATCH, &next};
    must(tamis_writer_one_thread(writer), NULL, "one thread");
    while (info.n_stages < STAGES) {
        struct adding some = {writer, BATCH, BATCH, &next};
        lap_add(&some);
        must(tamis_writer_info(writer, &info), NULL, "info");
    }
    uint64_t room = info.keys / 2;
    if (n * (bench.sizes.reps + 1) > room)
        adding.n = n = room / (bench.sizes.reps + 1) / BATCH * BATCH;
    if (n == 0)
        adding.n = n = BATCH;
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct stage_lines lines = stage_lines_of(filter, path, hashes, n);
    struct lap laps[] = {{.run = lap_add, .ctx = &adding},
                         {.run = lap_stage_lines, .ctx = &lines}};
    race(laps, 2, bench.sizes.reps);
    figure("alone_stages", laps[0].ns, laps[1].ns,
           "%u stages, %zu keys a lap, %llu in all", lines.n_stages, n,
           (unsigned long long)next);
    figure_pairs("alone_stages", laps[0].samples, laps[1].samples, bench.sizes.reps);
    check_present(filter, next, next);
    free(hashes);
    bits_unmap(&lines.bits);
    tamis_filter_close(filter);
    must(tamis_writer_close(writer), NULL, "close");
    file_remove(path);
}

void figures_alone(void)
{
    size_t n = bench.sizes.adds / 1000 * 1000;
    size_t small = bench.sizes.small / 64 / 1000 * 1000;
    one_size("alone_small", bench.sizes.small, small ? small : 1000, false);
    one_size("alone_large", bench.sizes.large, n ? n : 1000, true);
    ten_stages();
}
