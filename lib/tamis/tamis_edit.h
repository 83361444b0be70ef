#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- edit: change the list of segments, all or nothing -------------------
 *
 * Files are written as segments are put; names take effect together, at commit. An edit
 * sees its own changes in order. A put of a name that a segment has is ERR_EXISTS, at
 * once or at the commit, unless the segment is dropped before or `replace` says to drop
 * it. Threads: puts at once, each with its own builder; else one at a time. Processes
 * commit in turns. Fork: ERR_FORKED. */

struct tamis_edit;
struct tamis_snapshot;

struct tamis_segment_options {
    size_t size;
    const void *binding; /* identifies the engine's own file */
    size_t binding_bytes;
    uint32_t rank;      /* the engine's order: newest, or top level, first */
    uint64_t watermark; /* for a built filter; a growing one gets it by commits */
    /* For a filter to be built: as in tamis_builder_options. */
    uint64_t memory_limit;
    uint32_t n_threads;
    uint64_t check;
    uint64_t list_bits; /* the segment gets a list, too, in a file of its own */
    uint64_t kind;      /* TAMIS_BLOOM (or 0) or TAMIS_RIBBON */
    int replace;        /* drops the segment that has the name, if there is one */
};

struct tamis_edit_options {
    size_t size;
    int64_t timeout_ms; /* for the begin, and for the commit */
    /* 1: for dry runs of tamis_edit_pack() alone. It removes no file, the store may be
     * read-only, and other calls with the edit, but abort, are ERR_READ_ONLY. */
    int dry_run;
};

/* Begins an edit, which ends with a commit or an abort. Until then repair waits, and
 * tamis_store_orphans() returns ERR_BUSY. It waits while one of these runs, or while
 * another process removes files that dead edits left. The first edit of a process in a
 * store removes them if no other edit is under way: all filters that the catalog does
 * not name, unless one is another store's. The diag then says how many files went,
 * with code 0 if the begin succeeds; no abort brings them back.
 * ERR_BUSY: the wait is over. ERR_READ_ONLY, ERR_REPLACED, ERR_FORKED; ERR_NETWORK: the
 * store lies on a network file system; ERR_RANGE; ENOMEM. */
int tamis_edit_begin(struct tamis_store *store, const struct tamis_edit_options *opt,
                     struct tamis_edit **out, struct tamis_diag *diag);
/* Creates a builder for a filter of this store, to be passed to tamis_edit_put(). It
 * computes the key range from keys that are added by key.
 *
 * error 0: the store's default, which filters of one edit meet on average. There are
 * few sizes, so most filters are better than their target. Some others get the next
 * smaller size, and an expected error of up to 1.5 times the target, which their
 * records then state. The mean of the expected errors over the segments is never above
 * the target, and neither is the mean with their keys as weights. Filters of the same
 * keys may then differ in blocks. A filter meets an error that is given by itself, even
 * the default, and so does one with more than TAMIS_EDIT_BALANCED_KEYS keys. */
enum { TAMIS_EDIT_BALANCED_KEYS = 1048576 };
int tamis_edit_builder(struct tamis_edit *edit, const void *name, size_t name_bytes,
                       double error, const struct tamis_segment_options *opt,
                       struct tamis_builder **out, struct tamis_diag *diag);
/* Chooses the size of the builder's filter now, for the keys that it has; without this
 * call tamis_edit_put() does. Sizes depend on those chosen before, so puts in several
 * threads make other files with each run. They make the same files if one thread, or
 * threads in a fixed order, choose the sizes first. If keys are added afterwards, the
 * put chooses anew. A put that fails takes the size back: if other sizes relied on it,
 * the next filters make up for that. A builder that is not put still counts in the
 * mean. Threads: as tamis_edit_put(). It writes nothing. ERR_RANGE: no builder. */
int tamis_edit_size(struct tamis_edit *edit, struct tamis_builder *builder,
                    struct tamis_diag *diag);
/* Finishes the builder, writes its file and the file of its list, and registers its
 * segment, with the name and binding of `as`, or if that is NULL, of the builder. Many
 * engines know them only after the last key. A store_uuid in `as` is ignored. The list
 * has the life of the segment: it is dropped with it, and stays when the filter is
 * packed or unpacked. The caller still frees the builder. */
