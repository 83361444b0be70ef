/* Edits: put, drop, retain, abort, and commits that fail. */
#include "tests/support/store_support.h"
#include "lib/builder/inside.h"

#include <pthread.h>

static void edit_puts_and_drops(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 100, NULL));
    OK(put_keys(e, "b", 100, 100, NULL));
    OK(put_keys(e, "empty", 0, 0, NULL));
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 3);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(reason_of(s, "a", i), TAMIS_HIT);
        assert_int_equal(reason_of(s, "b", 100 + i), TAMIS_HIT);
        assert_int_equal(reason_of(s, "empty", i), ABSENT_HERE);
    }
    assert_int_equal(reason_of(s, "a", 100), ABSENT_HERE);
    drop_segment(s, "a");
    assert_int_equal(n_filter_files("s"), 2);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void edit_sees_its_own_changes_in_order(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(put_keys(e, "a", 50, 10, NULL), TAMIS_ERR_EXISTS);
    OK(tamis_edit_drop(e, "a", 1, NULL));
    assert_int_equal(tamis_edit_drop(e, "a", 1, NULL), TAMIS_ERR_NO_SEGMENT);
    OK(put_keys(e, "a", 50, 10, NULL));
    assert_int_equal(put_keys(e, "a", 60, 10, NULL), TAMIS_ERR_EXISTS);
    OK(put_keys(e, "gone", 0, 10, NULL));
    OK(tamis_edit_drop(e, "gone", 4, NULL));
    assert_int_equal(tamis_edit_drop(e, "none", 4, NULL), TAMIS_ERR_NO_SEGMENT);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 1);
    assert_int_equal(reason_of(s, "a", 5), ABSENT_HERE);
    assert_int_equal(reason_of(s, "a", 55), TAMIS_HIT);
    assert_int_equal(reason_of(s, "gone", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void edit_passes_on_memory_and_threads(void **state)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .memory_limit = 123456, .n_threads = 7, .check = 1};
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0, &opt, &b, NULL));
    assert_int_equal(b->limit, 123456);
    assert_int_equal(b->n_threads, 7);
    assert_true(b->checks);
    tamis_builder_free(b);
    /* A caller of before knew neither. */
    opt.size = offsetof(struct tamis_segment_options, memory_limit);
    OK(tamis_edit_builder(e, "a", 1, 0, &opt, &b, NULL));
    assert_int_equal(b->limit, 64 << 20);
    assert_int_equal(b->n_threads, 1);
    assert_false(b->checks);
    tamis_builder_free(b);
    tamis_edit_abort(e);
    tamis_store_close(s);
}

/* A builder that finds that memory changed puts nothing. The edit goes on. */
static void edit_refuses_what_memory_changed(void **state)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .check = 1};
    struct tamis_builder *b;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0, &opt, &b, NULL));
    OK(tamis_builder_add_key(b, "key", 3));
    b->hashes[0] ^= 1;
    assert_int_equal(tamis_edit_put(e, b, &diag), TAMIS_ERR_DAMAGED);
    assert_non_null(strstr(diag.what, "memory"));
    assert_int_equal(n_filter_files("s"), 0);
    b->hashes[0] ^= 1;
    OK(tamis_edit_put(e, b, &diag));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
}

