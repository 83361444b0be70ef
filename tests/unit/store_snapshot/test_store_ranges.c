/* Answers of a segment without its bits: key ranges and watermarks. */
#include "tests/support/store_support.h"

static enum tamis_reason probe_bytes(struct tamis_snapshot *snap, const char *name,
                                     const void *key, size_t n)
{
    struct tamis_domain d = tamis_snapshot_domain(snap);
    struct tamis_key k = tamis_key_of(&d, key, n);
    struct tamis_target t;
    enum tamis_reason why;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    tamis_snapshot_probe(snap, &t, &k, &why);
    return why;
}

/* Its bits are damaged, so only a range can still say ABSENT. */
static void damage_bits(const char *path)
{
    struct commit c = commit_of(path);
    static const uint8_t ones[PAGE_BYTES] = {0xff, 0xff, 0xff};
    file_poke(path, c.stages[0].offset, ones, sizeof ones);
}

static void ranges_answer_for_damaged_bits(void **state)
{
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, "m\xff", 2));
    OK(tamis_builder_add_key(b, "c", 1));
    OK(tamis_builder_add_key(b, "dddd", 4));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    damage_bits(file_of(s, "s", "a"));
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(probe_bytes(snap, "a", "", 0), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "b\xff\xff", 3), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "c", 1), TAMIS_DAMAGED);
    assert_int_equal(probe_bytes(snap, "a", "c\0", 2), TAMIS_DAMAGED);
    assert_int_equal(probe_bytes(snap, "a", "m", 1), TAMIS_DAMAGED);
    assert_int_equal(probe_bytes(snap, "a", "m\xff", 2), TAMIS_DAMAGED);
    assert_int_equal(probe_bytes(snap, "a", "m\xff\0", 3), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "n", 1), ABSENT_HERE);
    assert_int_equal(probe_bytes(snap, "a", "\xff", 1), ABSENT_HERE);
    struct tamis_key by_hash = tamis_key_of_hash(tamis_snapshot_domain(snap).tag, 1);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_probe(snap, &t, &by_hash, NULL), TAMIS_MAYBE);
    struct tamis_key foreign = tamis_key_of_hash(1, 1);
    foreign.bytes = "zzz", foreign.n_bytes = 3;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &foreign, NULL), TAMIS_MAYBE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* A record whose file has gone may be an older one's: its range speaks of other keys.
 */
static void ranges_say_nothing_without_the_file(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 100, 100);
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(unlink(file_of(s, "s", "a")), 0);
    assert_int_equal(probe_bytes(snap, "a", "", 0), TAMIS_FILE_LOST);
    assert_int_equal(probe_bytes(snap, "a", "zzz", 3), TAMIS_FILE_LOST);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* The same, asked of many at a time, by one key and by several. */
static void nor_among_many(void **state)
{
    enum { N = 100, N_KEYS = 20, LOST = 70 };
    struct tamis_target targets[N];
    struct tamis_key keys[N_KEYS];
    uint64_t absent[N_KEYS][2];
    uint32_t candidates[N];
    uint8_t reasons[N];
    size_t n;
    (void)state;
    struct tamis_store *s = store_new("s");
    for (size_t i = 0; i < N; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%03zu", i);
        put_segment(s, name, 1, 100);
    }
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_domain d = tamis_store_domain(s);
    assert_int_equal(unlink(file_of(s, "s", "s070")), 0);
    for (size_t i = 0; i < N; i++)
        targets[i] = tamis_snapshot_target(snap, i);
    for (size_t i = 0; i < N_KEYS; i++)
        keys[i] = tamis_key_of(&d, i % 2 ? "zzz" : "", i % 2 ? 3 : 0);
    for (int twice = 0; twice < 2; twice++) {
        tamis_snapshot_probe_all(snap, &keys[1], absent[0], reasons);
        assert_int_equal(reasons[LOST], TAMIS_FILE_LOST);
        tamis_snapshot_probe_list(snap, targets, N, &keys[1], absent[0], reasons);
        assert_int_equal(reasons[LOST], TAMIS_FILE_LOST);
        tamis_snapshot_candidates(snap, &keys[1], candidates, N, &n);
        assert_int_equal(n, 1);
        assert_int_equal(candidates[0], LOST);
        assert_int_equal(
            tamis_snapshot_probe_keys(snap, targets, N, keys, N_KEYS, absent[0]), 0);
        assert_int_equal(
            tamis_snapshot_probe_keys(snap, NULL, 0, keys, N_KEYS, absent[0]), 0);
        for (size_t i = 0; i < N_KEYS; i++) {
            assert_true(absent[i][0] == UINT64_MAX);
            assert_true(absent[i][1] ==
                        ((UINT64_C(1) << (N - 64)) - 1 - (UINT64_C(1) << (LOST - 64))));
        }
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void adds_by_hash_have_no_range(void **state)
{
    struct tamis_builder *b;
    struct tamis_segment_info info;
    uint64_t hash = 12345;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, "m", 1));
    OK(tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, &hash, 1));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_put_growing(e, "g", 1, NULL, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < 2; i++) {
        OK(tamis_snapshot_segment(snap, i, &info));
        assert_null(info.first_key);
        assert_null(info.last_key);
    }
    tamis_snapshot_release(snap);
    damage_bits(file_of(s, "s", "a"));
    snap = snapshot_of(s);
    assert_int_equal(probe_bytes(snap, "a", "z", 1), TAMIS_DAMAGED);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* A last key too long to keep must not be cut; a first one may be. */
