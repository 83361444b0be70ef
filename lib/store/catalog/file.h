/* The checks of a catalog file before LMDB may map it. */
#ifndef TAMIS_STORE_CATALOG_FILE_H
#define TAMIS_STORE_CATALOG_FILE_H

#include "lib/store/catalog/catalog.h"

/* No value of the database is longer. */
static inline size_t catalog_value_max(enum catalog_db db)
{
    return db == CATALOG_SEGMENTS ? RECORD_MAX_BYTES
           : db == CATALOG_PACKS  ? CHUNK_MAX_BYTES
                                  : SIZE_MAX;
}

int catalog_file_check(int fd, const char *path, struct tamis_diag *diag);
/* The same, and every page of its trees. */
int catalog_file_scrub(int fd, const char *path, struct tamis_diag *diag);
/* The size of its pages; LMDB's default here if the first page is lost. */
size_t catalog_page_bytes(int fd);
/* The newest transaction in the file. Reads again if that is below `known`, as a writer
 * may be at work. Below 0 if it is no catalog any more, or an errno. */
int catalog_file_newest(int fd, uint64_t known, uint64_t *newest);
/* The same as a mapping of both pages shows it, without a system call. */
uint64_t catalog_file_shows(const struct mapping *metas);
/* Checks the trees as of one transaction. The caller reads in it, or holds the write
 * lock, so that no page is reused. EAGAIN: the file has lost the transaction. */
int catalog_file_walk(int fd, const char *path, uint64_t txn, struct tamis_diag *diag);

/* A tree, of free pages [0] or of databases [1], as LMDB notes it. */
struct catalog_tree {
    uint32_t page_bytes; /* in [0] */
    uint16_t flags, depth;
    uint64_t n_branch, n_leaf, n_overflow, n_entries, root;
};
struct catalog_state {
    struct catalog_tree trees[2];
    uint64_t last_page, txn;
};
struct walk;
struct node;
/* Sees each node of the main tree, then those of the database that it names. `first`:
 * of the overflow pages with its data, or 0. False ends the walk. */
struct catalog_visitor {
    bool (*node)(struct walk *w, const struct node *n, uint64_t first, bool named);
    void *ctx;
};
/* 0, ERR_DAMAGED, or an errno if they can't be read. v may be NULL. */
int catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
                 const struct catalog_state *s, const struct catalog_visitor *v);
/* Walks the newest transaction's trees without LMDB's leave. EAGAIN: the file changed
 * meanwhile, and what v saw counts for nothing. */
int catalog_file_visit(int fd, const char *path, const struct catalog_visitor *v,
                       uint64_t *txn, struct tamis_diag *diag);

/* ---- copy.c: its records without LMDB, in memory, as of one transaction ---- */

struct catalog_copy;
/* For a reader without a slot in LMDB's table: copies through `fd` what LMDB would
 * read. ERR_BUSY: every try met a commit. Another error: the file is at fault. */
int catalog_copy_read(int fd, const char *path, struct catalog_copy **out,
                      struct tamis_diag *diag);
void catalog_copy_free(struct catalog_copy *c);
/* The transaction that they are of. */
uint64_t catalog_copy_txn(const struct catalog_copy *c);
size_t catalog_copy_n(const struct catalog_copy *c, enum catalog_db db);
/* In the order of names. A value longer than any record comes with no bytes. */
void catalog_copy_at(const struct catalog_copy *c, enum catalog_db db, size_t index,
                     struct piece *name, struct piece *value);
/* False if there is no such record. */
bool catalog_copy_get(const struct catalog_copy *c, enum catalog_db db,
                      struct piece name, struct piece *value);

#endif
