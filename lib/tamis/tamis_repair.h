#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- repair and backup ----------------------------------------------------------
 *
 * Findings go to a function of the caller's. Repair, confirm and orphans call it at the
 * end, when every lock is released. An I/O error is no proof of damage. Threads: all at
 * once. Repair and orphans have the store for themselves, among all processes: a second
 * repair waits, a second call of orphans gets ERR_BUSY. */

enum tamis_repair_action {
    TAMIS_REPAIR_NOTED = 0,   /* nothing was done, `what` says why */
    TAMIS_REPAIR_FINISHED,    /* the work that a dead writer left is finished */
    TAMIS_REPAIR_REBUILT,     /* the catalog, or one record of it, from the files; or a
                                 filter from its segment's list; by confirm: the
                                 tombstones of a pack, or the list without the pack */
    TAMIS_REPAIR_QUARANTINED, /* set aside; its record, if any, has no filter then */
    TAMIS_REPAIR_SWEPT        /* removed: nothing names it */
};

/* Says what mends something that was noted. */
enum tamis_repair_mend {
    TAMIS_MEND_BUILDING = 0, /* the segment, from its keys */
    /* A directory, a link or the like with a name of tamis, to be removed by hand. */
    TAMIS_MEND_REMOVING
};

/* One thing that was found, and its fate. Valid during the call. */
struct tamis_repair_finding {
    enum tamis_repair_action action;
    const char *action_name; /* "swept" */
    /* 1: proofs or a file were lost; 0: no damage: a crash or a person leaves it */
    int damage;
    const uint8_t *name; /* of the segment; NULL: none, or a pack of several */
    size_t name_bytes;
    const char *file; /* within the store directory; "": none */
    const char *what; /* one line */
    /* The errno or TAMIS_ERR_* that kept the filter from being judged or finished; it
     * says nothing about the filter's bytes. 0: no error was in the way. */
    int error;
    enum tamis_repair_mend mend; /* for NOTED */
};
typedef void tamis_repair_fn(void *ctx, const struct tamis_repair_finding *finding);

struct tamis_repair_options {
    size_t size;
    int dry_run;            /* 1: report what would be done, change nothing */
    tamis_repair_fn *found; /* may be NULL */
    void *ctx;
    /* 16 bytes: the UUID of the store, for a lost catalog whose filters disagree. NULL:
     * the catalog or the filters say it. */
    const uint8_t *store_uuid;
    /* Is called with the same ctx between files, in the calling thread; may be NULL. If
     * it returns non-zero, the repair fails with EINTR, and leaves no unfinished file.
     * It may be called while repair has locks: it must not call tamis for this store,
     * nor jump out. Reading one file of any size may lie between two calls. It is also
     * called between the edits that make filters anew from lists, and no more once the
     * rest of the repair has begun to change the catalog. */
    int (*stop)(void *ctx);
    int64_t timeout_ms; /* for edits under way; an edit of this thread never ends */
    tamis_waiting_fn *waiting; /* with the same ctx; may be NULL */
};

struct tamis_repair_report {
    uint64_t n_segments; /* listed in the end */
    uint64_t n_finished, n_rebuilt, n_quarantined, n_swept;
    uint64_t n_damaged; /* noted: damage that repair can't mend */
    uint64_t n_unread;  /* noted: an error kept repair from judging or finishing it */
    int rebuilt;        /* 1: the whole catalog is new */
    int complete;       /* 0: confirm, if it is */
};

/* Repairs a store, durable on return. It records what dead writers finished, removes
 * what was never finished, and moves damaged filters and filters that nothing names to
 * STORE/quarantine/. Segments of damaged filters stay listed without a filter: MAYBE.
 *
 * Before that it makes anew, from their segments' lists of whole hashes, the filters
 * that are lost, damaged or wrong. A filter is wrong if it lacks a hash of its list.
 * Each is an edit of its own (tamis_edit_from_list() with the error that the filter
 * had), so a failure leaves earlier ones made. It reads all lists, and all filters that
 * have one; those with a damaged or cut list are repaired as if they had none.
 *
 * If the catalog is lost, repair makes a new one from the filters, marked incomplete.
 * Segments of filters that were set aside before are listed in it without a filter. A
 * list stays with its segment if it has the same keys as the filter, by their set ids
 * (SPEC.md section 5.3); the next repair makes filters anew from such lists. Until
 * tamis_store_confirm() a segment answers ABSENT only if it is asked for by its binding
 * (SPEC.md section 15).
 *
 * Otherwise a second repair finds nothing to do, but notes again names that are no
 * regular files. An interrupted repair may be run again. Files are judged by reading
 * them, not through a mapping, and finished under their lock: a writer that opens one
 * at that moment gets ERR_BUSY.
 *
 *   ERR_BUSY      the wait for an edit is over; without a catalog: a process has the
 *                 store open
 *   ERR_MISMATCH  the filters belong to several stores and store_uuid chooses none, or
 *                 differs from the catalog's or, without one, from every filter's;
 *                 no record or filter has changed
 *   ERR_NO_STORE  there is nothing to rebuild from
 *   ERR_VERSION   a newer version wrote the catalog, and must repair it
 *   an I/O error  stops a rebuild; otherwise repair leaves its file alone
 *   EINTR         opt->stop wanted it to end
 *
 * *report, which may be NULL, is always complete. After a failure, report and
 * opt->found have what was done, and no more. */
