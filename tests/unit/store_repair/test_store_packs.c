/* Packs in the hands of backup and repair: nothing is lost, and nothing that was
 * dropped comes back. */
#include "tests/support/store_packs.h"
#include "format/checksum.h"

static void all_say(const char *store, unsigned n, enum tamis_reason want)
{
    struct tamis_store *s = store_open(store);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k += 1 + n_keys[i] / 3)
            assert_int_equal(reason_of(s, name_of(i), i * 1000 + k), want);
    tamis_store_close(s);
}

static struct tamis_backup_report back_up(const char *to)
{
    struct tamis_backup_report report;
    struct tamis_diag diag = {0};
    struct tamis_store *s = store_open("s");
    if (tamis_store_backup(s, path_of(to), NULL, NULL, &report, &diag) != 0)
        fail_msg("%s", diag.what);
    tamis_store_close(s);
    return report;
}

static void backups_have_packs(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct tamis_store *s = store_of("s", 40, 400);
        pack_all(s, keep);
        drop_segment(s, name_of(39));
        put_segment(s, "loose", 8000000, 100);
        tamis_store_close(s);
        struct tamis_backup_report report = back_up("copy");
        assert_int_equal(report.n_left, 0);
        assert_int_equal(report.n_damaged, 0);
        assert_int_equal(report.n_segments, 40);
        assert_int_equal(report.n_files, keep ? 41 : 2);
        all_say("copy", 39, TAMIS_HIT);
        /* What was dropped stays dropped in the copy, too. */
        size_t n, n_copy;
        uint8_t *dead = file_read(dead_file(), &n);
        char path[900];
        snprintf(path, sizeof path, "%s/filters%s", path_of("copy"),
                 strrchr(dead_file(), '/'));
        uint8_t *copy = file_read(path, &n_copy);
        assert_true(n == n_copy && memcmp(dead, copy, n) == 0);
        free(dead);
        free(copy);
        remove_store("s");
        remove_store("copy");
    }
}

/* Without its pack, or with a bad one, a segment has its own file or none. */
static void backups_of_bad_packs(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++)
        for (int how = 0; how < 4; how++) {
            struct tamis_store *s = store_of("s", 12, 300);
            pack_all(s, keep);
            tamis_store_close(s);
            if (how == 0)
                unlink(pack_file());
            else if (how == 1)
                zero_page(pack_file(), 0);
            else if (how == 2)
                unlink(dead_file());
            else
                OK(truncate(pack_file(), 5000));
            struct tamis_backup_report report = back_up("copy");
            assert_int_equal(report.n_left, keep ? 1 : 12); /* the pack */
            all_say("copy", 12, keep ? TAMIS_HIT : TAMIS_NO_FILTER);
            remove_store("s");
            remove_store("copy");
        }
}

static void a_damaged_page_is_copied_as_it_is(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 12, 300);
    pack_all(s, false);
    tamis_store_close(s);
    zero_page(pack_file(), 2);
    struct tamis_backup_report report = back_up("copy");
    assert_int_equal(report.n_damaged, 1);
    assert_int_equal(report.n_left, 0);
    s = store_open("copy");
    for (unsigned i = 0; i < 12; i++)
        assert_int_not_equal(reason_of(s, name_of(i), i * 1000), ABSENT_HERE);
    tamis_store_close(s);
    remove_store("s");
    remove_store("copy");
}

static struct tamis_repair_report repair_s(void)
{
    struct tamis_repair_report report;
    struct tamis_diag diag = {0};
    if (tamis_store_repair(path_of("s"), NULL, &report, &diag) != 0)
        fail_msg("%s", diag.what);
    return report;
}

static void repair_leaves_packs(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct tamis_store *s = store_of("s", 20, 300);
        pack_all(s, keep);
        uint64_t n_orphans;
        OK(tamis_store_orphans(s, NULL, NULL, &n_orphans, NULL));
        assert_int_equal(n_orphans, 0);
        tamis_store_close(s);
        struct tamis_repair_report report = repair_s();
        assert_true(report.n_quarantined == 0 && report.n_swept == 0);
        assert_false(report.rebuilt);
        all_say("s", 20, TAMIS_HIT);
        /* One bad page: told, and left where it is. */
        zero_page(pack_file(), 1);
        report = repair_s();
        assert_int_equal(report.n_quarantined, 0);
        assert_true(exists(pack_file()));
        /* A kept file that rots goes; the column stays. */
        if (keep) {
            s = store_open("s");
            zero_page(file_of(s, "s", name_of(3)), 1);
            tamis_store_close(s);
            report = repair_s();
            assert_int_equal(report.n_quarantined, 1);
        }
        s = store_open("s");
        for (unsigned i = 0; i < 20; i++)
            assert_int_not_equal(reason_of(s, name_of(i), i * 1000), ABSENT_HERE);
        tamis_store_close(s);
        remove_store("s");
    }
}

