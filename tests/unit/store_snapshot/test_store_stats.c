/* What is counted is what was answered: each reason, by each way of asking, of each
 * segment and in sum, over threads, snapshots, growth and fork. The oracle asks each
 * key of each segment alone, with counting off. */
#include "tests/support/store_kinds.h"
#include "lib/filter/view.h"

#include <pthread.h>

enum { SEGMENTS = 150, KEYS = 100 };

/* ---- a store of all kinds of segments ---- */

static enum kind kind_of(size_t i)
{
    static const enum kind kinds[] = {SEALED, BY_HASH, GROWING,   BARE,
                                      LOST,   DAMAGED, UNREADABLE};
    return i < 80 ? (i % 10 ? SEALED : BY_HASH) : kinds[i % 7];
}

static const char *name_at(size_t i)
{
    static char name[8];
    snprintf(name, sizeof name, "s%03d", (int)i);
    return name;
}

/* Overlapping ranges, so that of some segments a key is outside; an error of 30%. */
static void put_one(struct tamis_store *s, struct tamis_edit *e, size_t i)
{
    struct tamis_builder *b;
    struct tamis_domain d = tamis_store_domain(s);
    const char *name = name_at(i);
    if (put_unbuilt(e, name, kind_of(i)))
        return;
    OK(tamis_edit_builder(e, name, strlen(name), 0.3, NULL, &b, NULL));
    for (uint64_t k = i; k < i + 60; k += 3) {
        struct tamis_key key = tamis_key_of(&d, key_text(k), strlen(key_text(k)));
        add_to(b, kind_of(i), &key);
    }
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
}

static struct tamis_store *store_of_all_kinds(void)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < SEGMENTS; i++)
        put_one(s, e, i);
    OK(tamis_edit_commit(e, NULL));
    for (size_t i = 0; i < SEGMENTS; i++)
        hurt(s, name_at(i), kind_of(i));
    return s;
}

/* Some with their bytes, some without, and some of another domain. */
static void some_keys(const struct tamis_domain *d, struct tamis_key *keys, size_t n)
{
    static char text[KEYS][32];
    struct tamis_domain other;
    OK(tamis_domain_init(&other, 1, 4711));
    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%s", key_text(random_below(300)));
        keys[i] = tamis_key_of(i % 17 == 5 ? &other : d, text[i], strlen(text[i]));
        if (i % 5 == 0)
            keys[i].bytes = NULL;
    }
}

/* Segments in order, some twice, and targets that something speaks against. */
static size_t some_targets(const struct tamis_snapshot *s, struct tamis_target *t)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        t[n++] = tamis_snapshot_target(s, i);
        if (i % 11 == 0)
            t[n++] = tamis_snapshot_target(s, s->n - 1 - i);
        if (i % 31 == 0) { /* another snapshot's */
            t[n] = tamis_snapshot_target(s, i);
            t[n++].snapshot++;
        }
        if (i % 37 == 0 || kind_of(i) == GROWING) { /* the filter itself is behind */
            t[n] = tamis_snapshot_target(s, i);
            t[n++].min_watermark = 99;
        }
    }
    t[n++] = (struct tamis_target){0};
    tamis_snapshot_find(s, "s000", 4, "x", 1, 0, &t[n++]); /* refused */
    return n;
}

/* ---- what should have been counted ---- */

struct expected {
    struct tamis_stats all;
    uint64_t absent[SEGMENTS], maybe[SEGMENTS][N_REASONS];
};

static bool of_snapshot(const struct tamis_snapshot *s, const struct tamis_target *t)
{
    return !t->refusal && t->slot && t->snapshot == s->serial;
}

/* One question, asked alone and not counted. */
static void expect_one(struct expected *x, struct tamis_snapshot *s,
                       const struct tamis_target *t, const struct tamis_key *key)
{
    enum tamis_reason why;
    tamis_snapshot_probe(s, t, key, &why);
    x->all.n_probes++;
    if (why == ABSENT_HERE) {
        x->all.n_absent++;
        if (outside_range(s->entries[t->slot - 1], key))
            x->all.n_excluded++;
        else
            x->absent[t->slot - 1]++;
        return;
    }
    x->all.n_maybe[why]++;
    if (of_snapshot(s, t))
        x->maybe[t->slot - 1][why]++;
}

static void expect(struct expected *x, struct tamis_snapshot *s,
                   const struct tamis_target *t, size_t n, const struct tamis_key *keys,
                   size_t n_keys)
{
    OK(tamis_snapshot_count(s, 0));
    for (size_t k = 0; k < n_keys; k++)
        for (size_t i = 0; i < n; i++)
            expect_one(x, s, &t[i], &keys[k]);
    OK(tamis_snapshot_count(s, 1));
}