int tamis_edit_put(struct tamis_edit *edit, struct tamis_builder *builder,
                   const struct tamis_identity *as, struct tamis_diag *diag);
/* Registers a segment without a filter: probes of it answer MAYBE/NO_FILTER. */
int tamis_edit_put_bare(struct tamis_edit *edit, const void *name, size_t name_bytes,
                        const struct tamis_segment_options *opt,
                        struct tamis_diag *diag);
/* Registers a segment with an empty growing filter. growth NULL: the defaults. */
int tamis_edit_put_growing(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const struct tamis_growth *growth,
                           const struct tamis_segment_options *opt,
                           struct tamis_diag *diag);
/* Copies a sealed filter file into the store, and checks every page on the way. Its
 * domain must be the store's. If the file names a segment, a store or a binding, these
 * must be `name`, this store, and the binding of opt, if that has one.
 *
 *   ERR_RANGE     it is still growing
 *   ERR_UNFIT     a list or a pack
 *   ERR_EXISTS    the store has a file with its UUID, even a damaged one; or a segment
 *                 of this name, without `replace`
 *   ERR_MISMATCH  the domain, the name, the store or the binding differs
 *   ERR_DAMAGED   a page fails its check, or the file is too short */
int tamis_edit_attach(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const char *path, const struct tamis_segment_options *opt,
                      struct tamis_diag *diag);
/* ---- packs: the filters of many segments, side by side in one file ----
 *
 * A key is asked of all its segments in a few cache lines. Queries use packs by
 * themselves. */
enum tamis_repack {
    TAMIS_REPACK_NONE, /* segments that are in a pack stay there */
    TAMIS_REPACK_ALL,  /* they are taken, too */
    /* The library chooses: segments that are in no pack; packs with at most half of
     * their columns living; and four or more packs of the new pack's size class or
     * below. `segments` must be NULL. */
    TAMIS_REPACK_AUTO
};
struct tamis_pack_options {
    size_t size;
    enum tamis_repack repack;
    /* Not 0: writes nothing, and reports what would be. It looks for damage as when the
     * pack is written, so it reads each filter and each pack that is taken. */
    int dry_run;
    /* The calling thread and up to n_threads - 1 others read the filters and turn them,
     * at most 8 in all (0: 1). The caller's thread alone writes. The pack is the same
     * for any number. More than 16384 files are packed by one thread. The other threads
     * block all signals but SIGBUS: a handler of that must not jump out of them. */
    uint64_t n_threads;
};
/* Why a segment is left as it was. */
enum tamis_left {
    TAMIS_LEFT_NONE,
    TAMIS_LEFT_PACKED,     /* in a pack already */
    TAMIS_LEFT_BARE,       /* without a filter */
    TAMIS_LEFT_GROWING,    /* not sealed */
    TAMIS_LEFT_STAGES,     /* of several stages */
    TAMIS_LEFT_UNREADABLE, /* damaged or unreadable, or its pack is lost */
    TAMIS_LEFT_REPLACED,   /* since the snapshot, or dropped */
    /* In rows with few others the filter would take much more than its own file: twice
     * as much, or if 256 or more filters are packed, a 256th of all their bytes. */
    TAMIS_LEFT_LARGER,
    TAMIS_LEFT_NEWER, /* a pack would lose a feature of a newer version */
    TAMIS_LEFT_RIBBON,
    TAMIS_LEFT_REASONS /* the number of reasons */
};
struct tamis_pack_report {
    /* Segments in the pack. If another process replaces or drops one meanwhile, that
     * stands. */
    uint64_t n_packed;
    uint64_t n_bands, rows_bytes, file_bytes;
    uint8_t uuid[16];    /* of the pack; zeros if there is none */
    uint64_t n_repacked; /* of n_packed: those that came from other packs */
    uint64_t free_bytes; /* of the file system, before the pack is written */
    uint64_t n_loose;    /* tamis_edit_put_packed(): got files of their own */
    uint64_t n_left[TAMIS_LEFT_REASONS]; /* left as they were, by reason */
    /* The first segment that was left, by its number in the snapshot, and why. One that
     * was replaced comes after all others. TAMIS_LEFT_NONE: none was left. */
    uint32_t first_left;
    enum tamis_left why_left;
};
/* Writes a pack of n segments of a snapshot of this store (segments NULL: of all), with
 * what may be packed: filters that are sealed, of one stage, and good in every page. A
 * filter that would grow stays in its file: TAMIS_LEFT_LARGER. A segment that is listed
 * twice is packed once. With nothing to pack it returns 0, and report->n_packed is 0.
 * The filters are folded where that keeps their error. The pack takes effect at commit,
 * for segments whose filter is still the same then; others stay as they are. Columns
 * that other packs had of these segments are dead from then on, and a pack without a
 * living column is removed, as are the segments' own files: until then the disk holds
 * both. Snapshots that were taken before go on, if they have the files open; else they
 * answer MAYBE/FILE_LOST for those segments. Memory: 6 MiB a thread beside the
 * mappings, and 90 bytes a segment. ERR_RANGE: more than 1048576 segments, or more than
 * 4096 sizes. ERR_MISMATCH: a snapshot of another store. ENOSPC: the pack would not
 * fit; nothing was written. Another errno: a filter cannot be read, which says nothing
 * about it. report may be NULL. */
