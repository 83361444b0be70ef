/* One key against all columns of a pack: against the same segments loose, and against
 * bare loads of the rows that the key has. Packing, against reading and writing as many
 * bytes. */
#include "tests/bench/bench.h"
#include "tests/bench/segments.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct asking {
    struct tamis_snapshot *snapshot;
    struct tamis_key *keys;
    uint64_t *hashes;
    size_t n_keys, n_segments;
    uint64_t *absent;
    uint64_t n_maybe; /* of the last lap */
    const struct bits *file;
    struct tamis_pack_place place;
};

/* ---- laps: nanoseconds a key ---- */

static size_t words_of(const struct asking *a)
{
    return (a->n_segments + 63) / 64;
}

static void count(struct asking *a)
{
    uint64_t n_absent = 0;
    for (size_t i = 0; i < a->n_keys * words_of(a); i++)
        n_absent += (uint64_t)__builtin_popcountll(a->absent[i]);
    a->n_maybe = a->n_keys * a->n_segments - n_absent;
}

/* Before each lap: else one finds its rows in the cache because of the lap before it,
 * and another one does not. */
static void evict(void)
{
    enum { N_LINES = 1 << 21, LINE = 64 };
    static uint8_t *lines;
    uint64_t sum = 0;
    if (!lines) {
        lines = allocate((size_t)N_LINES * LINE);
        memset(lines, 1, (size_t)N_LINES * LINE);
    }
    for (uint32_t i = 0; i < N_LINES; i++) /* in no order that is foreseen */
        sum += lines[(size_t)(i * 0x9E3779B1U % N_LINES) * LINE];
    sink += sum;
}

static double lap_one(void *ctx)
{
    struct asking *a = ctx;
    evict();
    uint64_t began = now_ns();
    for (size_t i = 0; i < a->n_keys; i++)
        sink += tamis_snapshot_probe_all(a->snapshot, &a->keys[i],
                                         a->absent + i * words_of(a), NULL);
    double ns = (double)(now_ns() - began);
    count(a);
    return ns / (double)a->n_keys;
}

static double lap_batch_of_keys(void *ctx)
{
    struct asking *a = ctx;
    evict();
    uint64_t began = now_ns();
    sink +=
        tamis_snapshot_probe_keys(a->snapshot, NULL, 0, a->keys, a->n_keys, a->absent);
    double ns = (double)(now_ns() - began);
    count(a);
    return ns / (double)a->n_keys;
}

/* Rows of a key in one lane. */
static inline const uint8_t *row_of(const struct asking *a, uint64_t block, uint64_t h,
                                    uint32_t w)
{
    uint32_t at = (geometry_start(h) + w) % WORDS_PER_BLOCK;
    uint64_t row = block * BLOCK_BITS + at * 64 + geometry_bit(h, at);
    return a->file->base + row * a->place.row_bytes;
}

/* One load from each row of the key in each lane; or one prefetch. */
static inline uint64_t load_rows(const struct asking *a, uint64_t h, bool prefetch)
{
    const struct tamis_pack_place *p = &a->place;
    uint64_t sum = 0, word;
    for (uint32_t lane = 0; lane < p->lanes; lane++, h = geometry_next_lane(h)) {
        uint64_t block = lane * p->n_blocks + geometry_block(h, p->n_blocks);
        for (uint32_t w = 0; w < p->words; w++) {
            const uint8_t *row = row_of(a, block, h, w);
            if (prefetch) {
                __builtin_prefetch(row);
                continue;
            }
            memcpy(&word, row, sizeof word);
            sum += word;
        }
    }
    return sum;
}

/* The loads of one key after the other, and nothing else. */
static double lap_rows(void *ctx)
{
    const struct asking *a = ctx;
    evict();
    uint64_t sum = 0, began = now_ns();
    for (size_t i = 0; i < a->n_keys; i++)
        sum += load_rows(a, a->hashes[i], false);
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)a->n_keys;
}

/* The same, with the rows of later keys prefetched. */
static double lap_rows_ahead(void *ctx)
{
    enum { AHEAD = 8 };
    const struct asking *a = ctx;
    evict();
    uint64_t sum = 0, began = now_ns();
    for (size_t i = 0; i < a->n_keys; i++) {
        if (i + AHEAD < a->n_keys)
            load_rows(a, a->hashes[i + AHEAD], true);
        sum += load_rows(a, a->hashes[i], false);
    }
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)a->n_keys;
}

