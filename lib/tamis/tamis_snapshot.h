#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- snapshot: ask many segments ----------------------------------------- */

struct tamis_snapshot;

/* The store's segments as of now. When nothing changed since the last call this is
 * a comparison, and no system call but every half second, when it looks whether the
 * store is still the one that its path names (ERR_REPLACED). Opens filters on first use
 * and shares them with other snapshots. Release each; they may outlive the store.
 *
 * A probe looks likewise: when the last look of any thread is half a second old, it
 * takes four system calls more. It waits for nobody. Once the store was replaced, every
 * probe of the snapshot answers MAYBE/MISMATCH, also in a forked child, and also when
 * the store is closed: repairing or moving the store then counts as replacing it. While
 * nobody can say, probes answer MAYBE/UNREADABLE, and each of them looks. A long batch
 * is answered as of its beginning. Of a segment that grows a probe looks at the file's
 * name, too (tamis_filter_open()); all segments share one look at the clock. A filter
 * of tamis_snapshot_filter() looks at its own file alone. */
int tamis_snapshot_current(struct tamis_store *store, struct tamis_snapshot **out,
                           struct tamis_diag *diag);
/* A snapshot of filters that the caller opened, no catalog: segment i is filters[i],
 * ranks are the order. The filters stay the caller's and must outlive it. */
int tamis_snapshot_from_filters(struct tamis_filter *const *filters, size_t n,
                                struct tamis_snapshot **out);
void tamis_snapshot_release(struct tamis_snapshot *snapshot);

/* One segment as a probe's target, with what the caller requires of it. A zeroed
 * target answers MAYBE/UNKNOWN_SEGMENT. Valid for the snapshot it came from: any other
 * answers MAYBE/MISMATCH. */
struct tamis_target {
    uint32_t slot;    /* index + 1; 0: none */
    uint32_t refusal; /* a tamis_reason that answers every probe, or 0 */
    uint64_t min_watermark;
    uint64_t snapshot; /* which one; no two of a process have the same */
};

/* ERR_NO_SEGMENT if unknown; a different binding (NULL: any) gives ERR_MISMATCH; a
 * record that can't be read ERR_DAMAGED or ERR_VERSION.
 * The target is usable all the same: it answers MAYBE with that reason. In a list that
 * is not confirmed (tamis_store_confirm_complete()) a target that was found without a
 * binding, or with one of no bytes, answers MAYBE/MISMATCH, and the result is 0. */
int tamis_snapshot_find(const struct tamis_snapshot *snapshot, const void *name,
                        size_t name_bytes, const void *binding, size_t binding_bytes,
                        uint64_t min_watermark, struct tamis_target *target);
/* Segments are numbered 0 .. n-1 by rank, then name. */
size_t tamis_snapshot_n_segments(const struct tamis_snapshot *snapshot);
/* As if it had been found without a binding. */
struct tamis_target tamis_snapshot_target(const struct tamis_snapshot *snapshot,
                                          size_t index);

enum tamis_segment_state {
    TAMIS_SEGMENT_BARE = 1, /* no filter */
    TAMIS_SEGMENT_GROWING = 2,
    TAMIS_SEGMENT_SEALED = 3
};
struct tamis_segment_info {
    const uint8_t *name; /* as long as the snapshot */
    size_t name_bytes;
    const uint8_t *binding;
    size_t binding_bytes;
    const uint8_t *first_key, *last_key; /* NULL: no range is known */
    size_t first_key_bytes, last_key_bytes;
    uint8_t uuid[TAMIS_UUID_BYTES];
    enum tamis_segment_state state; /* 0: its record is unreadable */
    uint32_t rank;
    uint64_t keys, file_bytes, watermark, generation,
        created; /* growing: as last noted */
    double error;
    char file[64]; /* within the store directory; empty if none */
};
int tamis_snapshot_segment(const struct tamis_snapshot *snapshot, size_t index,
                           struct tamis_segment_info *info);
/* The open filter of a segment, opened now if need be; the snapshot's, not to be
 * closed. For info, verify and the like: what it says of a key it says of its own keys,
 * be the list confirmed or not. */
int tamis_snapshot_filter(struct tamis_snapshot *snapshot, size_t index,
                          struct tamis_filter **out, struct tamis_diag *diag);
struct tamis_domain tamis_snapshot_domain(const struct tamis_snapshot *snapshot);

