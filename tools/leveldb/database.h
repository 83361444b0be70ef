/* Reads a closed database with LevelDB's C++ headers: the tables that its MANIFEST
 * lists, and their keys. For C; database.cc. */
#ifndef TAMIS_LEVELDB_DATABASE_H
#define TAMIS_LEVELDB_DATABASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ldb_result {
    LDB_GOOD = 0,
    LDB_NONE,    /* no database there */
    LDB_DAMAGED, /* damage: `why` describes it */
    LDB_FAILED,  /* it could not be read: errno, or `why`, has the reason */
    LDB_STOPPED  /* a callback stopped it */
};

enum { LDB_WHY_BYTES = 400 };

struct ldb_table {
    uint64_t number, n_bytes;
    uint32_t level;
    char *range; /* first and last key, in the MANIFEST's words */
};

struct ldb_list {
    char *comparator; /* its name */
    struct ldb_table *tables;
    size_t n;
    uint64_t log, previous_log; /* keys in no table yet are in these and later */
};

/* The live tables, as LevelDB would find them if it were opened now, by number.
 * LDB_NONE if there is no CURRENT, or the MANIFEST that it named is gone (a database
 * that is in use may have a newer one by now; *why is "" in the first case). Free it in
 * any case. */
enum ldb_result ldb_list_read(const char *directory, struct ldb_list *list,
                              char why[LDB_WHY_BYTES]);
void ldb_list_free(struct ldb_list *list);

/* Calls fn for each user key of a table that lies in memory, in ascending order: values
 * and tombstones, each key once however many versions of it there are. Everything is
 * verified: checksums, order, and the range that the MANIFEST gives. Other than 0 from
 * fn stops it. */
typedef int ldb_key_fn(void *ctx, const void *key, size_t n_bytes);
enum ldb_result ldb_table_keys(const void *bytes, size_t n_bytes, const char *range,
                               ldb_key_fn *fn, void *ctx, char why[LDB_WHY_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
