/* Public functions that no other scenario calls, or not as the first to open a file or
 * to see that one has grown. For stops.c alone: nothing fails here. */
#include "tests/faults/run.h"

#include "lib/tamis_inline.h"

#define OK(call) CHECK((call) == 0, "%s failed: %s", #call, r->diag.what)

enum { N_KEYS = 64, N_MANY = 1280, N_SEGMENTS = 5 };
static uint64_t hashes[N_KEYS], absent[1], n_bytes;
static struct tamis_key keys[N_KEYS];
static struct tamis_explanation explained;
static struct tamis_estimate estimate;
static struct tamis_inline value;
static struct tamis_verify pages;
static struct tamis_filter *f;

static void hashes_of(uint64_t from, size_t n, uint64_t *to)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t state = from + i;
        to[i] = draw(&state);
    }
}

static void take_keys(struct tamis_domain domain)
{
    hashes_of(0, N_KEYS, hashes);
    for (size_t i = 0; i < N_KEYS; i++)
        keys[i] = (struct tamis_key){.tag = domain.tag, .hash = hashes[i]};
}

/* ---- numbers, and memory of the caller's ---- */

static void numbers_body(struct run *r)
{
    static uint64_t bits[1 << 10];
    static const struct tamis_growth growth = {0.01, 2, 0.85, 1000};
    static const uint64_t n_keys[] = {100, 200};
    struct tamis_blocks blocks = {1, 4, 1, 0};
    struct tamis_plan_packed packed;
    struct tamis_plan plan;
    struct tamis_inline_blocks inlined;
    struct tamis_domain domain;
    OK(tamis_domain_random(&domain) || tamis_domain_init(&domain, 1, 42));
    take_keys(domain);
    keys[0] = tamis_key_of(&domain, "k", 1);
    uint64_t ends[] = {0, 1};
    OK(tamis_domain_hash(&domain, "k", ends, 1, hashes));
    OK(tamis_plan_filter(9, 0.01, NULL, &plan) || tamis_plan_stage(&growth, 1, &plan) ||
       tamis_plan_pack(n_keys, 2, 0.01, 0, &packed) ||
       tamis_plan_error(1, 4, 64, N_KEYS) <= 0);
    blocks.tag = domain.tag;
    n_bytes = sizeof(uint64_t) * 8;
    OK(tamis_blocks_add(&blocks, bits, n_bytes, keys, N_KEYS) ||
       tamis_blocks_probe(&blocks, bits, n_bytes, keys, NULL) ||
       tamis_blocks_inline(&blocks, TAMIS_INLINE_VERSION, &inlined));
    struct tamis_builder *b; /* of a random domain */
    OK(tamis_builder_create(NULL, &b, NULL));
    tamis_builder_free(b);
    OK(!tamis_version() || !tamis_strerror(1) || !tamis_reason_name(TAMIS_HIT));
    OK(tamis_guard_install(NULL));
    tamis_guard_remove();
}

/* ---- files ---- */

/* It spools. */
static struct tamis_builder *build(struct run *r, uint64_t list_bits)
{
    struct tamis_domain domain;
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = &domain,
                                        .list_bits = list_bits,
                                        .memory_limit = list_bits ? 0 : 1,
                                        .spool_dir = r->dir};
    struct tamis_builder *b;
    OK(tamis_domain_init(&domain, 1, 42));
    OK(tamis_builder_create(&opt, &b, NULL));
    take_keys(domain);
    for (size_t i = 0; i < N_MANY; i += N_KEYS) {
        hashes_of(i, N_KEYS, hashes);
        OK(tamis_builder_add_hashes(b, domain.tag, hashes, N_KEYS));
        OK(tamis_builder_add_keys(b, keys, N_KEYS));
        for (size_t k = 0; k < N_KEYS; k++)
            OK(tamis_builder_add_key(b, &hashes[k], sizeof hashes[k]));
    }
    return b;
}

static void lists_body(struct run *r)
{
    struct tamis_list_cursor *cursor;
    size_t got;
    struct tamis_builder *b = build(r, 64);
    OK(tamis_builder_finish(b, in_dir(r, "list"), INTO(.list = 1), NULL, &r->diag));
    tamis_builder_free(b);
    b = build(r, 0);
    OK(tamis_filter_open(in_dir(r, "list"), NULL, &f, &r->diag) ||
       tamis_list_cursor_create(f, &cursor, &r->diag) ||
       tamis_list_cursor_next(cursor, hashes, N_KEYS, &got, &r->diag) ||
       tamis_list_merge(&f, 1, in_dir(r, "merged"), NULL, NULL, &r->diag));
    tamis_list_cursor_free(cursor);
    tamis_builder_free(b); /* with what it has spooled */
    tamis_filter_close(f);
}

static struct tamis_writer *w;
static uint64_t n_added;

static void grow(struct run *r)
{
    uint64_t more[100];
    hashes_of(n_added, 100, more);
    struct tamis_filter_info now;
    OK(tamis_writer_info(w, &now, NULL));
    OK(tamis_writer_add_hashes(w, now.domain.tag, more, 100));
    OK(tamis_writer_commit(w, n_added += 100, NULL));
}

