/* Packs in a store: published, asked in every way, dropped, and put back. */
#include "tests/support/store_packs.h"
#include "format/pack.h"

/* ---- one key, asked in every way ---- */

enum { MAX_WORDS_HERE = MAX_SEGMENTS / 64 + 1 };

static void same_by_lists(struct tamis_snapshot *snap, const struct tamis_key *key,
                          const uint8_t *reasons)
{
    struct tamis_target targets[MAX_SEGMENTS];
    uint64_t absent[MAX_WORDS_HERE];
    uint8_t again[MAX_SEGMENTS];
    size_t n = tamis_snapshot_n_segments(snap);
    for (size_t i = 0; i < n; i++)
        targets[i] = tamis_snapshot_target(snap, n - 1 - i);
    tamis_snapshot_probe_list(snap, targets, n, key, absent, again);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(again[i], reasons[n - 1 - i]);
        assert_int_equal(absent[i / 64] >> i % 64 & 1, again[i] == TAMIS_NO_REASON);
    }
    tamis_snapshot_probe_list(snap, targets, 3, key, absent, again);
    for (size_t i = 0; i < 3 && i < n; i++)
        assert_int_equal(again[i], reasons[n - 1 - i]);
}

static void same_by_keys(struct tamis_snapshot *snap, const struct tamis_key *key,
                         const uint64_t *absent)
{
    size_t n = tamis_snapshot_n_segments(snap), n_words = (n + 63) / 64;
    struct tamis_key keys[70];
    static uint64_t rows[70 * MAX_WORDS_HERE];
    for (size_t i = 0; i < 70; i++)
        keys[i] = *key;
    struct tamis_domain d = tamis_snapshot_domain(snap);
    for (size_t i = 0; i < 69; i++)
        keys[i] = tamis_key_of_hash(d.tag, random_u64());
    keys[3].tag++;
    tamis_snapshot_probe_keys(snap, NULL, 0, keys, 70, rows);
    assert_memory_equal(rows + 69 * n_words, absent, n_words * sizeof *rows);
    for (size_t w = 0; w < n_words; w++)
        assert_true(rows[3 * n_words + w] == 0);
    for (size_t i = 0; i < 69; i += 11) {
        uint64_t one[MAX_WORDS_HERE];
        tamis_snapshot_probe_all(snap, &keys[i], one, NULL);
        assert_memory_equal(rows + i * n_words, one, n_words * sizeof one[0]);
    }
}

static void same_by_one(struct tamis_snapshot *snap, const struct tamis_key *key,
                        const uint8_t *reasons)
{
    size_t n = tamis_snapshot_n_segments(snap);
    for (size_t i = 0; i < n; i += 1 + n / 16) {
        struct tamis_target t = tamis_snapshot_target(snap, i);
        struct tamis_explanation x;
        enum tamis_reason why;
        uint64_t absent;
        tamis_snapshot_probe(snap, &t, key, &why);
        assert_int_equal(why, reasons[i]);
        assert_int_equal(tamis_snapshot_explain(snap, &t, key, &x),
                         why ? TAMIS_MAYBE : TAMIS_ABSENT);
        assert_int_equal(x.reason, why);
        tamis_snapshot_probe_batch(snap, &t, key->tag, &key->hash, 1, &absent, NULL);
        assert_true(!absent || !why);
    }
}

static void say_mismatch(struct tamis_snapshot *snap, const struct tamis_key *key)
{
    struct tamis_key other = *key;
    uint64_t absent[MAX_WORDS_HERE];
    uint8_t reasons[MAX_SEGMENTS];
    size_t n = tamis_snapshot_n_segments(snap), n_found;
    other.tag++;
    assert_int_equal(tamis_snapshot_probe_all(snap, &other, absent, reasons),
                     TAMIS_MAYBE);
    for (size_t i = 0; i < n; i++)
        assert_true(reasons[i] > TAMIS_HIT && !(absent[i / 64] >> i % 64 & 1));
    assert_int_equal(tamis_snapshot_candidates(snap, &other, NULL, 0, &n_found),
                     TAMIS_MAYBE);
    assert_int_equal(n_found, n);
}