/* ---- packing ---- */

/* Reads a file of so many bytes, writes another one and syncs it, in nanoseconds. */
static double copy_file_ns(uint64_t n_bytes)
{
    enum { PIECE = 1 << 20 };
    char *piece = allocate(PIECE);
    int from = open(path_in("from"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int to = open(path_in("to"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (from < 0 || to < 0)
        give_up("no files to copy");
    memset(piece, 'x', PIECE);
    for (uint64_t at = 0; at < n_bytes; at += PIECE)
        if (pwrite(from, piece, PIECE, (off_t)at) != PIECE)
            give_up("no room");
    uint64_t began = now_ns();
    for (uint64_t at = 0; at < n_bytes; at += PIECE)
        if (pread(from, piece, PIECE, (off_t)at) != PIECE ||
            pwrite(to, piece, PIECE, (off_t)at) != PIECE)
            give_up("no room");
    fsync(to);
    double ns = (double)(now_ns() - began);
    close(from), close(to);
    unlink(path_in("from")), unlink(path_in("to"));
    free(piece);
    return ns;
}

/* Packs all in an edit, in nanoseconds. */
static double pack_ns(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                      uint64_t n_threads, struct tamis_pack_report *report)
{
    struct tamis_pack_options opt = {.size = sizeof opt, .n_threads = n_threads};
    struct tamis_diag diag = {0};
    uint64_t began = now_ns();
    must(tamis_edit_pack(edit, snapshot, NULL, 0, &opt, report, &diag), &diag, "pack");
    return (double)(now_ns() - began);
}

struct packing {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    uint64_t n_threads;
};

/* The pack is thrown away. */
static double lap_pack(void *ctx)
{
    const struct packing *p = ctx;
    struct tamis_pack_report report;
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    must(tamis_edit_begin(p->store, &edit, &diag), &diag, "edit");
    double ns = pack_ns(edit, p->snapshot, p->n_threads, &report);
    tamis_edit_abort(edit);
    return ns;
}

static void pack_by_threads(struct tamis_store *store, struct tamis_snapshot *snapshot)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    struct packing all = {store, snapshot, n > 0 ? (uint64_t)n : 1}, one = all;
    one.n_threads = 1;
    struct lap laps[] = {{.run = lap_pack, .ctx = &one},
                         {.run = lap_pack, .ctx = &all}};
    unpin();
    race(laps, 2, bench.sizes.reps < 5 ? bench.sizes.reps : 5);
    pin();
    figure("packs_threads", laps[1].ns / 1e6, laps[0].ns / 1e6,
           "%llu threads, synced", (unsigned long long)all.n_threads);
}

/* Packs all; the pack is one band, and its rows begin behind the header. */
static struct tamis_pack_report pack_all(struct tamis_store *store,
                                         struct tamis_snapshot *snapshot)
{
    struct tamis_pack_report report;
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    must(tamis_edit_begin(store, &edit, &diag), &diag, "edit");
    double ns = pack_ns(edit, snapshot, 1, &report);
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
    if (report.n_bands != 1)
        give_up("equal segments came to %llu bands",
                (unsigned long long)report.n_bands);
    double copied = copy_file_ns(report.rows_bytes);
    figure("packs_packing", ns / 1e6, copied / 1e6, "%llu MiB of rows, synced",
           (unsigned long long)(report.rows_bytes >> 20));
    return report;
}

/* ---- the same store, loose and packed ---- */

static struct asking asking_of(struct tamis_snapshot *snapshot, size_t n_keys)
{
    struct asking a = {.snapshot = snapshot, .n_keys = n_keys};
    a.n_segments = tamis_snapshot_n_segments(snapshot);
    a.hashes = hashes_of(fresh_negatives(n_keys), n_keys);
    a.keys = allocate(n_keys * sizeof *a.keys);
    for (size_t i = 0; i < n_keys; i++)
        a.keys[i] = tamis_key_of_hash(bench.domain.tag, a.hashes[i]);
    a.absent = allocate(n_keys * words_of(&a) * sizeof *a.absent);
    return a;
}

static void check_keys(struct tamis_snapshot *snapshot, uint64_t keys_each)
{
    size_t n = tamis_snapshot_n_segments(snapshot);
    uint64_t *absent = allocate((n + 63) / 64 * sizeof *absent);
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < keys_each; k += keys_each / 7 + 1) {
            uint64_t hash;
            hashes_fill(i * keys_each + k, 1, &hash);
            struct tamis_key key = tamis_key_of_hash(bench.domain.tag, hash);
            tamis_snapshot_probe_all(snapshot, &key, absent, NULL);
            if (absent[i / 64] >> i % 64 & 1)
                wrong("a key of packed segment %zu is ABSENT there", i);
        }
    free(absent);
}

/* Asks so many keys that each page of rows is checked, but for one in a thousand packs.
 */
static void check_pages(const struct asking *a)
{
    enum { AT_ONCE = 1024 };
    uint64_t *hashes = allocate(AT_ONCE * sizeof *hashes);
    struct tamis_key keys[AT_ONCE];
    for (uint64_t left = 24 * a->place.n_blocks + AT_ONCE; left >= AT_ONCE;
         left -= AT_ONCE) {
        hashes_fill(fresh_negatives(AT_ONCE), AT_ONCE, hashes);
        for (size_t i = 0; i < AT_ONCE; i++)
            keys[i] = tamis_key_of_hash(bench.domain.tag, hashes[i]);
        sink += tamis_snapshot_probe_keys(a->snapshot, NULL, 0, keys, AT_ONCE, NULL);
    }
    free(hashes);
}

static void map_pack(struct asking *a, const char *store, struct bits *file)
{
    struct tamis_segment_info info;
    char path[700];
    must(tamis_snapshot_pack(a->snapshot, 0, NULL, &a->place), NULL, "place");
    must(tamis_snapshot_segment(a->snapshot, 0, &info), NULL, "segment");
    snprintf(path, sizeof path, "%s/%s", store, info.file);
    *file = bits_map(path); /* the first stage is the rows */
    a->file = file;
}

void figures_packs(void)
{
    char path[512];
    const struct sizes *s = &bench.sizes;
    struct tamis_snapshot *loose, *packed;
    struct tamis_diag diag = {0};
    struct bits file;
    snprintf(path, sizeof path, "%s", path_in("packs"));
    struct tamis_store *store = segments_store(path, s->pack_segments, s->pack_keys);
    must(tamis_snapshot_current(store, &loose, &diag), &diag, "snapshot");
    pack_by_threads(store, loose);
    struct tamis_pack_report report = pack_all(store, loose);
    must(tamis_snapshot_current(store, &packed, &diag), &diag, "snapshot");
    check_keys(packed, s->pack_keys);
    struct asking one = asking_of(loose, s->probes / s->pack_segments / 4 + 64),
                  all = asking_of(packed, 16384), many = all;
    map_pack(&all, path, &file);
    check_pages(&all);
    struct lap laps[] = {{.run = lap_one, .ctx = &one},
                         {.run = lap_one, .ctx = &all},
                         {.run = lap_batch_of_keys, .ctx = &many},
                         {.run = lap_rows, .ctx = &all},
                         {.run = lap_rows_ahead, .ctx = &all}};
    race(laps, sizeof laps / sizeof laps[0], s->reps);
    check_error(0.01, all.n_maybe, all.n_keys * all.n_segments, "packs");
    if (all.n_maybe != many.n_maybe)
        wrong("packs: %llu pairs one by one, %llu in batches",
              (unsigned long long)all.n_maybe, (unsigned long long)many.n_maybe);
    char what[100];
    snprintf(what, sizeof what, "%zu segments of %llu keys, %llu MiB of rows",
             all.n_segments, (unsigned long long)s->pack_keys,
             (unsigned long long)(report.rows_bytes >> 20));
    figure("packs_loose", laps[1].ns / 1e3, laps[0].ns / 1e3, "%s", what);
    figure("packs_rows", laps[1].ns, laps[3].ns, "%s", what);
    figure("packs_rows_many", laps[2].ns, laps[4].ns, "%s", what);
    uint32_t in_row = (all.place.row_bytes + 63) / 64;
    uint32_t lines = all.place.words * all.place.lanes * in_row;
    figure("packs_lines", (double)lines / (double)all.n_segments, 0,
           "%u lanes of %u rows of %u bytes", all.place.lanes, all.place.words,
           all.place.row_bytes);
    bits_unmap(&file);
    free(one.hashes), free(one.keys), free(one.absent);
    free(all.hashes), free(all.keys), free(all.absent);
    tamis_snapshot_release(loose);
    tamis_snapshot_release(packed);
    tamis_store_close(store);
    tree_remove(path);
}
