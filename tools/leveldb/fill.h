/* tamis-leveldb's own declarations: directory.c. */
#ifndef TAMIS_LEVELDB_FILL_H
#define TAMIS_LEVELDB_FILL_H

#include "../bridge/bridge.h"
#include "database.h"

/* The end of a message about damage. */
#define LET_IT_REPAIR ": let LevelDB repair the database, or restore it"

enum { TABLE_NAME_BYTES = 32 };

struct table_file {
    char name[TABLE_NAME_BYTES]; /* "000005.ldb"; older ones "000005.sst" */
    char binding[TAMIS_BINDING_MAX + 1];
    uint8_t *bytes;
    size_t n_bytes;
};
/* Reads it whole, because the verified bytes must be those that are read. `tag`: of the
 * database. Reports faults; a missing file only sets *gone. Free its bytes in any
 * case. */
int table_file_read(const char *database, const char *tag,
                    const struct ldb_table *table, struct table_file *out, bool *gone);

/* Refuses a directory that is no LevelDB database, and reports why. Free *list in any
 * case. */
int read_list(const char *database, struct ldb_list *list);
int database_tag(const char *database, char tag[MIRROR_TAG_BYTES]);

#endif
