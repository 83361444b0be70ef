#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- edit: change the list of segments, all or nothing ------------------- */

struct tamis_edit;
struct tamis_snapshot;

struct tamis_segment_options {
    size_t size;
    const void *binding; /* identifies the engine's own file */
    size_t binding_bytes;
    uint32_t rank;      /* the engine's order: newest, or top level, first */
    uint64_t watermark; /* of a built filter; a growing one gets it by commits */
    /* Of a filter to be built: as in tamis_builder_options. */
    uint64_t memory_limit;
    uint32_t n_threads;
    uint64_t check;
};

/* Files are written as segments are put; names take effect together, at commit. An
 * edit sees its own changes in order: drop then put of one name replaces it. */
int tamis_edit_begin(struct tamis_store *store, struct tamis_edit **out,
                     struct tamis_diag *diag);
/* A builder for a filter of this store, to be passed to tamis_edit_put(). It computes
 * the key range as keys are added by key. error 0: the store's default. */
int tamis_edit_builder(struct tamis_edit *edit, const void *name, size_t name_bytes,
                       double error, const struct tamis_segment_options *opt,
                       struct tamis_builder **out, struct tamis_diag *diag);
/* Finishes the builder, writes its file and registers its segment. The builder stays
 * the caller's to free. Threads may put, each its own builder, at the same time. */
int tamis_edit_put(struct tamis_edit *edit, struct tamis_builder *builder,
                   struct tamis_diag *diag);
/* Registers a segment without a filter: it is always a candidate. */
int tamis_edit_put_bare(struct tamis_edit *edit, const void *name, size_t name_bytes,
                        const struct tamis_segment_options *opt,
                        struct tamis_diag *diag);
/* Registers a segment with an empty growing filter (growth NULL: the defaults). */
int tamis_edit_put_growing(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const struct tamis_growth *growth,
                           const struct tamis_segment_options *opt,
                           struct tamis_diag *diag);
/* Copies a sealed filter file into the store, every page checked on the way. Its
 * domain must be the store's; its name and store, if it has them, the same. */
int tamis_edit_attach(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const char *path, const struct tamis_segment_options *opt,
                      struct tamis_diag *diag);
/* Makes filters of segments of the same store, without their keys, as
 * tamis_filter_union() and its kin do, and registers each under a new name. The sources
 * are segments of a snapshot, by number, with filters that are sealed (else ERR_UNFIT)
 * and of a list that is confirmed (else ERR_MISMATCH: tamis_store_confirm_complete());
 * they stay listed unless they are dropped, by the same edit perhaps, or before the put
 * to give the result the name of one. Their key ranges, if all are known, give the
 * result's. The watermark is the caller's to say (0 for none). report may be NULL. */
int tamis_edit_union(struct tamis_edit *edit, const void *name, size_t name_bytes,
                     struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                     const struct tamis_segment_options *opt,
                     struct tamis_derive_report *report, struct tamis_diag *diag);
int tamis_edit_intersection(struct tamis_edit *edit, const void *name,
                            size_t name_bytes, struct tamis_snapshot *snapshot,
                            const size_t *segments, size_t n,
                            const struct tamis_segment_options *opt,
                            struct tamis_derive_report *report,
                            struct tamis_diag *diag);
int tamis_edit_fold(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_snapshot *snapshot, size_t segment, uint64_t factor,
                    const struct tamis_segment_options *opt,
                    struct tamis_derive_report *report, struct tamis_diag *diag);
int tamis_edit_shrink(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      struct tamis_snapshot *snapshot, size_t segment, double error,
                      const struct tamis_segment_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag);
/* Unregisters a segment; its file goes after the commit. ERR_NO_SEGMENT; at commit
 * ERR_BUSY if a writer has it open (the diag names the process). Until the commit is
 * through, each growing filter that goes takes a descriptor. If its record can't be
 * read it may have been another segment's: then the list is incomplete from the commit
 * on, see tamis_store_confirm_complete(). The same goes for tamis_edit_retain(). */
int tamis_edit_drop(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_diag *diag);
/* The same, if its filter is the one of this UUID (16 bytes, as a snapshot's info has
 * it): else ERR_MISMATCH, at commit. For whoever puts in its place what was made of
 * that filter: another process may have replaced it meanwhile, and its keys would be
 * lost. */
int tamis_edit_drop_filter(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const uint8_t *uuid, struct tamis_diag *diag);
/* The same, if its binding is this one (0..64 bytes; 0: it has none): else
 * ERR_MISMATCH, at commit. Whether it has a filter does not matter. For whoever may
 * drop segments of one engine's files only: another process may have put another
 * file's segment under that name meanwhile. The binding is copied. */
int tamis_edit_drop_bound(struct tamis_edit *edit, const void *name, size_t name_bytes,
                          const void *binding, size_t binding_bytes,
                          struct tamis_diag *diag);
/* Unregisters every segment of the store that is not among these names (and was not
 * put by this edit). Names that are unknown are ignored. ERR_BUSY as above. */
struct tamis_name {
    const void *bytes;
    size_t n_bytes;
};
int tamis_edit_retain(struct tamis_edit *edit, const struct tamis_name *names, size_t n,
                      struct tamis_diag *diag);
/* Applies everything in one transaction, durable on return; frees the edit. ERR_VERSION
 * if a newer version has marked the store meanwhile, as not to be written. On failure
 * nothing has changed and the files it wrote are gone; only if the disk fails, or
 * is full, while the catalog's last page is written (ERR_CATALOG, EIO, ENOSPC) can
 * nobody say which: open the store again and look. The same goes for ERR_REPLACED, and
 * for an errno of looking at the catalog's name: the store was perhaps replaced while
 * the edit was committed. */
int tamis_edit_commit(struct tamis_edit *edit, struct tamis_diag *diag);
void tamis_edit_abort(struct tamis_edit *edit);
