/* Many segments of a store: one of them by itself, and all of them. Against
 * their lines alone. Columns of a pack against its rows;
 * packing against reading and writing as many bytes. */
#include "tests/bench/peers/peers.h"
#include "tests/support/inline/loops.h"

enum { A_CALL = 32 };

struct segments {
    struct tamis_snapshot *snapshot;
    size_t n;
    struct tamis_target *targets;
    struct tamis_filter **filters; /* the snapshot's */
    struct tamis_inline *values;
    struct lines lines;
    uint64_t *absent; /* A_CALL rows */
    /* Only for a pack. */
    struct tamis_pack_place place;
    const uint8_t *rows;
};

/* ---- what is asked ---- */

static size_t ask_one(void *segments, const struct piece *p)
{
    const struct segments *s = segments;
    EACH_KEY(
        p, tamis_snapshot_probe(s->snapshot, &s->targets[p->segments[i]], &key, NULL));
}

/* The same filter, without a snapshot. */
static size_t ask_filter(void *segments, const struct piece *p)
{
    const struct segments *s = segments;
    EACH_KEY(p, tamis_filter_probe(s->filters[p->segments[i]], &key, NULL));
}

static size_t ask_value(void *segments, const struct piece *p)
{
    const struct segments *s = segments;
    return inline_loops_at(0)->probe_one_of(s->values, p->segments, bench.domain.tag,
                                            p->hashes, p->n);
}

static size_t count_bits(const uint64_t *words, size_t n)
{
    size_t n_bits = 0;
    for (size_t i = 0; i < n; i++)
        n_bits += (size_t)__builtin_popcountll(words[i]);
    return n_bits;
}

static size_t ask_all(void *segments, const struct piece *p)
{
    const struct segments *s = segments;
    struct tamis_key key;
    const struct tamis_query q = {
        .size = sizeof q, .all = 1, .keys = &key, .n_keys = 1, .absent = s->absent};
    size_t n_absent = 0;
    for (size_t i = 0; i < p->n; i++) {
        key = (struct tamis_key){.tag = bench.domain.tag, .hash = p->hashes[i]};
        sink += tamis_snapshot_query(s->snapshot, &q, NULL);
        n_absent += count_bits(s->absent, (s->n + 63) / 64);
    }
    return n_absent;
}

static size_t ask_all_many(void *segments, const struct piece *p)
{
    const struct segments *s = segments;
    struct tamis_key keys[A_CALL];
    struct tamis_query q = {
        .size = sizeof q, .all = 1, .keys = keys, .absent = s->absent};
    size_t n_absent = 0;
    for (size_t at = 0; at < p->n; at += A_CALL) {
        size_t n = q.n_keys = p->n - at < A_CALL ? p->n - at : A_CALL;
        for (size_t i = 0; i < n; i++)
            keys[i] =
                (struct tamis_key){.tag = bench.domain.tag, .hash = p->hashes[at + i]};
        sink += tamis_snapshot_query(s->snapshot, &q, NULL);
        n_absent += count_bits(s->absent, n * ((s->n + 63) / 64));
    }
    return n_absent;
}

/* ---- the store ---- */

static void segments_begin(struct segments *s, struct tamis_store *store, size_t n)
{
    *s = (struct segments){.snapshot = snapshot_of(store), .n = n};
    s->targets = allocate(n * sizeof *s->targets);
    s->filters = allocate(n * sizeof *s->filters);
    s->values = allocate(n * sizeof *s->values);
    s->absent = allocate(A_CALL * ((n + 63) / 64) * sizeof *s->absent);
    for (size_t i = 0; i < n; i++) {
        s->targets[i] = tamis_snapshot_target(s->snapshot, i);
        must(tamis_snapshot_filter(s->snapshot, i, &s->filters[i], NULL), NULL,
             "filter");
        must(tamis_filter_verify(s->filters[i], &(struct tamis_verify){0}, NULL), NULL,
             "verify");
        must(tamis_snapshot_inline(s->snapshot, &s->targets[i], TAMIS_INLINE_VERSION,
                                   &s->values[i]),
             NULL, "inline");
        struct geometry g = {s->values[i].geometry.n_blocks, 1, 1};
        lines_add(&s->lines, s->values[i].bits, &g); /* its first lane */
    }
}

static void segments_end(struct segments *s)
{
    for (size_t i = 0; i < s->n; i++)
        tamis_inline_release(&s->values[i]);
    free(s->values), free(s->filters), free(s->targets);
    free(s->absent), free(s->lines.lanes);
    tamis_snapshot_release(s->snapshot);
}

void room_segments(void)
{
    static struct segments s;
    static const struct {
        const char *id;
        ask_fn *ours, *peer;
        size_t each; /* segments a key, 0: all */
    } rows[] = {
        {"segments_one_inline", ask_value, ask_line_of, 1},
        {"segments_one_filter", ask_one, ask_filter, 1},
        {"segments_all_loads", ask_all, ask_lines, 0},
        {"segments_all_32", ask_all_many, ask_lines_ahead, 0},
    };
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("store"));
    size_t n = bench.sizes.segments;
    uint64_t each = bench.sizes.segment_keys;
    struct tamis_store *store = store_of(path, n, each);
    segments_begin(&s, store, n);
    struct source one = source_of(n * each, bench.sizes.small_piece, each),
                  all = source_of(n * each, bench.sizes.small_piece / 50, each);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool same = rows[i].peer == ask_filter;
        contest(rows[i].id,
                (struct contest){.ours = {rows[i].ours, &s, 0.01},
                                 .peer = {rows[i].peer, same ? (void *)&s : &s.lines,
                                          same ? 0.01 : 0},
                                 .source = rows[i].each ? &one : &all,
                                 .n_segments = rows[i].each ? rows[i].each : n,
                                 .same = same});
        figure_detail(rows[i].id, "%zu segments of %llu keys", n,
                      (unsigned long long)each);
    }
    source_free(&one), source_free(&all);
    segments_end(&s);
    tamis_store_close(store);
    tree_remove(path);
}

