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
    uint8_t *memory; /* of the pieces */
    struct piece name, value;
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
    struct tamis_diag *diag; /* the caller's; may be NULL */
    struct meta meta;        /* of the same moment as the items */
    uint64_t transaction;    /* its number */
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

/* ==== backup.c ==== */

void backup_free_items(struct backup *b);
void backup_free_early(struct backup *b);
/* Copies all filters into b->filters, and lists their segments and b->meta. */
int backup_filters(struct backup *b);

#endif