int tamis_store_repair(const char *path, const struct tamis_repair_options *opt,
                       struct tamis_repair_report *report, struct tamis_diag *diag);

struct tamis_confirm_options {
    size_t size;
    int force; /* 1: ignore files in quarantine/, and drop lost packs, and those of
                * which a page of names is damaged: their files are removed */
    /* Is called for each lost pack and each filter in quarantine/ that is in the way
     * (noted), and for each pack that goes or was mended (rebuilt); may be NULL. */
    tamis_repair_fn *found;
    void *ctx;
    int64_t timeout_ms; /* for edits that are being committed */
};

/* Confirms that every segment of the engine is listed, with its own filter; durable on
 * return. Until then a catalog that repair rebuilt, or that lost an unreadable record,
 * is incomplete: it proves neither "absent everywhere" nor anything about a segment
 * that is asked for without a binding. Before the call, compare every segment and
 * binding with the engine's own list. A missing segment means lost keys. So does a
 * segment with the filter of an edit that was never committed: drop it, or put it anew.
 * If the list is confirmed already, the result is 0, and opt->found is still called for
 * filters in the way. In both cases missing or damaged .dead files of packs are made
 * anew, but not those of a newer version (ERR_VERSION); snapshots see these half a
 * second later.
 *
 * With `force` packs that are lost, or have damaged names, go off the list. So do packs
 * on which the catalog does not agree, if they have lost their tombstones: then repair
 * again. The segments of such a pack are unknown, so this call does not confirm the
 * list: the result is 0, diag->code is 0, and diag->what says so (else it is empty).
 * Segments with a record of their own stay listed without a filter, and repair makes it
 * anew if they have a list. Register the others again, and confirm once more.
 *
 * ERR_MISMATCH, and no segment has changed, if STORE/quarantine/ has a filter of this
 * store whose segment is not listed or not known: a segment of the engine may be
 * missing. Put that segment, at least without a filter, or remove the file if the
 * segment is gone. Set `force` only if you compared with the engine's own list. With it
 * a file of quarantine/ that cannot be read is no failure; an error in listing the
 * directory still is. ERR_MISMATCH, too, if a record or a pack's list is damaged:
 * repair first. If repair leaves that list alone because of another pack, which is
 * lost, use `force`. ERR_VERSION: a newer version wrote a pack, or a record that was to
 * change, and must confirm. ERR_READ_ONLY, ERR_RANGE, ERR_CATALOG. */
int tamis_store_confirm(struct tamis_store *store,
                        const struct tamis_confirm_options *opt,
                        struct tamis_diag *diag);

/* Counts the files in filters/ that no record names, and calls fn for each. It also
 * calls fn, without counting, for a name that is not tamis's, and for a directory or
 * link in the place of a temporary file or of tombstones. If a record is unreadable, it
 * counts unfinished files only: the record may name any other. It opens no filter:
 * tamis_filter_verify() does that. Edits that begin meanwhile wait for it. ERR_BUSY: an
 * edit, whose files have no record yet, a repair or another such call is under way. */
int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag);

struct tamis_backup_options {
    size_t size;
    tamis_repair_fn *found; /* for each filter that is damaged or left out; or NULL */
    void *ctx;
    int64_t timeout_ms; /* for edits that are being committed */
};

struct tamis_backup_report {
    uint64_t n_segments, n_files, n_bytes;
    uint64_t n_damaged; /* copied as they are: their bad pages fail there too */
    uint64_t n_left;    /* files left out, packs too: lost or unreadable. A pack without
                           good tombstones is copied without them. */
};

/* Copies the store, as of one moment during the call, into the new directory `path`,
 * which appears whole or not at all (ERR_EXISTS if it is there), durable on return. The
 * copy is the same store, with the same UUID, and has every edit and commit that
 * returned before the call. Do not write to both: the filters of one do not fit the log
 * of the other.
 *
 * Edits and commits go on meanwhile, but for the moment in which backup reads the list
 * and opens what is not copied yet. Then edits wait with their commit, and writers of
 * the store when they are opened, add a stage, seal or close; commits of such a writer
 * wait for that. A backup of a store that is open for reading only makes no edit wait:
 * ERR_BUSY if the list does not stay the same long enough.
 *
 * Every growing filter, and the few that were sealed meanwhile, take a descriptor until
 * they are copied (EMFILE). A process that is killed, or cannot remove its files,
 * leaves a directory PATH.<8 hex digits>.tmp; remove it by hand. ERR_VERSION: a copy
 * could lack a feature of a newer version. After a failure *report, which may be NULL,
 * has the counts up to there, though the copy is gone. */
int tamis_store_backup(struct tamis_store *store, const char *path,
                       const struct tamis_backup_options *opt,
                       struct tamis_backup_report *report, struct tamis_diag *diag);
