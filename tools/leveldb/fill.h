/* tamis-leveldb's own declarations, one banner per source file. */
#ifndef TAMIS_LEVELDB_FILL_H
#define TAMIS_LEVELDB_FILL_H

#include "../tool.h"
#include "database.h"

enum {
    EXIT_COMPARATOR = 7,
    TABLE_NAME_BYTES = 32,
    TABLE_BINDING_BYTES = 16,
};

/* ==== tablefile.c: one table's file ================================================
 */

struct table_file {
    char name[TABLE_NAME_BYTES]; /* "000005.ldb"; older ones "000005.sst" */
    uint8_t binding[TABLE_BINDING_BYTES];
    uint8_t *bytes;
    size_t n_bytes;
};
/* Reads it whole, as what is verified must be what is read. Says what is wrong, but for
 * a file that is not there: then *gone. Free it in any case. */
int table_file_read(const char *database, const struct ldb_table *table,
                    struct table_file *out, bool *gone);
void table_file_free(struct table_file *file);
/* Would a table have this name? */
bool is_table_name(const void *name, size_t n_bytes);

/* ==== fill.c: from the tables to the store ==========================================
 */

struct fill {
    const char *store_path, *database;
    double error; /* 0: the store's default */
    struct tamis_store *store;
};
/* One edit; prints a summary. Returns an exit status, and has said why. */
int fill_store(struct fill *f);

#endif