int tamis_edit_pack(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                    const uint32_t *segments, size_t n,
                    const struct tamis_pack_options *opt,
                    struct tamis_pack_report *report, struct tamis_diag *diag);
/* ---- packs of new segments, without a file for each ----
 *
 *     tamis_edit_packer()
 *     for each segment: tamis_edit_builder(), tamis_builder_add_keys() ...,
 *                       tamis_packer_take(), tamis_builder_free()
 *     tamis_edit_put_packed(), tamis_packer_free()
 *
 * Columns have just the size that their keys need, so this takes fewer bytes than
 * packing files. Threads: one at a time. Fork: ERR_FORKED. */
struct tamis_packer;
struct tamis_packer_options {
    size_t size;
    /* For a file without a name: 8 bytes a key and lane, and some 150 a segment.
     * Default $TMPDIR, else /tmp. */
    const char *spool_dir;
};
/* Begins a pack. Free the packer before the edit is committed or aborted. */
int tamis_edit_packer(struct tamis_edit *edit, const struct tamis_packer_options *opt,
                      struct tamis_packer **out, struct tamis_diag *diag);
/* Takes the keys of a builder of this store, and what else it says of the segment. The
 * caller still frees the builder. A builder with spooled hashes is too large for a
 * column: the put makes its file. `check` of the builder has no effect here. Memory: 16
 * bytes a key of the largest segment, and 64 bytes a segment. ERR_EXISTS: the name is
 * taken. ERR_MISMATCH: the builder is of another store. ERR_UNFIT: it has list_bits or
 * `replace`, or makes a ribbon. ERR_RANGE: the packer's pack is written, by
 * tamis_edit_put_packed(). After a failure the packer is as before. */
int tamis_packer_take(struct tamis_packer *packer, struct tamis_builder *builder,
                      struct tamis_diag *diag);
/* Writes the pack of all segments that were taken, and registers them. They exist from
 * the commit on. Without any it returns 0, and n_packed is 0. Another take or put is
 * ERR_RANGE then. ERR_RANGE, ENOSPC: as tamis_edit_pack(). report may be NULL. */
int tamis_edit_put_packed(struct tamis_edit *edit, struct tamis_packer *packer,
                          struct tamis_pack_report *report, struct tamis_diag *diag);
void tamis_packer_free(struct tamis_packer *packer);
/* Writes the columns of n segments of a snapshot of this store as files of their own
 * again, with new UUIDs. At commit the segments have them, unless another edit has
 * replaced one meanwhile: then the commit fails with ERR_MISMATCH, and changes nothing.
 * Answers, bindings, ranks, ranges and watermarks stay. ENOSPC: the files would not
 * fit; none was written. ERR_NO_SEGMENT: a segment is in no usable pack. ERR_DAMAGED: a
 * page of its rows, or of the pack's table of columns, fails its check. ERR_MISMATCH:
 * the table has another filter in its place. ERR_VERSION: a segment has a feature of a
 * newer version. After a failure abort the edit. */
