/* An edit from inside: edit.c (begin, abort), put.c and derive.c (files), attach.c,
 * balance.c (their sizes), pack.c, inputs.c, tiers.c, packer.c and unpack.c (columns),
 * place.c, commit.c, sweep.c. */
#ifndef TAMIS_STORE_EDIT_INSIDE_H
#define TAMIS_STORE_EDIT_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/builder/builder.h"
#include "lib/pack/pack.h"
#include "lib/store/catalog/catalog.h"
#include "lib/store/snapshot/snapshot.h"

/* ==== sweep.c: files that nothing names ==== */

/* Removes them; the caller holds the exclusive lock of `dir`. */
/* False: a file could not be removed, or a tombstone not be set. */
bool sweep_orphans(struct catalog *c, int dir);

/* ==== edit.c, put.c, commit.c ==== */

enum edit_kind { EDIT_PUT, EDIT_DROP, EDIT_RETAIN, EDIT_PACK };

/* A column of a pack that this edit wrote, for the segment of a name. */
struct placement {
    uint8_t uuid[UUID_BYTES]; /* of the filter that was packed */
    uint64_t table_digest;
    uint32_t name_at, name_bytes; /* in the operation's bytes */
    uint32_t column;
};
struct edit_pack {
    struct pack_place place; /* uuid and digest */
    uint32_t n;
    struct placement placements[];
};

struct edit_op {
    enum edit_kind kind;
    bool has_file; /* put: this edit wrote the file of this uuid */
    bool listed;   /* put: the record has a list, with list_uuid */
    bool has_list; /* and this edit wrote it */
    bool attached;
    bool only;        /* drop: if the record's filter is this one */
    bool bound;       /* drop: if the record's binding is `value` */
    struct entry *as; /* drop: if the record is this one's; may be NULL */
    uint8_t uuid[UUID_BYTES], list_uuid[UUID_BYTES];
    struct names keep;      /* retain */
    struct edit_pack *pack; /* pack */
    size_t name_bytes, value_bytes;
    uint8_t bytes[]; /* name, record; bound drop: name, binding; retain, pack: names */
};

/* By how much the filters put so far are better than their targets. */
struct balance {
    uint64_t edit;         /* its number in this process, from 1 */
    double segments, keys; /* sums of (target - expected error), and times the keys */
};

struct tamis_edit {
    struct catalog *catalog;
    unsigned fork_epoch;
    struct io_wait wait;
    struct io_guarded_fd dir; /* its own open of filters/, with a shared flock */
    pthread_mutex_t mutex;    /* over all below */
    struct edit_op **ops;
    size_t n_ops, max_ops;
    size_t n_retains, n_attached;
    struct names touched; /* name -> EDIT_PUT + 1 or EDIT_DROP + 1, the latest */
    struct balance balance;
};
int edit_usable(struct tamis_edit *e, struct tamis_diag *diag);
/* Would the segment exist after a commit now? ERR_EXISTS or ERR_NO_SEGMENT if not as in
 * `present`. The catalog may change until commit. */
int edit_expect(struct tamis_edit *e, const void *name, size_t name_bytes, bool present,
                struct tamis_diag *diag);
/* Takes over the operation after another edit_expect(); frees it on failure. */
int edit_append(struct tamis_edit *e, struct edit_op *op, struct tamis_diag *diag);
/* The same for n operations, all or none; no two have one name. On failure none of them
 * is freed. */
int edit_append_all(struct tamis_edit *e, struct edit_op *const *ops, size_t n,
                    struct tamis_diag *diag);
struct edit_op *edit_op_new(enum edit_kind kind, const void *name, size_t name_bytes,
                            const struct record *r);
void edit_op_free(struct edit_op *op);
void edit_unlink_op(const struct tamis_edit *e, const struct edit_op *op);
void edit_unlink_written(const struct tamis_edit *e);
void edit_free(struct tamis_edit *e);

