#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- store: one filter per segment --------------------------------------- */

struct tamis_store;

struct tamis_store_options {
    size_t size;
    struct tamis_growth growth;        /* defaults for new filters */
    const struct tamis_domain *domain; /* default: a random one */
};

/* Creates the directory `path` (or uses an empty one) and an empty store in it,
 * durable on return. ERR_EXISTS if a store or anything else is there; ERR_BUSY if a
 * process has a store open there whose catalog is gone: end it, and repair. */
int tamis_store_create(const char *path, const struct tamis_store_options *opt,
                       struct tamis_diag *diag);
/* Opens a store; never creates. Where its catalog cannot be written it opens for
 * reading; LMDB must still be able to write catalog.lmdb-lock beside it (EACCES), but
 * on a read-only file system. On overlayfs, where a reader might never see the list
 * change, that is refused (EACCES, EROFS): use a volume.
 * A process may open a store as often as it likes: all share one LMDB environment.
 *
 * ONE COPY. The handles of a process share by means of this library's memory, so two
 * copies of the library in one process (of a host and its plugin: the static archive
 * hides its symbols) must not have one store open at a time. The second one gets
 * ERR_BUSY, and the diag says so. Other stores, and the same store after the first copy
 * has closed it, are free. A copy of a version before this rule is not noticed.
 *
 * REPLACED. While a store is open its path must go on naming it. If catalog.lmdb or
 * catalog.lmdb-lock is removed or replaced, if an older copy is written over the
 * catalog, or if the directory is moved, edits and everything else that writes get
 * ERR_REPLACED. They write nothing and unlink nothing. Snapshots answer MAYBE/MISMATCH
 * for ever, at most a second after the exchange. Close every handle, then open the
 * store again. ERR_REPLACED from this call: a process has the store open with another
 * lock file, or this process has a handle of the store that was there before; close it
 * there first. A process that changes its root directory, or loses the right to search
 * the path, opens the store after that.
 *
 * Waits without limit while another process creates the store or makes its lost catalog
 * anew. It may also wait for another process to finish a commit of the catalog; until
 * then opening and closing stores, beginning edits and fork() wait in this process. */
int tamis_store_open(const char *path, struct tamis_store **out,
                     struct tamis_diag *diag);
void tamis_store_close(struct tamis_store *store);

struct tamis_store_info {
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_domain domain;
    struct tamis_growth growth; /* defaults for new filters */
    uint64_t n_segments, created;
    uint64_t catalog_bytes; /* in use by the catalog */
    int complete;           /* 0: may lack segments: rebuilt, or by a dropped record */
    int read_only;
};
int tamis_store_info(struct tamis_store *store, struct tamis_store_info *info,
                     struct tamis_diag *diag);
struct tamis_domain tamis_store_domain(const struct tamis_store *store);

/* As tamis_store_confirm() without options. */
int tamis_store_confirm_complete(struct tamis_store *store, struct tamis_diag *diag);

/* Opens the growing filter of a segment for writing, as tamis_writer_open(); the
 * catalog follows its growth and its seal. Where it cannot, opening fails, and a seal
 * returns it (and stands); after a growth it is tried again at each commit, and at
 * close nobody hears: all that is missing then is what tells an older copy put back.
 * Keep the store open until the writer is closed. ERR_SEALED, ERR_NO_SEGMENT, ERR_BUSY.
 * Once the store was replaced, commits get ERR_REPLACED: their keys are in a file that
 * nobody finds. Replay them from the watermark that the store's own file has.
 */
int tamis_store_writer(struct tamis_store *store, const void *name, size_t name_bytes,
                       struct tamis_writer **out, struct tamis_diag *diag);
