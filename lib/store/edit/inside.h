/* An edit from inside. */
#ifndef TAMIS_STORE_EDIT_INSIDE_H
#define TAMIS_STORE_EDIT_INSIDE_H

#include "lib/builder/builder.h"
#include "lib/pack/pack.h"
#include "lib/store/snapshot/snapshot.h"

/* ==== edit.c, put.c, commit.c ==== */

/* Removes files that nothing names; the caller holds the exclusive lock of `dir`.
 * *n_gone: so many filters, lists and packs went. False: a file could not be removed,
 * or a tombstone not be set. */
bool sweep_orphans(struct catalog *c, int dir, size_t *n_gone);

enum edit_kind { EDIT_PUT, EDIT_DROP, EDIT_UPDATE, EDIT_RECONCILE, EDIT_PACK };

/* A reconcile's live files, and what may go. Its pieces lie in the operation. */
struct edit_live {
    struct tamis_snapshot *snapshot;
    struct names names; /* of the files */
    struct piece scope;
    uint8_t *is_new; /* the caller's; may be NULL */
    size_t n;
    struct edit_file {
        struct piece name, binding; /* binding.at NULL: any */
    } files[];
};

struct edit_put {
    bool attached;
    bool keeps_list; /* the list is that of the record that is replaced */
    bool replaces;   /* put: first drops the segment, if there is one */
    bool only;       /* drops it only if its filter is `old`, ... */
    uint8_t old[UUID_BYTES];
    struct entry *as; /* ... and its record is this one's; may be NULL; */
    bool column;      /* ... or it is a listed column still */
};

/* A new pack: its columns are segments that it puts, or segments of a snapshot. */
struct edit_pack {
    struct pack_place place;         /* uuid and digest */
    struct open_pack *open;          /* says which segments are put; else NULL */
    struct tamis_snapshot *snapshot; /* whose segments get columns; else NULL */
    uint32_t n_columns;
    uint32_t segments[]; /* of the snapshot, by column, plus 1; 0: of none */
};

struct edit_op {
    enum edit_kind kind;
    bool has_file; /* put: this edit wrote the file of this uuid */
    bool listed;   /* put: the record has a list, with list_uuid */
    bool has_list; /* and this edit wrote it */
    bool bound;    /* drop, update: if the record's binding is `value` */
    struct edit_put how;
    uint8_t uuid[UUID_BYTES], list_uuid[UUID_BYTES];
    struct piece binding; /* update: the new one; at NULL: the same */
    uint32_t rank;        /* and the new rank */
    struct edit_live *live;
    struct edit_pack *placed; /* EDIT_PACK */
    uint64_t absent_at;       /* put: the edit's, if it is for this name; else 0 */
    size_t name_bytes, value_bytes;
    uint8_t bytes[]; /* name, record; drop, update: name, binding, new binding;
                        reconcile: names and bindings */
};

/* By how much the filters put so far are better than their targets. */
struct balance {
    uint64_t edit;         /* its number in this process, from 1 */
    double segments, keys; /* sums of (target - expected error), and times the keys */
};

struct tamis_edit {
    struct catalog *catalog;
    unsigned fork_epoch;
    bool dry_run;
    struct io_wait wait;
    struct io_guarded_fd dir; /* its own open of filters/, with a shared flock */
    pthread_mutex_t mutex;    /* over all below */
    struct edit_op **ops;
    size_t n_ops, max_ops;
    size_t n_attached;
    /* After a reconcile, or a put of segments that a file names, the commit alone knows
     * which names exist. */
    bool unsure;
    struct names touched; /* name -> EDIT_PUT + 1 or EDIT_DROP + 1, the latest */
    struct balance balance;
    uint64_t absent_at; /* the transaction that had no segment `absent`; 0: none */
    uint8_t absent[NAME_MAX_BYTES + 1];
};
/* ERR_READ_ONLY if it is for dry runs alone, which edit_alive() allows. */
int edit_usable(struct tamis_edit *e, struct tamis_diag *diag);
int edit_alive(struct tamis_edit *e, struct tamis_diag *diag);
/* ERR_EXISTS: the segment would exist after a commit now. The catalog may change. */
int edit_expect_none(struct tamis_edit *e, const void *name, size_t name_bytes,
                     struct tamis_diag *diag);
/* Takes over the operation, if its segments exist or are absent as it needs; else frees
 * it. */
int edit_append(struct tamis_edit *e, struct edit_op *op, struct tamis_diag *diag);
struct edit_op *op_of_value(enum edit_kind kind, const void *name, size_t name_bytes,
                            const void *value, size_t n, size_t n_more);
void edit_unlink_written(const struct tamis_edit *e);
void edit_free(struct tamis_edit *e);

/* ---- put.c, for the others ---- */

/* The record of a segment without a filter. */
struct record edit_bare_record(struct piece binding, uint32_t rank);
void edit_record_binding(struct record *r, struct piece binding);

/* Checks the options, which it copies to *opt, and that they may put this name. */
int edit_put_begin(struct tamis_edit *e, const void *name, size_t name_bytes,
                   struct tamis_segment_options *opt,
                   const struct tamis_segment_options *theirs, struct tamis_diag *diag);
struct tamis_identity edit_identity(const struct tamis_edit *e, struct piece name,
                                    const struct tamis_segment_options *opt);
