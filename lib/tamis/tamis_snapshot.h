#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- snapshot: ask many segments -----------------------------------------
 *
 * The segments of a store as of one moment. A snapshot opens filters on first use,
 * shares them with other snapshots, and may outlive the store. Threads: all calls at
 * once, a release for each result of tamis_snapshot_current(). Fork: usable.
 *
 * NUMBERS. Segments have numbers within a snapshot: first those with a record of their
 * own, by rank, then name; then the columns of each pack. No segment has the numbers in
 * between: tamis_snapshot_next() skips them, and bitmaps leave them MAYBE.
 *
 * REPLACED STORES. If no thread has looked for half a second, a probe looks whether the
 * path of the store still names it, by five system calls. Once the store was replaced,
 * every probe of the snapshot answers MAYBE/MISMATCH, also in a forked child, and after
 * the store is closed: a store that is repaired or moved after its last close counts as
 * replaced. While the path cannot be looked at, probes answer MAYBE/UNREADABLE, and
 * each looks at the path again. A long batch is answered as of its beginning. A thread
 * reads the clock at every 64th key, if these come fast: after a pause it may ask 64
 * keys more before it looks. A probe of a growing segment also looks at the file's name
 * (tamis_filter_open()); all segments share one look at the clock. A filter from
 * tamis_snapshot_filter() looks at its own file alone.
 *
 * MANY FILES. The snapshots of a process map sealed filters until 7/8 of
 * vm.max_map_count are mapped, 57,339 by default. Others are read: a question opens the
 * file, reads the pages that it needs, checks them up to the root, and closes it. Such
 * a filter takes a descriptor while threads ask it; without one it answers
 * MAYBE/UNREADABLE. Once its file was dropped it answers MAYBE/FILE_LOST in snapshots
 * that still list it. It has no pages to be warmed or locked. Snapshots of a later
 * state map it, if many others were closed meanwhile. struct tamis_stats counts such
 * filters. Growing filters and packs are always mapped. At most 64 packs of a process
 * keep a descriptor, if they have more than 128 KiB of bits or are checked strictly. */

struct tamis_snapshot;

/* Gets the store's segments as of now, with all edits that returned before; release
 * each result. If nothing has changed since the last call, it makes no system call.
 * Every half second it looks whether the path of the store still names it
 * (ERR_REPLACED), and tries to read packs and tombstones that could not be read. If one
 * can be, the result is a new snapshot. ERR_FORKED, ERR_CATALOG, ERR_BUSY, ENOMEM;
 * ERR_TOO_LARGE: 2^28 numbers, columns that were dropped among them, are too many. */
int tamis_snapshot_current(struct tamis_store *store, struct tamis_snapshot **out,
                           struct tamis_diag *diag);
/* Makes a snapshot of filters that the caller opened, without a catalog: segment i is
 * filters[i], and i its rank. The filters stay the caller's and must outlive it. count:
 * 1 counts its probes (tamis_store_count()), 0 does not. ERR_RANGE, ENOMEM. */
int tamis_snapshot_from_filters(struct tamis_filter *const *filters, size_t n,
                                int count, struct tamis_snapshot **out);
/* Gives back one result. The last release of a snapshot frees it. */
void tamis_snapshot_release(struct tamis_snapshot *snapshot);

/* A segment as a probe's target, and what the caller requires of it. A zeroed target
 * answers MAYBE/UNKNOWN_SEGMENT. In another snapshot than its own it answers
 * MAYBE/MISMATCH. */
struct tamis_target {
    uint32_t ordinal; /* its number + 1; 0: none */
    uint32_t refusal; /* a tamis_reason that answers every probe, or 0 */
    uint64_t min_watermark;
    uint64_t snapshot; /* its number; no two of a process have the same */
};

/* Finds a segment by name. ERR_NO_SEGMENT: it is unknown. ERR_MISMATCH: its binding
 * differs (NULL: any). ERR_DAMAGED, ERR_VERSION: its record is unreadable. If no
 * segment has that name, but a pack cannot say whether it has it, the result says why:
 * ERR_DAMAGED, ERR_MISMATCH, or an errno such as ENOENT or EMFILE. The result is the
 * same if another pack has the segment while the list is not complete, or if both have
 * it. After any error the target is usable: it answers MAYBE with that reason. If the
 * list is not confirmed (tamis_store_confirm()), a target that was found without a
 * binding, or with an empty one, answers MAYBE/MISMATCH, and the result is 0. */
int tamis_snapshot_find(const struct tamis_snapshot *snapshot, const void *name,
                        size_t name_bytes, const void *binding, size_t binding_bytes,
                        uint64_t min_watermark, struct tamis_target *target);
/* Finds n segments, by the name and binding of each identity. errors, which may be
 * NULL, gets the result of each. Returns how many results are 0. It is fastest if the
 * names are in the order of their bytes. */
size_t tamis_snapshot_find_many(const struct tamis_snapshot *snapshot,
                                const struct tamis_identity *wanted, size_t n,
                                uint64_t min_watermark, struct tamis_target *targets,
                                int *errors);