static void check_stats(const struct tamis_stats *got, const struct tamis_stats *want)
{
    assert_int_equal(got->n_probes, want->n_probes);
    assert_int_equal(got->n_absent, want->n_absent);
    assert_int_equal(got->n_excluded, want->n_excluded);
    for (size_t r = 0; r < TAMIS_MAX_REASONS; r++)
        if (got->n_maybe[r] != want->n_maybe[r])
            fail_msg("%s: %llu, not %llu", tamis_reason_name((enum tamis_reason)r),
                     (unsigned long long)got->n_maybe[r],
                     (unsigned long long)want->n_maybe[r]);
    assert_int_equal(got->n_false_positives, want->n_false_positives);
}

static void check(const struct expected *x, struct tamis_snapshot *s, const char *how)
{
    struct tamis_stats got;
    print_message("%s\n", how);
    OK(tamis_snapshot_stats(s, &got));
    check_stats(&got, &x->all);
    for (size_t i = 0; i < s->n; i++) {
        struct tamis_segment_stats one;
        struct tamis_stats want = {0};
        OK(tamis_snapshot_segment_stats(s, i, &one));
        want.n_absent = want.n_probes = x->absent[i];
        for (size_t r = 0; r < N_REASONS; r++)
            want.n_probes += want.n_maybe[r] = x->maybe[i][r];
        check_stats(&one.counts, &want);
    }
}

/* ---- the ways to ask ---- */

struct world {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_target all[SEGMENTS], list[2 * SEGMENTS];
    size_t n_list;
    struct tamis_key keys[KEYS];
    struct expected x;
};

static void ask_single(struct world *w)
{
    for (size_t k = 0; k < KEYS; k++)
        for (size_t i = 0; i < w->n_list; i++)
            tamis_snapshot_probe(w->snapshot, &w->list[i], &w->keys[k], NULL);
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, KEYS);
    check(&w->x, w->snapshot, "one by one");
}

static void ask_batch(struct world *w)
{
    struct tamis_domain d = tamis_snapshot_domain(w->snapshot);
    struct tamis_key keys[KEYS];
    uint64_t hashes[KEYS], absent[KEYS / 64 + 1];
    for (size_t k = 0; k < KEYS; k++) {
        hashes[k] = w->keys[k].hash;
        keys[k] = tamis_key_of_hash(d.tag, hashes[k]);
    }
    for (size_t i = 0; i < w->n_list; i++) {
        tamis_snapshot_probe_batch(w->snapshot, &w->list[i], d.tag, hashes, KEYS,
                                   absent, NULL);
        tamis_snapshot_probe_batch(w->snapshot, &w->list[i], d.tag + 1, hashes, 3,
                                   absent, NULL);
    }
    expect(&w->x, w->snapshot, w->list, w->n_list, keys, KEYS);
    for (size_t k = 0; k < 3; k++)
        keys[k].tag++;
    expect(&w->x, w->snapshot, w->list, w->n_list, keys, 3);
    check(&w->x, w->snapshot, "a batch");
}

static void ask_list(struct world *w)
{
    uint64_t absent[2 * SEGMENTS / 64 + 1];
    uint8_t reasons[2 * SEGMENTS];
    for (size_t k = 0; k < KEYS; k++) {
        tamis_snapshot_probe_list(w->snapshot, w->list, w->n_list, &w->keys[k], absent,
                                  reasons);
        tamis_snapshot_probe_list(w->snapshot, w->list, 3, &w->keys[k], NULL, NULL);
    }
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, KEYS);
    expect(&w->x, w->snapshot, w->list, 3, w->keys, KEYS);
    check(&w->x, w->snapshot, "a list");
}

static void ask_all(struct world *w)
{
    uint32_t segments[SEGMENTS];
    size_t n;
    for (size_t k = 0; k < KEYS; k++) {
        tamis_snapshot_probe_all(w->snapshot, &w->keys[k], NULL, NULL);
        tamis_snapshot_candidates(w->snapshot, &w->keys[k], segments, SEGMENTS, &n);
    }
    for (size_t i = 0; i < 2; i++)
        expect(&w->x, w->snapshot, w->all, w->snapshot->n, w->keys, KEYS);
    check(&w->x, w->snapshot, "all");
}

static void ask_many_keys(struct world *w)
{
    tamis_snapshot_probe_keys(w->snapshot, NULL, 0, w->keys, KEYS, NULL);
    tamis_snapshot_probe_keys(w->snapshot, w->list, w->n_list, w->keys, KEYS, NULL);
    tamis_snapshot_probe_keys(w->snapshot, w->list, w->n_list, w->keys, 7, NULL);
    expect(&w->x, w->snapshot, w->all, w->snapshot->n, w->keys, KEYS);
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, KEYS);
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, 7);
    check(&w->x, w->snapshot, "many keys");
}

