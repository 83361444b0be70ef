/* One query in all of its shapes: ways to ask the same keys of the same segments, each
 * beside the best of them, and beside bare loads of the lines that hold the answers. A
 * way may cost 1.5 times as much, 25 ns a key more, and 150 ns more for each candidate.
 * Beside a list stands the other way and a bare pass over the list for each 64 keys:
 * no other way reads one. A hit of the bits that only a range excludes is a candidate,
 * too, beside bare loads: these read no range.
 *
 * All segments have the same 16 keys, and each its own. Their key ranges end alike, and
 * begin anywhere in the lower half of all keys. */
#include "tests/bench/peers/peers.h"

enum {
    COMMON = 16,
    KEY_BYTES = 16,
    MOST_KEYS = 1024, /* of a call */
    AT_ONCE = 256,    /* keys of some calls */
    LEAST_KEYS = 8,   /* of some calls: chance decides how soon one is told */
    /* In some calls, times the square of the rounds. */
    MOST_PAIRS = 1 << 11, /* of a key and a segment; */
    MOST_IN_ALL = 1 << 4, /* if each is a candidate */
    MOST_CALL = 1 << 23,  /* of one call, in any form */
    MOST_BANDS = 256,
    LINE_COLUMNS = 512,
};

struct shapes {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    char path[512];
    size_t packed, n, n_words; /* segments in a pack, and all; words of a row of all */
    uint64_t each;             /* keys that a segment has alone */
    struct tamis_target *listed, *shuffled;
    uint64_t *absent;
    struct lines lines;
    const uint8_t *bands[MOST_BANDS];
    /* Calls, of so many keys each, all about one segment, or about all segments. */
    size_t n_keys, n_calls;
    uint32_t picks[AT_ONCE];
    struct tamis_target ones[AT_ONCE];
    struct tamis_filter *filters[AT_ONCE]; /* NULL: it is packed */
    struct lane lanes[AT_ONCE];
    struct tamis_key keys[MOST_KEYS];
    uint8_t bytes[MOST_KEYS][KEY_BYTES];
    uint64_t hashes[MOST_KEYS];
    uint32_t calls[MOST_KEYS];
};

/* ---- keys ---- */

static const char *const kinds[] = {"in none", "outside some ranges", "in one",
                                    "in all"};
enum { NONE, OUTSIDE, IN_ONE, IN_ALL, N_KINDS };

static struct tamis_key shape_key(uint64_t number, bool low, uint8_t bytes[KEY_BYTES])
{
    uint64_t first = __builtin_bswap64(mixed(number) >> 1 | (uint64_t)!low << 63);
    memcpy(bytes, &first, 8);
    memcpy(bytes + 8, &number, 8);
    return tamis_key_of(&bench.domain, bytes, KEY_BYTES);
}

/* Key i of segment s has number s * each + i; the first 16 are those of all. */
static void draw_keys(struct shapes *s, unsigned kind, bool ranges)
{
    static uint64_t n_drawn;
    for (size_t i = 0; i < s->n_keys * s->n_calls; i++) {
        uint64_t x = mixed(++n_drawn), number = ABSENT_KEYS + x / 4;
        s->calls[i] = (uint32_t)(i / s->n_keys);
        if (kind == IN_ONE)
            number = s->picks[s->calls[i]] * s->each + COMMON + 1 + x % (s->each - 1);
        s->keys[i] = shape_key(kind == IN_ALL ? x % COMMON : number, kind == OUTSIDE,
                               s->bytes[i]);
        s->hashes[i] = s->keys[i].hash;
        if (!ranges)
            s->keys[i].bytes = NULL;
    }
}

/* ---- ways, and groups of those that say the same ---- */