/* Turns n targets of `from` into targets of `to`, another snapshot of the same store,
 * for the segments with the same names and bindings, at the same watermarks. Returns
 * how many were carried. The others answer MAYBE: UNKNOWN_SEGMENT if `to` does not list
 * the segment; MISMATCH if its binding is another, if the target is not one of `from`,
 * or if the list of `to` is not complete, so that names have to be found anew. A target
 * that was refused stays refused. For an unchanged segment it takes some 20 ns. */
size_t tamis_snapshot_carry(const struct tamis_snapshot *from,
                            const struct tamis_snapshot *to,
                            struct tamis_target *targets, size_t n);
struct tamis_snapshot_info {
    struct tamis_domain domain;
    size_t n_segments;
    size_t n_numbers; /* all numbers are below: the bits of a bitmap over all */
    size_t n_packs;
    /* 1: every segment of the engine is listed. 0: perhaps not, for the list is not
     * confirmed (tamis_store_confirm()), or records of packs do not agree (repair the
     * store): then no query proves "absent everywhere". */
    int complete;
    uint64_t reserved[4]; /* 0 */
};
/* Describes a snapshot; if it is NULL, all fields are zero. */
struct tamis_snapshot_info tamis_snapshot_info(const struct tamis_snapshot *snapshot);
/* Moves *index on to the next number of a segment, unless it is one; 0: there is none.
 * To visit all: for (size_t i = 0; tamis_snapshot_next(s, &i); i++). */
int tamis_snapshot_next(const struct tamis_snapshot *snapshot, size_t *index);
/* Returns the target of a segment by number, as if found without a binding. */
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
    /* Growing: as the catalog noted them last. file_bytes of a column: its share of the
     * rows; 0: its pack is lost. */
    uint64_t keys, file_bytes, watermark, generation, created;
    double error;
    char file[64]; /* within the store directory, a pack perhaps; empty if none */
};
/* Describes a segment by number. ERR_NO_SEGMENT: no segment has it. A column whose
 * entry in its pack cannot be read has no name, and the state 0. */
int tamis_snapshot_segment(const struct tamis_snapshot *snapshot, size_t index,
                           struct tamis_segment_info *info);
/* Returns the filter of a segment, opened now if need be. Use it for info, verify and
 * the like, then close it by tamis_filter_close(), once for each call, before the
 * snapshot is released. Its answers are about its own keys, whether the list is
 * confirmed or not. A column of a pack is copied into memory at each call. Any other
 * filter is the snapshot's, and stays open. If the process has 1024 filters mapped
 * already, a filter that is not open yet is opened for this caller alone, and probes do
 * not learn of bad pages that it finds. In a snapshot of filters it is the caller's own
 * filter, which stays open until each result of this call, too, was closed. */
int tamis_snapshot_filter(struct tamis_snapshot *snapshot, size_t index,
                          struct tamis_filter **out, struct tamis_diag *diag);
/* Opens the list of a segment's hashes, for the caller, who closes it by
 * tamis_filter_close(). ERR_NO_SEGMENT: it has none. ERR_MISMATCH: the file is not the
 * list that the catalog means. */
int tamis_snapshot_list(const struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **out, struct tamis_diag *diag);
/* The place of a segment's filter in a pack. */
struct tamis_pack_place {
    uint8_t uuid[TAMIS_UUID_BYTES]; /* the pack's */
    uint64_t n_blocks;              /* of the band, per lane */
    uint32_t lanes, words, band;
    uint32_t column, n_columns, row_bytes; /* of the band */
    uint32_t n_columns_of_pack;            /* dead ones among them */
    uint32_t n_bands_of_pack;
};
/* Gets the pack that answers for a segment, the segment's place in it, and the pages of
 * the pack that hold rows of the segment (each output may be NULL). The pack belongs to
 * the snapshot: do not close it. As a filter it answers for all of its columns
 * together. Pages that failed a check until now are damaged: tamis_filter_verify() of
 * the pack checks all. Other damaged pages of the pack change no answer about the
 * segment: they hold other rows, or the table of columns, which repacking and repair
 * read. ERR_NO_SEGMENT: no pack has a column of the segment. ERR_MISMATCH: the table of
 * columns has another segment or filter in its place. Any other error says why the
 * pack, or the .dead file beside it, does not answer. The UUID in *place is the UUID of
 * the pack that should, or zeros. */
int tamis_snapshot_pack(struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **pack, struct tamis_pack_place *place,
                        struct tamis_verify *pages);
/* A pack of a snapshot. */
struct tamis_pack_info {
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_filter *pack; /* NULL: it does not answer, */
    int error;                 /* for this reason: an errno or a code */
    size_t first;              /* the number of its first column */
    size_t n_columns, n_bands; /* 0: unknown */
    size_t n_listed;           /* segments that are columns */
    size_t n_overridden;       /* segments below `first` whose filter is a column */
};
/* Describes a pack by number, from 0 to n_packs - 1 (else ERR_RANGE). */
int tamis_snapshot_pack_info(struct tamis_snapshot *snapshot, size_t number,
                             struct tamis_pack_info *out);

