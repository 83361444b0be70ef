#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- statistics: questions and answers, counted ---------------------------------
 *
 * Counting is off until it is switched on. Then each thread counts in memory of its
 * own, 88 bytes for each segment of a snapshot that it probes; threads beyond 63 share
 * one such piece. Counting costs some 40 instructions for a probe of one segment, 17
 * for each target of a list, and makes other queries at most 5% slower, but keys of a
 * growing filter are then asked one by one. Counts are exact, begin at 0 in each
 * process, and go into no file. Any thread may read them at any time; a probe in flight
 * may be counted or not yet. A forked child goes on from its parent's counts. Probes by
 * tamis_filter_probe(), without a snapshot, are not counted. If a probe in a signal
 * handler interrupts another probe, either of them may be missed. */

enum { TAMIS_MAX_REASONS = 16 };

/* Counts only grow, but for n_absent, and so n_probes, of one segment. */
struct tamis_stats {
    uint64_t n_probes; /* questions: one key, one segment */
    uint64_t n_absent; /* answers ABSENT */
    /* Answers ABSENT by the segment's key range alone. Packs may be asked first. */
    uint64_t n_excluded;
    uint64_t n_maybe[TAMIS_MAX_REASONS]; /* by tamis_reason; the rest of n_probes */
    uint64_t n_false_positives;          /* reported by the caller */
    /* Pages that were checked, and pages that failed. A page counts once each time that
     * its filter is opened or grows. They are always counted. */
    uint64_t n_pages_checked, n_pages_damaged;
    /* Filters of a snapshot, or of a segment, that are open and read instead of mapped;
     * the number may fall; for a store 0. max_mapped: the limit of mapped filters of
     * the process. */
    uint64_t n_unmapped, max_mapped;
    uint64_t reserved[6]; /* 0 */
};

/* The counts of one segment's filter, over all snapshots of the store that list it or
 * did, released ones included. In a forked child they are those of this snapshot alone,
 * because the child may not wait for the lock over the others. n_excluded is 0, because
 * a key that a range excludes is not asked of the filter. n_absent is computed from
 * other counts: while probes are in flight it may be slightly too high, and fall. So
 * export n_maybe and n_false_positives alone. */
struct tamis_segment_stats {
    struct tamis_stats counts;
    /* n_false_positives / (n_absent + n_false_positives), 0 if nothing was asked, and
     * the bounds of the true error: Wilson's interval, of 95%. For one segment in
     * twenty the error lies outside by chance. */
    double measured_error, error_low, error_high;
    double target_error; /* 0: it has none */
    int over_target;     /* 1: all of the interval lies above the target */
    uint64_t reserved[8];
};

/* Starts (on 1) or stops (0) counting in all snapshots of the store, present and
 * future, of this process. Other handles of the store in this process count as well.
 * Counts are kept. A snapshot from filters counts or not, as it was made. ENOMEM: some
 * snapshots may count already. */
int tamis_store_count(struct tamis_store *store, int on, struct tamis_diag *diag);

/* Gets the counts of this snapshot, with all checked pages of its segments' filters,
 * also those that others asked for. of_store 1: all counts since the snapshot's store
 * was opened, over all its snapshots, released ones included, for an engine's own
 * metrics; then ERR_FORKED in a forked child, and ERR_RANGE for a snapshot of
 * filters. */
int tamis_snapshot_stats(struct tamis_snapshot *snapshot, int of_store,
                         struct tamis_stats *out);
/* Gets the counts of a segment by number. ERR_RANGE: it is not below n_numbers. */
int tamis_snapshot_segment_stats(struct tamis_snapshot *snapshot, size_t index,
                                 struct tamis_segment_stats *out);
/* Reports that the segment answered MAYBE with reason HIT or DAMAGED, that the caller
 * read it, and that the key was not there. Call it for each such answer, or the
 * measured error is too low. It does nothing while the snapshot does not count.
 * ERR_NO_SEGMENT: the target is another snapshot's, is refused, or has no filter. */
int tamis_snapshot_report_false_positive(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target);
