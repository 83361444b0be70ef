#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- statistics: what was asked, and what was said ---------------------------------
 *
 * Counting is off until it is asked for; then each thread counts in memory of its own,
 * 88 bytes for each segment of a snapshot that it probes (beyond 63 threads they share
 * one such piece). A probe of one segment takes some 40 instructions more by that, a
 * list 17 for each target, all others 5% at most. Counts are exact, begin at 0 in each
 * process, and go into no file. They may be read at any time, by any thread; what a
 * probe that is under way has asked may be in them, or not yet. A forked child goes on
 * from what its parent had counted. Probes of a filter without a snapshot
 * (tamis_filter_probe()) are not counted. A probe in a signal handler that has
 * interrupted another one may not be, nor the other. */

enum { TAMIS_MAX_REASONS = 16 };

/* Each only grows, but for n_absent, and so n_probes, of one segment. */
struct tamis_stats {
    uint64_t n_probes;   /* questions: one key, one segment */
    uint64_t n_absent;   /* of them */
    uint64_t n_excluded; /* of those: by the segment's key range alone */
    uint64_t n_maybe[TAMIS_MAX_REASONS]; /* by tamis_reason; the rest of n_probes */
    uint64_t n_false_positives;          /* reported by the caller */
    /* Pages that were checked, counted once for each time that a filter is opened, or
     * grows, and those that failed. They are always counted. */
    uint64_t n_pages_checked, n_pages_damaged;
    uint64_t reserved[8]; /* 0 */
};

/* What one segment's filter has done, over all snapshots of the store that list it,
 * and those that did and are released. n_excluded is 0: what a range excludes is not
 * asked of the filter. n_absent is worked out from others: while probes are under way
 * it may be some too high, and fall; export n_maybe and n_false_positives. */
struct tamis_segment_stats {
    struct tamis_stats counts;
    /* n_false_positives / (n_absent + n_false_positives), 0 if nothing was asked, and
     * between which bounds the error lies that this was drawn from: Wilson's interval,
     * of 95%. Of one segment in twenty it lies beyond them, by chance. */
    double measured_error, error_low, error_high;
    double target_error; /* 0: it has none */
    int over_target;     /* 1: all of the interval lies above the target */
    uint64_t reserved[8];
};

/* Begins (on 1) or ends (0) counting, in all snapshots of the store, those that there
 * are and those to come, of this process; also of others who have opened the same
 * store in it. What was counted stays. ENOMEM, and it may count already in some. */
int tamis_store_count(struct tamis_store *store, int on, struct tamis_diag *diag);
/* The same of one snapshot, of filters perhaps. */
int tamis_snapshot_count(struct tamis_snapshot *snapshot, int on);

/* All that was counted since the store was opened, in whichever of its snapshots, those
 * that are released included: for an engine's own metrics. */
int tamis_store_stats(struct tamis_store *store, struct tamis_stats *out,
                      struct tamis_diag *diag);
/* What was counted in this snapshot. Its pages are those of its segments' filters,
 * whoever asked for them. */
int tamis_snapshot_stats(struct tamis_snapshot *snapshot, struct tamis_stats *out);
int tamis_snapshot_segment_stats(struct tamis_snapshot *snapshot, size_t index,
                                 struct tamis_segment_stats *out);
/* The segment answered MAYBE with reason HIT or DAMAGED, the caller read it, and the
 * key was not there. To be called for each such answer, or the error is measured too
 * low. Nothing happens while the snapshot does not count. ERR_NO_SEGMENT for a target
 * that is not this snapshot's, is refused, or has no filter. */
int tamis_snapshot_report_false_positive(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target);
