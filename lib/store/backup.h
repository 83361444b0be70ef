/* A backup from inside: shared by backup.c (what is copied, and when) and backup_dir.c
 * (where it goes). */
#ifndef TAMIS_STORE_BACKUP_H
#define TAMIS_STORE_BACKUP_H

#include "lib/store/store.h"

/* A segment of the list. */
struct backup_item {
    uint8_t *name, *value; /* one allocation */
    size_t name_bytes, value_bytes;
    struct record record; /* state 0: unreadable */
    int from;             /* its file, open; -1 */
    bool copied;
};

struct backup {
    struct catalog *catalog;
    struct tamis_backup_report *report;
    struct meta meta; /* of the same moment as the items */
    tamis_repair_fn *fn;
    void *ctx;
    int parent, dir, filters; /* where it goes; of the copy */
    char temp[IO_TEMP_NAME_BYTES];
    bool made; /* the directory `temp` */
    char *temp_path;
    struct backup_item *items;
    size_t n, max;
    struct backup_item *early; /* the list as it was first */
    size_t n_early;
};

/* ==== backup.c ==== */

static inline bool backup_has_file(const struct backup_item *it)
{
    return it->record.state == RECORD_SEALED || it->record.state == RECORD_GROWING;
}
void backup_free_items(struct backup_item *items, size_t n);
/* Copies all filters into b->filters, and lists their segments and b->meta. */
int backup_filters(struct backup *b, struct tamis_diag *diag);

#endif