/* The UUID of a file to be written, and its name. */
void edit_new_file(uint8_t uuid[UUID_BYTES], char file[FILTER_NAME_BYTES]);
void edit_record_range(struct record *r, const struct key_range *range);
/* Takes the range and the list of another record. */
void edit_record_like(struct record *r, const struct record *like);
/* builder_describe(). A builder may have been made without the edit, but not for
 * another store or domain. */
int edit_check_built(const struct tamis_edit *e, const struct tamis_builder *b,
                     struct identity *id, struct commit *c, struct tamis_diag *diag);
/* Appends the operation. On failure removes what it wrote: the filter, and the list if
 * it is new. */
int edit_put_append(struct tamis_edit *e, const void *name, size_t name_bytes,
                    const struct record *r, const struct edit_put *how,
                    struct tamis_diag *diag);
/* Returns rc. Gives a message the file's path: its writer knew the name only. */
int edit_not_put(const struct tamis_edit *e, int rc, const char *file,
                 struct tamis_diag *diag);

/* tamis_edit_put(). `like` (may be NULL): a record with the range and the list that
 * the segment has; else both are the builder's, and so is `how`. */
int edit_put_built(struct tamis_edit *edit, struct tamis_builder *builder,
                   const struct record *like, const struct edit_put *how,
                   struct tamis_diag *diag);

/* ==== balance.c: sizes that meet the target on average ==== */

void balance_begin(struct balance *b);
/* Chooses the size of a filter that is about to be made, and counts its share, unless
 * that was done for these keys. */
void balance_choose(struct tamis_edit *e, struct tamis_builder *builder);
/* Call it once the filter is made. If it was not put, takes its share back. */
void balance_settle(struct tamis_edit *e, struct tamis_builder *builder, bool is_put);

/* A growing array of bytes. */
struct buffer {
    uint8_t *bytes;
    size_t n, max;
};
int buffer_add(struct buffer *b, const void *bytes, size_t n); /* ENOMEM */

/* derive.c: may a record be made anew for this segment? ERR_VERSION: it has a feature
 * of a newer version, which the new one would lack (SPEC.md §5.2). */
int edit_may_remake(const struct tamis_edit *e, const struct tamis_snapshot *s,
                    size_t index, struct tamis_diag *diag);

/* ==== packing.c, packer.c: files that segments share, made ==== */

/* An operation for it. Snapshot NULL: the edit puts the segments that the pack's file
 * names. An errno, or a code of open_pack_get(). */
int edit_op_of_pack(const struct tamis_edit *e, const struct pack_place *place,
                    uint32_t n_columns, struct tamis_snapshot *s, struct edit_op **out,
                    struct tamis_diag *diag);
/* Removes the files of a pack that is not put. Nothing keeps it open any more. */
void edit_unlink_pack(const struct tamis_edit *e, const struct pack_place *place);

/* Plans the bands, and so each column's place; ERR_RANGE, ENOMEM. */
int pack_plan_bands(const struct tamis_edit *e, struct pack_source *sources, size_t n,
                    struct pack_plan *plan, struct tamis_diag *diag);
/* Reports the size of the pack, looks for room, and writes it and its tombstones,
 * unless it is a dry run. Sets the job's uuids and domain, and the place. If it fails,
 * nothing is left. */
int pack_make(struct tamis_edit *e, struct pack_job *job, bool dry_run,
              struct tamis_pack_report *r, struct pack_place *place,
              struct tamis_diag *diag);

/* ==== place.c: segments that share a file, and how they come and go ==== */

/* Does the operation put the segments that a file names? */
bool op_puts_placed(const struct edit_op *op);
void placed_free(struct edit_pack *p); /* may be NULL */
/* While the edit is applied, `own` has the latest that it did to names. A name was in
 * one place: once this edit has dropped it there, it is nowhere. */
enum { OWN_PUT = 1, OWN_DROPPED };
int apply_look_up(struct listings *l, const struct names *own, struct piece name,
                  struct found *f);
/* ERR_EXISTS: the segment is there. */
int apply_expect_none(struct listings *l, const struct names *own, struct piece name);
/* Puts the segments of an operation into places of its file: each that does not exist
 * yet, or is still the one that was moved (R18). `files` gets UUIDs of files to go. */
int place_columns(struct listings *l, const struct edit_op *op, struct names *own,
                  struct buffer *files);
/* Must a segment stay that a reconcile does not keep, because its place in a file
 * cannot be given up? A refused record may have any place that is counted. */
int placed_stays(struct listings *l, struct piece name, const struct found *f,
                 bool *stays);
/* After the commit: gives up places that are not used any more, and files without a
 * used place, in a write transaction of its own (R18). *diag says what stays. False:
 * something failed, and a sweep has to do it. */
bool placed_settle(struct tamis_edit *e, struct listings *l, struct tamis_diag *diag);
/* Gives up all places that are not used, within a write transaction, once names are
 * noted; but none in a file on which the catalog does not agree. False: as above. */
bool bury_unused(struct listings *l, int dir);
/* Says in the diag of a success what stays, unless it has another note already. */
void edit_note_stays(struct tamis_diag *diag, int rc, const char *file,
                     const char *doing);

#endif
