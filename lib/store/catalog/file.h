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

/* ---- the trees, for those who visit their nodes ---- */

enum {
    PAGE_HEAD = 16,
    PAGE_BRANCH = 1,
    PAGE_LEAF = 2,
    PAGE_OVERFLOW = 4,
    NODE_HEAD = 8,
    NODE_BIG = 1,  /* the data lies in overflow pages */
    NODE_TREE = 2, /* the data is the root of a named database */
    FIRST_PAGE = 2,
    MAX_DEPTH = 32,
    MAX_KEY_BYTES = 511,
    WALK_AHEAD = 16, /* pages that are read at once, if they are neighbours */
};

struct catalog_visitor;
struct walk {
    int fd;
    size_t page_bytes;
    uint64_t n_pages;   /* pages that a tree may have: counted, and whole in the file */
    uint64_t last_page; /* the last that may be free: it need not be in the file */
    uint64_t txn;
    uint8_t *seen; /* a bit per page, in a tree or free: none may occur twice */
    /* For one page, by offset / 2: the end of the node that begins there. Zeros between
     * pages. */
    uint32_t *ends;
    int failed; /* an errno of a read: the trees may be good */
    const struct catalog_visitor *visitor; /* may be NULL */
};

/* LMDB's numbers have the machine's byte order, and may be unaligned. */
static inline uint16_t walk_get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t walk_get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t walk_get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* LMDB's order of names. */
static inline int walk_compare(const void *a, size_t a_bytes, const void *b,
                               size_t b_bytes)
{
    if (a_bytes >= sizeof(uint64_t) && b_bytes >= sizeof(uint64_t)) {
        uint64_t x = be64toh(walk_get64(a)), y = be64toh(walk_get64(b));
        if (x != y) /* mostly */
            return x < y ? -1 : 1;
    }
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

/* One node of a page. */
struct node {
    const uint8_t *key, *data;
    size_t key_bytes;
    size_t data_bytes; /* leaf: wherever the data lies */
    uint64_t child;    /* branch */
    uint16_t flags;    /* leaf */
};

/* n_bytes of the file into p; false also at its end. */
bool walk_read(struct walk *w, void *p, size_t n_bytes, uint64_t offset);
size_t walk_count(const uint8_t *page);
struct node walk_node(const uint8_t *page, size_t index, bool branch);

/* Sees each node of the main tree, then those of the database that it names. `first`:
 * of the overflow pages with its data, or 0. False ends the walk. */
struct catalog_visitor {
    bool (*node)(struct walk *w, const struct node *n, uint64_t first, bool named);
    void *ctx;
};
/* Walks the newest transaction's trees without LMDB's leave. EAGAIN: the file changed
 * meanwhile, and what v saw counts for nothing. */
int catalog_file_visit(int fd, const char *path, const struct catalog_visitor *v,
                       uint64_t *txn, struct tamis_diag *diag);

/* ---- copy.c: its records without LMDB, in memory, as of one transaction ---- */

struct catalog_copy {
    uint64_t txn;     /* the transaction that it is of */
    unsigned at, met; /* the database that is walked; a bit for each */
    size_t n[CATALOG_DBS];
    struct copied_record **all; /* of one database after the other */
};
/* For a reader without a slot in LMDB's table: copies through `fd` what LMDB would
 * read. ERR_BUSY: every try met a commit. Another error: the file is at fault. */
int catalog_copy_read(int fd, const char *path, struct catalog_copy **out,
                      struct tamis_diag *diag);
void catalog_copy_free(struct catalog_copy *c);
/* In the order of names. A value longer than any record comes with no bytes. */
void catalog_copy_at(const struct catalog_copy *c, enum catalog_db db, size_t index,
                     struct piece *name, struct piece *value);
/* False if there is no such record. */
bool catalog_copy_get(const struct catalog_copy *c, enum catalog_db db,
                      struct piece name, struct piece *value);

#endif
