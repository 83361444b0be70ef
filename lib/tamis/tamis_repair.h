#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- repair and backup ---------------------------------------------------------- */

enum tamis_repair_action {
    TAMIS_REPAIR_NOTED = 0,   /* nothing was done, `what` says why */
    TAMIS_REPAIR_FINISHED,    /* what a writer that died left is finished */
    TAMIS_REPAIR_REBUILT,     /* the catalog, or one record of it, from the files */
    TAMIS_REPAIR_QUARANTINED, /* set aside; its record, if any, has no filter then */
    TAMIS_REPAIR_SWEPT        /* removed: nothing names it */
};
const char *tamis_repair_action_name(enum tamis_repair_action action); /* "swept" */

/* One thing that was found, and what becomes of it. Valid during the call. */
struct tamis_repair_finding {
    enum tamis_repair_action action;
    int damage;          /* 1: proofs are lost; build the segment anew from its keys */
    const uint8_t *name; /* of the segment; NULL: none */
    size_t name_bytes;
    const char *file; /* within the store directory; "": none */
    const char *what; /* one line */
    /* An errno or TAMIS_ERR_*: this kept the filter from being judged, or finished, and
     * says nothing of its bytes. 0: it was not in the way. */
    int error;
};
typedef void tamis_repair_fn(void *ctx, const struct tamis_repair_finding *finding);

struct tamis_repair_options {
    size_t size;
    int dry_run;            /* 1: say what would be done, change nothing */
    tamis_repair_fn *found; /* may be NULL */
    void *ctx;
    /* 16 bytes: which store this is, should its catalog be lost and the filters
     * disagree. NULL: what is here says so. */
    const uint8_t *store_uuid;
};

struct tamis_repair_report {
    uint64_t n_segments; /* listed in the end */
    uint64_t n_finished, n_rebuilt, n_quarantined, n_swept;
    uint64_t n_damaged; /* noted: damage that repair can't mend */
    uint64_t n_unread;  /* noted: an error kept it from being judged, or finished */
    int rebuilt;        /* 1: the whole catalog is new */
    int complete;       /* 0: confirm, if it is */
};

/* Repairs a store: follows what dead writers finished, sets damaged filters aside (in
 * STORE/quarantine/; their segments stay listed, without a filter: MAYBE), and filters
 * that nothing names as well, sweeps what was never finished, and where the catalog is
 * lost makes a new one of the filters, marked incomplete: see tamis_store_confirm().
 * Segments of filters that were set aside before are listed in it, without a filter.
 * Until that list is confirmed, a segment answers ABSENT only if it is asked for by its
 * binding (SPEC.md section 15). A second repair finds nothing to do; one that was cut
 * short may be run again. Durable on return.
 *
 * ERR_BUSY while an edit is under way, and, if the catalog is lost, while any process
 * has the store open. ERR_MISMATCH if the filters are of several stores and store_uuid
 * does not say which, or if store_uuid is neither the catalog's nor, where that is
 * lost, any filter's; no record or filter has changed then. ERR_NO_STORE if there is
 * nothing to rebuild from. An I/O error decides nothing: it stops a rebuild, and
 * otherwise leaves its file alone. *report (may be NULL) is whole whatever is
 * returned. It counts, and opt->found hears, in the end, when every lock is let go:
 * what was done, and of a call that failed not what it did not come to.
 *
 * It finishes a filter under the filter's lock: a writer that opens it at that very
 * moment gets ERR_BUSY. What it judges it reads, through no mapping. */
int tamis_store_repair(const char *path, const struct tamis_repair_options *opt,
                       struct tamis_repair_report *report, struct tamis_diag *diag);

struct tamis_confirm_options {
    size_t size;
    int force; /* 1: whatever lies in quarantine/ */
    /* Hears of each filter in quarantine/ that is in the way; may be NULL. It is called
     * in the end, when every lock is let go. */
    tamis_repair_fn *found;
    void *ctx;
};

/* Says that every segment of the engine is listed, and with its own filter: from now on
 * "absent everywhere", and segments that are not asked for by a binding, may be
 * concluded from a catalog that repair rebuilt, or that lost a record nobody could
 * read. The caller must have compared every segment with its own list, the bindings
 * too: one that is missing here, or has the filter of an edit that was never committed
 * (drop it, or put it anew), would be lost keys. Durable on return.
 *
 * ERR_MISMATCH, and nothing has changed, if STORE/quarantine/ has a filter of this
 * store whose segment is not listed, or that does not say which segment it is of: a
 * segment of the engine may be missing. Put that segment, without a filter at least, or
 * remove the file of a segment that is gone. A caller that compared with a list of its
 * own engine, and not with what is here, may set `force`. An I/O error decides nothing:
 * it is returned, unless `force` is set. If the list is confirmed already, nothing
 * changes and 0 is returned; opt->found hears of such filters all the same. Any number
 * of threads may call it. ERR_READ_ONLY, ERR_RANGE, ERR_CATALOG. */
int tamis_store_confirm(struct tamis_store *store,
                        const struct tamis_confirm_options *opt,
                        struct tamis_diag *diag);

/* Files and records compared: calls fn for each file in filters/ that no record names,
 * and counts them; in the end, as repair does. Filters themselves are not opened:
 * tamis_filter_verify() does that.
 * ERR_BUSY while an edit is under way, whose files have no names yet. */
int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag);

struct tamis_backup_report {
    uint64_t n_segments, n_files, n_bytes;
    uint64_t n_damaged; /* copied as they are: their bad pages fail there too */
    uint64_t n_left;    /* filters that are lost or unreadable: without one there */
};

/* Copies the store, as of one moment during the call, into the new directory `path`,
 * which appears whole or not at all (ERR_EXISTS if it is there). The copy is the same
 * store, with the same UUID: it has every edit and every commit that returned before
 * the call. Edits and commits go on meanwhile, but for one moment, in which the list is
 * read and what is not copied yet is opened: edits wait with their commit, and writers
 * of the store where they tell its catalog, that is when they are opened, add a stage,
 * seal or close; commits of such a writer wait for that. fn (may be NULL) hears of
 * every filter that is damaged or left out. Durable on return; a process that is killed
 * leaves a directory PATH.<8 hex digits>.tmp, to be removed by hand, and so does a call
 * that fails and cannot remove what it made. Every growing filter, and the few that
 * were sealed meanwhile, takes a descriptor until it is copied (EMFILE). A store that
 * is open for reading only holds nobody off: ERR_BUSY if its list does not stay the
 * same for long enough. ERR_VERSION if the store has a feature of a newer version that
 * a copy could lack. Do not go on with both stores: filters of the one mean nothing to
 * the other's log. */
int tamis_store_backup(struct tamis_store *store, const char *path, tamis_repair_fn *fn,
                       void *ctx, struct tamis_backup_report *report,
                       struct tamis_diag *diag);