struct tamis_prepare_options {
    size_t size;
    int warm;              /* 1: reads and maps all pages that are not in memory */
    uint64_t lock_bytes;   /* locks at most so much in memory, in all; 0: locks stay */
    tamis_progress_fn *fn; /* may be NULL; not while filters are opened */
    void *ctx;
    const struct tamis_target *targets; /* NULL: all segments */
    size_t n_targets;
};
struct tamis_prepare_report {
    uint64_t n_open;     /* segments whose filter is open */
    uint64_t n_skipped;  /* without a filter, or targets that are refused */
    uint64_t n_failed;   /* could not be opened: MAYBE */
    uint64_t n_unread;   /* open, but a page is unavailable */
    uint64_t open_bytes; /* that probes of the open filters use */
    uint64_t warm_bytes; /* read, or found in memory */
    uint64_t locked_bytes;
    int lock_error; /* 0, or EPERM, ENOMEM, EAGAIN: what kept it from locking more */
};
/* Opens filters ahead of their first probe: packs, then others in the order of ranks.
 * Then it locks them in that order until lock_bytes are used up, the last one in part.
 * It reads the locked parts, or everything if `warm` is set.
 *
 * A call for each new snapshot keeps to the budget: it unlocks filters that an earlier
 * call locked if they come too late in the order or are no targets, or if a pack
 * answers in their place now. A filter that is listed twice counts once. A filter that
 * only older snapshots have stays locked until they are released. A forked child has
 * none of the locks. Holes of a file count, as they do for the kernel.
 *
 * The report has two things that are no error: a limit of locked memory that is too
 * low, and a filter that cannot be opened or read, as its file may be lost, or dropped
 * since. diag describes the first such filter, even if the result is 0. *report, which
 * may be NULL, is always complete. ECANCELED: fn stopped it. ENOMEM, ERR_RANGE. */
int tamis_snapshot_prepare(struct tamis_snapshot *snapshot,
                           const struct tamis_prepare_options *opt,
                           struct tamis_prepare_report *report,
                           struct tamis_diag *diag);

/* Asks one segment for one key. *why, which may be NULL, gets the reason. */
enum tamis_answer tamis_snapshot_probe(struct tamis_snapshot *snapshot,
                                       const struct tamis_target *target,
                                       const struct tamis_key *key,
                                       enum tamis_reason *why);
/* The same, explained as by tamis_filter_explain(), or by the key range. If the range
 * proves the answer, the filter is not asked. Statistics do not count it. */
enum tamis_answer tamis_snapshot_explain(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *target,
                                         const struct tamis_key *key,
                                         struct tamis_explanation *out);
/* One question: which of these segments may have which of these keys? It is asked in
 * the way that is fastest for so many keys and segments. Fields that are zero ask for
 * nothing. One struct may be used for many questions. */
struct tamis_query {
    size_t size;
    /* A list of n_targets segments. Or `all` is 1 and there is no list: the targets are
     * all numbers; those that no segment has are MAYBE. */
    const struct tamis_target *targets;
    size_t n_targets;
    int all;
    /* n_keys keys. Or, without their bytes, n_keys hashes of the domain of this tag,
     * about which key ranges say nothing. */
    const struct tamis_key *keys;
    const uint64_t *hashes;
    uint64_t tag;
    size_t n_keys;
    /* Outputs, with a row for each key. Each may be NULL; all are cleared first. n is
     * n_targets, or n_numbers of tamis_snapshot_info(). */
    uint64_t *absent;          /* rows of (n + 63) / 64 words: bit j of row i is set
                                * if key i is ABSENT from target j */
    uint64_t *absent_from_all; /* (n_keys + 63) / 64 words: bit i is of key i */
    uint8_t *reasons; /* rows of n bytes, a tamis_reason each; with n_candidates,
                       * rows of max_candidates: of the candidates that are written */
    /* With `all` only: the segments that are not proven to lack key i. n_candidates[i]
     * is how many there are. Row i of `candidates`, which needs n_candidates, too, gets
     * the numbers of the first max_candidates of them, or fewer. They come in the order
     * of ranks; in the order of numbers if nothing can be proven, because the list of
     * segments is not complete or the key is of another domain. If there are none, but
     * the key is not in absent_from_all, nothing is proven: no segment can be named. */
    uint32_t *candidates;
    size_t max_candidates, *n_candidates;
};
/* Asks. Returns the number of keys that are ABSENT from all of the targets; without
 * targets, 0. With `all` this needs a complete list, too (`complete` of
 * tamis_snapshot_info()). Whatever cannot be asked is MAYBE, and no error. Some
 * questions make no sense: no snapshot, keys and hashes or neither, a list and `all`,
 * no list of n_targets, candidates with a list or without n_candidates. Then the result
 * is 0, all answers are MAYBE, and diag, which may be NULL, has ERR_RANGE. But with
 * `all` and a list that is not empty, only as many answers are written as the shorter
 * of them has; and none if the size is wrong. */
size_t tamis_snapshot_query(struct tamis_snapshot *snapshot,
                            const struct tamis_query *query, struct tamis_diag *diag);