/* First each way when nothing was opened before, then each with all of it opened. */
static void each_reason_each_way(void **state)
{
    static void (*const ways[])(struct world *) = {ask_single, ask_batch, ask_list,
                                                   ask_all, ask_many_keys};
    (void)state;
    for (size_t first = 0; first < 5; first++) {
        static struct world w;
        memset(&w, 0, sizeof w);
        random_state = first + 1;
        w.store = store_of_all_kinds();
        OK(tamis_store_count(w.store, 1, NULL));
        w.snapshot = snapshot_of(w.store);
        struct tamis_domain d = tamis_store_domain(w.store);
        for (size_t i = 0; i < w.snapshot->n; i++)
            w.all[i] = tamis_snapshot_target(w.snapshot, i);
        w.n_list = some_targets(w.snapshot, w.list);
        for (size_t i = 0; i < 6; i++) {
            some_keys(&d, w.keys, KEYS);
            ways[(first + i) % 5](&w);
        }
        for (size_t r = TAMIS_HIT; r < N_REASONS; r++)
            assert_true(w.x.all.n_maybe[r] > 0);
        assert_true(w.x.all.n_excluded > 0 && w.x.all.n_excluded < w.x.all.n_absent);
        struct tamis_stats total;
        OK(tamis_store_stats(w.store, &total, NULL));
        check_stats(&total, &w.x.all);
        tamis_snapshot_release(w.snapshot);
        OK(tamis_store_stats(w.store, &total, NULL));
        check_stats(&total, &w.x.all);
        tamis_store_close(w.store);
        OK(nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS));
    }
}

/* ---- on and off ---- */

static struct tamis_store *small_store(void)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    put_growing(s, "g");
    return s;
}

static struct tamis_stats stats_of(struct tamis_store *s)
{
    struct tamis_stats stats;
    OK(tamis_store_stats(s, &stats, NULL));
    return stats;
}

static void only_while_it_is_on(void **state)
{
    (void)state;
    struct tamis_store *s = small_store(), *same = store_open("s");
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_stats stats;
    reason_of(s, "a", 1);
    OK(tamis_snapshot_report_false_positive(snap, &t));
    assert_int_equal(stats_of(s).n_probes, 0);
    OK(tamis_store_count(same, 1, NULL)); /* for both */
    reason_of(s, "a", 1);
    OK(tamis_snapshot_report_false_positive(snap, &t));
    put_segment(s, "c", 0, 3); /* and for later ones */
    reason_of(s, "c", 1);
    assert_int_equal(stats_of(s).n_probes, 2);
    OK(tamis_store_count(s, 0, NULL));
    reason_of(s, "a", 1);
    OK(tamis_snapshot_report_false_positive(snap, &t));
    put_segment(s, "d", 0, 3);
    reason_of(s, "d", 1);
    stats = stats_of(s);
    assert_int_equal(stats.n_probes, 2);
    assert_int_equal(stats.n_maybe[TAMIS_HIT], 2);
    assert_int_equal(stats.n_false_positives, 1);
    tamis_snapshot_release(snap);
    tamis_store_close(same);
    tamis_store_close(s);
}