static void long_keys_and_ranges(void **state)
{
    static uint8_t key[2000];
    struct tamis_builder *b;
    (void)state;
    memset(key, 'k', sizeof key);
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 2; i++) {
        OK(tamis_edit_builder(e, i ? "first" : "last", i ? 5 : 4, 0, NULL, &b, NULL));
        OK(tamis_builder_add_key(b, key, sizeof key));
        OK(tamis_builder_add_key(b, i ? "z" : "a", 1));
        OK(tamis_edit_put(e, b, NULL));
        tamis_builder_free(b);
    }
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(probe_bytes(snap, "first", key, sizeof key), TAMIS_HIT);
    assert_int_equal(probe_bytes(snap, "last", key, sizeof key), TAMIS_HIT);
    assert_int_equal(probe_bytes(snap, "first", "a", 1), ABSENT_HERE);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void required_watermarks(void **state)
{
    struct tamis_target t;
    struct tamis_writer *w;
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    build_file(path_of("f"), &d, NULL, NULL, NULL); /* watermark 7 */
    OK(attach_code(s, "sealed", path_of("f"), NULL, NULL));
    put_growing(s, "growing");
    OK(tamis_store_writer(s, "growing", 7, &w, NULL));
    OK(tamis_writer_commit(w, 7, NULL));
    static const char *const name[] = {"sealed", "growing"};
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = key_in(s, 5000);
    for (size_t i = 0; i < 2; i++) {
        OK(tamis_snapshot_find(snap, name[i], strlen(name[i]), NULL, 0, 7, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_ABSENT);
        OK(tamis_snapshot_find(snap, name[i], strlen(name[i]), NULL, 0, 8, &t));
        assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
        assert_int_equal(why, TAMIS_BEHIND);
        uint64_t absent = 99;
        assert_int_equal(
            tamis_snapshot_probe_batch(snap, &t, d.tag, &key.hash, 1, &absent, &why),
            0);
        assert_true(absent == 0 && why == TAMIS_BEHIND);
    }
    OK(tamis_writer_commit(w, 8, NULL)); /* the same target catches up */
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_ABSENT);
    OK(tamis_writer_close(w));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* Nor may a key range answer for a segment that is behind. */
static void ranges_and_watermarks(void **state)
{
    struct tamis_builder *b;
    struct tamis_target t;
    enum tamis_reason why;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_domain d = tamis_store_domain(s);
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = &d,
                                        .identity.name = "a",
                                        .identity.name_bytes = 1,
                                        .watermark = 7};
    OK(tamis_builder_create(&opt, &b, NULL));
    OK(tamis_builder_add_key(b, "m", 1));
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_key key = tamis_key_of(&d, "z", 1);
    OK(tamis_snapshot_find(snap, "a", 1, NULL, 0, 7, &t));
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_ABSENT);
    t.min_watermark = 8;
    assert_int_equal(tamis_snapshot_probe(snap, &t, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_BEHIND);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_dir_create, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_answer_for_damaged_bits),
        TEST(ranges_say_nothing_without_the_file),
        TEST(nor_among_many),
        TEST(adds_by_hash_have_no_range),
        TEST(long_keys_and_ranges),
        TEST(required_watermarks),
        TEST(ranges_and_watermarks),
    };
    return cmocka_run_group_tests_name("store_ranges", tests, NULL, NULL);
}
