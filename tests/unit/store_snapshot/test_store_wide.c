/* Snapshots of more segments than one look at the packs covers: 65,536. */
#include "tests/support/store_packs.h"
#include "tests/support/repair_support.h"
#include "tests/support/still_disk.h"
#include "lib/store/snapshot/packs.h"

enum { WINDOW = PACK_WORDS * 64, WIDE = WINDOW + 200 };

/* The first n_files have files of their own, the others are in a pack at once. */
static void put_many(struct tamis_store *s, unsigned n_files)
{
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p;
    OK(tamis_edit_packer(e, NULL, &p, NULL));
    for (unsigned i = 0; i < WIDE; i++) {
        struct tamis_segment_options so = {.size = sizeof so, .rank = i};
        BUILDER b;
        struct tamis_key key = key_in(s, i);
        OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), 0.01, &so, &b, NULL));
        add_to(b, BY_HASH, &key);
        OK(i < n_files ? tamis_edit_put(e, b, NULL) : tamis_packer_take(p, b, NULL));
    }
    if (n_files < WIDE)
        OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
}

/* All in one pack: more than a band has columns. */
static void pack_many(struct tamis_store *s, unsigned n_files)
{
    struct tamis_pack_options opt = {.size = sizeof opt, .repack = TAMIS_REPACK_ALL};
    struct tamis_diag diag = {0};
    struct tamis_pack_report report;
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    if (tamis_edit_pack(e, snap, NULL, 0, &opt, &report, &diag) != 0)
        fail_msg("%s", diag.what);
    IS(report.n_packed, WIDE);
    IS(report.n_repacked, WIDE - n_files);
    OK(tamis_edit_commit(e, NULL));
}

static size_t index_of(struct tamis_snapshot *snap, unsigned segment)
{
    const char *name = name_of(segment);
    struct tamis_target t = found_in(snap, name);
    return t.slot - 1;
}

/* A key of one segment: it alone says HIT, or some say so by chance. */
static void check_key_of(struct tamis_store *s, struct tamis_snapshot *snap, unsigned i)
{
    static uint64_t absent[WIDE / 64 + 1], rows[3 * (WIDE / 64 + 1)];
    static uint8_t reasons[WIDE + 1];
    struct tamis_key key = key_in(s, i), keys[3] = {key, key, key};
    uint32_t found[5000];
    size_t n = tamis_snapshot_n_segments(snap), n_found, n_hits = 0, k = 0;
    tamis_snapshot_probe_all(snap, &key, absent, reasons);
    tamis_snapshot_candidates(snap, &key, found, 5000, &n_found);
    tamis_snapshot_probe_keys(snap, NULL, 0, keys, 3, rows);
    IS(reasons[index_of(snap, i)], TAMIS_HIT);
    for (size_t at = 0; at < n; at++) {
        bool is_absent = reasons[at] == ABSENT_HERE;
        n_hits += !is_absent;
        IS(absent[at / 64] >> at % 64 & 1, is_absent);
        if (!is_absent)
            IS(found[k++], at);
    }
    IS(n_found, n_hits);
    size_t n_words = n / 64 + (n % 64 != 0);
    for (size_t w = 0; w < n_words; w++)
        assert_true(rows[w] == absent[w] && rows[2 * n_words + w] == absent[w]);
}

TEST_IN_DIR(every_window_is_asked)
{
    /* More than a process may have mapped, in brief than stay open. */
    unsigned n_files = by_form(16384 + 100, WIDE);
    STORE s = store_new("s");
    put_many(s, n_files);
    pack_many(s, n_files);
    for (int mixed = 0; mixed < 2; mixed++) {
        if (mixed) /* not all are columns: another way */
            put_segment(s, "loose", 100000000, 10);
        SNAPSHOT snap = snapshot_of(s);
        for (unsigned i = 0; i < WINDOW; i += 4001)
            check_key_of(s, snap, i);
        for (unsigned i = WINDOW - 30; i < WIDE; i += by_form(9, 3))
            check_key_of(s, snap, i);
    }
}

RUN_TESTS(NULL, NULL)
