#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- store: one filter per segment ---------------------------------------
 *
 * A directory with a catalog (LMDB) and a filter for each segment, for any number of
 * processes. Threads: all calls at once, close alone and last. Fork: ERR_FORKED.
 *
 * ONE COPY. The handles of a process share one LMDB environment through this library's
 * memory. A host and its plugin can each have a copy of the library, because the static
 * archive hides its symbols. Only one copy may have a store open at a time: a second
 * gets ERR_BUSY, and the diag says so. A copy from before this rule is not noticed.
 *
 * REPLACED. While a store is open, its path must go on naming it. It is replaced if
 * catalog.lmdb, catalog.lmdb-lock or filters/ is removed or replaced, an older copy is
 * written over the catalog, or the directory is moved. Then writing calls get
 * ERR_REPLACED, and write and unlink nothing; snapshots answer MAYBE/MISMATCH for ever,
 * at most a second later (tamis_snapshot.h). Close every handle, then open the store
 * again. A process that changes its root directory, or loses the right to search the
 * path, must open the store after that. */

struct tamis_store;

enum tamis_create {
    TAMIS_OPEN_ONLY,
    /* Only where nothing, an empty directory, or what a creation left is. The directory
     * may have been lost, so the list of a new store is incomplete until
     * tamis_store_confirm(). */
    TAMIS_CREATE_IF_MISSING,
    /* The caller says that no data exists yet: the empty list is complete. ERR_EXISTS
     * if a store or anything else is there. */
    TAMIS_CREATE_NEW
};
struct tamis_open_options {
    size_t size;
    enum tamis_create create;
    int64_t timeout_ms; /* for a process that creates or repairs the store */
    /* For each call that waits on this handle, its writers and edits; may be NULL. */
    tamis_waiting_fn *waiting;
    void *ctx;
    /* For a store that is created: */
    struct tamis_growth growth;        /* defaults for new filters */
    const struct tamis_domain *domain; /* default: a random one */
};

/* Opens a store. A process may open a store as often as it likes.
 *
 * Creating makes the directory `path`, or uses an empty one, and is durable on return.
 * If several processes create a store at once, one does. If the directory was there and
 * its parent may not be read, the name of the directory is not synced. A new store
 * stays if opening it fails. ERR_NO_STORE: none is there, nor may one be created. An
 * errno says why the directory cannot be made. ERR_BUSY: a process has a store open
 * there whose catalog is gone: end it, and repair.
 *
 * If the catalog cannot be written, the store opens for reading. A reader takes a slot
 * in catalog.lmdb-lock. It gets none if it may not write that file, if all slots are
 * taken, if a process of the same pid in another container has the store open, or if
 * the file is damaged, which heals when the last process that has the store open ends.
 * Then each call that reads the catalog copies it, and gets ERR_BUSY if edits are
 * committed all the time. On overlayfs a reader might never see the list change, so
 * opening for reading is refused there (EACCES, EROFS): use a volume. ERR_REPLACED: a
 * process has the store open with another lock file, or this process has a handle of
 * the store that was there before; close it there first. ERR_BUSY: another copy of the
 * library in this process has the store open, or the wait is over. ERR_NO_STORE,
 * ERR_NOT_TAMIS, ERR_VERSION, ERR_DAMAGED, ERR_CATALOG, ERR_RANGE. */
int tamis_store_open(const char *path, const struct tamis_open_options *opt,
                     struct tamis_store **out, struct tamis_diag *diag);
/* Closes it; end its edits and writers before. Snapshots go on. */
void tamis_store_close(struct tamis_store *store);

struct tamis_store_info {
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_domain domain;
    struct tamis_growth growth; /* defaults for new filters */
    uint64_t n_segments, created;
    uint64_t catalog_bytes; /* of the catalog's file */
    /* 0: the list is not confirmed (tamis_store_confirm()). `complete` of
     * tamis_snapshot_info() is also 0 if records of packs do not agree. */
    int complete;
    int read_only;
    int is_new; /* the open of this handle created the store */
};
/* Describes the store as of now. ERR_FORKED, ERR_REPLACED, ERR_CATALOG, ERR_BUSY. */
int tamis_store_info(struct tamis_store *store, struct tamis_store_info *info,
                     struct tamis_diag *diag);
/* Returns the domain of all filters; it never changes. Also in a forked child. */
struct tamis_domain tamis_store_domain(const struct tamis_store *store);

struct tamis_segment_writer_options {
    size_t size;
    int64_t timeout_ms; /* for edits: of opening, of each growth, seal and close */
    int one_thread;     /* as in struct tamis_writer_options */
};

/* Opens the growing filter of a segment for writing, as tamis_writer_open(). The
 * catalog follows its growth and its seal. If the catalog cannot be written, opening
 * fails; a seal stands, and returns the error; after a growth each commit tries again.
 * Failures at close are ignored: the catalog then keeps older lower bounds, and may not
 * detect an older copy that is put back. Keep the store open until the writer is
 * closed. Once the store was replaced, commits get ERR_REPLACED: their keys are in a
 * file that the store at that path does not have. Replay them from the watermark of the
 * file that it has. ERR_SEALED, ERR_NO_SEGMENT. ERR_BUSY: another writer has it open,
 * which is never waited for; or the wait is over. ERR_MISMATCH: the file is an older
 * copy, or another filter's. ERR_VERSION: the segment or its file has a feature that
 * this version must not write. */
int tamis_store_writer(struct tamis_store *store, const void *name, size_t name_bytes,
                       const struct tamis_segment_writer_options *opt,
                       struct tamis_writer **out, struct tamis_diag *diag);
