/* Snapshots of more segments than one look at the packs covers: 65,536. */
#include "tests/support/store_packs.h"
#include "tests/support/repair_support.h"
#include "lib/store/snapshot/packs.h"

enum { WINDOW = PACK_WORDS * 64, WIDE = WINDOW + 200 };

static void put_many(struct tamis_store *s)
{
    struct tamis_edit *e = edit_new(s);
    for (unsigned i = 0; i < WIDE; i++) {
        struct tamis_segment_options so = {.size = sizeof so, .rank = i};
        struct tamis_builder *b;
        struct tamis_key key = key_in(s, i);
        OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), 0.01, &so, &b, NULL));
        add_to(b, BY_HASH, &key);
        OK(tamis_edit_put(e, b, NULL));
        tamis_builder_free(b);
    }
    OK(tamis_edit_commit(e, NULL));
}

static size_t index_of(struct tamis_snapshot *snap, unsigned segment)
{
    const char *name = name_of(segment);
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
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
    assert_int_equal(reasons[index_of(snap, i)], TAMIS_HIT);
    for (size_t at = 0; at < n; at++) {
        bool is_absent = reasons[at] == ABSENT_HERE;
        n_hits += !is_absent;
        assert_int_equal(absent[at / 64] >> at % 64 & 1, is_absent);
        if (!is_absent)
            assert_int_equal(found[k++], at);
    }
    assert_int_equal(n_found, n_hits);
    size_t n_words = n / 64 + (n % 64 != 0);
    for (size_t w = 0; w < n_words; w++)
        assert_true(rows[w] == absent[w] && rows[2 * n_words + w] == absent[w]);
}

/* More segments than a process may have files mapped, too. */
static void every_window_is_asked(void **state)
{
    struct tamis_diag diag = {0};
    struct tamis_pack_report report;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_many(s);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    if (tamis_edit_pack(e, snap, NULL, 0, NULL, &report, &diag) != 0)
        fail_msg("%s", diag.what);
    assert_int_equal(report.n_packed, WIDE);
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    for (int mixed = 0; mixed < 2; mixed++) {
        if (mixed) /* not all are columns: another way */
            put_segment(s, "loose", 100000000, 10);
        snap = snapshot_of(s);
        for (unsigned i = 0; i < WINDOW; i += 4001)
            check_key_of(s, snap, i);
        for (unsigned i = WINDOW - 30; i < WIDE; i += 3)
            check_key_of(s, snap, i);
        tamis_snapshot_release(snap);
    }
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_is_asked),
    };
    return cmocka_run_group_tests_name("store wide", tests, test_dir_create,
                                       test_dir_remove);
}
