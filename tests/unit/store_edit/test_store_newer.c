/* Packing and unpacking of what a newer version has marked (SPEC.md §5.2): it is left
 * as it is, and said to be newer. And of records that are wrong about numbers of keys.
 */
#include "tests/support/store_packs.h"
#include "tests/support/algebra_support.h"

static const uint64_t BIT = UINT64_C(1) << 41;

/* Gives a segment's record bits that this version does not know, and another number of
 * keys. */
static struct tamis_store *mark(struct tamis_store *s, const char *name,
                                uint64_t compat, uint64_t ro_compat, bool no_keys)
{
    uint8_t value[RECORD_MAX_BYTES];
    struct record r = record_in(s, name);
    r.compat |= compat;
    r.ro_compat |= ro_compat;
    r.keys = no_keys ? 0 : r.keys;
    tamis_store_close(s);
    size_t n = record_encode(&r, name, strlen(name), value);
    poke_catalog("s", "segments", name, value, n);
    return store_open("s");
}

static int unpack(struct tamis_store *s, const char *name, size_t times)
{
    uint32_t segments[4];
    struct tamis_target t;
    struct tamis_diag diag = {0};
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    for (size_t i = 0; i < times; i++)
        segments[i] = t.slot - 1;
    struct tamis_edit *e = edit_new(s);
    int rc = tamis_edit_unpack(e, snap, segments, times, &diag);
    tamis_snapshot_release(snap);
    if (rc) {
        tamis_edit_abort(e);
        return rc;
    }
    return tamis_edit_commit(e, NULL);
}

static void records_of_a_newer_version(void **state)
{
    (void)state;
    struct tamis_store *s = mark(store_of("s", 8, 60), "s1", 0, BIT, false);
    struct tamis_pack_report r = pack_all(s, false);
    assert_int_equal(r.n_packed, 7);
    assert_int_equal(r.n_newer, 1);
    assert_int_equal(r.why_left, TAMIS_LEFT_NEWER);
    assert_int_equal(record_in(s, "s1").ro_compat, BIT);
    s = mark(s, "s2", 0, BIT, false);
    r = pack_again(s, TAMIS_REPACK_ALL);
    assert_int_equal(r.n_packed, 6);
    assert_int_equal(r.n_newer, 2);
    assert_int_equal(unpack(s, "s2", 1), TAMIS_ERR_VERSION);
    assert_true(record_in(s, "s2").ro_compat & BIT);
    assert_int_equal(reason_of(s, "s2", 2000), TAMIS_HIT);
    /* A bit that may be ignored: the record is written without it. */
    s = mark(s, "s3", BIT, 0, false);
    r = pack_again(s, TAMIS_REPACK_ALL);
    assert_int_equal(r.n_packed, 6);
    assert_int_equal(record_in(s, "s3").compat & BIT, 0);
    tamis_store_close(s);
    remove_store("s");
}

static void files_of_a_newer_version(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 8, 60);
    struct commit c = commit_of(file_of(s, "s", "s1"));
    c.ro_compat = 0x100;
    put_commit(file_of(s, "s", "s1"), &c);
    struct tamis_pack_report r = pack_all(s, false);
    assert_int_equal(r.n_packed, 7);
    assert_int_equal(r.n_newer, 1);
    assert_int_equal(commit_of(file_of(s, "s", "s1")).ro_compat, 0x100);
    assert_int_equal(reason_of(s, "s1", 1000), TAMIS_HIT);
    tamis_store_close(s);
    remove_store("s");
}

/* A backup without the pack, whose tombstones are lost: the record stays as it is. */
static void backups_of_a_newer_version(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 4, 60);
    pack_all(s, true);
    s = mark(s, "s1", 0, BIT, false);
    OK(unlink(dead_file()));
    struct record before = record_in(s, "s1");
    OK(tamis_store_backup(s, path_of("copy"), NULL, NULL, NULL, NULL));
    tamis_store_close(s);
    s = store_open("copy");
    struct record copied = record_in(s, "s1"), other = record_in(s, "s2");
    assert_true(before.ro_compat == copied.ro_compat && record_packed(&copied));
    assert_memory_equal(&before.place, &copied.place, sizeof before.place);
    assert_false(record_packed(&other));
    tamis_store_close(s);
    remove_store("s");
    remove_store("copy");
}

static void ribbons_are_said_to_be_ribbons(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 3, 60);
    struct tamis_segment_options opt = {.size = sizeof opt, .kind = TAMIS_RIBBON};
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "ribbon", 7000, 900, &opt));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_pack_report r = pack_all(s, false);
    assert_int_equal(r.n_packed, 3);
    assert_int_equal(r.n_ribbons, 1);
    assert_int_equal(r.n_stages, 0);
    assert_int_equal(r.why_left, TAMIS_LEFT_RIBBON);
    tamis_store_close(s);
    remove_store("s");
}

/* A record without keys: its column keeps its blocks, and with them its error. */
static void a_column_of_no_keys_is_not_folded(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    for (unsigned i = 0; i < 4; i++)
        put_segment(s, name_of(i), i * 100000, 20000);
    pack_all(s, false);
    for (unsigned i = 0; i < 4; i++)
        s = mark(s, name_of(i), 0, 0, true);
    struct tamis_pack_report r = pack_again(s, TAMIS_REPACK_ALL);
    assert_int_equal(r.n_packed, 4);
    unsigned n_absent = 0;
    for (int i = 0; i < 2000; i++)
        n_absent += reason_of_hash(s, "s1", random_u64()) == TAMIS_NO_REASON;
    assert_true(n_absent > 1900);
    for (uint64_t k = 100000; k < 120000; k += 7)
        assert_int_equal(reason_of(s, "s1", k), TAMIS_HIT);
    OK(unpack(s, "s1", 4)); /* which is once */
    assert_int_equal(reason_of(s, "s1", 100000), TAMIS_HIT);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_a_newer_version),
        cmocka_unit_test(files_of_a_newer_version),
        cmocka_unit_test(backups_of_a_newer_version),
        cmocka_unit_test(ribbons_are_said_to_be_ribbons),
        cmocka_unit_test(a_column_of_no_keys_is_not_folded),
    };
    return cmocka_run_group_tests_name("newer versions", tests, test_dir_create,
                                       test_dir_remove);
}