int tamis_edit_unpack(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                      const uint32_t *segments, size_t n, struct tamis_diag *diag);
/* Makes a filter from n segments of a snapshot of the same store, without their keys,
 * as tamis_filter_derive(), and registers it under a name. `segments` has their
 * numbers. Their filters must be sealed (else ERR_UNFIT), and the list must be
 * confirmed (else ERR_MISMATCH: tamis_store_confirm()). They stay listed unless they
 * are dropped. The same edit may drop them, but the one whose name the result takes
 * must be dropped by `replace`. It must still have the filter that was read, else the
 * commit fails with ERR_MISMATCH (ERR_NO_SEGMENT: it is gone). ERR_RANGE: it was
 * dropped first, perhaps with a newer filter of another process, whose keys would be
 * lost. With `replace` a fold or shrink keeps the source's list of hashes, and the
 * commit also fails if the source was packed or unpacked meanwhile. If the key ranges
 * of all sources are known, the result has one. The caller sets the watermark (0:
 * none). report may be NULL. */
int tamis_edit_derive(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                      const struct tamis_derivation *what,
                      const struct tamis_segment_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag);
/* Makes the filter of a segment of a snapshot of this store anew from its list, without
 * keys: with this error (0: the store's default). Name, binding, rank, watermark and
 * key range stay, and so does the list. memory_limit, n_threads, check and kind of opt
 * count. kind 0: a ribbon stays a ribbon. If another edit replaces, packs or unpacks
 * the segment meanwhile, the commit fails with ERR_MISMATCH. ERR_NO_SEGMENT: it has no
 * list. ERR_UNFIT: the list is cut. ERR_DAMAGED: a page of the list fails its check.
 * ERR_VERSION: the segment has a feature of a newer version, which a new filter would
 * lack. After a failure abort the edit. */
int tamis_edit_from_list(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                         size_t index, double error,
                         const struct tamis_segment_options *opt,
                         struct tamis_diag *diag);
/* Makes a list and a filter from the lists of n segments of a snapshot of this store,
 * without keys, and registers them under a name, as tamis_edit_derive(). Use it for
 * the output of a compaction that drops no key; if it dropped some, the filter has keys
 * that the segment lacks, which costs reads. error 0: the store's default. report may
 * be NULL. Errors as of tamis_list_merge() and tamis_edit_from_list(). */
int tamis_edit_merge(struct tamis_edit *edit, const void *name, size_t name_bytes,
                     struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                     double error, const struct tamis_segment_options *opt,
                     struct tamis_merge_report *report, struct tamis_diag *diag);
/* A condition of a drop or an update: otherwise the commit returns ERR_MISMATCH, or
 * ERR_NO_SEGMENT if the segment is gone. Another process may have replaced the segment
 * meanwhile. With the UUID of a snapshot's info, a filter that was read to derive
 * another from it is dropped with no key lost. With a binding, only the segments of one
 * engine's files are dropped, even those without a filter. */
struct tamis_drop_if {
    const uint8_t *uuid; /* its filter has this UUID, of 16 bytes; NULL: any, or none */
    int is_bound;        /* it has this binding, of 0..64 bytes; 0 bytes: it has none */
    const void *binding; /* copied */
    size_t binding_bytes;
};
/* Unregisters a segment; its file is removed after the commit. only_if NULL: whatever
 * it is. The commit returns ERR_BUSY if a writer has the segment open, and has not
 * sealed it; the diag names the process. Each growing filter that is dropped takes a
 * descriptor until the commit is done. An unreadable record may have been another
 * segment's: if it is dropped, the list is incomplete from the commit on, see
 * tamis_store_confirm(). A dropped record of a newer version may do the same. All this
 * holds for tamis_edit_reconcile() and `replace`, too. ERR_NO_SEGMENT. */
