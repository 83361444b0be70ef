#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- snapshot: ask many segments -----------------------------------------
 *
 * The segments of a store as of one moment. A snapshot opens filters on first use,
 * shares them with other snapshots, and may outlive the store. Threads: all calls at
 * once, a release for each reference. Fork: usable.
 *
 * NUMBERS. Segments have numbers within a snapshot: first those with a record of their
 * own, by rank, then name; then the columns of each pack. Numbers in between are of no
 * segment: tamis_snapshot_next() skips them, and bitmaps leave them MAYBE.
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
 * filters. Growing filters are always mapped. Packs are, too; at most 64 packs of a
 * process, of more than 128 KiB of bits or checked strictly, keep a descriptor. */

struct tamis_snapshot;

/* Gets the store's segments as of now; release each result. If nothing has changed
 * since the last call it is a comparison without a system call. Every half second it
 * looks whether the path of the store still names it (ERR_REPLACED), and tries again
 * where a pack or its tombstones could not be read. If one can be, the result is
 * another snapshot than the last. */
int tamis_snapshot_current(struct tamis_store *store, struct tamis_snapshot **out,
                           struct tamis_diag *diag);
/* Makes a snapshot of filters that the caller opened, without a catalog: segment i is
 * filters[i], and ranks are the order. The filters stay the caller's and must outlive
 * it. count: 1 counts its probes (tamis_store_count()), 0 does not. */
int tamis_snapshot_from_filters(struct tamis_filter *const *filters, size_t n,
                                int count, struct tamis_snapshot **out);
void tamis_snapshot_release(struct tamis_snapshot *snapshot);

/* A segment as a probe's target, and what the caller requires of it. A zeroed target
 * answers MAYBE/UNKNOWN_SEGMENT. In any other snapshot than its own a target answers
 * MAYBE/MISMATCH. */
struct tamis_target {
    uint32_t slot;    /* index + 1; 0: none */
    uint32_t refusal; /* a tamis_reason that answers every probe, or 0 */
    uint64_t min_watermark;
    uint64_t snapshot; /* its number; no two of a process have the same */
};

/* Finds a segment by name. ERR_NO_SEGMENT if it is unknown, ERR_MISMATCH if its binding
 * differs (NULL: any), ERR_DAMAGED or ERR_VERSION if its record is unreadable. If no
 * segment is found by that name, but a pack cannot say whether it has it, the result is
 * why: ERR_DAMAGED, ERR_MISMATCH, or an errno such as ENOENT or EMFILE; so it is if
 * another pack has it, as long as the list is not complete, or both have it. The
 * target is usable all the same: it answers MAYBE with that reason. If the list is not
 * confirmed (tamis_store_confirm()), a target that was found without a
 * binding, or with an empty one, answers MAYBE/MISMATCH, and the result is 0. */
int tamis_snapshot_find(const struct tamis_snapshot *snapshot, const void *name,
                        size_t name_bytes, const void *binding, size_t binding_bytes,
                        uint64_t min_watermark, struct tamis_target *target);
/* The same of n segments, by the name and binding of each identity. errors, which may
 * be NULL, gets the result of each. Returns how many were found. It is fastest if the
 * names are in the order of their bytes. */
size_t tamis_snapshot_find_many(const struct tamis_snapshot *snapshot,
                                const struct tamis_identity *wanted, size_t n,
                                uint64_t min_watermark, struct tamis_target *targets,
                                int *errors);
/* Turns n targets of `from` into targets of `to`, another snapshot of the same store:
 * of the segments with the same names and bindings, at the same watermarks. Returns how
 * many were carried. The others answer MAYBE: UNKNOWN_SEGMENT if `to` does not list the
 * segment; MISMATCH if its binding is another, if the target was not of `from`, or if
 * the list of `to` is not complete, so that names have to be found anew. A target that
 * was refused stays refused. For an unchanged segment it takes some 20 ns. */
size_t tamis_snapshot_carry(const struct tamis_snapshot *from,
                            const struct tamis_snapshot *to,
                            struct tamis_target *targets, size_t n);
/* What a snapshot has; of NULL all fields are zero. */
struct tamis_snapshot_info {
    struct tamis_domain domain;
    size_t n_segments;
    size_t n_numbers; /* all numbers are below: so many bits has a bitmap over all */
    size_t n_packs;
    /* 1: every segment of the engine is listed. 0: perhaps not, for the list is not
     * confirmed (tamis_store_confirm()), or what the catalog says of a pack does not
     * agree (repair it): nothing that the snapshot lists proves "absent everywhere". */
    int complete;
    uint64_t reserved[4]; /* 0 */
};
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
    /* Growing: as last noted. The file_bytes of a column are its share of the rows;
     * 0: its pack is lost. */
    uint64_t keys, file_bytes, watermark, generation, created;
    double error;
    char file[64]; /* within the store directory, a pack perhaps; empty if none */
};
/* ERR_NO_SEGMENT: the number is of no segment. A column whose entry in its pack cannot
 * be read is described without a name, with the state 0. */
int tamis_snapshot_segment(const struct tamis_snapshot *snapshot, size_t index,
                           struct tamis_segment_info *info);