static void nothing_given(void **state)
{
    struct tamis_stats stats;
    struct tamis_segment_stats one;
    struct tamis_target t;
    struct tamis_diag diag;
    (void)state;
    struct tamis_store *s = small_store();
    OK(tamis_store_count(s, 1, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    assert_int_equal(tamis_store_count(NULL, 1, &diag), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_store_stats(s, NULL, &diag), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_store_stats(NULL, &stats, &diag), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_snapshot_count(NULL, 1), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_snapshot_stats(NULL, &stats), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_snapshot_stats(snap, NULL), TAMIS_ERR_RANGE);
    memset(&one, 0xFF, sizeof one);
    assert_int_equal(tamis_snapshot_segment_stats(snap, 3, &one), TAMIS_ERR_RANGE);
    assert_int_equal(one.counts.n_probes, 0);
    assert_int_equal(tamis_snapshot_segment_stats(snap, 0, NULL), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_snapshot_segment_stats(NULL, 0, &one), TAMIS_ERR_RANGE);
    t = tamis_snapshot_target(snap, 0);
    assert_int_equal(tamis_snapshot_report_false_positive(NULL, &t), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_snapshot_report_false_positive(snap, NULL), TAMIS_ERR_RANGE);
    t.slot = 4;
    assert_int_equal(tamis_snapshot_report_false_positive(snap, &t),
                     TAMIS_ERR_NO_SEGMENT);
    t = (struct tamis_target){0};
    assert_int_equal(tamis_snapshot_report_false_positive(snap, &t),
                     TAMIS_ERR_NO_SEGMENT);
    assert_int_equal(tamis_snapshot_probe(snap, NULL, NULL, NULL), TAMIS_MAYBE);
    tamis_snapshot_probe_keys(snap, NULL, 0, NULL, 3, NULL);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

/* ---- snapshots come and go ---- */

static struct tamis_segment_stats segment_stats(struct tamis_store *s, const char *name)
{
    struct tamis_segment_stats stats;
    struct tamis_target t;
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    OK(tamis_snapshot_segment_stats(snap, t.slot - 1, &stats));
    tamis_snapshot_release(snap);
    return stats;
}

/* A record that cannot be read, and one without a filter: nobody can have found that
 * their filters were wrong. */
static void records_without_a_filter(void **state)
{
    struct tamis_segment_stats one;
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, "a", 0, 100, NULL));
    OK(tamis_edit_put_bare(e, "b", 1, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_store_close(s);
    poke_catalog("s", "segments", "a", "rubbish", 7);
    s = store_open("s");
    OK(tamis_store_count(s, 1, NULL));
    struct tamis_snapshot *snap = snapshot_of(s);
    static const enum tamis_reason reasons[] = {TAMIS_NO_FILTER, TAMIS_UNREADABLE};
    for (size_t i = 0; i < 2; i++) {
        struct tamis_target t = tamis_snapshot_target(snap, i);
        struct tamis_key key = key_in(s, 1);
        assert_int_equal(tamis_snapshot_probe(snap, &t, &key, NULL), TAMIS_MAYBE);
        assert_int_equal(tamis_snapshot_report_false_positive(snap, &t),
                         TAMIS_ERR_NO_SEGMENT);
        OK(tamis_snapshot_segment_stats(snap, i, &one));
        assert_int_equal(one.counts.n_maybe[reasons[i]], 1);
        assert_int_equal(one.counts.n_false_positives, 0);
        assert_true(one.target_error == 0 && !one.over_target);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void sums_outlive_snapshots(void **state)
{
    struct tamis_writer *w;
    (void)state;
    struct tamis_store *s = small_store();
    OK(tamis_store_count(s, 1, NULL));
    struct tamis_snapshot *held = snapshot_of(s);
    reason_of(s, "a", 5);
    reason_of_hash(s, "g", 5);
    put_segment(s, "0", 0, 3); /* "a" has another number from now on */
    reason_of(s, "a", 5);
    assert_int_equal(segment_stats(s, "a").counts.n_maybe[TAMIS_HIT], 2);
    tamis_snapshot_release(held);
    assert_int_equal(segment_stats(s, "a").counts.n_maybe[TAMIS_HIT], 2);
    /* A growth makes a new record of the same filter. */
    OK(tamis_store_writer(s, "g", 1, &w, NULL));
    for (uint64_t i = 1000; i < 1500; i++)
        OK(tamis_writer_add_key(w, key_text(i), strlen(key_text(i))));
    OK(tamis_writer_commit(w, 1, NULL));
    OK(tamis_writer_close(w));
    assert_int_equal(reason_of_hash(s, "g", 5), ABSENT_HERE);
    assert_int_equal(segment_stats(s, "g").counts.n_absent, 2);
    /* Another filter of the same name begins at 0, and the store remembers. */
    drop_segment(s, "a");
    put_segment(s, "a", 0, 100);
    assert_int_equal(segment_stats(s, "a").counts.n_probes, 0);
    assert_int_equal(stats_of(s).n_probes, 4);
    /* A snapshot may outlive its store. */
    held = snapshot_of(s);
    tamis_store_close(s);
    struct tamis_target t = tamis_snapshot_target(held, 0);
    tamis_snapshot_probe(held, &t, &(struct tamis_key){0}, NULL);
    tamis_snapshot_release(held);
}

/* Snapshots that are held count for a segment only if it is the same filter there: not
 * one that lacks it, nor one that has another filter of its name. */
static void other_filters_of_the_name(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    OK(tamis_store_count(s, 1, NULL));
    put_segment(s, "z", 0, 3);
    struct tamis_snapshot *lacks = snapshot_of(s);
    put_segment(s, "a", 0, 100);
    struct tamis_snapshot *has_another = snapshot_of(s);
    reason_of(s, "a", 5);
    drop_segment(s, "a");
    put_segment(s, "a", 0, 100);
    reason_of(s, "a", 5), reason_of(s, "a", 6);
    reason_of(s, "z", 1);
    assert_int_equal(segment_stats(s, "a").counts.n_maybe[TAMIS_HIT], 2);
    assert_int_equal(segment_stats(s, "z").counts.n_maybe[TAMIS_HIT], 1);
    assert_int_equal(stats_of(s).n_maybe[TAMIS_HIT], 4);
    tamis_snapshot_release(lacks);
    tamis_snapshot_release(has_another);
    tamis_store_close(s);
}

/* A batch among whose maybes some are damage and others bits that are set. */
static void damage_in_part(void **state)
{
    enum { MANY = 6400 };
    static uint64_t hashes[MANY], absent[MANY / 64], again[MANY / 64];
    struct tamis_segment_stats one;
    (void)state;
    struct tamis_store *s = store_new("s");
    OK(tamis_store_count(s, 1, NULL));
    put_segment(s, "a", 0, 20000);
    zero_page(file_of(s, "s", "a"), 3);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_domain d = tamis_snapshot_domain(snap);
    uint64_t n_damaged = 0, n_absent = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        enum tamis_reason why;
        struct tamis_key key = key_in(s, i * 6); /* half of them are not in it */
        hashes[i] = key.hash;
        key.bytes = NULL;
        tamis_snapshot_probe(snap, &t, &key, &why);
        n_damaged += why == TAMIS_DAMAGED;
        n_absent += why == ABSENT_HERE;
    }
    assert_true(n_damaged > 100 && n_damaged + n_absent < MANY - 100);
    tamis_snapshot_probe_batch(snap, &t, d.tag, hashes, MANY, absent, NULL);
    OK(tamis_snapshot_count(snap, 0));
    tamis_snapshot_probe_batch(snap, &t, d.tag, hashes, MANY, again, NULL);
    assert_memory_equal(absent, again, sizeof absent);
    OK(tamis_snapshot_segment_stats(snap, 0, &one));
    assert_int_equal(one.counts.n_absent, 2 * n_absent);
    assert_int_equal(one.counts.n_maybe[TAMIS_DAMAGED], 2 * n_damaged);
    assert_int_equal(one.counts.n_maybe[TAMIS_HIT], 2 * (MANY - n_absent - n_damaged));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
}

static void filters_of_the_caller(void **state)
{
    struct tamis_segment_stats one;
    struct tamis_snapshot *snap;
    struct tamis_domain d;
    (void)state;
    OK(tamis_domain_init(&d, 1, 7));
    build_file(path_of("f"), &d, "f", NULL, NULL);
    struct tamis_filter *f = open_filter(path_of("f"));
    OK(tamis_snapshot_from_filters(&f, 1, &snap));
    OK(tamis_snapshot_count(snap, 1));
    struct tamis_key key = tamis_key_of(&d, key_text(5), strlen(key_text(5)));
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    for (size_t i = 0; i < 3; i++)
        tamis_snapshot_probe(snap, &t, &key, NULL);
    OK(tamis_snapshot_segment_stats(snap, 0, &one));
    assert_int_equal(one.counts.n_maybe[TAMIS_HIT], 3);
    assert_int_equal(one.counts.n_pages_checked, 1);
    tamis_snapshot_release(snap);
    tamis_filter_close(f);
}

/* ---- pages ---- */

static void pages_are_counted_once(void **state)
{
    struct tamis_filter *f;
    struct tamis_verify report;
    struct tamis_stats stats;
    (void)state;
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 20000);
    uint8_t zero = 0;
    file_poke(file_of(s, "s", "a"), 3 * PAGE_BYTES + 5, &zero, 1);
    struct tamis_snapshot *snap = snapshot_of(s);
    reason_of_hash(s, "a", 1); /* counting is off */
    OK(tamis_snapshot_stats(snap, &stats));
    assert_in_range(stats.n_pages_checked, 1, 3); /* one a lane */
    OK(tamis_snapshot_filter(snap, 0, &f, NULL));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    OK(tamis_snapshot_stats(snap, &stats));
    assert_int_equal(stats.n_pages_checked, report.n_pages);
    assert_int_equal(stats.n_pages_damaged, 1);
    /* Two that find rot at once, where all was good before. */
    struct stage *stage = &atomic_load(&f->view)->stages[0];
    stage_mark_bad(stage, 7);
    stage_mark_bad(stage, 7);
    tamis_snapshot_release(snap);
    stats = stats_of(s);
    assert_int_equal(stats.n_pages_checked, report.n_pages);
    assert_int_equal(stats.n_pages_damaged, 2);
    tamis_store_close(s);
}

/* ---- measured errors ---- */

static void near(double got, double want)
{
    if (got < want - 5e-5 || got > want + 5e-5)
        fail_msg("%.6f, not %.4f", got, want);
}

/* R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics
 * in Medicine 17 (1998), table I, method 3. */
static void intervals_of_the_literature(void **state)
{
    static const struct {
        uint64_t k, n;
        double low, high;
    } known[] = {{81, 263, 0.2553, 0.3662},
                 {15, 148, 0.0624, 0.1605},
                 {0, 20, 0, 0.1611},
                 {1, 29, 0.0061, 0.1718}};
    double low, high;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        error_interval(known[i].k, known[i].n, &low, &high);
        near(low, known[i].low);
        near(high, known[i].high);
        error_interval(known[i].n - known[i].k, known[i].n, &low, &high);
        near(low, 1 - known[i].high); /* the other way round */
        near(high, 1 - known[i].low);
    }
    error_interval(0, 0, &low, &high);
    assert_true(low == 0 && high == 1);
    error_interval(0, 20, &low, &high);
    assert_true(low == 0);
    error_interval(20, 20, &low, &high);
    assert_true(high == 1);
}

/* n absent keys asked, k of them said to have been false positives. */
static struct tamis_segment_stats measured(struct tamis_store *s, uint64_t n,
                                           uint64_t k)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_segment_stats stats;
    for (uint64_t i = 0, done = 0; done < n; i++) {
        struct tamis_key key =
            tamis_key_of_hash(snap->domain.tag, UINT64_C(0x9E3779B97F4A7C15) * i);
        done += tamis_snapshot_probe(snap, &t, &key, NULL) == TAMIS_ABSENT;
    }
    for (uint64_t i = 0; i < k; i++)
        OK(tamis_snapshot_report_false_positive(snap, &t));
    OK(tamis_snapshot_segment_stats(snap, 0, &stats));
    tamis_snapshot_release(snap);
    return stats;
}

static void measured_against_target(void **state)
{
    struct tamis_builder *b;
    (void)state;
    struct tamis_store *s = store_new("s");
    OK(tamis_store_count(s, 1, NULL));
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0.01, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, "key", 3));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    struct tamis_segment_stats m = measured(s, 0, 0);
    assert_true(m.measured_error == 0 && m.error_low == 0 && m.error_high == 1);
    assert_true(m.target_error == 0.01 && !m.over_target);
    m = measured(s, 985, 15); /* 1.5%, of 0.91% .. 2.46%: it may be 1% */
    assert_int_equal(m.counts.n_absent, 985);
    assert_int_equal(m.counts.n_false_positives, 15);
    assert_true(m.measured_error == 0.015);
    near(m.error_low, 0.00911);
    near(m.error_high, 0.02460);
    assert_false(m.over_target);
    m = measured(s, 985, 15); /* 30 of 2,000: 1.05% at least */
    assert_true(m.error_low > 0.01);
    assert_true(m.over_target);
    m = measured(s, 8000, 0);
    assert_true(m.error_high < 0.01);
    assert_false(m.over_target);
    assert_int_equal(stats_of(s).n_false_positives, 30);
    tamis_store_close(s);
}

