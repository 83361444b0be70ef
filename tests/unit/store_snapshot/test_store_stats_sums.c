/* Counting on and off, sums that outlive snapshots and growth, pages that are counted
 * once, and errors that are measured. */
#include "tests/unit/store_snapshot/stats_support.h"

/* ---- on and off ---- */

TEST_IN_DIR_WITH_FAULTS(only_while_it_is_on)
{
    STORE s = small_store(), same = store_open("s");
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_stats stats;
    reason_of(s, "a", 1);
    OK(tamis_snapshot_report_false_positive(snap, &t));
    IS(stats_of(s).n_probes, 0);
    OK(tamis_store_count(same, 1, NULL)); /* for both */
    reason_of(s, "a", 1);
    OK(tamis_snapshot_report_false_positive(snap, &t));
    put_segment(s, "c", 0, 3); /* and for later ones */
    reason_of(s, "c", 1);
    IS(stats_of(s).n_probes, 2);
    OK(tamis_store_count(s, 0, NULL));
    reason_of(s, "a", 1);
    OK(tamis_snapshot_report_false_positive(snap, &t));
    put_segment(s, "d", 0, 3);
    reason_of(s, "d", 1);
    stats = stats_of(s);
    IS(stats.n_probes, 2);
    IS(stats.n_maybe[TAMIS_HIT], 2);
    IS(stats.n_false_positives, 1);
}

TEST_IN_DIR_WITH_FAULTS(nothing_given)
{
    struct tamis_stats stats;
    struct tamis_segment_stats one;
    struct tamis_target t;
    struct tamis_diag diag;
    STORE s = small_store();
    OK(tamis_store_count(s, 1, NULL));
    SNAPSHOT snap = snapshot_of(s);
    IS(tamis_store_count(NULL, 1, &diag), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_stats(NULL, 0, &stats), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_stats(snap, 0, NULL), TAMIS_ERR_RANGE);
    memset(&one, 0xFF, sizeof one);
    IS(tamis_snapshot_segment_stats(snap, 3, &one), TAMIS_ERR_RANGE);
    IS(one.counts.n_probes, 0);
    IS(tamis_snapshot_segment_stats(snap, 0, NULL), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_segment_stats(NULL, 0, &one), TAMIS_ERR_RANGE);
    t = tamis_snapshot_target(snap, 0);
    IS(tamis_snapshot_report_false_positive(NULL, &t), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_report_false_positive(snap, NULL), TAMIS_ERR_RANGE);
    t.ordinal = 4;
    IS(tamis_snapshot_report_false_positive(snap, &t), TAMIS_ERR_NO_SEGMENT);
    t = (struct tamis_target){0};
    IS(tamis_snapshot_report_false_positive(snap, &t), TAMIS_ERR_NO_SEGMENT);
    IS(tamis_snapshot_probe(snap, NULL, NULL, NULL), TAMIS_MAYBE);
    ASK(snap, ALL, KEYS(NULL, 3));
}

/* ---- snapshots come and go ---- */

static struct tamis_segment_stats segment_stats(struct tamis_store *s, const char *name)
{
    struct tamis_segment_stats stats;
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t = found_in(snap, name);
    OK(tamis_snapshot_segment_stats(snap, t.ordinal - 1, &stats));
    return stats;
}

/* A record that cannot be read, and one without a filter: no caller can have found
 * their filters wrong. */
TEST_IN_DIR_WITH_FAULTS(sums_outlive_snapshots)
{
    struct tamis_store *s = small_store();
    OK(tamis_store_count(s, 1, NULL));
    SNAPSHOT held = snapshot_of(s);
    reason_of(s, "a", 5);
    reason_of_hash(s, "g", 5);
    put_segment(s, "0", 0, 3); /* "a" has another number from now on */
    reason_of(s, "a", 5);
    IS(segment_stats(s, "a").counts.n_maybe[TAMIS_HIT], 2);
    tamis_snapshot_release(held);
    IS(segment_stats(s, "a").counts.n_maybe[TAMIS_HIT], 2);
    /* A growth makes a new record of the same filter. */
    struct tamis_writer *w = writer_of(s, "g");
    add_keys(w, 1000, 500);
    OK(tamis_writer_commit(w, 1, NULL));
    OK(tamis_writer_close(w, NULL));
    IS(reason_of_hash(s, "g", 5), ABSENT_HERE);
    IS(segment_stats(s, "g").counts.n_absent, 2);
    /* Another filter of the same name begins at 0, and the store remembers. */
    drop_segment(s, "a");
    put_segment(s, "a", 0, 100);
    IS(segment_stats(s, "a").counts.n_probes, 0);
    IS(stats_of(s).n_probes, 4);
    /* A snapshot may outlive its store. */
    held = snapshot_of(s);
    tamis_store_close(s);
    struct tamis_target t = tamis_snapshot_target(held, 0);
    tamis_snapshot_probe(held, &t, &(struct tamis_key){0}, NULL);
}

/* Snapshots that are held count for a segment only if it is the same filter there: not
 * one that lacks it, nor one that has another filter of its name. */
