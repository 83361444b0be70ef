/* A builder whose segment gets its name and binding when its keys are in, as an engine
 * does that numbers its file late; and is put into an edit that never saw it begin. */
#include "tests/support/store_support.h"

static struct tamis_builder *builder_for(struct tamis_store *s, const char *name)
{
    struct tamis_store_info store;
    struct tamis_builder *b;
    OK(tamis_store_info(s, &store, NULL));
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = &store.domain,
                                        .error = 0.01,
                                        .identity.name = name,
                                        .identity.name_bytes = strlen(name),
                                        .identity.binding = "early",
                                        .identity.binding_bytes = 5,
                                        .identity.store_uuid = store.uuid};
    OK(tamis_builder_create(&opt, &b, NULL));
    for (uint64_t i = 0; i < 100; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    return b;
}

static void test_named_late(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("late");
    struct tamis_builder *b = builder_for(s, "temporary");
    struct tamis_snapshot *now;
    struct tamis_target t;
    struct tamis_edit *e;
    OK(tamis_builder_rename(b, "000012.sst", 10, "session/12", 10));
    OK(tamis_edit_begin(s, &e, NULL));
    OK(tamis_edit_put(e, b, NULL));
    OK(tamis_edit_commit(e, NULL));
    OK(tamis_snapshot_current(s, &now, NULL));
    assert_int_equal(tamis_snapshot_n_segments(now), 1);
    OK(tamis_snapshot_find(now, "000012.sst", 10, "session/12", 10, 0, &t));
    assert_int_equal(tamis_snapshot_find(now, "000012.sst", 10, "early", 5, 0, &t),
                     TAMIS_ERR_MISMATCH);
    struct tamis_segment_info info;
    struct tamis_filter_info file;
    struct tamis_filter *f;
    OK(tamis_snapshot_segment(now, 0, &info));
    assert_int_equal(info.keys, 100);
    assert_memory_equal(info.last_key, key_text(99), info.last_key_bytes);
    OK(tamis_snapshot_filter(now, 0, &f, NULL));
    OK(tamis_filter_info(f, &file));
    assert_string_equal((const char *)file.name, "000012.sst");
    assert_int_equal(file.binding_bytes, 10);
    assert_memory_equal(file.binding, "session/12", 10);
    tamis_snapshot_release(now);
    tamis_builder_free(b);
    tamis_store_close(s);
}

static void test_names_that_are_none(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("refused");
    struct tamis_builder *b = builder_for(s, "kept");
    struct tamis_snapshot *now;
    struct tamis_target t;
    struct tamis_edit *e;
    char binding[65] = {0};
    assert_int_equal(tamis_builder_rename(b, "", 0, NULL, 0), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_builder_rename(b, "a\0b", 3, NULL, 0), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_builder_rename(b, "new", 3, binding, 65), TAMIS_ERR_RANGE);
    OK(tamis_edit_begin(s, &e, NULL));
    OK(tamis_edit_put(e, b, NULL));
    /* The same keys once more, without a binding. */
    OK(tamis_builder_rename(b, "new", 3, NULL, 65));
    OK(tamis_edit_put(e, b, NULL));
    /* No name is no segment. */
    OK(tamis_builder_rename(b, NULL, 7, binding, 64));
    assert_int_equal(tamis_edit_put(e, b, NULL), TAMIS_ERR_RANGE);
    OK(tamis_edit_commit(e, NULL));
    OK(tamis_snapshot_current(s, &now, NULL));
    assert_int_equal(tamis_snapshot_n_segments(now), 2);
    OK(tamis_snapshot_find(now, "kept", 4, "early", 5, 0, &t));
    assert_int_equal(tamis_snapshot_find(now, "new", 3, "early", 5, 0, &t),
                     TAMIS_ERR_MISMATCH);
    tamis_snapshot_release(now);
    tamis_builder_free(b);
    tamis_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_late),
        cmocka_unit_test(test_names_that_are_none),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