static const struct way {
    const char *name;
    bool one, all, shuffled, hashes, found, probe, filter, loads;
} ways[] = {
    {"all", .all = true},
    {"hashes of all", .all = true, .hashes = true},
    {"candidates of all", .all = true, .found = true},
    {"a list", .one = false},
    {"a shuffled list", .shuffled = true},
    {"bare loads", .loads = true},
    {"a list of one", .one = true},
    {"hashes of one", .one = true, .hashes = true},
    {"probes of one", .one = true, .probe = true},
    {"its filter", .one = true, .filter = true},
    {"bare loads", .one = true, .loads = true},
};
enum {
    N_WAYS = sizeof ways / sizeof ways[0],
    FOUND = 2,
    ONE = 6,
    PROBES = 8,
    FILTER = 9
};

struct group {
    bool one, rows, ranges;
    unsigned kind;
    double ns[N_WAYS]; /* a key; the least of all rounds; NAN: not asked */
    double hits;       /* candidates a key, */
    double of_bits;    /* and those if no range is compared */
    double pass[2];    /* over the list, and shuffled, in ns a key, the least */
};

static bool is_asked(const struct shapes *s, const struct group *g, const struct way *w)
{
    return w->one == g->one && !(g->ranges && w->hashes) && !(w->filter && s->packed) &&
           !(w->found && !g->rows);
}

static size_t ask_shape(struct shapes *s, const struct way *w, bool rows, size_t call)
{
    static uint64_t from_all[MOST_KEYS / 64];
    static size_t n_found[MOST_KEYS];
    static uint32_t found[MOST_CALL];
    const struct tamis_key *keys = s->keys + call * s->n_keys;
    const struct tamis_query q = {
        .size = sizeof q,
        .all = w->all,
        .targets = w->all        ? NULL
                   : w->one      ? &s->ones[call]
                   : w->shuffled ? s->shuffled
                                 : s->listed,
        .n_targets = w->all   ? 0
                     : w->one ? 1
                              : s->n,
        .keys = w->hashes ? NULL : keys,
        .hashes = w->hashes ? s->hashes + call * s->n_keys : NULL,
        .tag = bench.domain.tag,
        .n_keys = s->n_keys,
        .absent = rows && !w->found ? s->absent : NULL,
        .absent_from_all = w->hashes && !rows ? from_all : NULL,
        .candidates = w->found ? found : NULL,
        .max_candidates = s->n,
        .n_candidates = w->found ? n_found : NULL};
    size_t n = 0;
    if (!w->probe && !w->filter)
        return tamis_snapshot_query(s->snapshot, &q, NULL);
    for (size_t i = 0; i < s->n_keys; i++)
        n += w->probe
                 ? tamis_snapshot_probe(s->snapshot, &s->ones[call], &keys[i], NULL)
                 : tamis_filter_probe(s->filters[call], &keys[i], NULL);
    return n;
}

/* Nanoseconds a key. *n_absent: keys that are ABSENT from all that were asked. */
static double ask_way(struct shapes *s, const struct way *w, bool rows,
                      size_t *n_absent)
{
    struct lines ones = {s->lanes, s->n_calls, 1};
    const struct piece p = {
        .n = s->n_keys * s->n_calls, .hashes = s->hashes, .segments = s->calls};
    uint64_t began = now_ns();
    *n_absent = 0;
    for (size_t i = 0; !w->loads && i < s->n_calls; i++)
        *n_absent += ask_shape(s, w, rows, i);
    if (w->loads && w->one)
        ask_line_of(&ones, &p);
    else if (w->loads)
        (s->n_keys == 1 ? ask_lines : ask_lines_ahead)(&s->lines, &p);
    return (double)(now_ns() - began) / (double)p.n;
}

/* Is each target of a list as it should be? A bit of its number is put; or, if there
 * are more keys, a word with a bit for each. Nanoseconds a key. */
