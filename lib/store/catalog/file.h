/* The checks of a catalog file before LMDB may map it. */
#ifndef TAMIS_STORE_CATALOG_FILE_H
#define TAMIS_STORE_CATALOG_FILE_H

#include "lib/error.h"

/* The key of the meta record. */
#define CATALOG_META_KEY "store"

int catalog_file_check(int fd, const char *path, struct tamis_diag *diag);
/* The same, and every page of its trees. */
int catalog_file_scrub(int fd, const char *path, struct tamis_diag *diag);
/* The size of its pages; LMDB's default here if the first page is lost. */
size_t catalog_page_bytes(int fd);
/* The newest transaction in the file. Reads again if that is below `known`, as a writer
 * may be at work. Below 0 if it is no catalog any more, or an errno. */
int catalog_file_newest(int fd, uint64_t known, uint64_t *newest);
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
/* 0, ERR_DAMAGED, or an errno if they can't be read. */
int catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
                 const struct catalog_state *s);

#endif