TEST_IN_DIR_WITH_FAULTS(other_filters_of_the_name)
{
    STORE s = store_new("s");
    OK(tamis_store_count(s, 1, NULL));
    put_segment(s, "z", 0, 3);
    SNAPSHOT lacks = snapshot_of(s);
    put_segment(s, "a", 0, 100);
    SNAPSHOT has_another = snapshot_of(s);
    reason_of(s, "a", 5);
    drop_segment(s, "a");
    put_segment(s, "a", 0, 100);
    reason_of(s, "a", 5), reason_of(s, "a", 6);
    reason_of(s, "z", 1);
    IS(segment_stats(s, "a").counts.n_maybe[TAMIS_HIT], 2);
    IS(segment_stats(s, "z").counts.n_maybe[TAMIS_HIT], 1);
    IS(stats_of(s).n_maybe[TAMIS_HIT], 4);
}

TEST_IN_DIR_WITH_FAULTS(filters_of_the_caller)
{
    struct tamis_segment_stats one;
    struct tamis_domain d;
    OK(tamis_domain_init(&d, 1, 7));
    build_file(path_of("f"), &d, "f", NULL, NULL);
    FILTER f = open_filter(path_of("f"));
    SNAPSHOT snap;
    OK(tamis_snapshot_from_filters(&f, 1, 1, &snap));
    struct tamis_key key = tamis_key_of(&d, key_text(5), strlen(key_text(5)));
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    for (size_t i = 0; i < 3; i++)
        tamis_snapshot_probe(snap, &t, &key, NULL);
    OK(tamis_snapshot_segment_stats(snap, 0, &one));
    IS(one.counts.n_maybe[TAMIS_HIT], 3);
    IS(one.counts.n_pages_checked, 1);
}

/* ---- pages ---- */

TEST_IN_DIR_WITH_FAULTS(pages_are_counted_once)
{
    struct tamis_verify report;
    struct tamis_stats stats;
    STORE s = store_new("s");
    put_segment(s, "a", 0, 20000);
    uint8_t zero = 0;
    file_poke(file_of(s, "s", "a"), 3 * PAGE_BYTES + 5, &zero, 1);
    struct tamis_snapshot *snap = snapshot_of(s);
    reason_of_hash(s, "a", 1); /* counting is off */
    OK(tamis_snapshot_stats(snap, 0, &stats));
    assert_in_range(stats.n_pages_checked, 1, 3); /* one a lane */
    struct tamis_filter *f = filter_at(snap, 0);
    for (size_t i = 0; i < 3; i++)
        IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    OK(tamis_snapshot_stats(snap, 0, &stats));
    IS(stats.n_pages_checked, report.n_pages);
    IS(stats.n_pages_damaged, 1);
    /* Two that find rot at once, where all was good before. */
    struct stage *stage = &atomic_load(&f->view)->stages[0];
    stage_mark_bad(stage, 7);
    stage_mark_bad(stage, 7);
    tamis_snapshot_release(snap);
    stats = stats_of(s);
    IS(stats.n_pages_checked, report.n_pages);
    IS(stats.n_pages_damaged, 2);
}

/* ---- measured errors ---- */

static void near(double got, double want)
{
    if (got < want - 5e-5 || got > want + 5e-5)
        fail_msg("%.6f, not %.4f", got, want);
}

/* R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics
 * in Medicine 17 (1998), table I, method 3. */
TEST_IN_DIR_WITH_FAULTS(intervals_of_the_literature)
{
    static const struct {
        uint64_t k, n;
        double low, high;
    } known[] = {{81, 263, 0.2553, 0.3662},
                 {15, 148, 0.0624, 0.1605},
                 {0, 20, 0, 0.1611},
                 {1, 29, 0.0061, 0.1718}};
    double low, high;
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
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t = tamis_snapshot_target(snap, 0);
    struct tamis_segment_stats stats;
    for (uint64_t i = 0, done = 0; done < n; i++) {
        struct tamis_key key = {.tag = snap->domain.tag,
                                .hash = UINT64_C(0x9E3779B97F4A7C15) * i};
        done += tamis_snapshot_probe(snap, &t, &key, NULL) == TAMIS_ABSENT;
    }
    for (uint64_t i = 0; i < k; i++)
        OK(tamis_snapshot_report_false_positive(snap, &t));
    OK(tamis_snapshot_segment_stats(snap, 0, &stats));
    return stats;
}

TEST_IN_DIR_WITH_FAULTS(measured_against_target)
{
    struct tamis_builder *b;
    STORE s = store_new("s");
    OK(tamis_store_count(s, 1, NULL));
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_builder(e, "a", 1, 0.01, NULL, &b, NULL));
    OK(tamis_builder_add_key(b, "key", 3));
    OK(tamis_edit_put(e, b, NULL, NULL));
    tamis_builder_free(b);
    OK(tamis_edit_commit(e, NULL));
    struct tamis_segment_stats m = measured(s, 0, 0);
    assert_true(m.measured_error == 0 && m.error_low == 0 && m.error_high == 1);
    assert_true(m.target_error == 0.01 && !m.over_target);
    m = measured(s, 985, 15); /* 1.5%, of 0.91% .. 2.46%: it may be 1% */
    IS(m.counts.n_absent, 985);
    IS(m.counts.n_false_positives, 15);
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
    IS(stats_of(s).n_false_positives, 30);
}

RUN_TESTS(NULL, NULL)
