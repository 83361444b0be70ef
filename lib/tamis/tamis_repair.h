#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- repair and backup ----------------------------------------------------------
 *
 * Findings go to a function of the caller's; repair, confirm and orphans call it at the
 * end, when every lock is released. An I/O error decides nothing. Threads: repairs one
 * at a time a store, the others at once. */

enum tamis_repair_action {
    TAMIS_REPAIR_NOTED = 0,   /* nothing was done, `what` says why */
    TAMIS_REPAIR_FINISHED,    /* the work that a dead writer left is finished */
    TAMIS_REPAIR_REBUILT,     /* the catalog, or one record of it, from the files */
    TAMIS_REPAIR_QUARANTINED, /* set aside; its record, if any, has no filter then */
    TAMIS_REPAIR_SWEPT        /* removed: nothing names it */
};
const char *tamis_repair_action_name(enum tamis_repair_action action); /* "swept" */

/* One thing that was found, and its fate. Valid during the call. */
struct tamis_repair_finding {
    enum tamis_repair_action action;
    int damage;          /* 1: proofs are lost; build the segment anew from its keys */
    const uint8_t *name; /* of the segment; NULL: none */
    size_t name_bytes;
    const char *file; /* within the store directory; "": none */
    const char *what; /* one line */
    /* The errno or TAMIS_ERR_* that kept the filter from being judged or finished; it
     * says nothing about the filter's bytes. 0: no error was in the way. */
    int error;
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
};

struct tamis_repair_report {
    uint64_t n_segments; /* listed in the end */
    uint64_t n_finished, n_rebuilt, n_quarantined, n_swept;
    uint64_t n_damaged; /* noted: damage that repair can't mend */
    uint64_t n_unread;  /* noted: an error kept it from being judged, or finished */
    int rebuilt;        /* 1: the whole catalog is new */
    int complete;       /* 0: confirm, if it is */
};

/* Repairs a store. It records what dead writers finished and removes what was never
 * finished. It moves damaged filters, and filters that nothing names, to
 * STORE/quarantine/. The segments of damaged filters stay listed without a filter:
 * MAYBE. Durable on return.
 *
 * If the catalog is lost, repair makes a new one from the filters, marked incomplete.
 * Segments of filters that were set aside before are listed in it without a filter.
 * Until tamis_store_confirm() a segment answers ABSENT only if it is asked for by its
 * binding (SPEC.md section 15).
 *
 * A second repair finds nothing to do. An interrupted repair may be run again. Repair
 * finishes a filter under the filter's lock: a writer that opens it at that moment gets
 * ERR_BUSY. It judges files by reading them, not through a mapping.
 *
 * ERR_BUSY while an edit is under way and, if the catalog is lost, while any process
 * has the store open. ERR_MISMATCH if the filters belong to several stores and
 * store_uuid does not choose one; also if store_uuid differs from the catalog's or,
 * without a catalog, from every filter's. No record or filter has changed then.
 * ERR_NO_STORE if there is nothing to rebuild from. An I/O error stops a rebuild;
 * otherwise repair leaves its file alone. *report, which may be NULL, is always
 * complete. After a failure, report and opt->found have what was done, and nothing that
 * the call did not reach. */
int tamis_store_repair(const char *path, const struct tamis_repair_options *opt,
                       struct tamis_repair_report *report, struct tamis_diag *diag);

struct tamis_confirm_options {
    size_t size;
    int force; /* 1: confirm whatever lies in quarantine/ */
    /* Is called for each filter in quarantine/ that is in the way; may be NULL. */
    tamis_repair_fn *found;
    void *ctx;
};

/* Confirms that every segment of the engine is listed, with its own filter. A catalog
 * that repair rebuilt, or that lost an unreadable record, is incomplete until then: it
 * proves neither "absent everywhere" nor anything about a segment that is asked for
 * without a binding. Before the call, compare every segment and binding with the
 * engine's own list. A segment that is missing here means lost keys. So does a segment
 * with the filter of an edit that was never committed: drop it, or put it anew. Durable
 * on return. Any number of threads may call it. If the list is confirmed already, it
 * changes nothing and returns 0, but still calls opt->found for filters in the way.
 *
 * ERR_MISMATCH, and nothing has changed, if STORE/quarantine/ has a filter of this
 * store whose segment is not listed, or that does not say its segment: a segment of the
 * engine may be missing. Put that segment, at least without a filter, or remove the
 * file if the segment is gone. Set `force` only if you compared with the engine's own
 * list, and not with the list here. An I/O error is returned, unless `force` is set.
 * ERR_READ_ONLY, ERR_RANGE, ERR_CATALOG. */
int tamis_store_confirm(struct tamis_store *store,
                        const struct tamis_confirm_options *opt,
                        struct tamis_diag *diag);

/* Counts the files in filters/ that no record names, and calls fn for each. It opens no
 * filter: tamis_filter_verify() does that. ERR_BUSY while an edit is under way, whose
 * files have no names yet. */
int tamis_store_orphans(struct tamis_store *store, tamis_repair_fn *fn, void *ctx,
                        uint64_t *n_orphans, struct tamis_diag *diag);

struct tamis_backup_report {
    uint64_t n_segments, n_files, n_bytes;
    uint64_t n_damaged; /* copied as they are: their bad pages fail there too */
    uint64_t n_left;    /* filters that are lost or unreadable: without one there */
};

/* Copies the store, as of one moment during the call, into the new directory `path`. It
 * appears whole or not at all (ERR_EXISTS if it is there), durable on return. The copy
 * is the same store, with the same UUID. It has every edit and every commit that
 * returned before the call. Do not go on with both stores: filters of one mean nothing
 * to the log of the other. fn, which may be NULL, is called for every filter that is
 * damaged or left out.
 *
 * Edits and commits go on meanwhile, but for the moment in which backup reads the list
 * and opens what is not copied yet. Then edits wait with their commit. Writers of the
 * store wait when they are opened, add a stage, seal or close, and commits of such a
 * writer wait for that. A store that is open for reading only holds nobody off:
 * ERR_BUSY if its list does not stay the same long enough.
 *
 * Every growing filter, and the few that were sealed meanwhile, take a descriptor until
 * they are copied (EMFILE). A killed process leaves a directory PATH.<8 hex
 * digits>.tmp; remove it by hand. A call that fails and cannot remove its files leaves
 * it, too. ERR_VERSION if the store has a feature of a newer version that a copy could
 * lack. */
int tamis_store_backup(struct tamis_store *store, const char *path, tamis_repair_fn *fn,
                       void *ctx, struct tamis_backup_report *report,
                       struct tamis_diag *diag);
