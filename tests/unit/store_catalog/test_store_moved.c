/* A copy takes the name of a growing filter's file in a store, or of one filter among
 * many (SPEC.md 13.5): all ways to ask notice it. test_moved.c has the filter alone. */
#include "tests/support/store_support.h"

#include "tests/support/moved_support.h"

/* Segment `at` of a snapshot; the others lack the keys for certain. */
static void snapshot_must_say(struct tamis_snapshot *s, size_t at, uint64_t tag,
                              enum tamis_reason want)
{
    bool absent = want == TAMIS_NO_REASON;
    size_t n = tamis_snapshot_n_segments(s), n_candidates;
    struct tamis_key k[2] = {tamis_key_of_hash(tag, keys[BEFORE]),
                             tamis_key_of_hash(tag, keys[BEFORE + 1])};
    struct tamis_target targets[16], *t = &targets[at];
    uint64_t bits[1], rows[2];
    uint8_t reasons[16];
    enum tamis_reason why;
    for (size_t i = 0; i < n; i++)
        targets[i] = tamis_snapshot_target(s, i);
    assert_int_equal(tamis_snapshot_probe(s, t, &k[0], &why), absent);
    assert_int_equal(why, want);
    assert_int_equal(
        tamis_snapshot_probe_batch(s, t, tag, keys + BEFORE, 50, bits, &why),
        absent ? 50 : 0);
    assert_int_equal(why, want);
    assert_int_equal(tamis_snapshot_probe_all(s, &k[0], bits, reasons), absent);
    assert_int_equal(reasons[at], want);
    assert_int_equal(tamis_snapshot_probe_list(s, targets, n, &k[0], bits, reasons),
                     absent);
    assert_int_equal(reasons[at], want);
    assert_int_equal(tamis_snapshot_candidates(s, &k[0], NULL, 0, &n_candidates),
                     absent);
    assert_int_equal(n_candidates, !absent);
    for (int list = 0; list < 2; list++) {
        assert_int_equal(
            tamis_snapshot_probe_keys(s, list ? targets : NULL, n, k, 2, rows),
            absent ? 2 : 0);
        assert_int_equal(rows[0] >> at & 1, absent);
        assert_int_equal(rows[1] >> at & 1, absent);
    }
}

static void a_filter_among_others_is_looked_at(void **state)
{
    (void)state;
    const char *path = make();
    struct tamis_filter *filters[6], *f = open_filter(path);
    struct tamis_domain d = tamis_filter_domain(f);
    struct tamis_snapshot *s;
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        build_file(path_of(name), &d, NULL, NULL, NULL);
        filters[i] = i == 3 ? f : open_filter(path_of(name));
    }
    OK(tamis_snapshot_from_filters(filters, 6, &s));
    snapshot_must_say(s, 3, d.tag, TAMIS_NO_REASON);
    replace(path);
    pass(1000);
    snapshot_must_say(s, 3, d.tag, TAMIS_MISMATCH);
    tamis_snapshot_release(s);
    for (int i = 0; i < 6; i++)
        tamis_filter_close(filters[i]);
}

/* ---- in a store ---- */

static struct tamis_snapshot *snapshot;
static uint64_t tag;

/* Six segments, one of them growing; which is returned. */
static size_t grow_in(struct tamis_store *s)
{
    struct tamis_writer *w;
    struct tamis_target t;
    put_growing(s, "g");
    for (int i = 0; i < 5; i++)
        put_segment(s, key_text((uint64_t)i), 100, 100);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_hashes(w, keys, BEFORE);
    OK(tamis_writer_close(w));
    snapshot = snapshot_of(s);
    tag = tamis_store_domain(s).tag;
    OK(tamis_snapshot_find(snapshot, "g", 1, NULL, 0, 0, &t));
    snapshot_must_say(snapshot, t.slot - 1, tag, TAMIS_NO_REASON);
    return t.slot - 1;
}

static void done_with(struct tamis_store *s)
{
    tamis_snapshot_release(snapshot);
    tamis_store_close(s);
    nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void a_segment_of_a_store_is_looked_at(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    size_t at = grow_in(s);
    struct tamis_writer *w;
    replace(file_of(s, "s", "g"));
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    go_on_in(w);
    pass(1000);
    snapshot_must_say(snapshot, at, tag, TAMIS_MISMATCH);
    done_with(s);
}

static void so_is_one_in_another_directory(void **state)
{
    char command[2500];
    (void)state;
    struct tamis_store *s = store_new("s");
    size_t at = grow_in(s);
    snprintf(command, sizeof command,
             "cd '%s' && cp -a filters new && mv filters old && "
             "mv new filters",
             path_of("s"));
    OK(system(command));
    pass(1000);
    snapshot_must_say(snapshot, at, tag, TAMIS_MISMATCH);
    done_with(s);
}

static void a_segment_that_is_dropped_goes_on(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    size_t at = grow_in(s);
    drop_segment(s, "g");
    assert_int_equal(n_filter_files("s"), 5);
    pass(1000);
    snapshot_must_say(snapshot, at, tag, TAMIS_NO_REASON);
    done_with(s);
}

static void all_segments_share_a_clock(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    for (int i = 0; i < 8; i++)
        put_growing(s, key_text((uint64_t)i));
    snapshot = snapshot_of(s);
    struct tamis_key k = tamis_key_of_hash(tamis_store_domain(s).tag, keys[0]);
    for (int i = 0; i < 2; i++) {
        n_looks = n_clocks = 0;
        assert_int_equal(tamis_snapshot_probe_all(snapshot, &k, NULL, NULL),
                         TAMIS_ABSENT);
        if (i > 0) /* the first one finds that the filters may be quick */
            assert_int_equal(n_clocks, 1);
    }
    assert_int_equal(n_looks, 0);
    done_with(s);
}

static void a_writer_of_a_store_is_told(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_writer *w;
    grow_in(s);
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    add_hashes(w, keys + BEFORE, AFTER);
    replace(file_of(s, "s", "g"));
    assert_int_equal(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_REPLACED);
    tamis_writer_close(w);
    done_with(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_among_others_is_looked_at),
        cmocka_unit_test(a_segment_of_a_store_is_looked_at),
        cmocka_unit_test(so_is_one_in_another_directory),
        cmocka_unit_test(a_segment_that_is_dropped_goes_on),
        cmocka_unit_test(all_segments_share_a_clock),
        cmocka_unit_test(a_writer_of_a_store_is_told),
    };
    random_hashes(keys, BEFORE + AFTER);
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
