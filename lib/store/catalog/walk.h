/* An LMDB file as walk.c reads it, for those who visit its nodes. */
#ifndef TAMIS_STORE_CATALOG_WALK_H
#define TAMIS_STORE_CATALOG_WALK_H

#include "lib/store/catalog/file.h"

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
    WALK_AHEAD = 16, /* leaves that are read at once, if they are neighbours */
};

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

#endif
