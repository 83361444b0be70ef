/* A packer refuses these builders, and reports nothing of a pack that failed. */
#include "tests/unit/store_edit/packer_support.h"

static void names_are_put_once(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, name_of(3), 1, 10);
    struct tamis_edit *e = edit_new(s), *other = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    struct tamis_builder *b = builder_of(s, e, 1, 10, 0.01, 0);
    OK(tamis_packer_take(p, b, NULL));
    take(p, b, TAMIS_ERR_EXISTS);
    b = builder_of(s, e, 2, 10, 0.01, 0);
    OK(tamis_builder_rename(b, name_of(3), strlen(name_of(3)), NULL, 0));
    take(p, b, TAMIS_ERR_EXISTS);
    b = builder_of(s, e, 2, 10, 0.01, 0);
    OK(tamis_packer_take(p, b, NULL));
    OK(tamis_edit_put(e, b, NULL)); /* meanwhile */
    tamis_builder_free(b);
    struct tamis_pack_report report;
    assert_int_equal(tamis_edit_put_packed(other, p, &report, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_packed(e, p, &report, NULL), TAMIS_ERR_EXISTS);
    assert_int_equal(report.n_packed, 0);
    assert_int_equal(n_filter_files("s"), 2);
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
    tamis_edit_abort(other);
    assert_int_equal(reason_of(s, name_of(1), 1000), TAMIS_UNKNOWN_SEGMENT);
    assert_int_equal(reason_of(s, name_of(2), 2000), TAMIS_HIT);
    tamis_store_close(s);
    remove_store("s");
}

static void builders_of_others_are_refused(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s"), *t = store_new("t");
    struct tamis_edit *e = edit_new(s), *f = edit_new(t);
    struct tamis_packer *p = packer_of(e);
    take(p, builder_of(t, f, 1, 10, 0.01, 0), TAMIS_ERR_MISMATCH);
    struct tamis_domain d = tamis_store_domain(s);
    uint8_t uuid[16] = {1};
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &d,
        .identity = {.name = "x", .name_bytes = 1, .store_uuid = uuid}};
    struct tamis_builder *b;
    OK(tamis_builder_create(&opt, &b, NULL));
    take(p, b, TAMIS_ERR_MISMATCH);
    opt.identity = (struct tamis_identity){.name = NULL};
    OK(tamis_builder_create(&opt, &b, NULL));
    take(p, b, TAMIS_ERR_RANGE);
    assert_int_equal(tamis_packer_take(p, NULL, NULL), TAMIS_ERR_RANGE);
    struct tamis_pack_report report = {.n_packed = 9, .n_loose = 9};
    assert_int_equal(tamis_edit_put_packed(e, NULL, &report, NULL), TAMIS_ERR_RANGE);
    assert_true(report.n_packed == 0 && report.n_loose == 0);
    OK(tamis_edit_put_packed(e, p, &report, NULL)); /* nothing */
    assert_int_equal(report.n_packed, 0);
    assert_int_equal(tamis_edit_put_packed(e, p, NULL, NULL), TAMIS_ERR_RANGE);
    tamis_packer_free(p);
    tamis_packer_free(NULL);
    struct tamis_packer_options none = {.size = sizeof none,
                                        .spool_dir = "/nonexistent"};
    assert_int_equal(tamis_edit_packer(e, &none, &p, NULL), ENOENT);
    assert_null(p);
    assert_int_equal(tamis_edit_packer(e, NULL, NULL, NULL), TAMIS_ERR_RANGE);
    tamis_edit_abort(e);
    tamis_edit_abort(f);
    tamis_store_close(s);
    tamis_store_close(t);
    remove_store("s");
    remove_store("t");
}

/* Its hashes in memory, or spooled to a file. */
static void ribbons_are_refused(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    for (uint64_t memory_limit = 0; memory_limit < 2; memory_limit++) {
        struct tamis_segment_options so = {
            .size = sizeof so, .kind = TAMIS_RIBBON, .memory_limit = memory_limit};
        struct tamis_builder *b;
        OK(tamis_edit_builder(e, "r", 1, 0.01, &so, &b, NULL));
        for (unsigned k = 0; k < 5000; k++)
            OK(tamis_builder_add_key(b, key_text(k), strlen(key_text(k))));
        take(p, b, TAMIS_ERR_UNFIT);
    }
    struct tamis_pack_report report = {.n_packed = 9};
    OK(tamis_edit_put_packed(e, p, &report, NULL));
    assert_true(report.n_packed == 0 && report.n_loose == 0);
    assert_int_equal(n_filter_files("s"), 0);
    tamis_packer_free(p);
    tamis_edit_abort(e);
    tamis_store_close(s);
    remove_store("s");
}

/* A report of a failure counts nothing, whatever it had before. */
static void a_failure_reports_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    struct tamis_pack_report report = {.n_packed = 9};
    take(p, builder_of(s, e, 0, 5000, 0.01, 1), 0); /* gets a file */
    struct tamis_builder *b = builder_of(s, e, 1, 10, 0.01, 0);
    OK(tamis_packer_take(p, b, NULL));
    OK(tamis_edit_put(e, b, NULL)); /* meanwhile */
    tamis_builder_free(b);
    assert_int_equal(tamis_edit_put_packed(e, p, &report, NULL), TAMIS_ERR_EXISTS);
    assert_true(report.n_packed == 0 && report.n_loose == 0);
    tamis_packer_free(p);
    tamis_edit_abort(e);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_put_once),
        cmocka_unit_test(builders_of_others_are_refused),
        cmocka_unit_test(ribbons_are_refused),
        cmocka_unit_test(a_failure_reports_nothing),
    };
    return cmocka_run_group_tests_name("packer refusals", tests, test_dir_create,
                                       test_dir_remove);
}
