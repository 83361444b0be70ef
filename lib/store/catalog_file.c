/* What must hold before LMDB may map a catalog file. LMDB believes its file: handed
 * zeros, a stub or a truncated copy it fails obscurely or crashes. So its two meta
 * pages are read here first, by pread, and compared with the file's size. (Against a
 * crafted file this is no defence: the store's directory is trusted that far.) */
#include "lib/store/store.h"

#include <errno.h>

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
#define LMDB_MAGIC   UINT32_C(0xBEEFC0DE)
#define LMDB_NO_PAGE SIZE_MAX

static int not_lmdb(struct tamis_diag *diag, const char *path, uint64_t offset,
                    const char *what)
{
    int rc = diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path, "%s", what);
    diag_at(diag, offset);
    return rc;
}

static int meta_page_check(const struct lmdb_meta_page *m, const char *path,
                           uint64_t offset, struct tamis_diag *diag)
{
    if (m->magic != LMDB_MAGIC || !(m->flags & LMDB_META_FLAG))
        return not_lmdb(diag, path, offset,
                        all_zero(m, sizeof *m) ? "zeros where the catalog should begin"
                                               : "not an LMDB file (wrong magic)");
    if (m->version == LMDB_VERSION)
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, path, "LMDB data version %u, not %d",
                     (unsigned)m->version, LMDB_VERSION);
}

/* The file may end before the last page ever used, for LMDB does not write pages that
 * a transaction took and gave back; but not before a root, and not by much. */
enum { LMDB_UNWRITTEN_PAGES = 64 };

static int meta_size_check(const struct lmdb_meta_page *m, size_t page_bytes,
                           uint64_t file_bytes, const char *path,
                           struct tamis_diag *diag)
{
    uint64_t n_pages = file_bytes / page_bytes;
    bool bad = m->last_page >= LMDB_UNWRITTEN_PAGES &&
               n_pages < m->last_page - LMDB_UNWRITTEN_PAGES;
    for (int i = 0; i < 2; i++) {
        size_t root = m->dbs[i].root;
        bad = bad || (root != LMDB_NO_PAGE && (root >= n_pages || root > m->last_page));
    }
    if (!bad)
        return 0;
    int rc =
        diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                  "cut short: %llu bytes, but pages up to %llu are in use",
                  (unsigned long long)file_bytes, (unsigned long long)m->last_page);
    diag_at(diag, file_bytes);
    return rc;
}

int catalog_file_check(int fd, const char *path, struct tamis_diag *diag)
{
    struct lmdb_meta_page meta[2];
    uint64_t file_bytes;
    size_t got, page_bytes;
    int rc = io_size(fd, &file_bytes);
    if (rc)
        return diag_errno(diag, rc, path, "the catalog's size");
    rc = io_read(fd, &meta[0], sizeof meta[0], 0, &got);
    if (rc)
        return diag_errno(diag, rc, path, "reading the catalog");
    if (got < sizeof meta[0])
        return not_lmdb(diag, path, got,
                        got ? "too short for a catalog" : "the catalog is empty");
    rc = meta_page_check(&meta[0], path, 0, diag);
    if (rc)
        return rc;
    page_bytes = meta[0].dbs[0].page_bytes;
    if (page_bytes < 512 || page_bytes > 65536 || (page_bytes & (page_bytes - 1)))
        return not_lmdb(diag, path, 0, "page size of the catalog makes no sense");
    rc = io_read(fd, &meta[1], sizeof meta[1], page_bytes, &got);
    if (rc)
        return diag_errno(diag, rc, path, "reading the catalog");
    if (got < sizeof meta[1])
        return not_lmdb(diag, path, page_bytes + got, "too short for a catalog");
    rc = meta_page_check(&meta[1], path, page_bytes, diag);
    if (rc)
        return rc;
    const struct lmdb_meta_page *newest = &meta[meta[1].txn > meta[0].txn];
    return meta_size_check(newest, page_bytes, file_bytes, path, diag);
}
