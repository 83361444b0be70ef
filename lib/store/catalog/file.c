/* Checks a catalog file before LMDB maps it. LMDB believes its file: given
 * zeros, a stub or a truncated copy it fails obscurely or crashes. So its two meta
 * pages are read here first, by pread, and compared with the file's size. (Against a
 * crafted file this is no defence: the store's directory is trusted that far.) */
#include "lib/store/catalog/file.h"

/* LMDB's own layout, in native byte order and sizes (lmdb 0.9, data version 1). */
struct lmdb_meta_page {
    size_t number;
    uint16_t unused, flags;
    uint32_t bounds;
    uint32_t magic, version;
    void *address;
    size_t map_bytes;
    struct catalog_state state;
};
_Static_assert(sizeof(struct catalog_tree) == 48, "as in the file");
enum { LMDB_META_FLAG = 0x08, LMDB_VERSION = 1 };
#define LMDB_MAGIC UINT32_C(0xBEEFC0DE)

/* LMDB's pages have the machine's word size; this and walk.c know those of 64
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
    int rc = diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                       "cut short: %llu bytes, but pages up to %llu are in use",
                       (unsigned long long)file_bytes,
                       (unsigned long long)m->state.last_page);
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
    if (got < sizeof *m) {
        uint64_t end = offset + got;
        if (got == 0 && offset && (rc = io_size(fd, &end)) != 0)
            return diag_errno(diag, rc, path, "the catalog's size");
        return not_lmdb(diag, path, end,
                        end ? "too short for a catalog" : "the catalog is empty");
    }
    return meta_page_check(m, path, offset, diag);
}

static bool page_size_good(size_t n)
{
    return n >= 512 && n <= 65536 && (n & (n - 1)) == 0;
}

static int load_metas(int fd, const char *path, struct metas *m,
                      struct tamis_diag *diag)
{
    int rc = load_meta(fd, path, 0, &m->page[0], diag);
    if (rc)
        return rc;
    size_t n = m->page_bytes = m->page[0].state.trees[0].page_bytes;
    if (!page_size_good(n))
        return not_lmdb(diag, path, 0, "page size of the catalog makes no sense");
    return load_meta(fd, path, n, &m->page[1], diag);
}

size_t catalog_page_bytes(int fd)
{
    enum { LMDB_MOST = 32768 };
    struct lmdb_meta_page m;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (load_meta(fd, "", 0, &m, NULL) == 0 &&
        page_size_good(m.state.trees[0].page_bytes))
        return m.state.trees[0].page_bytes;
    return page < LMDB_MOST ? page : LMDB_MOST;
}

static const struct lmdb_meta_page *newest(const struct metas *m)
{
    return &m->page[m->page[1].state.txn > m->page[0].state.txn];
}

/* A page that is being written while it is read may show any number. Two equal readings
 * one after the other are believed. */
int catalog_file_newest(int fd, uint64_t known, uint64_t *newest_txn)
{
    enum { TRIES = 8 };
    struct metas m, before;
    for (int i = 0; i < TRIES; i++) {
        struct tamis_diag why = {0};
        int rc = load_metas(fd, "", &m, &why);
        if (rc)
            return rc;
        *newest_txn = newest(&m)->state.txn;
        if (*newest_txn >= known || (i && memcmp(&m, &before, sizeof m) == 0))
            return 0;
        before = m;
    }
    return 0;
}

uint64_t catalog_file_shows(const struct mapping *metas)
{
    uint64_t txn[2] = {0};
    for (size_t i = 0; i < 2 && metas->base; i++) {
        const uint8_t *page = metas->base + i * (metas->n_bytes / 2);
        txn[i] = __atomic_load_n(&((const struct lmdb_meta_page *)page)->state.txn,
                                 __ATOMIC_ACQUIRE);
    }
    return txn[txn[1] > txn[0]];
}

/* Transactions take turns with the two pages: each holds the odd or the even ones, and
 * the older is the last but one. In a new file both are 0. */