/* Asks all, and compares every other way with it. */
static void ask_in_every_way(struct tamis_snapshot *snap, const struct tamis_key *key,
                             uint8_t reasons[MAX_SEGMENTS])
{
    uint64_t absent[MAX_WORDS_HERE];
    uint32_t found[MAX_SEGMENTS];
    size_t n = tamis_snapshot_n_segments(snap), n_found, k = 0;
    enum tamis_answer all = tamis_snapshot_probe_all(snap, key, absent, reasons);
    assert_int_equal(tamis_snapshot_candidates(snap, key, found, n, &n_found), all);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(absent[i / 64] >> i % 64 & 1, reasons[i] == TAMIS_NO_REASON);
        if (reasons[i] != TAMIS_NO_REASON)
            assert_int_equal(found[k++], i);
    }
    assert_int_equal(k, n_found);
    assert_int_equal(all, n_found ? TAMIS_MAYBE : TAMIS_ABSENT);
    same_by_lists(snap, key, reasons);
    same_by_keys(snap, key, absent);
    same_by_one(snap, key, reasons);
    say_mismatch(snap, key);
}

static size_t index_of(struct tamis_snapshot *snap, unsigned segment)
{
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name_of(segment), strlen(name_of(segment)), NULL, 0, 0,
                           &t));
    return t.slot - 1;
}

/* No key of the first n segments is absent from its own. */
static void check_keys_of(struct tamis_store *s, unsigned n, enum tamis_reason want)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    uint8_t reasons[MAX_SEGMENTS];
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k += 1 + n_keys[i] / 4) {
            struct tamis_key key = key_in(s, i * 1000 + k);
            ask_in_every_way(snap, &key, reasons);
            assert_int_equal(reasons[index_of(snap, i)], want);
        }
    tamis_snapshot_release(snap);
}

static void packed_segments_answer(void **state)
{
    static const unsigned sizes[] = {1, 3, 70, 300};
    (void)state;
    for (size_t round = 0; round < 4; round++) {
        unsigned n = sizes[round], n_absent = 0;
        struct tamis_store *s = store_of("s", n, 900);
        check_keys_of(s, n < 70 ? n : 5, TAMIS_HIT);
        struct tamis_snapshot *before = snapshot_of(s);
        struct tamis_pack_report report = pack_all(s, false);
        assert_int_equal(report.n_packed, n);
        assert_int_equal(n_filter_files("s"), 2); /* the pack and its tombstones */
        check_keys_of(s, n, TAMIS_HIT);
        /* Snapshots of before have the files open. */
        struct tamis_snapshot *after = snapshot_of(s);
        for (unsigned k = 0; k < 300; k++) {
            uint8_t was[MAX_SEGMENTS], is[MAX_SEGMENTS];
            struct tamis_key key = key_in(s, random_u64() % 100000000);
            ask_in_every_way(before, &key, was);
            ask_in_every_way(after, &key, is);
            for (unsigned i = 0; i < n; i++) {
                assert_true(is[i] == TAMIS_NO_REASON || is[i] == TAMIS_HIT);
                n_absent += is[i] == TAMIS_NO_REASON;
                assert_true(was[i] <= TAMIS_HIT);
            }
        }
        assert_true(n_absent > 300U * n * 9 / 10);
        tamis_snapshot_release(before);
        tamis_snapshot_release(after);
        tamis_store_close(s);
        s = store_open("s");
        check_keys_of(s, n, TAMIS_HIT);
        tamis_store_close(s);
        remove_store("s");
    }
}

