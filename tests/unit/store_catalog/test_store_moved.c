/* A copy takes the name of a growing filter's file in a store, or of one filter among
 * many (SPEC.md 13.5): all ways to ask notice it. test_moved.c has the filter alone. */
#include "tests/support/shop/ways.h"
#include "tests/support/moved_support.h"
#include "tests/support/store_packs.h"

/* Segment `at` of a snapshot; the others lack the keys for certain. */
static void snapshot_must_say(struct tamis_snapshot *s, size_t at, uint64_t tag,
                              enum tamis_reason want)
{
    struct tamis_key k[2] = {(struct tamis_key){.tag = tag, .hash = keys[BEFORE]},
                             (struct tamis_key){.tag = tag, .hash = keys[BEFORE + 1]}};
    size_t n = tamis_snapshot_info(s).n_segments;
    struct tamis_target targets[16];
    uint8_t why[2 * 16];
    for (size_t i = 0; i < n; i++)
        targets[i] = tamis_snapshot_target(s, i);
    for (int listed = 0; listed < 2; listed++) {
        ask_every_way(s, listed ? targets : NULL, n, k, 2, why);
        for (size_t i = 0; i < 2 * n; i++)
            IS(why[i], i % n == at ? want : ABSENT_HERE);
    }
}

TEST(a_filter_among_others_is_looked_at)
{
    const char *path = make();
    struct tamis_filter *filters[6], *f = open_filter(path);
    struct tamis_domain d = filter_domain(f);
    struct tamis_snapshot *s;
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        build_file(path_of(name), &d, NULL, NULL, NULL);
        filters[i] = i == 3 ? f : open_filter(path_of(name));
    }
    OK(tamis_snapshot_from_filters(filters, 6, 0, &s));
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
    put_growing(s, "g");
    for (int i = 0; i < 5; i++)
        put_segment(s, key_text((uint64_t)i), 100, 100);
    struct tamis_writer *w = writer_of(s, "g");
    add_hashes(w, keys, BEFORE);
    OK(tamis_writer_close(w, NULL));
    snapshot = snapshot_of(s);
    tag = tamis_store_domain(s).tag;
    struct tamis_target t = found_in(snapshot, "g");
    snapshot_must_say(snapshot, t.ordinal - 1, tag, TAMIS_NO_REASON);
    return t.ordinal - 1;
}

static void done_with(struct tamis_store *s)
{
    tamis_snapshot_release(snapshot);
    tamis_store_close(s);
    remove_tree("s");
}

TEST(a_segment_of_a_store_is_looked_at)
{
    struct tamis_store *s = store_new("s");
    size_t at = grow_in(s);
    replace(file_of(s, "s", "g"));
    struct tamis_writer *w = writer_of(s, "g");
    go_on_in(w);
    pass(1000);
    snapshot_must_say(snapshot, at, tag, TAMIS_MISMATCH);
    done_with(s);
}

TEST(a_segment_that_is_dropped_goes_on)
{
    struct tamis_store *s = store_new("s");
    size_t at = grow_in(s);
    drop_segment(s, "g");
    IS(n_filter_files("s"), 5);
    pass(1000);
    snapshot_must_say(snapshot, at, tag, TAMIS_NO_REASON);
    done_with(s);
}

TEST(all_segments_share_a_clock)
{
    struct tamis_store *s = store_new("s");
    for (int i = 0; i < 8; i++)
        put_growing(s, key_text((uint64_t)i));
    snapshot = snapshot_of(s);
    struct tamis_key k = {.tag = tamis_store_domain(s).tag, .hash = keys[0]};
    for (int i = 0; i < 2; i++) {
        n_looks = n_clocks = 0;
        IS(ASK(snapshot, ALL, KEYS(&k, 1)), TAMIS_ABSENT);
        if (i > 0) /* the first one finds that the filters may be quick */
            assert_true(n_clocks > 0 && n_clocks <= 2); /* a thread's own tick */
    }
    IS(n_looks, 0);
    done_with(s);
}

/* For half a second no probe tries again to open it. */
TEST(a_pack_that_cannot_be_opened)
{
    struct rlimit limit, none = {0};
    struct tamis_snapshot *snap[3];
    STORE s = store_new("p");
    put_segment(s, "a", 0, 10);
    pack_all(s);
    tamis_store_close(s);
    s = store_open("p");
    OK(getrlimit(RLIMIT_NOFILE, &limit));
    none.rlim_max = limit.rlim_max;
    OK(setrlimit(RLIMIT_NOFILE, &none));
    snap[0] = snapshot_of(s);
    OK(setrlimit(RLIMIT_NOFILE, &limit));
    pass(499);
    snap[1] = snapshot_of(s);
    assert_ptr_equal(snap[0], snap[1]);
    IS(reason_of(s, "a", 5), TAMIS_UNREADABLE);
    pass(1);
    snap[2] = snapshot_of(s);
    IS(reason_of(s, "a", 5), TAMIS_HIT);
    for (size_t i = 0; i < 3; i++)
        tamis_snapshot_release(snap[i]);
}

RUN_TESTS(set_up, test_dir_remove)