static bool metas_agree(const struct metas *m)
{
    uint64_t even = m->page[0].state.txn, odd = m->page[1].state.txn;
    bool turns = even % 2 == 0 && odd % 2 == 1 && (even + 1 == odd || odd + 1 == even);
    return (turns || (even == 0 && odd == 0)) && m->page[0].number == 0 &&
           m->page[1].number == 1 && m->page[0].flags == LMDB_META_FLAG &&
           m->page[1].flags == LMDB_META_FLAG &&
           m->page[1].state.trees[0].page_bytes == m->page_bytes;
}

static int makes_no_sense(struct tamis_diag *diag, const char *path)
{
    return diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                     "a page of the trees in catalog.lmdb makes no sense");
}

/* One look. ERR_DAMAGED without words: a writer may have been at it meanwhile. */
static int walk_once(int fd, const char *path, const struct metas *m,
                     const struct lmdb_meta_page *meta, uint64_t *file_bytes,
                     const struct catalog_visitor *v, struct tamis_diag *diag)
{
    int rc = io_size(fd, file_bytes);
    if (rc)
        return diag_errno(diag, rc, path, "the catalog's size");
    if (!metas_agree(m))
        return TAMIS_ERR_DAMAGED;
    rc = catalog_walk(fd, m->page_bytes, *file_bytes, &meta->state, v);
    return rc > 0 ? diag_errno(diag, rc, path, "reading the catalog") : rc;
}

int catalog_file_walk(int fd, const char *path, uint64_t txn, struct tamis_diag *diag)
{
    struct metas m, now;
    uint64_t file_bytes;
    int rc = load_metas(fd, path, &m, diag);
    if (rc)
        return rc;
    const struct lmdb_meta_page *meta = &m.page[txn & 1];
    if (txn == 0)
        meta = &m.page[0];
    if (meta->state.txn == txn)
        rc = walk_once(fd, path, &m, meta, &file_bytes, NULL, diag);
    else
        rc = TAMIS_ERR_DAMAGED;
    if (rc >= 0)
        return rc;
    /* Seen while it was being written? */
    rc = load_metas(fd, path, &now, diag);
    if (rc)
        return rc;
    return memcmp(&m, &now, sizeof m) != 0 || newest(&now)->state.txn > txn + 1
               ? EAGAIN
               : makes_no_sense(diag, path);
}

/* copy.c says why the pages stay, and why the meta pages are read twice more. */
int catalog_file_visit(int fd, const char *path, const struct catalog_visitor *v,
                       uint64_t *txn, struct tamis_diag *diag)
{
    struct metas m, now;
    uint64_t file_bytes;
    int rc = load_metas(fd, path, &m, diag);
    if (rc)
        return rc;
    const struct catalog_state *s = &newest(&m)->state;
    *txn = s->txn;
    int walked = walk_once(fd, path, &m, newest(&m), &file_bytes, v, diag);
    for (int i = 0; i < 2 && walked <= 0; i++) {
        rc = load_metas(fd, path, &now, diag);
        if (rc || memcmp(&m, &now, sizeof m) != 0)
            return rc ? rc : EAGAIN;
    }
    if (walked >= 0)
        return walked;
    return s->last_page < file_bytes / m.page_bytes
               ? makes_no_sense(diag, path)
               : cut_short(diag, path, file_bytes, newest(&m));
}

/* A file that is written all the time is in use: the next opener walks it again. */
int catalog_file_scrub(int fd, const char *path, struct tamis_diag *diag)
{
    uint64_t txn;
    int rc = EAGAIN;
    for (int tries = 0; tries < 8 && rc == EAGAIN; tries++)
        rc = catalog_file_visit(fd, path, NULL, &txn, diag);
    return rc == EAGAIN ? 0 : rc;
}

/* LMDB does not write a page that a transaction took and gave back, so a good file may
 * end before the last page ever counted: then its trees must be looked at. */
int catalog_file_check(int fd, const char *path, struct tamis_diag *diag)
{
    struct metas m;
    uint64_t file_bytes;
    int rc = load_metas(fd, path, &m, diag);
    if (rc)
        return rc;
    rc = io_size(fd, &file_bytes);
    if (rc)
        return diag_errno(diag, rc, path, "the catalog's size");
    return metas_agree(&m) && newest(&m)->state.last_page < file_bytes / m.page_bytes
               ? 0
               : catalog_file_scrub(fd, path, diag);
}