static double read_list(const struct shapes *s, const struct tamis_target *list)
{
    uint64_t *to = s->absent + s->n, odd = 0, bits = 0, began = now_ns();
    bool many = s->n_keys > 1;
    for (size_t k = 0; k < s->n_keys; k += 64)
        for (size_t i = 0; i < s->n; i++) {
            const struct tamis_target *t = &list[i];
            size_t at = t->ordinal - 1;
            uint64_t word = s->absent[many ? at : at / 64];
            odd |= t->min_watermark | t->refusal | (t->snapshot ^ list->snapshot);
            bits = bits * 2 + (word >> at % 64 & 1);
            to[i % 64] = many ? word : bits;
        }
    to[0] = odd;
    return (double)(now_ns() - began) / (double)s->n_keys;
}

/* ---- pairs of ways ---- */

struct pair {
    double share, ns[2]; /* the part of the limit that the first one takes; both */
    char text[120];
};

/* Keeps the worst way beside the best one, or beside bare loads. Returns its share. */
static double judge_group(const struct group *g, bool loads, struct pair *worst)
{
    size_t best = N_WAYS;
    double most = 0;
    for (size_t i = 0; i < N_WAYS; i++)
        if (ways[i].loads == loads && !ways[i].filter &&
            (best == N_WAYS ? g->ns[i] > 0 : g->ns[i] < g->ns[best]))
            best = i;
    for (size_t i = 0; i < N_WAYS; i++) {
        bool list = !ways[i].one && !ways[i].all;
        double bare = g->ns[best] + (list ? g->pass[ways[i].shuffled] : 0),
               told = loads           ? g->of_bits
                      : ways[i].found ? g->hits
                                      : 0,
               share = g->ns[i] / (1.5 * bare + 25 + 150 * told);
        if (ways[i].loads || ways[i].filter || !(share > most))
            continue;
        most = share;
        if (share <= worst->share)
            continue;
        *worst = (struct pair){share, {g->ns[i], g->ns[best]}, ""};
        snprintf(worst->text, sizeof worst->text, "%s%s%s: %s %.1f, %s %.1f",
                 kinds[g->kind], g->ranges ? ", ranges" : "", g->rows ? ", rows" : "",
                 ways[i].name, g->ns[i], ways[best].name, g->ns[best]);
    }
    return most;
}

/* Candidates a key. */
static double count_hits(struct shapes *s)
{
    uint64_t n_absent = 0;
    for (size_t i = 0; i < s->n_calls; i++) {
        ask_shape(s, &ways[0], true, i);
        for (size_t k = 0; k < s->n_keys * s->n_words; k++)
            n_absent += (uint64_t)__builtin_popcountll(s->absent[k]);
    }
    return (double)s->n - (double)n_absent / (double)(s->n_keys * s->n_calls);
}

/* Without a clock: all ways must say the same of the same keys. */
static void agree(struct shapes *s, struct group *g)
{
    size_t n_absent, first = SIZE_MAX;
    draw_keys(s, g->kind, g->ranges);
    for (size_t i = 0; i < N_WAYS; i++) {
        g->ns[i] = NAN;
        if (ways[i].loads || !is_asked(s, g, &ways[i]))
            continue;
        ask_way(s, &ways[i], g->rows, &n_absent);
        first = g->kind >= IN_ONE ? 0 : first == SIZE_MAX ? n_absent : first;
        if (n_absent != first && !ways[i].filter) /* which has no range */
            wrong("shapes: %s of %zu segments: %zu ABSENT, not %zu", ways[i].name, s->n,
                  n_absent, first);
    }
    g->hits = g->of_bits = 1 - (double)first / (double)(s->n_keys * s->n_calls);
    if (g->one)
        return;
    g->hits = count_hits(s);
    for (size_t i = 0; i < s->n_keys * s->n_calls; i++)
        s->keys[i].bytes = NULL;
    g->of_bits = g->ranges ? count_hits(s) : g->hits;
}

