/* Segments with ribbon filters: beside others in every probe, attached, left out of
 * packs, refused by the algebra, backed up, and listed by a repair; and the bit of the
 * meta record that keeps writers of 1.0 away. */
#include "tests/support/repair_support.h"
#include "tests/support/store_packs.h"

enum { N = 3000 };

static struct tamis_segment_options ribbon = {.size = sizeof ribbon,
                                              .kind = TAMIS_RIBBON};

/* For a store that is closed: an open one shares its meta record. */
static bool has_bit(const char *store)
{
    return meta_in(store).ro_compat & META_RO_COMPAT_RIBBONS;
}

/* "a" and "c" are Bloom filters, "b" is a ribbon. */
static struct tamis_store *store_abc(void)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, N);
    put_segment(s, "c", 2 * N, N);
    tamis_store_close(s);
    assert_false(has_bit("s"));
    s = store_open("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "b", N, N, &ribbon));
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    assert_true(has_bit("s"));
    return store_open("s");
}

static void check_abc(struct tamis_store *s)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t;
    uint64_t n_absent = 0;
    enum { AT_ONCE = 100 };
    struct tamis_key keys[AT_ONCE];
    tamis_snapshot_find(snap, "b", 1, NULL, 0, 0, &t);
    for (uint64_t i = 0; i < 3 * N; i += AT_ONCE) {
        uint64_t absent[AT_ONCE]; /* a row of one word for each key */
        for (uint64_t k = 0; k < AT_ONCE; k++) {
            keys[k] = key_in(s, i + k);
            keys[k].bytes = NULL; /* no range helps */
            bool in_b = i >= N && i < 2 * N, all;
            bool is = tamis_snapshot_probe(snap, &t, &keys[k], NULL) == TAMIS_ABSENT;
            all = tamis_snapshot_probe_all(snap, &keys[k], NULL, NULL) == TAMIS_ABSENT;
            assert_false(all || (in_b && is));
            n_absent += is;
        }
        tamis_snapshot_probe_keys(snap, &t, 1, keys, AT_ONCE, absent);
        for (uint64_t k = 0; k < AT_ONCE; k++)
            assert_int_equal(absent[k] & 1, tamis_snapshot_probe(snap, &t, &keys[k],
                                                                 NULL) == TAMIS_ABSENT);
    }
    assert_true(n_absent > 2 * N * 95 / 100);
    for (uint64_t i = 3 * N; i < 3 * N + 500; i++) {
        struct tamis_key key = key_in(s, i);
        n_absent += tamis_snapshot_probe_all(snap, &key, NULL, NULL) == TAMIS_ABSENT;
    }
    assert_true(n_absent > 2 * N * 95 / 100 + 450);
    tamis_snapshot_release(snap);
}

static void ribbons_answer_beside_others(void **state)
{
    struct tamis_store *s = store_abc();
    (void)state;
    check_abc(s);
    check_abc(s); /* all pages are good by now */
    tamis_store_close(s);
    s = store_open("s");
    check_abc(s);
    /* Dropped, the bit may stay. */
    drop_segment(s, "b");
    tamis_store_close(s);
}

static void a_damaged_one_says_so(void **state)
{
    struct tamis_store *s = store_abc();
    static const uint8_t zeros[PAGE_BYTES];
    (void)state;
    file_poke(file_of(s, "s", "b"), PAGE_BYTES, zeros, sizeof zeros);
    for (uint64_t i = 0; i < 3 * N; i++)
        assert_int_equal(reason_of_hash(s, "b", i), TAMIS_DAMAGED);
    tamis_store_close(s);
}

static void what_is_refused(void **state)
{
    struct tamis_store *s = store_abc();
    struct tamis_segment_options both = ribbon;
    struct tamis_builder *b;
    struct tamis_pack_report report = pack_all(s, false);
    struct tamis_diag diag;
    (void)state;
    assert_int_equal(report.n_packed, 2);
    assert_int_equal(report.n_ribbons, 1);
    check_abc(s);
    both.for_packs = 1;
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(tamis_edit_builder(e, "d", 1, 0, &both, &b, &diag),
                     TAMIS_ERR_RANGE);
    tamis_edit_abort(e);
    tamis_store_close(s);
}

static void attached_and_backed_up(void **state)
{
    struct tamis_store *s = store_abc();
    struct tamis_backup_report report;
    (void)state;
    file_copy(file_of(s, "s", "b"), path_of("b.tamis"));
    drop_segment(s, "b");
    OK(attach_code(s, "b", path_of("b.tamis"), NULL, NULL));
    check_abc(s);
    OK(tamis_store_backup(s, path_of("copy"), NULL, NULL, &report, NULL));
    tamis_store_close(s);
    assert_true(has_bit("copy"));
    s = store_open("copy");
    check_abc(s);
    tamis_store_close(s);
}

static void a_repair_lists_them(void **state)
{
    struct tamis_store *s = store_abc();
    (void)state;
    tamis_store_close(s);
    assert_int_equal(unlink(path_of("s/catalog.lmdb")), 0);
    repair("s");
    assert_true(has_bit("s"));
    s = store_open("s");
    check_keys(s, "a", 0, N);
    check_keys(s, "b", N, N);
    OK(tamis_store_confirm_complete(s, NULL));
    check_abc(s);
    tamis_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ribbons_answer_beside_others, no_store),
        cmocka_unit_test_setup(a_damaged_one_says_so, no_store),
        cmocka_unit_test_setup(what_is_refused, no_store),
        cmocka_unit_test_setup(attached_and_backed_up, no_store),
        cmocka_unit_test_setup(a_repair_lists_them, no_store),
    };
    return cmocka_run_group_tests_name("ribbons in a store", tests, test_dir_create,
                                       test_dir_remove);
}