struct tamis_prepare_options {
    size_t size;
    int warm;              /* 1: as tamis_filter_warm() */
    uint64_t lock_bytes;   /* at most so much in memory, in all; 0: locks stay */
    tamis_progress_fn *fn; /* may be NULL; not while filters are opened */
    void *ctx;
    const struct tamis_target *targets; /* NULL: all segments */
    size_t n_targets;
};
struct tamis_prepare_report {
    uint64_t n_open;     /* segments whose filter is open */
    uint64_t n_skipped;  /* without a filter, or targets that are refused */
    uint64_t n_failed;   /* could not be opened: MAYBE */
    uint64_t n_unread;   /* open, but a page cannot be had */
    uint64_t open_bytes; /* what probes use of those that are open */
    uint64_t warm_bytes; /* read, or found in memory */
    uint64_t locked_bytes;
    int lock_error; /* 0, or EPERM, ENOMEM, EAGAIN: what kept it from locking more */
};
/* Opens filters ahead of their first probe, in the order of ranks, those that probes
 * ask first; then locks them in that order until lock_bytes are used up (the last one
 * in part), and reads what is locked, or all if `warm` is set. Later ones that an
 * earlier call has locked are unlocked, and so are those that are no targets, so that a
 * call for each new snapshot keeps to the budget; a filter that is there twice counts
 * once; filters that are only in older snapshots stay locked until these are
 * released. That the limit of locked memory is too low is no error: the report says
 * so. Nor is a filter that cannot be opened or read, because its file is lost, or an
 * edit has dropped it since this snapshot: diag is about the first of them, though the
 * result be 0. *report (may be NULL) is whole whatever is returned. ECANCELED if fn
 * said stop; ENOMEM, ERR_RANGE. */
int tamis_snapshot_prepare(struct tamis_snapshot *snapshot,
                           const struct tamis_prepare_options *opt,
                           struct tamis_prepare_report *report,
                           struct tamis_diag *diag);

/* One key, one segment. */
enum tamis_answer tamis_snapshot_probe(struct tamis_snapshot *snapshot,
                                       const struct tamis_target *target,
                                       const struct tamis_key *key,
                                       enum tamis_reason *why);
/* The same, and what it rests on: as tamis_filter_explain(), or the key range. The
 * filter is asked last: where the range proves it, the filter is not looked at. Not
 * counted in any statistics. */
enum tamis_answer tamis_snapshot_explain(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target,
                                         const struct tamis_key *key,
                                         struct tamis_explanation *out);
/* Many hashes, one segment: as tamis_filter_probe_batch(). */
size_t tamis_snapshot_probe_batch(struct tamis_snapshot *snapshot,
                                  const struct tamis_target *target, uint64_t tag,
                                  const uint64_t *hashes, size_t n, uint64_t *absent,
                                  enum tamis_reason *why);
/* One key, a list of segments. absent (may be NULL): a bitmap over the list, cleared
 * first; reasons (may be NULL): n bytes, a tamis_reason each. ABSENT if the key is
 * absent from all of them, and there is at least one. */
enum tamis_answer tamis_snapshot_probe_list(struct tamis_snapshot *snapshot,
                                            const struct tamis_target *targets,
                                            size_t n, const struct tamis_key *key,
                                            uint64_t *absent, uint8_t *reasons);
/* The same over all segments by number. ABSENT, of all or of one, only if the catalog
 * is complete; of all only if it lists a segment: an empty list proves nothing. */
enum tamis_answer tamis_snapshot_probe_all(struct tamis_snapshot *snapshot,
                                           const struct tamis_key *key,
                                           uint64_t *absent, uint8_t *reasons);
/* The same as a list: the numbers of the segments that are not proven to lack the key,
 * in the order of ranks. At most `max` of them are written; *n, how many there are, may
 * be more. ABSENT only if there are none and probe_all() would say so; else MAYBE: with
 * *n 0 nothing is listed that could be named, and nothing is proven either. */
enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                            const struct tamis_key *key,
                                            uint32_t *segments, size_t max, size_t *n);
/* Many keys, a list of segments; targets NULL: all by number, n_targets is ignored.
 * absent (may be NULL): a row of (n + 63) / 64 words for each key, n being the length
 * of the list, all cleared first; bit j of row i: key i is ABSENT from target j.
 * Returns how many keys are ABSENT from all, as probe_list() and probe_all() would say
 * it. */
size_t tamis_snapshot_probe_keys(struct tamis_snapshot *snapshot,
                                 const struct tamis_target *targets, size_t n_targets,
                                 const struct tamis_key *keys, size_t n_keys,
                                 uint64_t *absent);
