/* A builder whose segment gets its name and binding when its keys are in, as an engine
 * does that numbers its file late; and is put into an edit that never saw it begin. */
#include "tests/support/store_support.h"

static struct tamis_builder *builder_for(struct tamis_store *s, const char *name)
{
    struct tamis_store_info store = store_info(s);
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = &store.domain,
                                        .error = 0.01,
                                        .identity.name = name,
                                        .identity.name_bytes = strlen(name),
                                        .identity.binding = "early",
                                        .identity.binding_bytes = 5,
                                        .identity.store_uuid = store.uuid};
    struct tamis_builder *b = builder_made(&opt);
    for (uint64_t i = 0; i < 100; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    return b;
}

TEST(test_named_late)
{
    STORE s = store_new("late");
    BUILDER b = builder_for(s, "temporary");
    struct tamis_target t;
    const struct tamis_identity as = {"000012.sst", 10, "session/12", 10, NULL};
    EDIT(s, tamis_edit_put(edit, b, &as, NULL));
    SNAPSHOT now = snapshot_of(s);
    IS(tamis_snapshot_info(now).n_segments, 1);
    OK(tamis_snapshot_find(now, "000012.sst", 10, "session/12", 10, 0, &t));
    IS(tamis_snapshot_find(now, "000012.sst", 10, "early", 5, 0, &t),
       TAMIS_ERR_MISMATCH);
    struct tamis_segment_info info = segment_at(now, 0);
    IS(info.keys, 100);
    assert_memory_equal(info.last_key, key_text(99), info.last_key_bytes);
    struct tamis_filter_info file = filter_info(filter_at(now, 0));
    assert_string_equal((const char *)file.name, "000012.sst");
    IS(file.binding_bytes, 10);
    assert_memory_equal(file.binding, "session/12", 10);
}

TEST(test_names_that_are_none)
{
    STORE s = store_new("refused");
    BUILDER b = builder_for(s, "kept");
    struct tamis_target t;
    char binding[65] = {0};
    const struct tamis_identity bad[] = {
        {.name = ""}, {"a\0b", 3, NULL, 0, NULL}, {"new", 3, binding, 65, NULL}};
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < N_OF(bad); i++)
        IS(tamis_edit_put(e, b, &bad[i], NULL), TAMIS_ERR_RANGE);
    OK(tamis_edit_put(e, b, NULL, NULL));
    /* The same keys once more, without a binding. */
    OK(tamis_edit_put(e, b, NAMED("new"), NULL));
    OK(tamis_edit_commit(e, NULL));
    SNAPSHOT now = snapshot_of(s);
    IS(tamis_snapshot_info(now).n_segments, 2);
    OK(tamis_snapshot_find(now, "kept", 4, "early", 5, 0, &t));
    IS(tamis_snapshot_find(now, "new", 3, "early", 5, 0, &t), TAMIS_ERR_MISMATCH);
}

RUN_TESTS(test_dir_create, test_dir_remove)