/* The first call that sees the growth. */
#define GROWN(call) (grow(r), (void)(call))

static void ask_growing(struct run *r)
{
    struct tamis_comparison comparison;
    struct tamis_filter_info info;
    struct tamis_residency in;
    struct tamis_snapshot *alone;
    double error;
    int equal;
    GROWN(tamis_filter_info(f, &info, NULL));
    uint64_t tag = info.domain.tag;
    take_keys(info.domain);
    GROWN(tamis_filter_probe(f, keys, NULL));
    GROWN(tamis_filter_probe_batch(f, tag, hashes, N_KEYS, absent, NULL));
    GROWN(tamis_filter_explain(f, keys, &explained));
    GROWN(tamis_filter_inline(f, TAMIS_INLINE_VERSION, &value));
    GROWN(tamis_inline_ask(&value, keys, NULL));
    GROWN(tamis_inline_ask_few(&value, tag, hashes, 4, absent, NULL));
    tamis_inline_release(&value);
    GROWN(tamis_filter_estimate(f, 100, 1, &estimate, NULL));
    GROWN(tamis_filter_compare(f, f, &comparison, NULL));
    GROWN(tamis_filter_equal(f, f, &equal, NULL));
    GROWN(tamis_filter_least_fold(f, &error, NULL));
    GROWN(tamis_filter_verify(f, &pages, NULL)),
        GROWN(tamis_filter_residency(f, &in, NULL));
    GROWN(tamis_snapshot_from_filters(&f, 1, 0, &alone));
    tamis_snapshot_release(alone);
}

static void files_body(struct run *r)
{
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = {0.01, 1.25, 0, 40}, .one_thread = 1};
    struct tamis_filter_info info;
    struct tamis_builder *b = build(r, 0);
    int fd = open(in_dir(r, "engine"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    OK(tamis_builder_finish(b, NULL, INTO(.fd = fd), &n_bytes, &r->diag));
    tamis_builder_free(b);
    OK(tamis_filter_open(NULL, INSIDE(.fd = fd, .n_bytes = n_bytes), &f, &r->diag));
    close(fd);
    tamis_filter_close(f);
    OK(tamis_writer_create(in_dir(r, "f"), &opt, &w, &r->diag) ||
       tamis_writer_info(w, &info, NULL));
    for (size_t i = 0; i < N_KEYS; i++)
        OK(tamis_writer_add_key(w, &hashes[i], sizeof hashes[i]));
    for (size_t i = 0; i < N_KEYS; i++)
        OK(tamis_writer_add_new(w, info.domain.tag, &hashes[i], 1, absent));
    OK(tamis_filter_open(in_dir(r, "f"), NULL, &f, &r->diag));
    ask_growing(r);
    tamis_filter_close(f);
    OK(tamis_writer_close(w, NULL));
}

/* ---- a store ---- */

#define SOME                                                                           \
    "init; begin; put a 0 20; bare b; grow g; end; add g 10; commit g; shut g; "

static struct tamis_snapshot *snapshot;
static struct tamis_target t[N_SEGMENTS];

static void open_snapshot(struct run *r)
{
    play_text(&the_player, "open");
    OK(tamis_snapshot_current(the_player.store, &snapshot, &r->diag));
    take_keys(tamis_snapshot_info(snapshot).domain);
    for (size_t i = 0; i < N_SEGMENTS; i++)
        t[i] = tamis_snapshot_target(snapshot, i);
}

static void close_snapshot(void)
{
    tamis_snapshot_release(snapshot);
    player_end(&the_player);
}

static int put_list(struct run *r, struct tamis_edit *e, const char *name)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .list_bits = 64};
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, name, 1, 0, &opt, &b, &r->diag) ||
       tamis_builder_add_key(b, "k", 1) || tamis_edit_size(e, b, &r->diag) ||
       tamis_edit_put(e, b, NULL, &r->diag));
    tamis_builder_free(b);
    return 0;
}

static void do_edit(struct run *r, int fn(struct run *r, struct tamis_edit *e))
{
    struct tamis_edit *e;
    OK(tamis_edit_begin(the_player.store, NULL, &e, &r->diag));
    OK(fn(r, e));
    OK(tamis_edit_commit(e, &r->diag));
}

static int put_lists(struct run *r, struct tamis_edit *e)
{
    struct tamis_pack_options opt = {.size = sizeof opt, .n_threads = 2};
    OK(tamis_edit_pack(e, snapshot, (const uint32_t[]){0}, 1, &opt, NULL, &r->diag));
    return put_list(r, e, "l") || put_list(r, e, "m");
}

static void lists_prepare(struct run *r)
{
    open_snapshot(r);
    do_edit(r, put_lists);
    close_snapshot();
}

/* The process's first use of the segments. */
#define FIRST(call) (open_snapshot(r), (void)(call), close_snapshot())
#define FIRST_OF_EACH(call)                                                            \
    do {                                                                               \
        open_snapshot(r);                                                              \
        for (size_t i = 0; i < N_SEGMENTS; i++)                                        \
            (void)(call);                                                              \
        close_snapshot();                                                              \
    } while (0)