/* ---- threads ---- */

/* More than there are slots, all at once, and then others in their place. */
enum { THREADS = N_SLOTS + 20, ROUNDS = 200, WAVES = 2 };

struct crowd {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    pthread_barrier_t all_there;
    atomic_bool over;
};

static void *one_probe(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_target t = tamis_snapshot_target(c->snapshot, 0);
    tamis_snapshot_probe(c->snapshot, &t, &(struct tamis_key){0}, NULL);
    return NULL;
}

static void *probing(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_target t = tamis_snapshot_target(c->snapshot, 1);
    struct tamis_key keys[3];
    struct tamis_domain d = tamis_snapshot_domain(c->snapshot);
    const char *text[] = {"key00000105", "key00000005", "nothing"};
    for (size_t i = 0; i < 3; i++)
        keys[i] =
            tamis_key_of_hash(d.tag, tamis_key_of(&d, text[i], strlen(text[i])).hash);
    pthread_barrier_wait(&c->all_there);
    for (size_t i = 0; i < ROUNDS; i++) {
        tamis_snapshot_probe(c->snapshot, &t, &keys[i % 3], NULL);
        tamis_snapshot_probe_all(c->snapshot, &keys[i % 3], NULL, NULL);
        tamis_snapshot_probe_keys(c->snapshot, NULL, 0, keys, 3, NULL);
        OK(tamis_snapshot_report_false_positive(c->snapshot, &t));
    }
    pthread_barrier_wait(&c->all_there); /* none has ended before all were there */
    return NULL;
}