static void edit_refuses_bad_arguments(void **state)
{
    char name[300];
    struct tamis_builder *b = (void *)1;
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = name, .binding_bytes = 65};
    (void)state;
    memset(name, 'n', sizeof name);
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(tamis_edit_put_bare(e, "", 0, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_bare(e, name, 256, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_bare(e, "a\0b", 3, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put_bare(e, "a", 1, &opt, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_builder(e, "a", 1, 0.7, NULL, &b, NULL),
                     TAMIS_ERR_RANGE);
    assert_null(b);
    assert_int_equal(tamis_edit_drop(e, NULL, 0, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put(e, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_put(NULL, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_commit(NULL, NULL), TAMIS_ERR_RANGE);
    struct tamis_growth bad = {.factor = 100};
    assert_int_equal(tamis_edit_put_growing(e, "a", 1, &bad, NULL, NULL),
                     TAMIS_ERR_RANGE);
    OK(tamis_edit_put_bare(e, name, 255, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_edit_abort(NULL);
    tamis_store_close(s);
}

static void edit_refuses_a_foreign_builder(void **state)
{
    uint8_t other[16] = {1};
    struct tamis_builder *b;
    struct tamis_builder_options opt = {
        .size = sizeof opt, .identity.name = "a", .identity.name_bytes = 1};
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_builder_create(&opt, &b, NULL));
    assert_int_equal(tamis_edit_put(e, b, NULL), TAMIS_ERR_MISMATCH);
    tamis_builder_free(b);
    struct tamis_domain d = tamis_store_domain(s);
    opt.domain = &d;
    opt.identity.store_uuid = other;
    OK(tamis_builder_create(&opt, &b, NULL));
    assert_int_equal(tamis_edit_put(e, b, NULL), TAMIS_ERR_MISMATCH);
    tamis_builder_free(b);
    opt.identity.store_uuid = NULL;
    OK(tamis_builder_create(&opt, &b, NULL));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    assert_int_equal(n_filter_files("s"), 1);
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
}

static void abort_leaves_no_files(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, NULL));
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    assert_int_equal(n_filter_files("s"), 2);
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 0);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void failed_commit_changes_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "old", 0, 10);
    struct tamis_edit *one = edit_new(s), *two = edit_new(s), *three = edit_new(s);
    OK(put_keys(one, "a", 0, 10, NULL));
    OK(tamis_edit_drop(two, "old", 3, NULL));
    OK(put_keys(two, "b", 0, 10, NULL));
    OK(put_keys(two, "a", 50, 10, NULL)); /* nobody has it yet */
    OK(tamis_edit_drop(three, "old", 3, NULL));
    OK(put_keys(three, "c", 0, 10, NULL));
    OK(tamis_edit_commit(one, NULL));
    struct tamis_diag diag;
    assert_int_equal(tamis_edit_commit(two, &diag), TAMIS_ERR_EXISTS);
    assert_non_null(strstr(diag.what, "segment 'a' exists"));
    assert_int_equal(n_filter_files("s"), 3);
    assert_int_equal(reason_of(s, "old", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_HIT);
    assert_int_equal(reason_of(s, "b", 5), TAMIS_UNKNOWN_SEGMENT);
    drop_segment(s, "old");
    assert_int_equal(tamis_edit_commit(three, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(s);
}

static void failed_sync_fails_the_commit(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, NULL));
    struct io_calls saved = io_calls;
    io_calls.fsync = fail_fsync;
    assert_int_equal(tamis_edit_commit(e, NULL), EIO);
    e = edit_new(s);
    assert_int_equal(put_keys(e, "a", 0, 10, NULL), EIO);
    io_calls = saved;
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 0);
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
}

static void retain_keeps_the_named_and_its_own(void **state)
{
    static const struct tamis_name live[] = {
        {"b", 1}, {"unknown", 7}, {"", 0}, {NULL, 0}, {"later", 5}};
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    put_segment(s, "c", 20, 10);
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "own", 30, 10, NULL));
    OK(tamis_edit_retain(e, live, 5, NULL));
    assert_int_equal(tamis_edit_drop(e, "a", 1, NULL), TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(put_keys(e, "b", 0, 1, NULL), TAMIS_ERR_EXISTS);
    OK(put_keys(e, "c", 90, 5, NULL)); /* free again */
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(reason_of(s, "a", 5), TAMIS_UNKNOWN_SEGMENT);
    assert_int_equal(reason_of(s, "b", 15), TAMIS_HIT);
    assert_int_equal(reason_of(s, "c", 25), ABSENT_HERE);
    assert_int_equal(reason_of(s, "c", 91), TAMIS_HIT);
    assert_int_equal(reason_of(s, "own", 35), TAMIS_HIT);
    assert_int_equal(n_filter_files("s"), 3);
    e = edit_new(s);
    OK(tamis_edit_retain(e, NULL, 0, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 0);
    tamis_store_close(s);
}

struct putter {
    struct tamis_edit *edit;
    int number, n_exists;
};

static void *put_many(void *arg)
{
    struct putter *p = arg;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "own-%d-%d", p->number, i);
        struct tamis_builder *b;
        OK(tamis_edit_builder(p->edit, name, strlen(name), 0, NULL, &b, NULL));
        uint64_t hash = (uint64_t)(p->number * 1000 + i);
        OK(tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, &hash, 1));
        OK(tamis_edit_put(p->edit, b, NULL));
        tamis_builder_free(b);
        snprintf(name, sizeof name, "shared-%d", i);
        int rc = tamis_edit_put_bare(p->edit, name, strlen(name), NULL, NULL);
        assert_true(rc == 0 || rc == TAMIS_ERR_EXISTS);
        p->n_exists += rc != 0;
    }
    return NULL;
}

static void threads_put_into_one_edit(void **state)
{
    pthread_t thread[4];
    struct putter p[4];
    int n_exists = 0;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 4; i++) {
        p[i] = (struct putter){e, i, 0};
        OK(pthread_create(&thread[i], NULL, put_many, &p[i]));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        n_exists += p[i].n_exists;
    }
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_exists, 60);
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(tamis_snapshot_n_segments(snap), 100);
    tamis_snapshot_release(snap);
    assert_int_equal(n_filter_files("s"), 80);
    tamis_store_close(s);
}

