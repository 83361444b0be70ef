/* A backup from inside. README.md says what each file has of it. */
#ifndef TAMIS_STORE_BACKUP_H
#define TAMIS_STORE_BACKUP_H

#include "lib/store/catalog/listing.h"

/* A key and value of the catalog: a segment, with frequent fields of its record. The
 * list of a segment's hashes is an item of its own behind the segment: it has the state
 * RECORD_OF_LIST, the segment's name and record, and the list's UUID and digest. A file
 * that many segments share is an item, too; if the catalog does not know its digest,
 * that is 0 until the file is open. */
struct backup_item {
    enum catalog_db db;
    uint8_t *name, *value; /* one allocation */
    uint32_t name_bytes, value_bytes;
    uint8_t uuid[UUID_BYTES];
    uint64_t table_digest;
    uint8_t state;       /* 0: its record is unreadable */
    const char *refused; /* the same as a finding; NULL: it is good */
    int from;            /* its file, open; -1 */
    int failure;         /* of opening it */
    bool elsewhere;      /* it has no file of its own */
    size_t n_segments;   /* that are listed by it alone */
    struct backup_early *early;
    /* Only for a file that segments share. */
    bool lost;      /* the catalog has nothing under its key, and gets nothing */
    size_t n_named; /* segments that have records, too */
    int no_dead;    /* why its tombstones are left out */
    uint8_t *dead;  /* their file; NULL: without them no segment counts there */
    uint32_t n_columns;
};

/* A sealed file looked at before the list was taken. */
struct backup_early {
    uint8_t uuid[UUID_BYTES];
    uint64_t table_digest, n_bytes;
    char *left; /* why there is no copy of it, or NULL */
    int code;   /* of that, or 0 */
    bool damaged;
    bool listed; /* in the list of the moment */
};

struct backup {
    struct catalog *catalog;
    struct tamis_backup_report *report;
    struct meta meta; /* of the same moment as the items */
    struct tamis_backup_options opt;
    struct io_wait wait;
    const char *path;         /* the caller's, for messages */
    int parent, dir, filters; /* where it goes; of the copy */
    char temp[IO_TEMP_NAME_BYTES];
    bool made; /* the directory `temp` */
    char *temp_path;
    struct backup_item *items;
    size_t n, max;
    struct backup_early **early;
    size_t n_early, max_early;
    struct names by_uuid; /* -> index in `early` + 1 */
};

static inline bool backup_has_file(const struct backup_item *it)
{
    return it->state >= RECORD_GROWING && !it->elsewhere;
}
static inline bool backup_is_shared(const struct backup_item *it)
{
    return it->state == RECORD_OF_PACK;
}

/* ==== copy.c: one file of a backup ==== */

/* Copies a record's filter between descriptors, with or without a writer at work. left:
 * why the copy is unusable, and left out. The result is an error of the target.
 * n_damaged: pages that fail. */
struct copied {
    const char *left;
    uint64_t n_bytes, n_damaged;
    struct tamis_diag diag; /* what `left` is about */
};
int backup_copy(const struct catalog *c, const struct record *r, int from, int to,
                const char *path, struct copied *out);

/* ==== list.c ==== */

/* In a transaction, ctx the backup: lists all segments, or those whose sealed files
 * were not looked at. */
catalog_fn backup_list_all, backup_list_new;
/* Adds an item at the end of b->items; ENOMEM. */
int backup_add_item(struct backup *b, struct piece name, struct piece value,
                    const struct record *r);
void backup_free_items(struct backup *b);
/* Decodes the record of an item with a file. A list or a shared file gets a record as
 * if it were a segment's filter. */
void backup_record(const struct backup_item *it, struct record *r);
int backup_set_record(struct backup_item *it, const struct record *r);
/* Is the segment's list in the copy, as far as is known by now? */
bool backup_has_its_list(const struct backup *b, const struct backup_item *it);
/* Is it a list that its segment's record no longer names, because the segment is there
 * without a filter? Then the list goes, too. */
bool backup_leaves_list(const struct backup *b, struct backup_item *it);
int backup_note_early(struct backup *b, const struct backup_item *it,
                      const struct copied *done);
/* The early copy with this UUID and digest. Its check holds for this record, too. */
struct backup_early *backup_find_early(const struct backup *b,
                                       const struct backup_item *it);
void backup_free_early(struct backup *b);

/* ==== shared.c ==== */

/* Call it in a transaction, once all segments are listed. It lists the files that they
 * share, and the catalog's records of these files. */
int backup_list_shared(struct catalog_txn *t, struct backup *b,
                       struct tamis_diag *diag);
/* Reads the tombstones of a shared file, once the file is open. An errno: not now. */
int backup_open_shared(struct backup_item *it, int dir);

/* ==== backup.c ==== */

/* Copies all filters into b->filters, and lists their segments and b->meta. */
int backup_filters(struct backup *b, struct tamis_diag *diag);

#endif