/* No sum ever falls. */
static void *watching(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_stats before = {0}, now;
    do {
        now = stats_of(c->store);
        assert_true(now.n_probes >= before.n_probes);
        assert_true(now.n_absent >= before.n_absent);
        assert_true(now.n_maybe[TAMIS_HIT] >= before.n_maybe[TAMIS_HIT]);
        assert_true(now.n_false_positives >= before.n_false_positives);
        struct tamis_segment_stats one;
        OK(tamis_snapshot_segment_stats(c->snapshot, 1, &one));
        assert_true(one.counts.n_absent <= 7 * UINT64_C(1) * THREADS * ROUNDS * WAVES);
        before = now;
    } while (!atomic_load(&c->over));
    return NULL;
}

static void threads_lose_no_count(void **state)
{
    struct crowd c = {.store = small_store()};
    pthread_t threads[THREADS], watcher;
    (void)state;
    OK(tamis_store_count(c.store, 1, NULL));
    c.snapshot = snapshot_of(c.store);
    one_probe(&c); /* this thread has a slot, too */
    OK(pthread_barrier_init(&c.all_there, NULL, THREADS));
    OK(pthread_create(&watcher, NULL, watching, &c));
    for (size_t wave = 0; wave < WAVES; wave++) {
        for (size_t i = 0; i < THREADS; i++)
            OK(pthread_create(&threads[i], NULL, probing, &c));
        for (size_t i = 0; i < THREADS; i++)
            OK(pthread_join(threads[i], NULL));
    }
    atomic_store(&c.over, true);
    OK(pthread_join(watcher, NULL));
    struct tamis_stats stats = stats_of(c.store);
    uint64_t rounds = (uint64_t)THREADS * ROUNDS * WAVES;
    assert_int_equal(stats.n_probes, 1 + rounds * (1 + 3 + 9));
    assert_int_equal(stats.n_false_positives, rounds);
    struct tamis_segment_stats one;
    OK(tamis_snapshot_segment_stats(c.snapshot, 1, &one));
    assert_int_equal(one.counts.n_probes, rounds * (1 + 1 + 3));
    assert_int_equal(one.counts.n_false_positives, rounds);
    /* Every one of them ended, and gave back what it had. */
    size_t n_sheets = 0;
    for (size_t i = 0; i < N_SLOTS + 2; i++)
        n_sheets += atomic_load(&c.snapshot->counts.sheets[i]) != NULL;
    assert_int_equal(n_sheets, N_SLOTS + 1);
    OK(pthread_barrier_destroy(&c.all_there));
    tamis_snapshot_release(c.snapshot);
    tamis_store_close(c.store);
}