/* The list is made anew from the columns that live. */
static void a_lost_catalog_is_made_of_columns(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct tamis_store *s = store_of("s", 30, 300);
        pack_all(s, keep);
        drop_segment(s, name_of(29));
        put_segment(s, "loose", 8000000, 100);
        tamis_store_close(s);
        OK(unlink(path_of("s/catalog.lmdb")));
        unlink(path_of("s/catalog.lmdb-lock"));
        struct tamis_repair_report report = repair_s();
        assert_true(report.rebuilt);
        assert_int_equal(report.n_quarantined, 0);
        s = store_open("s");
        struct tamis_snapshot *snap = snapshot_of(s);
        assert_int_equal(tamis_snapshot_n_segments(snap), 30);
        tamis_snapshot_release(snap);
        OK(tamis_store_confirm_complete(s, NULL));
        assert_int_equal(reason_of(s, name_of(29), 29000), TAMIS_UNKNOWN_SEGMENT);
        assert_int_equal(reason_of(s, "loose", 8000001), TAMIS_HIT);
        drop_segment(s, name_of(28));
        tamis_store_close(s);
        all_say("s", 28, TAMIS_HIT);
        remove_store("s");
    }
}

/* Without its tombstones nobody knows which columns live: the pack goes aside, and no
 * segment is called absent. */
static void a_lost_catalog_and_no_tombstones(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 10, 300);
    pack_all(s, false);
    put_segment(s, "loose", 8000000, 100);
    tamis_store_close(s);
    unlink(dead_file());
    OK(unlink(path_of("s/catalog.lmdb")));
    unlink(path_of("s/catalog.lmdb-lock"));
    struct tamis_repair_report report = repair_s();
    assert_true(report.rebuilt && report.n_quarantined == 1);
    assert_false(report.complete);
    s = store_open("s");
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(reason_of(s, name_of(i), i * 1000), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
    remove_store("s");
}

/* The same UUID, and another digest: not the pack that the records mean. */
static void another_pack_by_its_name_does_not_count(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 8, 300);
    pack_all(s, false);
    tamis_store_close(s);
    size_t n;
    uint8_t *bytes = file_read(pack_file(), &n);
    bytes[IDENTITY_BYTES + STAGES_OFFSET + offsetof(struct stage_disk, keys)] ^= 1;
    checksum_set(bytes + IDENTITY_BYTES, BIRTH_BYTES, 0);
    file_write(pack_file(), bytes, n);
    free(bytes);
    all_say("s", 8, TAMIS_FILE_LOST);
    remove_store("s");
}

/* ---- unpacked ---- */

static void unpacked_filters_answer_alike(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct tamis_store *s = store_of("s", 30, 500);
        pack_all(s, keep);
        struct tamis_snapshot *packed = snapshot_of(s), *now;
        struct tamis_edit *e = edit_new(s);
        uint32_t half[15];
        for (uint32_t i = 0; i < 15; i++)
            half[i] = 2 * i;
        OK(tamis_edit_unpack(e, packed, half, 15, NULL));
        OK(tamis_edit_commit(e, NULL));
        now = snapshot_of(s);
        for (uint32_t i = 0; i < 30; i++)
            assert_int_equal(tamis_snapshot_pack(now, i, NULL, NULL),
                             i % 2 ? 0 : TAMIS_ERR_NO_SEGMENT);
        for (unsigned k = 0; k < 2000; k++) {
            uint8_t was[30], is[30];
            struct tamis_key key = key_in(s, random_u64() % 100000);
            key.bytes = NULL;
            tamis_snapshot_probe_all(packed, &key, NULL, was);
            tamis_snapshot_probe_all(now, &key, NULL, is);
            assert_memory_equal(was, is, 30);
        }
        for (uint32_t i = 0; i < 30; i++) {
            struct tamis_segment_info a, b;
            OK(tamis_snapshot_segment(packed, i, &a));
            OK(tamis_snapshot_segment(now, i, &b));
            assert_int_equal(a.rank, b.rank);
            assert_int_equal(a.watermark, b.watermark);
            assert_int_equal(a.keys, b.keys);
            assert_int_equal(a.binding_bytes, b.binding_bytes);
            assert_memory_equal(a.binding, b.binding, a.binding_bytes);
            assert_int_equal(a.first_key_bytes, b.first_key_bytes);
        }
        /* The rest, too: then the pack goes. */
        e = edit_new(s);
        for (uint32_t i = 0; i < 15; i++)
            half[i] = 2 * i + 1;
        OK(tamis_edit_unpack(e, now, half, 15, NULL));
        OK(tamis_edit_commit(e, NULL));
        assert_int_equal(n_filter_files("s"), 30);
        tamis_snapshot_release(packed);
        tamis_snapshot_release(now);
        tamis_store_close(s);
        all_say("s", 30, TAMIS_HIT);
        remove_store("s");
    }
}