static void store_body(struct run *r)
{
    static const struct tamis_prepare_options warm = {.size = sizeof warm, .warm = 1};
    struct tamis_segment_info info;
    struct tamis_pack_info pack;
    struct tamis_segment_stats one;
    struct tamis_stats stats;
    const struct tamis_identity g = {.name = "g", .name_bytes = 1};
    uint32_t named[N_SEGMENTS];
    size_t n;
    int error;
    FIRST(ASK(snapshot, ALL, KEYS(keys, 1), FOUND(named, N_SEGMENTS, &n)));
    FIRST(ASK(snapshot, LIST(t, N_SEGMENTS), KEYS(keys, 8), .absent = absent));
    FIRST(ASK(snapshot, ALL, KEYS(keys, 1)));
    FIRST(tamis_snapshot_prepare(snapshot, &warm, NULL, NULL));
    FIRST(tamis_snapshot_find(snapshot, "g", 1, NULL, 0, 1, t));
    FIRST(tamis_snapshot_find_many(snapshot, &g, 1, 1, t, &error));
    FIRST(tamis_snapshot_carry(snapshot, snapshot, t, N_SEGMENTS));
    FIRST(tamis_snapshot_pack_info(snapshot, 0, &pack));
    FIRST_OF_EACH(tamis_snapshot_probe(snapshot, &t[i], keys, NULL));
    FIRST_OF_EACH(ASK(snapshot, LIST(&t[i], 1), KEYS(keys, 1)));
    FIRST_OF_EACH(ASK(snapshot, LIST(&t[i], 1), HASHES(hashes, N_KEYS, keys[0].tag),
                      .absent_from_all = absent));
    FIRST_OF_EACH(tamis_snapshot_explain(snapshot, &t[i], keys, &explained));
    FIRST_OF_EACH(tamis_snapshot_list(snapshot, i, &f, NULL));
    FIRST_OF_EACH(tamis_snapshot_pack(snapshot, i, &f, NULL, &pages));
    FIRST_OF_EACH(tamis_snapshot_segment(snapshot, i, &info));
    FIRST_OF_EACH(tamis_snapshot_inline(snapshot, &t[i], TAMIS_INLINE_VERSION, &value));
    open_snapshot(r);
    OK(tamis_snapshot_inline(snapshot, &t[0], TAMIS_INLINE_VERSION, &value));
    tamis_inline_ask(&value, keys, NULL);
    tamis_inline_release(&value);
    CHECK(tamis_store_domain(the_player.store).tag == keys[0].tag, "no store");
    OK(tamis_store_confirm(the_player.store, NULL, &r->diag));
    OK(tamis_store_count(the_player.store, 1, &r->diag));
    CHECK(tamis_snapshot_info(snapshot).complete &&
              tamis_snapshot_info(snapshot).n_numbers >=
                  tamis_snapshot_info(snapshot).n_segments,
          "not whole");
    tamis_snapshot_report_false_positive(snapshot, t);
    tamis_snapshot_segment_stats(snapshot, 0, &one);
    OK(tamis_snapshot_stats(snapshot, 0, &stats));
    close_snapshot();
}

static int edit_lists(struct run *r, struct tamis_edit *e)
{
    tamis_snapshot_find(snapshot, "l", 1, NULL, 0, 0, &t[0]);
    tamis_snapshot_find(snapshot, "m", 1, NULL, 0, 0, &t[1]);
    const size_t both[] = {t[0].ordinal - 1, t[1].ordinal - 1};
    return tamis_edit_from_list(e, snapshot, both[0], 0.01, NULL, &r->diag) ||
           tamis_edit_drop(e, "m", 1, NULL, &r->diag) ||
           tamis_edit_merge(e, "u", 1, snapshot, both, 2, 0.01, NULL, NULL, &r->diag) ||
           tamis_edit_update(e, "b", 1, NULL, NULL, &r->diag) ||
           tamis_edit_drop(e, "b", 1, &(struct tamis_drop_if){.is_bound = 1}, &r->diag);
}

static void edit_body(struct run *r)
{
    lists_body(r);
    open_snapshot(r);
    do_edit(r, put_lists);
    close_snapshot();
    open_snapshot(r);
    do_edit(r, edit_lists);
    close_snapshot();
}

/* Without a slot in the lock file the catalog is copied. */
static void full_body(struct run *r)
{
    OK(tamis_store_open(in_dir(r, "store"), NULL, &the_player.store, &r->diag));
    OK(IN_LIB(tamis_snapshot_current(the_player.store, &snapshot, &r->diag)));
    close_snapshot();
}

const struct scenario rest_scenarios[] = {
    SCENARIO("numbers", NULL, .body = numbers_body),
    SCENARIO("files", NULL, .body = files_body),
    SCENARIO("lists", SOME "close; now; open", .body = edit_body),
    SCENARIO("snapshots", SOME "close; now; open", .prepare = lists_prepare,
             .body = store_body),
    SCENARIO("no-slots", SOME "close; now; open", .prepare = lists_prepare,
             .body = full_body, .first = "mdb_txn_begin:1:MDB_READERS_FULL:ever"),
    {0},
};