/* As if there were no slot for any of them; long enough that they meet. */
enum { SHARERS = 4, MEETINGS = 1000000 };

static void *probing_in_the_shared_sheet(void *ctx)
{
    struct crowd *c = ctx;
    counters_slot = SLOT_SHARED;
    pthread_barrier_wait(&c->all_there);
    for (size_t i = 0; i < MEETINGS; i++)
        one_probe(c);
    return NULL;
}

static void the_shared_sheet_loses_none(void **state)
{
    struct crowd c = {.store = small_store()};
    pthread_t threads[SHARERS];
    (void)state;
    OK(tamis_store_count(c.store, 1, NULL));
    c.snapshot = snapshot_of(c.store);
    OK(pthread_barrier_init(&c.all_there, NULL, SHARERS));
    for (size_t i = 0; i < SHARERS; i++)
        OK(pthread_create(&threads[i], NULL, probing_in_the_shared_sheet, &c));
    for (size_t i = 0; i < SHARERS; i++)
        OK(pthread_join(threads[i], NULL));
    OK(pthread_barrier_destroy(&c.all_there));
    assert_int_equal(stats_of(c.store).n_probes, SHARERS * MEETINGS);
    tamis_snapshot_release(c.snapshot);
    tamis_store_close(c.store);
}

/* Each thread finds a slot that an earlier one has left. */
static void slots_are_given_back(void **state)
{
    struct crowd c = {.store = small_store()};
    (void)state;
    OK(tamis_store_count(c.store, 1, NULL));
    c.snapshot = snapshot_of(c.store);
    for (size_t i = 0; i < 2 * N_SLOTS; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, NULL, one_probe, &c));
        OK(pthread_join(thread, NULL));
    }
    size_t n_sheets = 0;
    for (size_t i = 0; i < N_SLOTS + 2; i++)
        n_sheets += atomic_load(&c.snapshot->counts.sheets[i]) != NULL;
    assert_int_equal(n_sheets, 2); /* theirs, and the shared one */
    assert_int_equal(stats_of(c.store).n_maybe[TAMIS_MISMATCH], 2 * N_SLOTS);
    tamis_snapshot_release(c.snapshot);
    tamis_store_close(c.store);
}

/* A destructor of the host's that runs after ours: the slot is another's by then. */
static pthread_key_t late_key;

static void count_late(void *ctx)
{
    assert_int_equal(counters_slot, SLOT_NONE);
    one_probe(ctx);
    assert_in_range(counters_slot, 1, N_SLOTS);
}

static void *probe_then_late(void *ctx)
{
    OK(pthread_setspecific(late_key, ctx));
    return one_probe(ctx);
}

static void a_thread_may_count_while_it_ends(void **state)
{
    struct crowd c = {.store = small_store()};
    (void)state;
    OK(tamis_store_count(c.store, 1, NULL));
    c.snapshot = snapshot_of(c.store);
    one_probe(&c); /* now the library's key is there, which comes first */
    OK(pthread_key_create(&late_key, count_late));
    for (size_t i = 0; i < 2 * N_SLOTS; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, NULL, probe_then_late, &c));
        OK(pthread_join(thread, NULL));
    }
    OK(pthread_key_delete(late_key));
    assert_int_equal(stats_of(c.store).n_probes, 1 + 4 * N_SLOTS);
    assert_null(atomic_load(&c.snapshot->counts.sheets[4])); /* all gave theirs back */
    tamis_snapshot_release(c.snapshot);
    tamis_store_close(c.store);
}

/* ---- fork ---- */

static int in_the_child(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_stats stats;
    struct tamis_segment_stats one;
    alarm(60); /* should it wait for a lock of the parent's */
    one_probe(c);
    if (tamis_store_stats(c->store, &stats, NULL) != TAMIS_ERR_FORKED ||
        tamis_store_count(c->store, 0, NULL) != TAMIS_ERR_FORKED)
        return 1;
    if (tamis_snapshot_stats(c->snapshot, &stats) != 0 || stats.n_probes != 2)
        return 2;
    if (tamis_snapshot_segment_stats(c->snapshot, 0, &one) != 0 ||
        one.counts.n_probes != 2)
        return 3;
    tamis_snapshot_release(c->snapshot);
    return 0;
}