/* One row has the answers of all segments, behind the columns of dropped ones. */
static void the_first_columns_are_dead(void **state)
{
    enum { N = 64 }; /* one band */
    (void)state;
    struct tamis_store *s = store_new("s");
    for (unsigned i = 0; i < N; i++)
        put_segment(s, name_of(i), i * 1000, 50);
    pack_all(s, false);
    drop_segment(s, name_of(0)); /* the first two by name */
    drop_segment(s, name_of(1));
    struct tamis_snapshot *snap = snapshot_of(s);
    for (unsigned i = 2; i < N; i++) {
        uint8_t reasons[MAX_SEGMENTS];
        struct tamis_key key = key_in(s, i * 1000 + 7);
        ask_in_every_way(snap, &key, reasons);
        assert_int_equal(reasons[index_of(snap, i)], TAMIS_HIT);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

/* Packs, and beside them segments of every other kind. */
static void what_cannot_be_packed_is_left(void **state)
{
    static const struct {
        const char *name;
        enum segment_kind kind;
    } others[] = {{"growing", GROWING}, {"stages", STAGES},
                  {"bare", BARE},       {"lost", LOST},
                  {"damaged", DAMAGED}, {"unreadable", UNREADABLE}};
    (void)state;
    struct tamis_store *s = store_of("s", 80, 500);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < 6; i++)
        if (!put_unbuilt(e, others[i].name, others[i].kind))
            OK(put_keys(e, others[i].name, 1, 300, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_writer *w;
    OK(tamis_store_writer(s, "stages", 6, &w, NULL));
    add_keys(w, 1, 2000);
    OK(tamis_writer_seal(w, 0, NULL, NULL));
    OK(tamis_writer_close(w));
    OK(tamis_store_writer(s, "growing", 7, &w, NULL));
    add_keys(w, 1, 300);
    OK(tamis_writer_close(w));
    for (size_t i = 0; i < 6; i++)
        hurt(s, others[i].name, others[i].kind);
    struct tamis_pack_report report = pack_all(s, false);
    assert_int_equal(report.n_packed, 80);
    assert_true(report.n_growing == 1 && report.n_stages == 1 && report.n_bare == 1);
    assert_int_equal(report.n_unreadable, 3);
    static const enum tamis_reason want[] = {TAMIS_HIT,       TAMIS_HIT,
                                             TAMIS_NO_FILTER, TAMIS_FILE_LOST,
                                             TAMIS_DAMAGED,   TAMIS_UNREADABLE};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(reason_of(s, others[i].name, 100), want[i]);
    struct tamis_snapshot *snap = snapshot_of(s);
    for (unsigned k = 1; k < 300; k += 20) {
        uint8_t reasons[MAX_SEGMENTS];
        struct tamis_key key = key_in(s, k);
        ask_in_every_way(snap, &key, reasons);
    }
    tamis_snapshot_release(snap);
    check_keys_of(s, 80, TAMIS_HIT);
    report = pack_all(s, false); /* again: nothing is left to pack */
    assert_true(report.n_packed == 0 && report.n_packed_before == 80);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- tombstones ---- */

/* Segment 2 has other keys by then: an absent from its old column would lose them. */
static void a_dropped_column_stays_dropped(void **state)
{
    (void)state;
    for (int died = 0; died < 2; died++) {
        struct tamis_store *s = store_of("s", 20, 300);
        pack_all(s, false);
        tamis_store_close(s);
        save_catalog("old");
        file_copy(dead_file(), path_of("alive"));
        s = store_open("s");
        drop_segment(s, name_of(2));
        put_segment(s, name_of(2), 5000000, 100);
        assert_int_equal(reason_of(s, name_of(2), 5000050), TAMIS_HIT);
        tamis_store_close(s);
        if (died) { /* before it set the tombstone: the next sweep does */
            file_copy(path_of("alive"), dead_file());
            s = store_open("s");
            put_segment(s, "another", 1, 10);
            tamis_store_close(s);
        }
        put_back_catalog("old");
        s = store_open("s");
        assert_int_equal(reason_of(s, name_of(2), 5000050), TAMIS_FILE_LOST);
        assert_int_equal(reason_of(s, name_of(2), 77), TAMIS_FILE_LOST);
        assert_int_equal(reason_of(s, name_of(3), 3001 - 1), TAMIS_HIT);
        tamis_store_close(s);
        remove_store("s");
    }
}

static void without_tombstones_no_column_counts(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++)
        for (int keep = 0; keep < 2; keep++) {
            struct tamis_store *s = store_of("s", 20, 300);
            pack_all(s, keep);
            tamis_store_close(s);
            const char *dead = dead_file();
            if (how == 0)
                unlink(dead);
            else if (how == 1)
                flip(dead, 50);
            else if (how == 2)
                OK(truncate(dead, 40));
            else
                OK(truncate(dead, 1000000));
            s = store_open("s");
            check_keys_of(s, 20, keep ? TAMIS_HIT : TAMIS_FILE_LOST);
            tamis_store_close(s);
            remove_store("s");
        }
}

static void a_pack_without_columns_goes(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 9, 300);
    pack_all(s, false);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(n_filter_files("s"), 2);
        drop_segment(s, name_of(i));
    }
    assert_int_equal(n_filter_files("s"), 0);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- while it is packed ---- */

static void a_segment_replaced_meanwhile_is_left(void **state)
{
    (void)state;
    struct tamis_pack_report report;
    struct tamis_store *s = store_of("s", 30, 300);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    drop_segment(s, name_of(6)); /* while filters are read */
    put_segment(s, name_of(6), 6000, 100);
    OK(tamis_edit_pack(e, snap, NULL, 0, NULL, &report, NULL));
    assert_true(report.n_replaced == 1 && report.n_unreadable == 0);
    tamis_snapshot_release(snap);
    drop_segment(s, name_of(4)); /* while the pack is written */
    put_segment(s, name_of(4), 7000000, 100);
    drop_segment(s, name_of(5));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(reason_of(s, name_of(4), 7000001), TAMIS_HIT);
    assert_int_equal(reason_of(s, name_of(6), 6000), TAMIS_HIT);
    assert_int_equal(reason_of(s, name_of(5), 5000), TAMIS_UNKNOWN_SEGMENT);
    assert_int_equal(n_filter_files("s"), 4);
    uint32_t n;
    size_t n_bytes, n_dead = 0;
    uint8_t *file = file_read(dead_file(), &n_bytes);
    memcpy(&n, file + 12, 4);
    for (uint32_t c = 0; c < n; c++)
        n_dead += file[DEAD_HEAD_BYTES + c / 8] >> c % 8 & 1;
    free(file);
    assert_true(n == 29 && n_dead == 2);
    tamis_store_close(s);
    remove_store("s");
}

static void an_aborted_pack_leaves_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 30, 300);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, NULL, NULL, NULL));
    assert_int_equal(n_filter_files("s"), 32);
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 30);
    /* One that was killed: its files stay until the next sweep. */
    e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, NULL, NULL, NULL));
    tamis_snapshot_release(snap);
    char copy[900], pack[900];
    snprintf(pack, sizeof pack, "%s", dead_file());
    snprintf(copy, sizeof copy, "%s", path_of("copy"));
    file_copy(pack, copy);
    tamis_edit_abort(e);
    tamis_store_close(s);
    file_copy(copy, pack);
    s = store_open("s");
    put_segment(s, "another", 1, 10);
    assert_int_equal(n_filter_files("s"), 31);
    check_keys_of(s, 30, TAMIS_HIT);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- damage ---- */