/* ---- a pack: the rows alone, and packing ---- */

/* The lines of each row of the key in each lane: one load of each, or one prefetch. */
static inline uint64_t load_rows(const struct segments *s, uint64_t h, bool prefetch)
{
    const struct tamis_pack_place *p = &s->place;
    uint64_t sum = 0, word;
    for (uint32_t lane = 0; lane < p->lanes; lane++, h = geometry_next_lane(h)) {
        uint64_t block = lane * p->n_blocks + geometry_block(h, p->n_blocks);
        for (uint32_t i = 0; i < p->words; i++) {
            uint32_t w = (geometry_start(h) + i) % WORDS_PER_BLOCK;
            uint64_t row = block * BLOCK_BITS + w * 64 + geometry_bit(h, w);
            for (uint32_t at = 0; at < p->row_bytes; at += BLOCK_BYTES) {
                const uint8_t *line = s->rows + row * p->row_bytes + at;
                if (prefetch) {
                    __builtin_prefetch(line);
                    continue;
                }
                memcpy(&word, line, sizeof word);
                sum += word;
            }
        }
    }
    return sum;
}

static size_t ask_rows(void *segments, const struct piece *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n; i++)
        sum += load_rows(segments, p->hashes[i], false);
    sink += sum;
    return 0;
}

static size_t ask_rows_ahead(void *segments, const struct piece *p)
{
    enum { AHEAD = 8 };
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (i + AHEAD < p->n)
            load_rows(segments, p->hashes[i + AHEAD], true);
        sum += load_rows(segments, p->hashes[i], false);
    }
    sink += sum;
    return 0;
}

struct packing {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    uint64_t n_bytes; /* of rows, when it has run */
};

/* The pack is thrown away. */
static double pack(void *packing)
{
    struct packing *p = packing;
    struct tamis_pack_options options = {.size = sizeof options, .n_threads = 1};
    struct tamis_pack_report report;
    struct tamis_edit *edit = edit_of(p->store);
    struct tamis_diag diag = {0};
    uint64_t began = now_ns();
    must(tamis_edit_pack(edit, p->snapshot, NULL, 0, &options, &report, &diag), &diag,
         "pack");
    double ns = (double)(now_ns() - began);
    tamis_edit_abort(edit);
    p->n_bytes = report.rows_bytes;
    return ns;
}

static double copy(void *packing)
{
    return write_durably_ns(((struct packing *)packing)->n_bytes, true);
}

static void columns_begin(struct segments *s, struct tamis_store *store,
                          const char *path)
{
    struct tamis_filter *file;
    struct tamis_segment_info info;
    char name[700];
    *s = (struct segments){.snapshot = snapshot_of(store), .n = bench.sizes.columns};
    s->absent = allocate(A_CALL * ((s->n + 63) / 64) * sizeof *s->absent);
    must(tamis_snapshot_pack(s->snapshot, 0, &file, &s->place, NULL), NULL, "place");
    must(tamis_filter_verify(file, &(struct tamis_verify){0}, NULL), NULL, "verify");
    must(tamis_snapshot_segment(s->snapshot, 0, &info), NULL, "segment");
    if (s->place.n_bands_of_pack != 1)
        give_up("equal segments came to %u bands", s->place.n_bands_of_pack);
    snprintf(name, sizeof name, "%s/%s", path, info.file);
    s->rows = bits_of(name, file, 0).base; /* the first stage is the rows */
}

void room_packs(void)
{
    static const struct {
        const char *id;
        ask_fn *ours, *peer;
    } rows[] = {{"packs_one", ask_all, ask_rows},
                {"packs_32", ask_all_many, ask_rows_ahead}};
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("packs"));
    uint64_t n = bench.sizes.columns, each = bench.sizes.column_keys;
    struct tamis_store *store = store_of(path, n, each);
    struct packing packing = {store, snapshot_of(store), 0};
    compare("packs_pack", pack, &packing, copy, &packing);
    figure_detail("packs_pack", "%llu MiB of rows",
                  (unsigned long long)packing.n_bytes >> 20);
    tamis_snapshot_release(packing.snapshot);
    store_pack(store, TAMIS_REPACK_NONE);
    struct segments s;
    columns_begin(&s, store, path);
    struct source source = source_of(n * each, bench.sizes.small_piece / 5, 0);
    for (size_t i = 0; i < 2; i++) {
        contest(rows[i].id, (struct contest){.ours = {rows[i].ours, &s, 0.01},
                                             .peer = {rows[i].peer, &s, 0},
                                             .source = &source,
                                             .n_segments = n});
        figure_detail(rows[i].id, "%zu columns of %llu keys, %u lanes of %u rows", s.n,
                      (unsigned long long)each, s.place.lanes, s.place.words);
    }
    source_free(&source);
    free(s.absent);
    tamis_snapshot_release(s.snapshot);
    tamis_store_close(store);
    tree_remove(path);
}