/* Returns the filter of a segment, opened now if need be. Use it for info, verify and
 * the like, then close it by tamis_filter_close(), once for each call, before the
 * snapshot is released. Its answers are about its own keys, whether the list is
 * confirmed or not. A column of a pack is copied into memory at each call. Any other
 * filter is the snapshot's, and stays open, unless the process has 1024 of them mapped
 * already: then probes learn nothing of a page that it finds bad. In a snapshot of
 * filters it is the owner's, whose own close does not close
 * it before all calls are closed. */
int tamis_snapshot_filter(struct tamis_snapshot *snapshot, size_t index,
                          struct tamis_filter **out, struct tamis_diag *diag);
/* Opens the list of a segment's hashes, for the caller, who closes it by
 * tamis_filter_close(). ERR_NO_SEGMENT: it has none. ERR_MISMATCH: the file is not the
 * list that the catalog means. */
int tamis_snapshot_list(const struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **out, struct tamis_diag *diag);
/* Where a segment's filter is in a pack. */
struct tamis_pack_place {
    uint8_t uuid[TAMIS_UUID_BYTES]; /* the pack's */
    uint64_t n_blocks;              /* of the band, per lane */
    uint32_t lanes, words, band;
    uint32_t column, n_columns, row_bytes; /* of the band */
    uint32_t n_columns_of_pack;            /* dead ones among them */
    uint32_t n_bands_of_pack;
};
/* The pack that answers for a segment, the segment's place in it, and the pages of the
 * pack that hold rows of the segment (each may be NULL). The pack belongs to the
 * snapshot: do not close it. As a filter it answers for all of its columns together.
 * Pages that failed a check until now are damaged: tamis_filter_verify() of the pack
 * checks all. Other damaged pages of the pack change no answer about the segment. They
 * are of other rows, or of the table of columns, which repacking and repair read.
 * ERR_NO_SEGMENT: no pack has a column of the segment. ERR_MISMATCH: the table of
 * columns has another segment or filter in its place. Any other error, an errno or a
 * code, says why the pack, or the .dead file beside it, does not answer. The UUID in
 * *place is that of the pack that should, or zeros. */
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
/* Packs are numbered from 0 on, below n_packs. ERR_RANGE: there is none. */
int tamis_snapshot_pack_info(struct tamis_snapshot *snapshot, size_t number,
                             struct tamis_pack_info *out);

struct tamis_prepare_options {
    size_t size;
    int warm;              /* 1: reads and maps all pages that are not in memory */
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
    uint64_t n_unread;   /* open, but a page is unavailable */
    uint64_t open_bytes; /* that probes use, of the open filters */
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
 * Two things are no error, and stand in the report: a limit of locked memory that is
 * too low, and a filter that cannot be opened or read, because its file may be lost, or
 * dropped since. diag describes the first filter that could not be opened or read, even
 * if the result is 0. *report,
 * which may be NULL, is always complete. ECANCELED if fn stopped it; ENOMEM, ERR_RANGE.
 */
int tamis_snapshot_prepare(struct tamis_snapshot *snapshot,
                           const struct tamis_prepare_options *opt,
                           struct tamis_prepare_report *report,
                           struct tamis_diag *diag);

/* Asks one segment for one key. */
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
     * all segments, by number. No segment has some numbers: these are MAYBE. */
    const struct tamis_target *targets;
    size_t n_targets;
    int all;
    /* n_keys keys. Or, without their bytes, n_keys hashes of the domain of this tag,
     * about which key ranges say nothing. */
    const struct tamis_key *keys;
    const uint64_t *hashes;
    uint64_t tag;
    size_t n_keys;
    /* Where the answers go: a row for each key. Each may be NULL. n is n_targets, or
     * n_numbers of tamis_snapshot_info(). All are cleared first. */
    uint64_t *absent;          /* rows of (n + 63) / 64 words: bit j of row i is set
                                * if key i is ABSENT from target j */
    uint64_t *absent_from_all; /* (n_keys + 63) / 64 words: bit i is of key i */
    uint8_t *reasons;          /* rows of n bytes, a tamis_reason each */
    /* Of all segments only: those that are not proven to lack key i. n_candidates[i]
     * says how many they are. The first max_candidates of them, or fewer, are the
     * numbers in row i of `candidates`, which needs n_candidates, too. They come in the
     * order of ranks; in that of numbers if nothing can be proven, because the list of
     * segments is not complete or the key is of another domain. None, and not
     * absent_from_all: no segment can be named, but nothing is proven either. */
    uint32_t *candidates;
    size_t max_candidates, *n_candidates;
};
/* Asks. Returns the number of keys that are ABSENT from all of the targets, of which
 * there is at least one. For all segments this needs a complete list, too (`complete`
 * of tamis_snapshot_info()). Whatever cannot be asked is MAYBE, and no error. diag,
 * which may be NULL, gets ERR_RANGE, and the result is 0, if the question is none: no
 * snapshot, keys and hashes or neither, a list and `all`, no list of n_targets,
 * candidates of a list or without n_candidates. Then all answers are MAYBE, too. If the
 * size is wrong, none is written. */
size_t tamis_snapshot_query(struct tamis_snapshot *snapshot,
                            const struct tamis_query *query, struct tamis_diag *diag);
