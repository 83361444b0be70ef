/* Writes the golden packs (SPEC.md 17): a store with packs of every sort, and two of
 * its packs by themselves, one of them with a page that has rotted. Beside each stands
 * its list of answers (answers.h); in that of a pack the first word is the column's
 * segment. */

#include "lib/filter/pack.h"
#include "lib/pack/pack.h"
#include "tests/support/store_internals.h"
#include "tests/golden/write_answers.h"

enum { N_SEGMENTS = 40, N_TINY = 70, N_ASKED = 900 };

/* ---- the store ---- */

static const char *name_of(unsigned i)
{
    static char names[4][16];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "s%02u", i);
    return name;
}

/* Segment i has some keys from 20 * i on: few, or thousands; some errors need two
 * lanes. Every third has a binding. */
static void put_one(struct tamis_edit *edit, unsigned i)
{
    const char *name = name_of(i);
    struct tamis_segment_options so = {
        .size = sizeof so,
        .binding = i % 3 ? NULL : name,
        .binding_bytes = i % 3 ? 0 : strlen(name),
        .rank = i % 4,
        .watermark = 1000 + i,
    };
    unsigned n = i % 10 == 9 ? 4000 + 100 * i : i % 5 == 4 ? 300 : 5 + i;
    double error = i % 8 == 7 ? 1e-5 : i % 8 == 3 ? 0.1 : 0.01;
    struct tamis_builder *b;
    struct tamis_diag diag;
    check(tamis_edit_builder(edit, name, strlen(name), error, &so, &b, &diag), &diag);
    build_keys(b, 20 * i, n);
    check(tamis_edit_put(edit, b, NULL, &diag), &diag);
    tamis_builder_free(b);
}

/* Three keys each, behind all others. */
static void put_tiny(struct tamis_edit *edit, unsigned i)
{
    char name[16];
    int n = snprintf(name, sizeof name, "t%02u", i);
    struct tamis_segment_options so = {.size = sizeof so, .rank = 9};
    struct tamis_builder *b;
    struct tamis_diag diag;
    check(tamis_edit_builder(edit, name, (size_t)n, 0.01, &so, &b, &diag), &diag);
    build_keys(b, 12 * i, 3);
    check(tamis_edit_put(edit, b, NULL, &diag), &diag);
    tamis_builder_free(b);
}

/* In the order of ranks, then names: segments are packed so. */
static uint32_t number_in_order(const struct tamis_snapshot *snap, uint32_t k)
{
    char name[16];
    struct tamis_target t;
    if (k < N_SEGMENTS)
        snprintf(name, sizeof name, "s%02u", k % 10 * 4 + k / 10);
    else
        snprintf(name, sizeof name, "t%02u", k - N_SEGMENTS);
    if (tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t) != 0)
        exit(1);
    return t.ordinal - 1;
}

/* Packs segments first, first + 1, ... of this order, but those that would grow. */
static void pack_some(struct tamis_store *s, uint32_t first, uint32_t n)
{
    struct tamis_pack_options opt = {.size = sizeof opt};
    struct tamis_pack_report report;
    struct tamis_snapshot *snap;
    struct tamis_edit *edit;
    struct tamis_diag diag;
    uint32_t segments[N_SEGMENTS + N_TINY];
    check(tamis_snapshot_current(s, &snap, &diag), &diag);
    for (uint32_t i = 0; i < n; i++)
        segments[i] = number_in_order(snap, first + i);
    check(tamis_edit_begin(s, NULL, &edit, &diag), &diag);
    check(tamis_edit_pack(edit, snap, segments, n, &opt, &report, &diag), &diag);
    check(tamis_edit_commit(edit, &diag), &diag);
    if (report.n_packed + report.n_left[TAMIS_LEFT_LARGER] != n)
        exit(1);
    tamis_snapshot_release(snap);
}

static void drop_one(struct tamis_store *s, const char *name)
{
    struct tamis_edit *edit;
    struct tamis_diag diag;
    check(tamis_edit_begin(s, NULL, &edit, &diag), &diag);
    check(tamis_edit_drop(edit, name, strlen(name), NULL, &diag), &diag);
    check(tamis_edit_commit(edit, &diag), &diag);
}

/* The first pack has 27 columns, two of them dead; the second has six; the third has
 * rows of 16 bytes. The others are loose. */
