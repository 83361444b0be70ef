/* Adding to a growing filter, and asking one of eleven stages: against loops by hand,
 * and bare loads of a line in each stage. */
#include "tests/bench/peers/peers.h"
#include "tests/support/inline/loops.h"

enum { STAGES = 11, MANY = 1000, WINDOW = 64 };

/* ---- adds: new keys each time ---- */

struct adding {
    struct tamis_writer *writer;
    size_t n, many; /* keys a round, a call */
    uint64_t next;  /* the first key that is not in */
    uint64_t *hashes;
    /* The other's. */
    uint8_t *bits;
    struct tamis_inline_geometry geometry;
};

static uint64_t begin(struct adding *a)
{
    hashes_fill(a->next, a->n, a->hashes);
    a->next += a->n;
    return now_ns();
}

static double end(const struct adding *a, uint64_t began)
{
    return (double)(now_ns() - began) / (double)a->n;
}

static double add_ours(void *adding)
{
    struct adding *a = adding;
    uint64_t began = begin(a);
    int rc = 0;
    for (size_t at = 0; at < a->n; at += a->many)
        rc |= tamis_writer_add_hashes(a->writer, bench.domain.tag, a->hashes + at,
                                      a->n - at < a->many ? a->n - at : a->many);
    double ns = end(a, began);
    must(rc, NULL, "adding");
    return ns;
}

static double add_by_hand(void *adding)
{
    struct adding *a = adding;
    uint64_t began = begin(a);
    inline_loops_at(0)->add_by_hand(&a->geometry, a->bits, a->hashes, a->n,
                                    a->many > 1 ? WINDOW : 0);
    return end(a, began);
}

/* A commit, then: are keys of all rounds in? */
static void check_added(const char *id, struct adding *a, const char *path)
{
    struct tamis_diag diag = {0};
    must(tamis_writer_commit(a->writer, 1, &diag), &diag, "commit");
    struct subject s = {.filter = filter_open(path)};
    uint64_t step = a->next / 64 + 1;
    for (uint64_t at = 0; at + a->n <= a->next; at += step) {
        struct piece p = {.n = a->n, .present = true, .hashes = a->hashes};
        hashes_fill(at, a->n, a->hashes);
        if (ask_call(&s, &p) != 0)
            wrong("%s: keys that were added are ABSENT", id);
    }
    tamis_filter_close(s.filter);
}

static struct tamis_inline_geometry hand_geometry(const struct geometry *g)
{
    struct tamis_blocks blocks = {g->lanes, g->words, g->n_blocks, bench.domain.tag};
    struct tamis_inline_blocks value;
    must(tamis_blocks_inline(&blocks, TAMIS_INLINE_VERSION, &value), NULL, "blocks");
    return value.geometry;
}

/* One stage that stays below its capacity, against a loop by hand over memory. */
static void one_stage(const char *id, uint64_t n_keys, size_t many)
{
    char path[512];
    if (!wanted(id))
        return;
    snprintf(path, sizeof path, "%s", path_in("adding.tamis"));
    struct adding ours = {.many = many,
                          .n = n_keys / (4 * bench.sizes.rounds) / MANY * MANY + MANY};
    if (ours.n > bench.sizes.large_piece)
        ours.n = bench.sizes.large_piece;
    ours.hashes = allocate(ours.n * sizeof *ours.hashes);
    ours.writer = writer_new(path, n_keys);
    struct tamis_filter *filter = filter_open(path);
    struct bits bits = bits_of(path, filter, 0);
    struct adding hand = ours;
    hand.geometry = hand_geometry(&bits.geometry);
    hand.bits = allocate(bits.n_bytes);
    hand.hashes = allocate(ours.n * sizeof *ours.hashes);
    tamis_filter_close(filter);
    /* Each page is written once before: the first write is the file system's affair. */
    for (uint64_t n = 8 * bits.n_bytes / PAGE_BYTES;
         ours.next < n && ours.next < n_keys / 4;)
        add_ours(&ours);
    compare(id, add_ours, &ours, add_by_hand, &hand);
    figure_detail(id, "a stage for %.3g M keys, by the only thread",
                  (double)n_keys / 1e6);
    check_added(id, &ours, path);
    must(tamis_writer_close(ours.writer, NULL), NULL, "close");
    free(ours.hashes), free(hand.hashes), free(hand.bits);
    unlink(path);
}

void room_adding(void)
{
    one_stage("add_small", bench.sizes.small, 1);
    one_stage("add_large", bench.sizes.large, 1);
    one_stage("add_large_1000", bench.sizes.large, MANY);
}

/* ---- eleven stages ---- */

static void fill(struct adding *a)
{
    struct tamis_filter_info info = {0};
    while (info.n_stages < STAGES) {
        add_ours(a);
        must(tamis_writer_info(a->writer, &info, NULL), NULL, "info");
    }
    struct tamis_diag diag = {0};
    must(tamis_writer_commit(a->writer, 1, &diag), &diag, "commit");
}

static void add_to_stages(struct adding *a, const char *path)
{
    a->n = bench.sizes.small_piece;
    free(a->hashes);
    a->hashes = allocate(a->n * sizeof *a->hashes);
    a->many = 1;
    struct adding other = *a;
    other.hashes = allocate(a->n * sizeof *other.hashes);
    compare("growing_add", add_ours, a, add_by_hand, &other);
    figure_detail("growing_add", "%d stages", STAGES);
    free(other.hashes);
    check_added("growing_add", a, path);
}

static void ask_stages(struct adding *a, const char *path)
{
    static const struct {
        const char *id;
        size_t few;
        ask_fn *ours;
    } rows[] = {{"growing_loads", 1, ask_call}, {"growing_loads_4", 4, ask_calls}};
    struct subject s = {.n_keys = a->next, .filter = filter_open(path)};
    struct source source = source_of(a->next, bench.sizes.small_piece);
    struct lines lines = {0};
    for (uint32_t i = 0; i < STAGES; i++) {
        struct bits bits = bits_of(path, s.filter, i);
        if (i == STAGES - 1) {
            a->geometry = hand_geometry(&bits.geometry);
            a->bits = allocate(bits.n_bytes);
        }
        bits.geometry.lanes = 1;
        lines_add(&lines, bits.base, &bits.geometry);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        s.few = rows[i].few;
        contest(rows[i].id, (struct contest){.ours = {rows[i].ours, &s, 0.01},
                                             .peer = {ask_lines, &lines, 0},
                                             .source = &source});
        figure_detail(rows[i].id, "%.3g M keys in %d stages", (double)a->next / 1e6,
                      STAGES);
    }
    source_free(&source);
    tamis_filter_close(s.filter);
    free(lines.lanes);
}

void room_growing(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_in("growing.tamis"));
    struct adding a = {.n = bench.sizes.stage_keys, .many = MANY};
    a.hashes = allocate(a.n * sizeof *a.hashes);
    a.writer = writer_new(path, bench.sizes.stage_keys);
    fill(&a);
    ask_stages(&a, path);
    add_to_stages(&a, path);
    free(a.hashes), free(a.bits);
    must(tamis_writer_close(a.writer, NULL), NULL, "close");
    unlink(path);
}
