/* What must hold before LMDB may map a catalog file. LMDB believes its file: handed
 * zeros, a stub or a truncated copy it fails obscurely or crashes. So its two meta
 * pages are read here first, by pread, and compared with the file's size. (Against a
 * crafted file this is no defence: the store's directory is trusted that far.) */
#include "lib/store/store.h"

/* LMDB's own layout, in native byte order and sizes (lmdb 0.9, data version 1). */
struct lmdb_db {
    uint32_t page_bytes; /* in the first of the two */
    uint16_t flags, depth;
    size_t n_branch, n_leaf, n_overflow, n_entries, root;
};
struct lmdb_meta_page {
    size_t number;
    uint16_t unused, flags;
    uint32_t bounds;
    uint32_t magic, version;
    void *address;
    size_t map_bytes;
    struct lmdb_db dbs[2];
    size_t last_page, txn;
};
enum { LMDB_META_FLAG = 0x08, LMDB_VERSION = 1 };
#define LMDB_MAGIC UINT32_C(0xBEEFC0DE)

/* LMDB's pages have the machine's word size; this and catalog_walk.c know those of 64
 * bits. */
_Static_assert(sizeof(size_t) == 8 && sizeof(void *) == 8 && sizeof(off_t) == 8,
               "tamis needs a 64-bit machine");
enum { MAGIC_AT_32_BITS = 12 }; /* after a page head with a number of 4 bytes */

static int not_lmdb(struct tamis_diag *diag, const char *path, uint64_t offset,
                    const char *what)
{
    int rc = diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path, "%s", what);
    diag_at(diag, offset);
    return rc;
}

/* The magic of another byte order, or where machines of 32 bits have it. */
static bool is_foreign(const struct lmdb_meta_page *m)
{
    uint32_t there;
    memcpy(&there, (const uint8_t *)m + MAGIC_AT_32_BITS, sizeof there);
    return m->magic == __builtin_bswap32(LMDB_MAGIC) || there == LMDB_MAGIC ||
           there == __builtin_bswap32(LMDB_MAGIC);
}

static int meta_page_check(const struct lmdb_meta_page *m, const char *path,
                           uint64_t offset, struct tamis_diag *diag)
{
    if (m->magic != LMDB_MAGIC && is_foreign(m))
        return diag_fail(diag, TAMIS_ERR_VERSION, path,
                         "written on another kind of machine (byte order or word "
                         "size): undamaged, but only that kind can read it");
    if (m->magic != LMDB_MAGIC || !(m->flags & LMDB_META_FLAG))
        return not_lmdb(diag, path, offset,
                        all_zero(m, sizeof *m) ? "zeros where the catalog should begin"
                                               : "not an LMDB file (wrong magic)");
    if (m->version == LMDB_VERSION)
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, path, "LMDB data version %u, not %d",
                     (unsigned)m->version, LMDB_VERSION);
}

static int cut_short(struct tamis_diag *diag, const char *path, uint64_t file_bytes,
                     const struct lmdb_meta_page *m)
{
    int rc =
        diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                  "cut short: %llu bytes, but pages up to %llu are in use",
                  (unsigned long long)file_bytes, (unsigned long long)m->last_page);
    diag_at(diag, file_bytes);
    return rc;
}

struct metas {
    struct lmdb_meta_page page[2];
    size_t page_bytes;
};

static int load_meta(int fd, const char *path, uint64_t offset,
                     struct lmdb_meta_page *m, struct tamis_diag *diag)
{
    size_t got;
    int rc = io_read(fd, m, sizeof *m, offset, &got);
    if (rc)
        return diag_errno(diag, rc, path, "reading the catalog");
    if (got < sizeof *m)
        return not_lmdb(diag, path, offset + got,
                        offset + got ? "too short for a catalog"
                                     : "the catalog is empty");
    return meta_page_check(m, path, offset, diag);
}

static int load_metas(int fd, const char *path, struct metas *m,
                      struct tamis_diag *diag)
{
    int rc = load_meta(fd, path, 0, &m->page[0], diag);
    if (rc)
        return rc;
    size_t n = m->page_bytes = m->page[0].dbs[0].page_bytes;
    if (n < 512 || n > 65536 || (n & (n - 1)))
        return not_lmdb(diag, path, 0, "page size of the catalog makes no sense");
    return load_meta(fd, path, n, &m->page[1], diag);
}

static const struct lmdb_meta_page *newest(const struct metas *m)
{
    return &m->page[m->page[1].txn > m->page[0].txn];
}

/* LMDB does not write a page that a transaction took and gave back, so a good file may
 * end before the last page ever counted: then its trees must be looked at. While they
 * are, a writer may reuse their pages: what is wrong is wrong only if no transaction
 * was committed meanwhile. */
static int check(int fd, const char *path, bool thorough, struct tamis_diag *diag)
{
    struct metas m;
    uint64_t file_bytes;
    size_t txn = 0;
    for (int tries = 0; tries < 8; tries++) {
        int rc = load_metas(fd, path, &m, diag);
        if (rc)
            return rc;
        rc = io_size(fd, &file_bytes);
        if (rc)
            return diag_errno(diag, rc, path, "the catalog's size");
        const struct lmdb_meta_page *meta = newest(&m);
        bool whole = meta->last_page < file_bytes / m.page_bytes;
        if (whole && !thorough)
            return 0;
        struct catalog_tree trees[2] = {{meta->dbs[0].root, meta->dbs[0].n_entries},
                                        {meta->dbs[1].root, meta->dbs[1].n_entries}};
        rc = catalog_walk(fd, m.page_bytes, file_bytes, trees);
        if (rc >= 0)
            return rc ? diag_errno(diag, rc, path, "reading the catalog") : 0;
        if (tries && meta->txn == txn && whole)
            return diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                             "a page of its trees makes no sense");
        if (tries && meta->txn == txn)
            break;
        txn = meta->txn;
    }
    return cut_short(diag, path, file_bytes, newest(&m));
}

int catalog_file_check(int fd, const char *path, struct tamis_diag *diag)
{
    return check(fd, path, false, diag);
}

int catalog_file_scrub(int fd, const char *path, struct tamis_diag *diag)
{
    return check(fd, path, true, diag);
}