/* More rounds while a pair is above its limit: a busy moment should not decide. */
static void measure_group(struct shapes *s, struct group *g, struct pair worst[2])
{
    unsigned rounds = bench.sizes.rounds / 3, most = 2 * (rounds - 1);
    size_t n_absent;
    g->pass[0] = g->pass[1] = INFINITY;
    agree(s, g);
    for (unsigned r = 0; r < rounds; r++) {
        if (!g->one) {
            g->pass[0] = fmin(read_list(s, s->listed), g->pass[0]);
            g->pass[1] = fmin(read_list(s, s->shuffled), g->pass[1]);
        }
        /* Other rounds, and long lists, have left their lines in all caches. */
        ask_way(s, &ways[g->one ? ONE : 0], g->rows, &n_absent);
        for (size_t i = 0; i < N_WAYS; i++) {
            if (!is_asked(s, g, &ways[i]))
                continue;
            draw_keys(s, g->kind, g->ranges);
            g->ns[i] = fmin(ask_way(s, &ways[i], g->rows, &n_absent), g->ns[i]);
        }
        struct pair none = {.share = INFINITY};
        rounds += r + 1 == rounds && rounds < most && judge_group(g, false, &none) > 1;
    }
    judge_group(g, false, &worst[0]);
    judge_group(g, true, &worst[1]);
    if (g->one && s->n_keys == 1 && !s->packed && !g->ranges && s->n <= 1024 &&
        g->kind % 2 == 0)
        figure_set("shapes_one", g->kind / 2, &g->ns[PROBES], &g->ns[FILTER], 1);
}

/* ---- stores ---- */

static const char *shape_name(size_t i)
{
    static char name[24];
    snprintf(name, sizeof name, "%08zu", i);
    return name;
}

static void put_segments(struct shapes *s, size_t n, bool packed)
{
    struct tamis_packer_options options = {.size = sizeof options,
                                           .spool_dir = memory_dir()};
    struct tamis_edit *edit = edit_of(s->store);
    struct tamis_packer *packer;
    uint8_t bytes[KEY_BYTES];
    must(tamis_edit_packer(edit, &options, &packer, NULL), NULL, "packer");
    for (size_t end = s->n + n; s->n < end; s->n++) {
        struct tamis_builder *builder =
            segment_builder(edit, shape_name(s->n), 0.01, NULL, 0);
        for (uint64_t i = 0; i < COMMON + s->each; i++) {
            shape_key(i < COMMON ? i : s->n * s->each + i, i == COMMON, bytes);
            must(tamis_builder_add_key(builder, bytes, KEY_BYTES), NULL, "adding");
        }
        if (!packed) {
            segment_put(edit, builder);
            continue;
        }
        must(tamis_packer_take(packer, builder, NULL), NULL, "take");
        tamis_builder_free(builder);
    }
    if (packed)
        must(tamis_edit_put_packed(edit, packer, NULL, NULL), NULL, "packing");
    tamis_packer_free(packer);
    edit_done(edit);
}

/* A loose segment, every page of which is good from now on: its lines are added. */
static void look_at_loose(struct shapes *s, size_t number)
{
    struct tamis_filter *filter;
    struct tamis_inline value;
    must(tamis_snapshot_filter(s->snapshot, number, &filter, NULL), NULL, "filter");
    must(tamis_filter_verify(filter, &(struct tamis_verify){0}, NULL), NULL, "verify");
    must(tamis_snapshot_inline(s->snapshot, &s->listed[number], TAMIS_INLINE_VERSION,
                               &value),
         NULL, "inline");
    const struct geometry first_lane = {value.geometry.n_blocks, 1, 1};
    lines_add(&s->lines, value.bits, &first_lane);
    tamis_inline_release(&value);
}

/* The same of all bands of the only pack, whose columns begin with this number. */
static void look_at_pack(struct shapes *s, size_t number)
{
    struct tamis_filter *pack;
    struct tamis_segment_info info;
    struct tamis_pack_place place;
    char name[1100];
    must(tamis_snapshot_segment(s->snapshot, number, &info), NULL, "segment");
    must(tamis_snapshot_pack(s->snapshot, number, &pack, NULL, NULL), NULL, "pack");
    must(tamis_filter_verify(pack, &(struct tamis_verify){0}, NULL), NULL, "verify");
    snprintf(name, sizeof name, "%s/%s", s->path, info.file);
    const uint8_t *rows = bits_of(name, pack, 0).base; /* the first stage is the rows */
    for (; tamis_snapshot_pack(s->snapshot, number, NULL, &place, NULL) == 0;
         number += place.n_columns) {
        s->bands[place.band % MOST_BANDS] = rows;
        rows = lines_add_rows(&s->lines, rows, &place);
    }
}

