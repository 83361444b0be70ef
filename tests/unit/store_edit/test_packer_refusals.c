/* A packer refuses these builders, some as an edit does, and reports nothing of a pack
 * that failed. */
#include "tests/support/store_packs.h"

TEST_IN_DIR(names_are_put_once)
{
    STORE s = store_new("s");
    put_segment(s, name_of(3), 1, 10);
    struct tamis_edit *e = edit_new(s), *other = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    take(p, builder_of(s, e, 0, 5000, 0.01, 1), 0); /* gets a file */
    struct tamis_builder *b = builder_of(s, e, 1, 10, 0.01, 0);
    OK(tamis_packer_take(p, b, NULL));
    take(p, b, TAMIS_ERR_EXISTS);
    b = builder_of(s, e, 2, 10, 0.01, 0);
    OK(builder_rename(b, NAMED(name_of(3)), NULL));
    take(p, b, TAMIS_ERR_EXISTS);
    b = builder_of(s, e, 2, 10, 0.01, 0);
    OK(tamis_packer_take(p, b, NULL));
    OK(tamis_edit_put(e, b, NULL, NULL)); /* meanwhile */
    tamis_builder_free(b);
    struct tamis_pack_report report = {.n_packed = 9};
    IS(tamis_edit_put_packed(other, p, &report, NULL), TAMIS_ERR_RANGE);
    OK(tamis_edit_put_packed(e, p, &report, NULL)); /* the commit will see */
    tamis_packer_free(p);
    IS(tamis_edit_commit(e, NULL), TAMIS_ERR_EXISTS);
    IS(count_mappings(".tamis (deleted)"), 0);
    tamis_edit_abort(other);
    IS(n_filter_files("s"), 1);
    IS(reason_of(s, name_of(1), 1000), TAMIS_UNKNOWN_SEGMENT);
}

TEST_IN_DIR(builders_of_others_are_refused)
{
    STORE s = store_new("s"), t = store_new("t");
    struct tamis_edit *e = edit_new(s), *f = edit_new(t);
    struct tamis_packer *p = packer_of(e);
    take(p, builder_of(t, f, 1, 10, 0.01, 0), TAMIS_ERR_MISMATCH);
    struct tamis_domain d = tamis_store_domain(s);
    uint8_t uuid[16] = {1};
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &d,
        .identity = {.name = "x", .name_bytes = 1, .store_uuid = uuid}};
    struct tamis_builder *b = builder_made(&opt);
    IS(tamis_edit_put(e, b, NULL, NULL), TAMIS_ERR_MISMATCH);
    take(p, b, TAMIS_ERR_MISMATCH);
    opt.identity.store_uuid = NULL;
    opt.domain = NULL;
    OK(tamis_builder_create(&opt, &b, NULL));
    IS(tamis_edit_put(e, b, NULL, NULL), TAMIS_ERR_MISMATCH);
    take(p, b, TAMIS_ERR_MISMATCH);
    opt = (struct tamis_builder_options){.size = sizeof opt, .domain = &d};
    OK(tamis_builder_create(&opt, &b, NULL));
    IS(tamis_packer_take(p, b, NULL), TAMIS_ERR_RANGE);
    OK(tamis_edit_put(e, b, NAMED("x"), NULL));
    tamis_builder_free(b);
    IS(tamis_packer_take(p, NULL, NULL), TAMIS_ERR_RANGE);
    struct tamis_pack_report report = {.n_packed = 9, .n_loose = 9};
    IS(tamis_edit_put_packed(e, NULL, &report, NULL), TAMIS_ERR_RANGE);
    assert_true(report.n_packed == 0 && report.n_loose == 0);
    OK(tamis_edit_put_packed(e, p, &report, NULL)); /* nothing */
    IS(report.n_packed, 0);
    IS(tamis_edit_put_packed(e, p, NULL, NULL), TAMIS_ERR_RANGE);
    tamis_packer_free(p);
    tamis_packer_free(NULL);
    struct tamis_packer_options none = {.size = sizeof none,
                                        .spool_dir = "/nonexistent"};
    IS(tamis_edit_packer(e, &none, &p, NULL), ENOENT);
    assert_null(p);
    IS(tamis_edit_packer(e, NULL, NULL, NULL), TAMIS_ERR_RANGE);
    tamis_edit_abort(e);
    tamis_edit_abort(f);
}

RUN_TESTS(NULL, NULL)
