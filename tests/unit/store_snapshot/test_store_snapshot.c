/* Snapshots: finding segments and probing them, with every reason. */
#include "tests/support/store_support.h"

#include <pthread.h>

static void segments_are_ordered_by_rank_then_name(void **state)
{
    static const struct {
        const char *name;
        uint32_t rank;
    } in[] = {{"b", 1}, {"zz", 0}, {"a", 1}, {"ab", 1}, {"z", 0}};
    static const char *const want[] = {"z", "zz", "a", "ab", "b"};
    struct tamis_segment_info info;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < 5; i++) {
        struct tamis_segment_options opt = {
            .size = sizeof opt, .rank = in[i].rank, .binding = "B", .binding_bytes = 1};
        OK(put_keys(e, in[i].name, i * 10, 10, &opt));
    }
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < 5; i++) {
        OK(tamis_snapshot_segment(snap, i, &info));
        assert_int_equal(info.name_bytes, strlen(want[i]));
        assert_memory_equal(info.name, want[i], info.name_bytes);
        assert_int_equal(info.state, TAMIS_SEGMENT_SEALED);
        assert_int_equal(info.keys, 10);
        assert_true(info.binding_bytes == 1 && info.error == 1e-4);
        assert_true(info.file_bytes == 8192 && info.created > 0);
    }
    assert_memory_equal(info.first_key, "key00000000", 11);
    assert_memory_equal(info.last_key, "key00000009", 11);
    assert_int_equal(tamis_snapshot_segment(snap, 5, &info), TAMIS_ERR_RANGE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void unchanged_snapshots_are_one(void **state)
{
    struct tamis_filter *f, *g;
    (void)state;
    struct tamis_store *s = store_new("s"), *other = store_open("s");
    put_segment(s, "a", 0, 10);
    struct tamis_snapshot *one = snapshot_of(s), *two = snapshot_of(other);
    assert_ptr_equal(one, two);
    OK(tamis_snapshot_filter(one, 0, &f, NULL));
    put_segment(other, "b", 0, 10);
    struct tamis_snapshot *three = snapshot_of(s);
    assert_ptr_not_equal(one, three);
    OK(tamis_snapshot_filter(three, 0, &g, NULL));
    assert_ptr_equal(f, g); /* opened filters are shared */
    assert_int_equal(tamis_snapshot_n_segments(one), 1);
    assert_int_equal(tamis_snapshot_n_segments(three), 2);
    drop_segment(s, "a");
    struct tamis_target t = tamis_snapshot_target(one, 0);
    struct tamis_key key = key_in(s, 3);
    enum tamis_reason why;
    tamis_snapshot_probe(one, &t, &key, &why);
    assert_int_equal(why, TAMIS_HIT); /* the file is gone, the mapping is not */
    tamis_store_close(s);
    tamis_store_close(other);
    t = tamis_snapshot_target(three, 1);
    tamis_snapshot_probe(three, &t, &key, &why);
    assert_int_equal(why, TAMIS_HIT); /* opened after the store was closed */
    tamis_snapshot_release(one);
    tamis_snapshot_release(two);
    tamis_snapshot_release(three);
}

static void find_compares_bindings(void **state)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "id-1", .binding_bytes = 4};
    struct tamis_target t;
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, &opt));
    OK(tamis_edit_put_bare(e, "bare", 4, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key in = key_in(s, 3), out = key_in(s, 5000);
    OK(tamis_snapshot_find(snap, "a", 1, "id-1", 4, 0, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &in, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, &why), TAMIS_ABSENT);
    static const char *const wrong[] = {"id-2", "id-", "id-10", ""};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            tamis_snapshot_find(snap, "a", 1, wrong[i], strlen(wrong[i]), 0, &t),
            TAMIS_ERR_MISMATCH);
        assert_int_equal(tamis_snapshot_probe(snap, &t, &out, &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_MISMATCH);
    }
    assert_int_equal(tamis_snapshot_find(snap, "A", 1, NULL, 0, 0, &t),
                     TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(t.slot, 0);
    OK(tamis_snapshot_find(snap, "bare", 4, "", 0, 0, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_NO_FILTER);
    assert_int_equal(
        tamis_snapshot_filter(snap, t.slot - 1, &(struct tamis_filter *){0}, NULL),
        TAMIS_ERR_NO_SEGMENT);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void lists_and_batches(void **state)
{
    uint64_t absent[2], hashes[70];
    uint8_t reasons[5];
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    put_segment(s, "b", 10, 10);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t[4] = {{0}};
    tamis_snapshot_find(snap, "a", 1, NULL, 0, 0, &t[0]);
    tamis_snapshot_find(snap, "b", 1, NULL, 0, 0, &t[1]);
    tamis_snapshot_find(snap, "c", 1, NULL, 0, 0, &t[2]);
    struct tamis_key in = key_in(s, 13), out = key_in(s, 99);
    memset(absent, 0xff, sizeof absent);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 4, &in, absent, reasons),
                     TAMIS_MAYBE);
    assert_int_equal(absent[0], 1);
    assert_true(reasons[0] == ABSENT_HERE && reasons[1] == TAMIS_HIT);
    assert_true(reasons[2] == TAMIS_UNKNOWN_SEGMENT && reasons[3] == reasons[2]);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 2, &out, NULL, NULL),
                     TAMIS_ABSENT);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 3, &out, absent, NULL),
                     TAMIS_MAYBE);
    assert_int_equal(absent[0], 3);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 0, &out, NULL, NULL),
                     TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_all(snap, &out, absent, reasons),
                     TAMIS_ABSENT);
    assert_int_equal(tamis_snapshot_probe_all(snap, &in, absent, reasons), TAMIS_MAYBE);
    for (uint64_t i = 0; i < 70; i++)
        hashes[i] = key_in(s, i).hash;
    memset(absent, 0xff, sizeof absent);
    assert_int_equal(
        tamis_snapshot_probe_batch(snap, &t[1], in.tag, hashes, 70, absent, &why), 60);
    assert_true(absent[0] == ~(UINT64_C(0x3ff) << 10) && absent[1] == 0x3f);
    assert_int_equal(
        tamis_snapshot_probe_batch(snap, &t[1], in.tag + 1, hashes, 70, absent, &why),
        0);
    assert_true(absent[0] == 0 && absent[1] == 0 && why == TAMIS_MISMATCH);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void nothing_is_maybe(void **state)
{
    struct tamis_target t = {0};
    struct tamis_key key = {0};
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key good = key_in(s, 1);
    assert_int_equal(tamis_snapshot_probe_all(snap, &good, NULL, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    put_segment(s, "a", 0, 0);
    snap = snapshot_of(s);
    assert_int_equal(tamis_snapshot_probe(NULL, &t, &good, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, NULL, &good, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe(snap, &t, NULL, &why), TAMIS_MAYBE);
    t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_MISMATCH);
    t.slot = 2;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &good, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_UNKNOWN_SEGMENT);
    t = (struct tamis_target){.slot = 1, .refusal = 12345};
    assert_int_equal(tamis_snapshot_probe(snap, &t, &good, &why), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_all(NULL, &good, NULL, NULL), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_list(snap, NULL, 3, &good, NULL, NULL),
                     TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    tamis_snapshot_release(NULL);
    tamis_store_close(s);
}

/* After an edit its slot is another segment's. */
static void a_target_is_its_snapshots_alone(void **state)
{
    enum tamis_reason why[2];
    uint64_t absent;
    uint8_t reason;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "b", 0, 10);
    struct tamis_snapshot *old = snapshot_of(s);
    struct tamis_target t[2] = {tamis_snapshot_target(old, 0)};
    OK(tamis_snapshot_find(old, "b", 1, NULL, 0, 0, &t[1]));
    put_segment(s, "a", 100, 10); /* before "b" */
    struct tamis_snapshot *now = snapshot_of(s);
    struct tamis_key key = key_in(s, 5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tamis_snapshot_probe(now, &t[i], &key, why), TAMIS_MAYBE);
        assert_int_equal(tamis_snapshot_probe_batch(now, &t[i], key.tag, &key.hash, 1,
                                                    &absent, why + 1),
                         0);
        assert_int_equal(why[0], TAMIS_MISMATCH);
        assert_int_equal(why[1], TAMIS_MISMATCH);
        assert_int_equal(
            tamis_snapshot_probe_list(now, &t[i], 1, &key, &absent, &reason),
            TAMIS_MAYBE);
        assert_int_equal(reason, TAMIS_MISMATCH);
        assert_int_equal(tamis_snapshot_probe(old, &t[i], &key, why), TAMIS_MAYBE);
        assert_int_equal(why[0], TAMIS_HIT);
    }
    tamis_snapshot_release(old);
    tamis_snapshot_release(now);
    tamis_store_close(s);
}