/* Each page of the table is checked from now on, and each rank is known. */
static void warm_entries(struct shapes *s)
{
    s->n_keys = s->n_calls = 1;
    draw_keys(s, IN_ALL, true);
    ask_shape(s, &ways[FOUND], true, 0);
}

static void look_at_all(struct shapes *s)
{
    if (s->snapshot)
        tamis_snapshot_release(s->snapshot);
    s->snapshot = snapshot_of(s->store);
    free(s->listed), free(s->shuffled), free(s->absent);
    s->listed = allocate(s->n * sizeof *s->listed);
    s->shuffled = allocate(s->n * sizeof *s->shuffled);
    s->n_words = (tamis_snapshot_info(s->snapshot).n_numbers + 63) / 64;
    s->absent = allocate(MOST_KEYS * s->n_words * sizeof *s->absent);
    s->lines.n = s->lines.n_lines = 0;
    for (size_t i = 0, number = 0; tamis_snapshot_next(s->snapshot, &number);
         number++) {
        size_t at = mixed(i) % (i + 1);
        s->listed[i] = tamis_snapshot_target(s->snapshot, number);
        s->shuffled[i] = s->shuffled[at];
        s->shuffled[at] = s->listed[i];
        if (i < s->n - s->packed)
            look_at_loose(s, i);
        else if (i == s->n - s->packed)
            look_at_pack(s, number);
        i++;
    }
    warm_entries(s);
}

/* Draws a segment for each call. */
static void draw_segments(struct shapes *s)
{
    for (size_t i = 0; i < s->n_calls; i++) {
        const char *name = shape_name(s->picks[i] = (uint32_t)(mixed(i * s->n) % s->n));
        struct tamis_pack_place p;
        must(tamis_snapshot_find(s->snapshot, name, strlen(name), NULL, 0, 0,
                                 &s->ones[i]),
             NULL, "find");
        size_t number = s->ones[i].ordinal - 1;
        s->filters[i] = NULL;
        if (tamis_snapshot_pack(s->snapshot, number, NULL, &p, NULL) == 0) {
            const uint8_t *line =
                s->bands[p.band] + p.column / LINE_COLUMNS * BLOCK_BYTES;
            s->lanes[i] =
                (struct lane){line, p.n_blocks, false, p.words, p.row_bytes, 1};
            continue;
        }
        s->lanes[i] = s->lines.lanes[number];
        tamis_snapshot_filter(s->snapshot, number, &s->filters[i], NULL);
    }
}

/* ---- the table ---- */

char *shapes_table;

static const char heading[] =
    "\nOne query in all shapes: its worst way beside the best one, and beside bare\n"
    "loads, in nanoseconds a key. A pair at its limit has 1: 1.5 times the other (for "
    "a\n"
    "list: and a bare pass over it), and 25 ns a key and 150 ns a candidate more.\n"
    "Bare loads read no range: beside them a hit that only a range excludes is a\n"
    "candidate, too.\n\n"
    "| Packed + loose | keys a call | worst way, best way | ratio | of the limit "
    "| worst way, bare loads | ratio | of the limit "
    "|\n|---|---|---|---|---|---|---|---|\n";

