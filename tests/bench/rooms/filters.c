/* One filter: asked one key at a time, some a call, by strings; its blocks in memory,
 * asked and filled. Each figure is a row of table.c. */
#include "tests/bench/peers/cxx.h"
#include "tests/bench/peers/peers.h"

/* ---- RocksDB's ---- */

size_t ask_rocksdb(void *subject, const struct piece *p)
{
    return rocksdb_misses(((struct subject *)subject)->rocksdb, p->keys, p->n);
}

size_t ask_rocksdb_32(void *subject, const struct piece *p)
{
    return rocksdb_misses_32(((struct subject *)subject)->rocksdb, p->keys, p->n);
}

static struct rocksdb_filter *rocksdb_of(const struct subject *s)
{
    enum { AT_ONCE = 1 << 14 };
    struct tamis_key *keys = allocate(AT_ONCE * sizeof *keys);
    char(*bytes)[KEY_MOST] = allocate(AT_ONCE * sizeof *bytes);
    struct rocksdb_filter *f = rocksdb_new(s->ribbon, 9.9); /* bits: 1% */
    for (uint64_t done = 0; done < s->n_keys; done += AT_ONCE) {
        size_t n = s->n_keys - done < AT_ONCE ? s->n_keys - done : AT_ONCE;
        keys_fill(done, n, keys, bytes);
        rocksdb_add(f, keys, n);
    }
    rocksdb_finish(f);
    free(keys), free(bytes);
    return f;
}

/* Before a time is taken: are we talking to the library as it is? Keys that were added
 * match, and others as seldom as planned. */
static bool rocksdb_ready(struct subject *s, const char *id)
{
    enum { CHECKED = 100000 };
    if (rocksdb_missing())
        figure_detail(id, "%s", rocksdb_missing());
    if (rocksdb_missing() || s->rocksdb)
        return !rocksdb_missing();
    s->rocksdb = rocksdb_of(s);
    struct source source = source_of(s->n_keys, CHECKED);
    size_t missed = ask_rocksdb(s, piece_next(&source, true));
    size_t maybe = CHECKED - ask_rocksdb(s, piece_next(&source, false));
    source_free(&source);
    if (!*bench.planted && (missed || maybe < CHECKED / 200 || maybe > CHECKED / 60))
        wrong("%s: RocksDB misses %zu keys, and has an error of %g", id, missed,
              (double)maybe / (double)CHECKED);
    return true;
}

static void ribbon_bits(void)
{
    static const char id[] = "ribbon_bits";
    struct tamis_filter_info info;
    if (!wanted(id))
        return;
    struct subject *s = subject_of(bench.sizes.large, 0.01, true);
    if (!rocksdb_ready(s, id))
        return;
    must(tamis_filter_info(s->filter, &info, NULL), NULL, "info");
    double ours = 8 * (double)info.file_bytes / (double)s->n_keys;
    double peer = 8 * (double)rocksdb_bytes(s->rocksdb) / (double)s->n_keys;
    figure_set(id, 0, &ours, &peer, 1);
    figure_detail(id, "%.3g M keys at 1%%, whole files", (double)s->n_keys / 1e6);
}

/* ---- every row ---- */

/* Are the keys in? Are the bits those that a loop by hand sets? */
static void check_adds(const struct figure *f, struct subject *s)
{
    struct subject filled = *s;
    const struct piece *p = piece_next(&s->source, true);
    memset(s->scratch[0], 0, s->bits.n_bytes);
    memset(s->scratch[1], 0, s->bits.n_bytes);
    f->ours_ask(s, p);
    add_hand(s, p);
    filled.bits.base = s->scratch[0];
    if (ask_blocks(&filled, p) != 0 ||
        memcmp(s->scratch[0], s->scratch[1], s->bits.n_bytes) != 0)
        wrong("%s: not the bits that a loop by hand sets", f->id);
}

static void measure(const struct figure *f)
{
    uint64_t n_keys = f->traits & LARGE ? bench.sizes.large : bench.sizes.small;
    struct subject *s = subject_of(n_keys, f->error, f->traits & RIBBON);
    bool bare = f->peer_ask == ask_lines || f->peer_ask == ask_lines_ahead;
    bool adds = f->ours_ask == add_blocks || f->ours_ask == add_blocks_inline;
    bool of_rocksdb = f->peer_ask == ask_rocksdb || f->peer_ask == ask_rocksdb_32;
    if (of_rocksdb && !rocksdb_ready(s, f->id))
        return;
    if (adds)
        subject_scratch(s);
    s->few = f->few;
    contest(f->id,
            (struct contest){.ours = {f->ours_ask, s, f->traits & WORK ? 0 : f->error},
                             .peer = {f->peer_ask, bare ? (void *)&s->lines : s,
                                      bare || f->traits & WORK ? 0 : f->error},
                             .source = &s->source,
                             .same = f->traits & SAME,
                             .work = f->traits & WORK});
    if (adds)
        check_adds(f, s);
    figure_detail(f->id, "%.3g M keys at %g%%, %llu MiB", (double)n_keys / 1e6,
                  100 * f->error, (unsigned long long)s->bits.n_bytes >> 20);
}

void room_filters(void)
{
    for (size_t i = 0; i < n_figures; i++)
        if (figures[i].ours_ask && wanted(figures[i].id))
            measure(&figures[i]);
    ribbon_bits();
}