static void make_store(void)
{
    struct tamis_diag diag;
    struct tamis_edit *edit;
    struct tamis_store *s = new_store("store");
    check(tamis_edit_begin(s, NULL, &edit, &diag), &diag);
    for (unsigned i = 0; i < N_SEGMENTS; i++)
        put_one(edit, i);
    for (unsigned i = 0; i < N_TINY; i++)
        put_tiny(edit, i);
    check(tamis_edit_put_bare(edit, "bare", 4, NULL, &diag), &diag);
    check(tamis_edit_commit(edit, &diag), &diag);
    pack_some(s, 0, 28);
    pack_some(s, 28, 6);
    pack_some(s, N_SEGMENTS, N_TINY);
    drop_one(s, "s04");
    drop_one(s, "s08");
    tamis_store_close(s);
    write_store_answers("store", N_ASKED);
}

/* ---- packs by themselves ---- */

static struct tamis_snapshot *snapshot_of_store(struct tamis_store **s)
{
    struct tamis_snapshot *snap;
    struct tamis_diag diag;
    check(tamis_store_open(at("store"), NULL, s, &diag), &diag);
    check(tamis_snapshot_current(*s, &snap, &diag), &diag);
    return snap;
}

/* Copies the pack of a segment, with a page of rows of zeros if it is to be rotten. */
static void copy_pack(const char *segment, const char *to, bool rotten)
{
    struct tamis_store *s;
    struct tamis_snapshot *snap = snapshot_of_store(&s);
    struct tamis_pack_place place;
    struct tamis_target t;
    char path[4600];
    static uint8_t bytes[1 << 22];
    tamis_snapshot_find(snap, segment, strlen(segment), NULL, 0, 0, &t);
    if (tamis_snapshot_pack(snap, t.ordinal - 1, NULL, &place, NULL) != 0)
        exit(1);
    int n = snprintf(path, sizeof path, "%s/filters/", at("store"));
    for (size_t i = 0; i < UUID_BYTES; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "%02x", place.uuid[i]);
    snprintf(path + n, sizeof path - (size_t)n, ".tamis");
    FILE *in = fopen(path, "r");
    size_t n_bytes = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    if (!in || n_bytes == sizeof bytes)
        exit(1);
    fclose(in);
    if (rotten)
        memset(bytes + 3 * (size_t)PAGE_BYTES, 0, PAGE_BYTES);
    write_file(at(to), bytes, n_bytes);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    snprintf(path, sizeof path, "%s/catalog.lmdb-lock", at("store"));
    unlink(path);
}

struct asked_column {
    struct tamis_filter *pack;
    const struct band *band;
    uint32_t column;
    FILE *out;
};

static enum tamis_answer ask_column(void *what, const struct tamis_key *key,
                                    enum tamis_reason *why)
{
    const struct asked_column *c = what;
    *why = pack_probe_column(c->pack, c->band, c->column, key->hash);
    return *why == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

static void write_column(struct asked_column *c, const struct facts *col)
{
    uint32_t n;
    struct tamis_domain d = filter_domain(c->pack);
    struct answer_run r = {.prefix = "key", .n = N_ASKED / 3, .step = 3};
    struct piece name = column_name(col);
    snprintf(r.who, sizeof r.who, "%.*s", (int)name.n, (const char *)name.at);
    c->band = &pack_bands(c->pack, &n)[col->band];
    c->column = le32_get(col->disk.column) - c->band->first_column;
    write_run(c->out, &r, &d, ask_column, c);
}

static void write_pack_answers(const char *name)
{
    struct asked_column c;
    struct tamis_diag diag;
    check(tamis_filter_open(at(name), NULL, &c.pack, &diag), &diag);
    c.out = answers_file(name);
    for (unsigned i = 0; i < 200; i++) { /* in the order of names */
        char column[16];
        struct facts col;
        snprintf(column, sizeof column, "%c%02u", "st"[i / 100], i % 100);
        if (pack_find(c.pack, column, 3, true, &col) == 0)
            write_column(&c, &col);
    }
    fclose(c.out);
    tamis_filter_close(c.pack);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_packs DIRECTORY\n");
        return 2;
    }
    make_in(argv[1]);
    make_store();
    copy_pack("s00", "pack.tamis", false);
    copy_pack("s00", "rotten.tamis", true);
    copy_pack("t00", "wide.tamis", false);
    write_pack_answers("wide.tamis");
    write_pack_answers("pack.tamis");
    write_pack_answers("rotten.tamis");
    return 0;
}