static void measure_store(struct shapes *s, FILE *out, struct pair worst[2])
{
    static const size_t n_keys[] = {1, 4, 32, 64, MOST_KEYS};
    look_at_all(s);
    for (size_t k = 0; k < sizeof n_keys / sizeof n_keys[0]; k++) {
        struct pair pairs[2] = {{.share = 0}};
        s->n_keys = n_keys[k];
        for (unsigned i = 0; i < 8 * N_KINDS; i++) {
            struct group g = {i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3, {0}, 0, 0, {0}};
            size_t square = (size_t)bench.sizes.rounds * bench.sizes.rounds,
                   most = (g.kind == IN_ALL ? MOST_IN_ALL : MOST_PAIRS) * square,
                   pairs_a_call = s->n_keys * (g.one ? 1 : s->n);
            if ((g.kind == OUTSIDE && !g.ranges) || pairs_a_call > MOST_CALL ||
                (g.kind == IN_ALL && pairs_a_call > 8 * most))
                continue;
            s->n_calls = most / pairs_a_call;
            if (s->n_calls > AT_ONCE / s->n_keys)
                s->n_calls = AT_ONCE / s->n_keys;
            if (s->n_calls * s->n_keys < LEAST_KEYS && !(g.kind == IN_ALL && g.rows))
                s->n_calls = LEAST_KEYS / s->n_keys;
            s->n_calls += !s->n_calls;
            draw_segments(s);
            measure_group(s, &g, pairs);
        }
        fprintf(out, "| %zu + %zu | %zu |", s->packed, s->n - s->packed, s->n_keys);
        for (size_t i = 0; i < 2; i++) {
            const struct pair *p = &pairs[i];
            fprintf(out, " %s | %.2f | %.2f |", p->text, p->ns[0] / p->ns[1], p->share);
            if (p->share <= worst[i].share)
                continue;
            worst[i] = *p;
            snprintf(worst[i].text, sizeof p->text, "%zu + %zu, %zu a call; %.80s",
                     s->packed, s->n - s->packed, s->n_keys, p->text);
        }
        fputc('\n', out);
    }
}

/* Packed segments, or loose ones; and then more and more loose ones beside them. */
static void measure_stores(size_t n, bool packed, size_t beside, FILE *out,
                           struct pair worst[2])
{
    static struct shapes s;
    double each =
        fmin((double)(8 * bench.sizes.small / n), (double)bench.sizes.shape_keys);
    s = (struct shapes){.packed = packed ? n : 0, .each = (uint64_t)fmax(each, 16)};
    snprintf(s.path, sizeof s.path, "%s/shapes", memory_dir());
    s.store = store_new(s.path);
    put_segments(&s, n, packed);
    measure_store(&s, out, worst);
    for (size_t more = 1; more <= beside; more *= more == 1 ? 10 : 100) {
        put_segments(&s, n + more - s.n, false);
        measure_store(&s, out, worst);
    }
    tamis_snapshot_release(s.snapshot);
    tamis_store_close(s.store);
    free(s.listed), free(s.shuffled), free(s.absent), free(s.lines.lanes);
    tree_remove(s.path);
}

void room_shapes(void)
{
    static const unsigned bits[2][6] = {{2, 4, 6, 10, 14, 14}, {3, 6, 9, 12, 16, 20}};
    static const char *const ids[2] = {"shapes_ways", "shapes_loads"};
    struct pair worst[2] = {{.share = 0}};
    size_t n_bytes, most = (size_t)1 << bench.sizes.shape_bits;
    FILE *out = open_memstream(&shapes_table, &n_bytes);
    fputs(heading, out);
    for (unsigned packed = 0; packed < 2; packed++)
        for (size_t i = 0; i < 5 + packed; i++)
            for (size_t n = ((size_t)1 << bits[packed][i]) - 1, k = 0;
                 k < 3 && n + k <= most; k += bench.sizes.rounds > 3 ? 1 : 3)
                measure_stores(n + k, packed,
                               packed && !k && bits[1][i] % 7 == 2 ? 1000 : 0, out,
                               worst);
    fclose(out);
    for (size_t i = 0; i < 2; i++) {
        double limit = worst[i].ns[0] / worst[i].share;
        figure_set(ids[i], 0, &worst[i].ns[0], &limit, 1);
        figure_detail(ids[i], "%s", worst[i].text);
    }
}