/* A derived filter takes its source's place only while the source is listed. */
static void a_filter_that_was_replaced_is_not_dropped(void **state)
{
    struct tamis_segment_info info;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 100, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *old = snapshot_of(s);
    OK(tamis_snapshot_segment(old, 0, &info));
    struct tamis_edit *mine = edit_new(s);
    assert_int_equal(tamis_edit_drop_filter(mine, "a", 1, NULL, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_drop_filter(mine, "b", 1, info.uuid, NULL),
                     TAMIS_ERR_NO_SEGMENT);
    OK(tamis_edit_drop_filter(mine, "a", 1, info.uuid, NULL));
    OK(put_keys(mine, "a", 0, 100, NULL));
    e = edit_new(s); /* somebody else is faster, with other keys */
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(put_keys(e, "a", 200, 100, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(tamis_edit_commit(mine, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "segment 'a' has another filter"));
    assert_int_equal(n_filter_files("s"), 1);
    for (uint64_t i = 200; i < 300; i++)
        assert_int_equal(reason_of(s, "a", i), TAMIS_HIT);
    tamis_snapshot_release(old);
    struct tamis_snapshot *now = snapshot_of(s);
    OK(tamis_snapshot_segment(now, 0, &info));
    e = edit_new(s);
    OK(tamis_edit_drop_filter(e, "a", 1, info.uuid, NULL));
    OK(tamis_edit_put_bare(e, "a", 1, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(reason_of(s, "a", 250), TAMIS_NO_FILTER);
    e = edit_new(s);
    OK(tamis_edit_drop_filter(e, "a", 1, info.uuid, NULL));
    assert_int_equal(tamis_edit_commit(e, NULL), TAMIS_ERR_MISMATCH);
    tamis_snapshot_release(now);
    tamis_store_close(s);
}

/* A segment of an engine's file goes only while it is that file's, filter or not. */
static void a_binding_that_was_replaced_is_not_dropped(void **state)
{
    struct tamis_segment_options ours = {
        .size = sizeof ours, .binding = "db1/7", .binding_bytes = 5};
    struct tamis_segment_options theirs = {
        .size = sizeof theirs, .binding = "db2/7", .binding_bytes = 5};
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put_bare(e, "a", 1, &ours, NULL));
    OK(put_keys(e, "none", 0, 10, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_edit *mine = edit_new(s);
    assert_int_equal(tamis_edit_drop_bound(mine, "b", 1, "db1/7", 5, NULL),
                     TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(tamis_edit_drop_bound(mine, "a", 1, NULL, 5, NULL),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_edit_drop_bound(mine, "a", 1, &diag, 65, NULL),
                     TAMIS_ERR_RANGE);
    OK(tamis_edit_drop_bound(mine, "a", 1, "db1/7", 5, NULL));
    OK(put_keys(mine, "a", 0, 100, NULL));
    e = edit_new(s); /* somebody else is faster: without a filter as well */
    OK(tamis_edit_drop(e, "a", 1, NULL));
    OK(tamis_edit_put_bare(e, "a", 1, &theirs, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(tamis_edit_commit(mine, &diag), TAMIS_ERR_MISMATCH);
    assert_non_null(strstr(diag.what, "segment 'a' has another binding"));
    assert_int_equal(reason_of(s, "a", 250), TAMIS_NO_FILTER);
    assert_int_equal(n_filter_files("s"), 1);
    /* One that begins with it is another one, and so is none. */
    const char *const others[] = {"db2/", "db2/71", ""};
    for (size_t i = 0; i < 3; i++) {
        e = edit_new(s);
        OK(tamis_edit_drop_bound(e, "a", 1, others[i], strlen(others[i]), NULL));
        assert_int_equal(tamis_edit_commit(e, NULL), TAMIS_ERR_MISMATCH);
    }
    e = edit_new(s);
    OK(tamis_edit_drop_bound(e, "a", 1, "db2/7", 5, NULL));
    OK(tamis_edit_drop_bound(e, "none", 4, NULL, 0, NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 0);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(edit_puts_and_drops),
        TEST(edit_sees_its_own_changes_in_order),
        TEST(edit_passes_on_memory_and_threads),
        TEST(edit_refuses_what_memory_changed),
        TEST(edit_refuses_bad_arguments),
        TEST(edit_refuses_a_foreign_builder),
        TEST(abort_leaves_no_files),
        TEST(failed_commit_changes_nothing),
        TEST(failed_sync_fails_the_commit),
        TEST(retain_keeps_the_named_and_its_own),
        TEST(threads_put_into_one_edit),
        TEST(a_filter_that_was_replaced_is_not_dropped),
        TEST(a_binding_that_was_replaced_is_not_dropped),
    };
    return cmocka_run_group_tests_name("store_edit", tests, NULL, NULL);
}