int tamis_edit_drop(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    const struct tamis_drop_if *only_if, struct tamis_diag *diag);
/* Gives a segment the rank of `to`, and its binding, unless that is NULL (0 bytes: it
 * has none from then on). Nothing else in `to` counts, and the filter stays where it
 * is. With another binding the caller says that the filter has all keys of the file
 * that it names. Name and watermark stand in the filter's own file, so they stay; and a
 * repair that makes the catalog anew takes the binding from there. ERR_NO_SEGMENT. At
 * the commit, ERR_VERSION: its record would lose a feature of a newer version. */
int tamis_edit_update(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const struct tamis_segment_options *to,
                      const struct tamis_drop_if *only_if, struct tamis_diag *diag);
/* Makes the list that of the engine's files. Take the snapshot first, then the list of
 * the files that are live, and then call this:
 *
 *   a file of the list   has a segment after the commit. If there is none of its name,
 *                        or one with another binding, one is registered without a
 *                        filter, with this binding and rank 0. A binding that is NULL
 *                        accepts any: give it for what this edit puts or updates.
 *   any other segment    is dropped if the snapshot has it, and the commit still finds
 *                        it with the same filter and binding
 *
 * So a segment stays that this edit has put or updated, or that got its filter after
 * the snapshot. But the list must name each file whose segment was registered before
 * the snapshot and that is about to become live. A store_uuid in `files` is ignored.
 *
 * Nothing that is uncertain is dropped. A segment stays if its pack is lost, cannot say
 * its name, is not on the list any more, or has an unreadable record there or no good
 * tombstones. An unreadable record stays while it may be of such a pack. Then the
 * commit returns 0, and its diag says so, with code 0.
 *
 * ERR_RANGE: a name or a binding that no segment can have.
 * ERR_MISMATCH: the snapshot is of another store, or of a catalog that was replaced. At
 * the commit, too, if the segment of a file got another binding after the snapshot, or
 * has one that is out of scope. ERR_DAMAGED at the commit: no segment of a file's name
 * is found, and a pack cannot tell whether it has one: it is lost, damaged or another
 * one, or the catalog does not agree on it. Repair first. If a pack or its tombstones
 * cannot be opened now (EMFILE, EIO), the commit fails, too. */
struct tamis_reconcile_options {
    size_t size;
    /* For a store that several databases share: only segments whose bindings begin with
     * these bytes are dropped, or replaced. NULL: any. */
    const void *scope;
    size_t scope_bytes;
    /* Room for n, until the commit. It sets a 1 for each file whose segment it
     * registers, and a 0 for one whose segment stays. They count if it returns 0.
     * NULL: nobody wants to know. */
    uint8_t *is_new;
};
int tamis_edit_reconcile(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                         const struct tamis_identity *files, size_t n,
                         const struct tamis_reconcile_options *opt,
                         struct tamis_diag *diag);
/* Applies all changes in one transaction, durable on return, and frees the edit. On
 * failure nothing has changed, and the files that the edit wrote are gone. Files and
 * columns that the edit drops go after the transaction. If that fails, the result is
 * still 0. The diag then names the first that stays, with code 0, and a later edit
 * removes them as it begins. Until then an older catalog that is put back finds them,
 * as it does after a process that died in this call. ERR_BUSY: the wait for another
 * commit is over, or a writer has an unsealed segment open that is to go. Then the
 * edit stays: commit it again, or abort it. ERR_VERSION: a newer version has marked the
 * store as not to be written. ERR_TOO_LARGE: a snapshot has not so many numbers:
 * repack. ERR_DAMAGED: a new pack cannot be read; or segments were to go of a pack
 * without good tombstones, or on which the catalog does not agree: confirm the list, or
 * repair first.
 *
 * The outcome is unknown only if the disk fails or is full while the catalog's last
 * page is written, or before if no reader's slot is free (ERR_CATALOG, EIO, ENOSPC). It
 * is unknown, too, after ERR_REPLACED and after an errno from looking at the catalog's
 * name: the store may have been replaced meanwhile. Open the store again and look. */
int tamis_edit_commit(struct tamis_edit *edit, struct tamis_diag *diag);
/* Removes the files that the edit wrote, and frees it. Nothing has changed. */
void tamis_edit_abort(struct tamis_edit *edit);