static void what_cannot_be_unpacked(void **state)
{
    (void)state;
    struct tamis_diag diag;
    struct tamis_store *s = store_of("s", 6, 500);
    pack_all(s, false);
    put_segment(s, "t", 8000000, 100);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, "t", 1, NULL, 0, 0, &t));
    uint32_t loose = t.slot - 1, beyond = 7, some = loose ? 0 : 1;
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(tamis_edit_unpack(e, snap, &loose, 1, &diag),
                     TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(tamis_edit_unpack(e, snap, &beyond, 1, &diag), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_unpack(e, NULL, &some, 1, &diag), TAMIS_ERR_RANGE);
    OK(tamis_edit_unpack(e, snap, NULL, 0, &diag));
    /* Replaced meanwhile: the edit fails, and leaves nothing. */
    OK(tamis_edit_unpack(e, snap, &some, 1, &diag));
    struct tamis_segment_info info;
    OK(tamis_snapshot_segment(snap, some, &info));
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)info.name_bytes, (const char *)info.name);
    drop_segment(s, name);
    put_segment(s, name, 9000000, 10);
    assert_int_equal(tamis_edit_commit(e, &diag), TAMIS_ERR_MISMATCH);
    assert_int_equal(reason_of(s, name, 9000001), TAMIS_HIT);
    assert_int_equal(n_filter_files("s"), 4); /* the pack, its tombstones, two loose */
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    zero_page(pack_file(), 1);
    s = store_open("s");
    snap = snapshot_of(s);
    size_t n_damaged = 0;
    for (uint32_t i = 0; i < 7; i++) {
        e = edit_new(s);
        n_damaged += tamis_edit_unpack(e, snap, &i, 1, NULL) == TAMIS_ERR_DAMAGED;
        tamis_edit_abort(e);
    }
    assert_true(n_damaged > 0);
    assert_int_equal(n_filter_files("s"), 4);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

static void a_pack_is_not_attached(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 5, 300);
    pack_all(s, false);
    struct tamis_edit *e = edit_new(s);
    struct tamis_diag diag;
    assert_int_equal(tamis_edit_attach(e, "x", 1, pack_file(), NULL, &diag),
                     TAMIS_ERR_UNFIT);
    tamis_edit_abort(e);
    tamis_store_close(s);
    remove_store("s");
}

/* A list that is not confirmed proves nothing, though packs answer for all of it. */
static void unconfirmed_packs_prove_nothing(void **state)
{
    uint8_t reasons[MAX_SEGMENTS];
    uint64_t absent[MAX_SEGMENTS / 64 + 1];
    (void)state;
    struct tamis_store *s = store_of("s", 70, 300);
    pack_all(s, false);
    tamis_store_close(s);
    struct meta m = meta_in("s");
    m.complete = 0;
    put_meta("s", &m);
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    for (unsigned k = 0; k < 100; k++) {
        struct tamis_key key = key_in(s, 90000000 + k);
        size_t n_found;
        assert_int_equal(tamis_snapshot_probe_all(snap, &key, absent, reasons),
                         TAMIS_MAYBE);
        assert_true(!absent[0] && !absent[1]);
        for (unsigned i = 0; i < 70; i++)
            assert_true(reasons[i] > TAMIS_HIT);
        tamis_snapshot_candidates(snap, &key, NULL, 0, &n_found);
        assert_int_equal(n_found, 70);
        assert_int_equal(tamis_snapshot_probe_keys(snap, NULL, 0, &key, 1, absent), 0);
        assert_true(!absent[0] && !absent[1]);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

/* Not even where a copy of the column was made before: without tombstones nobody can
 * tell whether it counts (SPEC.md §17.5). */
static void copies_of_columns_answer_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 10, 300);
    pack_all(s, false);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_filter *copy;
    for (unsigned i = 0; i < 10; i++)
        OK(tamis_snapshot_filter(snap, i, &copy, NULL));
    OK(unlink(dead_file()));
    put_segment(s, "another", 8000000, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(reason_of_hash(s, name_of(i), 7777777), TAMIS_FILE_LOST);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unconfirmed_packs_prove_nothing),
        cmocka_unit_test(backups_have_packs),
        cmocka_unit_test(backups_of_bad_packs),
        cmocka_unit_test(a_damaged_page_is_copied_as_it_is),
        cmocka_unit_test(repair_leaves_packs),
        cmocka_unit_test(a_lost_catalog_is_made_of_columns),
        cmocka_unit_test(a_lost_catalog_and_no_tombstones),
        cmocka_unit_test(another_pack_by_its_name_does_not_count),
        cmocka_unit_test(unpacked_filters_answer_alike),
        cmocka_unit_test(copies_of_columns_answer_nothing),
        cmocka_unit_test(what_cannot_be_unpacked),
        cmocka_unit_test(a_pack_is_not_attached),
    };
    return cmocka_run_group_tests_name("store packs", tests, test_dir_create,
                                       test_dir_remove);
}