static void damaged_packs_lose_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 60, 400);
    struct tamis_pack_report report = pack_all(s, false);
    tamis_store_close(s);
    char pack[900];
    snprintf(pack, sizeof pack, "%.*s.tamis", (int)strlen(dead_file()) - 5,
             dead_file());
    file_copy(pack, path_of("whole"));
    for (uint64_t page = 0; page < report.file_bytes / PAGE_BYTES; page += 1) {
        file_copy(path_of("whole"), pack);
        zero_page(pack, page);
        s = store_open("s");
        struct tamis_snapshot *snap = snapshot_of(s);
        for (unsigned i = 0; i < 60; i += 7) {
            uint8_t reasons[MAX_SEGMENTS];
            struct tamis_key key = key_in(s, i * 1000);
            ask_in_every_way(snap, &key, reasons);
            assert_int_not_equal(reasons[index_of(snap, i)], TAMIS_NO_REASON);
        }
        tamis_snapshot_release(snap);
        tamis_store_close(s);
    }
    remove_store("s");
}

static void bad_calls_are_refused(void **state)
{
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *other = store_of("t", 3, 300), *s = store_of("s", 3, 300);
    struct tamis_snapshot *snap = snapshot_of(s), *theirs = snapshot_of(other);
    struct tamis_edit *e = edit_new(s);
    uint32_t beyond[] = {0, 3};
    assert_int_equal(tamis_edit_pack(e, NULL, NULL, 0, NULL, NULL, &diag),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_pack(e, theirs, NULL, 0, NULL, NULL, &diag),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_edit_pack(e, snap, beyond, 2, NULL, NULL, &diag),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_pack(NULL, snap, NULL, 0, NULL, NULL, &diag),
                     TAMIS_ERR_RANGE);
    uint32_t twice[] = {1, 1, 2};
    struct tamis_pack_report report;
    OK(tamis_edit_pack(e, snap, twice, 3, NULL, &report, &diag));
    assert_int_equal(report.n_packed, 2);
    OK(tamis_edit_commit(e, NULL));
    check_keys_of(s, 3, TAMIS_HIT);
    tamis_snapshot_release(snap);
    tamis_snapshot_release(theirs);
    tamis_store_close(s);
    tamis_store_close(other);
    remove_store("s");
    remove_store("t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_segments_answer),
        cmocka_unit_test(the_first_columns_are_dead),
        cmocka_unit_test(what_cannot_be_packed_is_left),
        cmocka_unit_test(a_dropped_column_stays_dropped),
        cmocka_unit_test(without_tombstones_no_column_counts),
        cmocka_unit_test(a_pack_without_columns_goes),
        cmocka_unit_test(a_segment_replaced_meanwhile_is_left),
        cmocka_unit_test(an_aborted_pack_leaves_nothing),
        cmocka_unit_test(damaged_packs_lose_nothing),
        cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests_name("store pack", tests, test_dir_create,
                                       test_dir_remove);
}