/* Holds the lock while another thread forks. */
static void *hold_the_ledger(void *ctx)
{
    struct crowd *c = ctx;
    OK(!ledger_lock(c->snapshot->ledger));
    pthread_barrier_wait(&c->all_there);
    pthread_barrier_wait(&c->all_there);
    ledger_unlock(c->snapshot->ledger);
    return NULL;
}

static void a_child_counts_for_itself(void **state)
{
    struct crowd c = {.store = small_store()};
    pthread_t holder;
    (void)state;
    OK(tamis_store_count(c.store, 1, NULL));
    c.snapshot = snapshot_of(c.store);
    one_probe(&c);
    OK(pthread_barrier_init(&c.all_there, NULL, 2));
    OK(pthread_create(&holder, NULL, hold_the_ledger, &c));
    pthread_barrier_wait(&c.all_there);
    in_child(in_the_child, &c);
    pthread_barrier_wait(&c.all_there);
    OK(pthread_join(holder, NULL));
    OK(pthread_barrier_destroy(&c.all_there));
    assert_int_equal(stats_of(c.store).n_probes, 1);
    tamis_snapshot_release(c.snapshot);
    tamis_store_close(c.store);
}

/* Every slot is taken when a thread forks that has none, or shares; in the child all of
 * them are free, for nobody is there who would give them back. */
static void *wait_with_a_slot(void *ctx)
{
    struct crowd *c = ctx;
    one_probe(c);
    pthread_barrier_wait(&c->all_there);
    pthread_barrier_wait(&c->all_there);
    return NULL;
}

static int counts_alone(void *ctx)
{
    unsigned mine = counters_slot, first = mine == 1 ? 2 : 1;
    alarm(60);
    for (unsigned i = first; i <= N_SLOTS; i += i + 1 == mine ? 2 : 1) {
        counters_slot = SLOT_NONE; /* as a new thread's */
        one_probe(ctx);
        if (counters_slot != i)
            return 1;
    }
    return 0;
}

static void *fork_without_a_slot(void *ctx)
{
    struct crowd *c = ctx;
    assert_int_equal(counters_slot, SLOT_NONE);
    in_child(counts_alone, c);
    one_probe(c);
    assert_int_equal(counters_slot, SLOT_SHARED);
    in_child(counts_alone, c);
    return NULL;
}

static void *fork_with_a_slot(void *ctx)
{
    one_probe(ctx);
    assert_in_range(counters_slot, 1, N_SLOTS);
    in_child(counts_alone, ctx);
    return NULL;
}

static void slots_are_free_in_a_child(void **state)
{
    struct crowd c = {.store = small_store()};
    pthread_t threads[N_SLOTS], forking;
    (void)state;
    OK(tamis_store_count(c.store, 1, NULL));
    c.snapshot = snapshot_of(c.store);
    OK(pthread_barrier_init(&c.all_there, NULL, N_SLOTS + 1));
    for (size_t i = 0; i < N_SLOTS; i++)
        OK(pthread_create(&threads[i], NULL, wait_with_a_slot, &c));
    pthread_barrier_wait(&c.all_there);
    OK(pthread_create(&forking, NULL, fork_without_a_slot, &c));
    OK(pthread_join(forking, NULL));
    pthread_barrier_wait(&c.all_there);
    for (size_t i = 0; i < N_SLOTS; i++)
        OK(pthread_join(threads[i], NULL));
    OK(pthread_barrier_destroy(&c.all_there));
    assert_int_equal(stats_of(c.store).n_probes, N_SLOTS + 1);
    OK(pthread_create(&forking, NULL, fork_with_a_slot, &c));
    OK(pthread_join(forking, NULL));
    tamis_snapshot_release(c.snapshot);
    tamis_store_close(c.store);
}

static int setup(void **state)
{
    return test_dir_create(state) || faults_on(state);
}

static int teardown(void **state)
{
    return faults_off(state) || test_dir_remove(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_reason_each_way),
        TEST(only_while_it_is_on),
        TEST(nothing_given),
        TEST(records_without_a_filter),
        TEST(sums_outlive_snapshots),
        TEST(other_filters_of_the_name),
        TEST(damage_in_part),
        TEST(filters_of_the_caller),
        TEST(pages_are_counted_once),
        TEST(intervals_of_the_literature),
        TEST(measured_against_target),
        TEST(threads_lose_no_count),
        TEST(the_shared_sheet_loses_none),
        TEST(slots_are_given_back),
        TEST(a_thread_may_count_while_it_ends),
        TEST(a_child_counts_for_itself),
        TEST(slots_are_free_in_a_child),
    };
    return cmocka_run_group_tests_name("store_stats", tests, NULL, NULL);
}