/* Neither of all segments nor of one, unless its binding vouches for its filter. */
static void incomplete_catalog_proves_nothing_by_name(void **state)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = "id", .binding_bytes = 2};
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 10, &opt));
    OK(put_keys(e, "b", 0, 10, NULL));
    OK(tamis_edit_put_bare(e, "c", 1, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    struct meta m = meta_in("s");
    m.complete = 0;
    put_meta("s", &m);
    s = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = key_in(s, 99);
    struct tamis_target t[2] = {tamis_snapshot_target(snap, 0)};
    uint64_t absent = 7;
    uint8_t why[3];
    assert_int_equal(tamis_snapshot_probe_all(snap, &key, &absent, why), TAMIS_MAYBE);
    assert_int_equal(absent, 0);
    assert_int_equal(why[0], TAMIS_MISMATCH);
    assert_int_equal(why[2], TAMIS_NO_FILTER);
    assert_int_equal(tamis_snapshot_probe_list(snap, t, 1, &key, &absent, why),
                     TAMIS_MAYBE);
    assert_int_equal(why[0], TAMIS_MISMATCH);
    OK(tamis_snapshot_find(snap, "a", 1, NULL, 0, 0, &t[0]));
    OK(tamis_snapshot_find(snap, "b", 1, "", 0, 0, &t[1]));
    for (int i = 0; i < 2; i++)
        assert_int_equal(tamis_snapshot_probe_batch(snap, &t[i], key.tag, &key.hash, 1,
                                                    &absent, NULL),
                         0);
    OK(tamis_snapshot_find(snap, "a", 1, "id", 2, 0, &t[0]));
    assert_int_equal(tamis_snapshot_probe(snap, &t[0], &key, NULL), TAMIS_ABSENT);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void snapshots_of_filters(void **state)
{
    struct tamis_filter *f[3];
    struct tamis_snapshot *snap;
    struct tamis_segment_info info;
    struct tamis_target t;
    struct tamis_domain d;
    (void)state;
    OK(tamis_domain_init(&d, 1, 42));
    build_file(path_of("0"), &d, "x", "one", NULL);
    build_file(path_of("1"), &d, "x", "two", NULL);
    build_file(path_of("2"), &d, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++)
        OK(tamis_filter_open(path_of((char[]){(char)('0' + i), 0}), NULL, &f[i], NULL));
    OK(tamis_snapshot_from_filters(f, 3, &snap));
    struct tamis_key in = tamis_key_of(&d, "key00000005", 11);
    struct tamis_key out = tamis_key_of(&d, "no", 2);
    assert_int_equal(tamis_snapshot_probe_all(snap, &in, NULL, NULL), TAMIS_MAYBE);
    assert_int_equal(tamis_snapshot_probe_all(snap, &out, NULL, NULL), TAMIS_ABSENT);
    assert_int_equal(tamis_snapshot_find(snap, "x", 1, NULL, 0, 0, &t),
                     TAMIS_ERR_MISMATCH); /* which x? */
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    OK(tamis_snapshot_find(snap, "x", 1, "two", 3, 7, &t));
    assert_int_equal(t.slot, 2);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_ABSENT);
    t.min_watermark = 8;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_MAYBE);
    OK(tamis_snapshot_segment(snap, 2, &info));
    assert_true(info.name_bytes == 0 && info.rank == 2 && info.file[0] == 0);
    assert_int_equal(info.keys, 100);
    tamis_snapshot_release(snap);
    f[1] = (tamis_filter_close(f[1]), NULL);
    assert_int_equal(tamis_snapshot_from_filters(f, 3, &snap), TAMIS_ERR_RANGE);
    tamis_filter_close(f[0]);
    tamis_filter_close(f[2]);
    OK(tamis_snapshot_from_filters(NULL, 0, &snap));
    assert_int_equal(tamis_snapshot_probe_all(snap, &out, NULL, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
}

struct asker {
    struct tamis_store *store;
    atomic_bool *stop;
    atomic_size_t n_asked;
};

/* "keep" stays, "swap" is replaced all the time, always with keys 0 .. 9. */
static void *ask_on(void *arg)
{
    struct asker *a = arg;
    struct tamis_domain d = tamis_store_domain(a->store);
    struct tamis_key in = tamis_key_of(&d, "key00000005", 11);
    struct tamis_key out = tamis_key_of(&d, "nothing", 7);
    while (!*a->stop) {
        struct tamis_snapshot *snap;
        struct tamis_target t;
        OK(tamis_snapshot_current(a->store, &snap, NULL));
        OK(tamis_snapshot_find(snap, "swap", 4, NULL, 0, 0, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &in, NULL), TAMIS_MAYBE);
        OK(tamis_snapshot_find(snap, "keep", 4, NULL, 0, 0, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &out, NULL), TAMIS_ABSENT);
        tamis_snapshot_release(snap);
        atomic_fetch_add(&a->n_asked, 1);
    }
    return NULL;
}

static void threads_ask_while_others_edit(void **state)
{
    pthread_t thread[3];
    atomic_bool stop = false;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct asker a = {.store = s, .stop = &stop};
    put_segment(s, "keep", 0, 10);
    put_segment(s, "swap", 0, 10);
    OK(mdb_env_set_mapsize(s->catalog->env, 1 << 16)); /* it will have to grow */
    for (int i = 0; i < 3; i++)
        OK(pthread_create(&thread[i], NULL, ask_on, &a));
    for (int i = 0; i < 100 || a.n_asked < 1000; i++) {
        char name[32];
        struct tamis_edit *e = edit_new(s);
        OK(tamis_edit_drop(e, "swap", 4, NULL));
        OK(put_keys(e, "swap", 0, 10, NULL));
        for (int k = 0; k < 10; k++) {
            snprintf(name, sizeof name, "bare-%d-%d", i, k);
            OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
        }
        OK(tamis_edit_commit(e, NULL));
    }
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(n_filter_files("s"), 2);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(segments_are_ordered_by_rank_then_name),
        TEST(unchanged_snapshots_are_one),
        TEST(find_compares_bindings),
        TEST(lists_and_batches),
        TEST(nothing_is_maybe),
        TEST(a_target_is_its_snapshots_alone),
        TEST(incomplete_catalog_proves_nothing_by_name),
        TEST(snapshots_of_filters),
        TEST(threads_ask_while_others_edit),
    };
    return cmocka_run_group_tests_name("store_snapshot", tests, NULL, NULL);
}