/* ---- put.c, for derive.c and packer.c as well ---- */

/* Checks that the name is free, and the options, which it copies to *opt. */
int edit_put_begin(struct tamis_edit *e, const void *name, size_t name_bytes,
                   struct tamis_segment_options *opt,
                   const struct tamis_segment_options *theirs, struct tamis_diag *diag);
void edit_record_range(struct record *r, const struct key_range *range);
/* A builder may have been made without the edit, but not for another store. */
int edit_check_built(const struct tamis_edit *e, const struct identity *id,
                     struct tamis_diag *diag);
/* Appends the operation. On failure removes what it wrote: the filter, and the list
 * unless that is another record's, which the same edit drops. */
enum edit_put { PUT_NEW, PUT_ATTACHED, PUT_KEEPS_LIST };
int edit_put_append(struct tamis_edit *e, const void *name, size_t name_bytes,
                    const struct record *r, enum edit_put how, struct tamis_diag *diag);
/* Returns rc. Gives a message the file's path: its writer knew the name only. */
int edit_not_put(const struct tamis_edit *e, int rc, const char *file,
                 struct tamis_diag *diag);

/* A list that is there already, for the filter that a builder is about to make. */
struct edit_list {
    uint8_t uuid[UUID_BYTES];
    uint64_t digest;
    enum edit_put how;
    const struct key_range *range; /* of its keys */
};
/* tamis_edit_put(); list NULL: what the builder's options say. */
int edit_put_built(struct tamis_edit *e, struct tamis_builder *builder,
                   const struct edit_list *list, struct tamis_diag *diag);

/* ---- derive.c, for lists.c as well ---- */

/* May something be made from n segments of the snapshot? */
int edit_check_sources(const struct tamis_edit *e, const struct tamis_snapshot *s,
                       const size_t *segments, size_t n, struct tamis_diag *diag);
/* Does the edit drop this segment's filter? Then only as the snapshot has it: not if it
 * was packed or unpacked since. */
bool edit_drops_as(struct tamis_edit *e, struct entry *segment);
/* The range of all their keys; false: it is not known. */
bool edit_range_over(const struct tamis_snapshot *s, const size_t *segments, size_t n,
                     struct key_range *range);

/* ==== balance.c: sizes that meet the target on average ==== */

void balance_begin(struct balance *b);
/* Chooses the size of a filter that is about to be made, and counts its share, unless
 * that was done for these keys. */
void balance_choose(struct tamis_edit *e, struct tamis_builder *builder);
/* Its filter is made, or was not put: then takes its share back. */
void balance_settle(struct tamis_edit *e, struct tamis_builder *builder, bool is_put);

/* ==== place.c: which records have which columns ==== */

/* A growing array of bytes. */
struct buffer {
    uint8_t *bytes;
    size_t n, max;
};
int buffer_add(struct buffer *b, const void *bytes, size_t n); /* ENOMEM */

struct entry;
/* May a record be made anew for this segment? ERR_VERSION: it has a feature of a newer
 * version, which the new one would lack (SPEC.md §5.2). */
int edit_may_remake(const struct tamis_edit *e, const struct entry *segment,
                    struct tamis_diag *diag);

/* Columns that no record may use any more, as struct pack_place. */
int bury_later(struct buffer *columns, const struct pack_place *place); /* ENOMEM */
/* Sets their tombstones, in a write transaction of its own (R18), and removes packs
 * that have no column left. False: something failed, and a sweep has to do it. A pack
 * without usable tombstones needs none: none of its columns counts. */
bool bury_columns(struct tamis_edit *e, struct buffer *columns);
/* The same inside a transaction. */
bool bury_in(int dir, struct buffer *columns);
/* Gives the records of the operation's segments their places. Columns whose segment has
 * another filter by now, and places that they had, go to `columns`; uuids of files to
 * be removed to `files`. */
int place_columns(struct catalog_txn *t, const struct edit_op *op,
                  struct buffer *columns, struct buffer *files,
                  struct tamis_diag *diag);

/* ==== inputs.c: segments that are packed, and where their blocks are ==== */

/* A segment taken: its blocks are those of a file, or a column of another pack. */
struct pack_input {
    uint32_t segment;            /* of the snapshot */
    const struct seat *seat;     /* the column; NULL: a file */
    struct tamis_filter *filter; /* NULL: it is opened again when its band is written */
    struct geometry geometry;
};
struct packing {
    struct tamis_edit *edit;
    struct tamis_snapshot *snapshot;
    struct tamis_pack_options opt;
    struct tamis_pack_report *report;
    bool *chosen;            /* by tiers.c, by segment; NULL: as the caller says */
    bool *taken;             /* by segment: considered before */
    bool *checked;           /* by pack of the snapshot: all of its pages */
    struct threads *threads; /* that help; NULL: none */
    struct pack_window *windows[PACK_MAX_THREADS]; /* each has its own */
    size_t n;                                      /* taken */
    struct pack_input *inputs;
    bool *gone; /* by input: lost while it was packed, nobody gets its column */
    struct pack_source *sources;
    struct pack_plan plan;
    size_t n_open; /* files that stay open until the pack is written */
    uint32_t band; /* whose files are open beside them */
};
/* Room for n segments, and the threads; ENOMEM. */
int inputs_alloc(struct packing *p, size_t n);
void inputs_free(struct packing *p);
/* Takes segments, or counts why not; NULL: the first n. An error that says nothing of
 * the file, of the disk perhaps, is the result. */
int inputs_consider(struct packing *p, const uint32_t *segments, size_t n,
                    struct tamis_diag *diag);
/* Counts a segment that is left. */
void input_left(struct packing *p, size_t segment, enum tamis_left why);
/* Has the column of input i a page that fails its check? Reads the pack. */
bool input_is_damaged(struct packing *p, size_t i);
/* Counts a segment whose filter could not be read, or was lost while it was packed: as
 * replaced, if the catalog has another record of it by now. */
void input_lost(struct packing *p, size_t segment);
/* Takes back those that are marked, by input. */
void inputs_leave(struct packing *p, const bool *leave);
/* Are all files open until the pack is written? Then threads may ask for blocks. */
bool inputs_stay_open(const struct packing *p);
/* For struct pack_job; the context is the packing. */
pack_facts_fn input_facts;
pack_blocks_fn input_blocks;

/* ==== pack.c, for packer.c as well ==== */

/* Which column has which place; ERR_RANGE, ENOMEM. */
int pack_plan_bands(const struct tamis_edit *e, struct pack_source *sources, size_t n,
                    struct pack_plan *plan, struct tamis_diag *diag);
/* Reports the size of the pack. Is there room for it? Better told before the first byte
 * than when the disk is full. */
int pack_room(const struct tamis_edit *e, struct pack_job *job, bool dry_run,
              struct tamis_pack_report *r, struct tamis_diag *diag);
/* Writes the pack without its tombstones, under a new uuid. Sets the job's uuids and
 * domain, and the place's uuid and digest. */
int pack_write_file(struct tamis_edit *e, struct pack_job *job,
                    struct pack_place *place, struct tamis_diag *diag);

/* ==== tiers.c: packs and segments that are worth packing now ==== */

/* What is loose was taken already. Sets p->chosen. ENOMEM. */
int tiers_choose(struct packing *p);

/* ==== attach.c ==== */

/* Copies a sealed filter file into `dir` under its UUID's name and checks every page
 * of the copy; h is the copy's header. */
struct attach {
    const struct catalog *catalog;
    int dir;
    const char *path; /* of the source */
    const void *name, *binding;
    size_t name_bytes, binding_bytes;
};
int attach_copy(const struct attach *a, struct header *h, struct tamis_diag *diag);

#endif
