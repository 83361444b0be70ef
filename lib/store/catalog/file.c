/* Checks a catalog file before LMDB maps it. LMDB believes its file: given
 * zeros, a stub or a truncated copy it fails obscurely or crashes. So its two meta
 * pages are read here first, by pread, and compared with the file's size. (Against a
 * crafted file this is no defence: the store's directory is trusted that far.)
 *
 * Then the trees are walked by pread, for LMDB believes what it reads through its
 * mapping. Are all pages where and what they should be, each once, and as many of each
 * kind as the tree's root says? Are the keys in order and none missing? Is no free page
 * in use? A difference from what LMDB 0.9 writes is damage. The walk takes place when a
 * store is opened, before each transaction that writes, and in verify and repair.
 *
 * A page's nodes fill it from mp_upper to its end, without gaps and without overlap,
 * since LMDB closes the gap of a node that it takes out. So a damaged offset or length
 * shows. */
#include "lib/store/catalog/file.h"

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

/* ---- pages ---- */

bool walk_read(struct walk *w, void *p, size_t n_bytes, uint64_t offset)
{
    size_t got;
    int rc = io_read(w->fd, p, n_bytes, offset, &got);
    if (rc)
        w->failed = rc;
    return !rc && got == n_bytes;
}

/* Marks pages as seen. False if a page was met before, or may not be used. */
static bool walk_mark(struct walk *w, uint64_t page, uint64_t n, uint64_t end)
{
    if (page < FIRST_PAGE || page >= end || n > end - page)
        return false;
    for (uint64_t i = page; i < page + n; i++) {
        uint8_t bit = (uint8_t)(1 << (i & 7));
        if (w->seen[i >> 3] & bit)
            return false;
        w->seen[i >> 3] |= bit;
    }
    return true;
}

size_t walk_count(const uint8_t *page)
{
    return (size_t)(walk_get16(page + 12) - PAGE_HEAD) / 2;
}

static size_t node_at(const uint8_t *page, size_t index)
{
    return walk_get16(page + PAGE_HEAD + 2 * index);
}

struct node walk_node(const uint8_t *page, size_t index, bool branch)
{
    const uint8_t *p = page + node_at(page, index);
    struct node n = {.key = p + NODE_HEAD, .key_bytes = walk_get16(p + 6)};
    /* Two halves, the lower one first on a little-endian machine and last on a
     * big-endian one: together they are a number in the machine's own order. */
    uint64_t low = walk_get32(p);
    n.data = n.key + n.key_bytes;
    if (branch)
        n.child = low | (uint64_t)walk_get16(p + 4) << 32;
    else {
        n.data_bytes = (size_t)low;
        n.flags = walk_get16(p + 4);
    }
    return n;
}

/* Returns the bytes that the node takes in its page. */
static size_t node_bytes(const struct node *n, bool branch)
{
    size_t in_page = n->flags & NODE_BIG ? sizeof(uint64_t) : n->data_bytes;
    size_t bytes = NODE_HEAD + n->key_bytes + (branch ? 0 : in_page);
    return bytes + (bytes & 1);
}

/* Notes where each node ends. Returns how many it could note: the next node lies over
 * another, or outside. */
static size_t note_ends(const struct walk *w, const uint8_t *page, bool branch)
{
    size_t n = walk_count(page), at = walk_get16(page + 14);
    uint32_t *ends = w->ends;
    for (size_t i = 0; i < n; i++) {
        size_t from = node_at(page, i);
        if (from < at || from & 1 || from + NODE_HEAD > w->page_bytes || ends[from / 2])
            return i;
        struct node node = walk_node(page, i, branch);
        size_t bytes = node_bytes(&node, branch);
        if (bytes > w->page_bytes - from)
            return i;
        ends[from / 2] = (uint32_t)(from + bytes);
    }
    return n;
}

static bool nodes_tile(const struct walk *w, const uint8_t *page, bool branch)
{
    size_t n = walk_count(page), at = walk_get16(page + 14), n_met = 0;
    bool noted = note_ends(w, page, branch) == n;
    for (uint32_t end; noted && at < w->page_bytes && (end = w->ends[at / 2]);
         at = end) {
        w->ends[at / 2] = 0; /* the next page begins with zeros */
        n_met++;
    }
    if (at == w->page_bytes && n_met == n)
        return true;
    memset(w->ends, 0, w->page_bytes / 2 * sizeof *w->ends);
    return false;
}

static bool walk_good(struct walk *w, const uint8_t *page, uint64_t number, bool branch)
{
    uint16_t lower = walk_get16(page + 12), upper = walk_get16(page + 14);
    return walk_mark(w, number, 1, w->n_pages) && walk_get64(page) == number &&
           walk_get16(page + 10) == (branch ? PAGE_BRANCH : PAGE_LEAF) &&
           lower >= PAGE_HEAD + 2 && !(lower & 1) && lower <= upper && !(upper & 1) &&
           upper < w->page_bytes && nodes_tile(w, page, branch);
}

/* Reads the child of a branch's node, and children of the next nodes that follow it in
 * the file, up to WALK_AHEAD. Returns how many; 0: the child can't be read. */
static size_t walk_children(struct walk *w, const uint8_t *page, size_t index,
                            uint8_t *pages)
{
    size_t n_nodes = walk_count(page), n = 0;
    uint64_t first = walk_node(page, index, true).child;
    while (n < WALK_AHEAD && index + n < n_nodes && first + n < w->n_pages &&
           walk_node(page, index + n, true).child == first + n)
        n++;
    return n && walk_read(w, pages, n * w->page_bytes, first * w->page_bytes) ? n : 0;
}

/* The overflow pages of a node's data: the first, and how many. A node whose data has
 * shrunk may have more pages than it needs. */
static bool walk_overflow(struct walk *w, const struct node *n, uint64_t *first,
                          uint64_t *n_pages)
{
    uint8_t head[PAGE_HEAD];
    *first = walk_get64(n->data);
    if (*first >= w->n_pages ||
        !walk_read(w, head, sizeof head, *first * w->page_bytes))
        return false;
    uint32_t count = walk_get32(head + 12);
    *n_pages = count;
    return walk_get64(head) == *first && walk_get16(head + 10) == PAGE_OVERFLOW &&
           count > (PAGE_HEAD + n->data_bytes - 1) / w->page_bytes &&
           walk_mark(w, *first, count, w->n_pages);
}

/* ---- the list of free pages ----
 * LMDB believes the list: the next transactions write over a page on it, even if the
 * page is in use, or on the list twice. */

/* Do the numbers descend? The list may have room for more. */
static bool numbers_good(struct walk *w, const uint8_t *list, size_t n_bytes)
{
    uint64_t n = walk_get64(list), above = UINT64_MAX;
    if (n > n_bytes / 8 - 1)
        return false;
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t page = walk_get64(list + 8 * i);
        if (page >= above || !walk_mark(w, page, 1, w->last_page + 1))
            return false;
        above = page;
    }
    return true;
}

/* One record of the free list: its key is a transaction, its data a count and page
 * numbers. first: its first overflow page, or 0. */
static bool walk_free_record(struct walk *w, const struct node *n, uint64_t first)
{
    uint64_t txn = walk_get64(n->key);
    if (txn == 0 || txn > w->txn || n->data_bytes % 8 || n->data_bytes < 8)
        return false;
    if (!first)
        return numbers_good(w, n->data, n->data_bytes);
    uint8_t *list = malloc(n->data_bytes);
    if (!list)
        w->failed = ENOMEM;
    bool good = list &&
                walk_read(w, list, n->data_bytes, first * w->page_bytes + PAGE_HEAD) &&
                numbers_good(w, list, n->data_bytes);
    free(list);
    return good;
}

/* ---- trees ---- */

enum tree_kind { TREE_FREE, TREE_MAIN, TREE_NAMED };
enum { FLAG_INTEGER_KEYS = 0x08, FLAG_NO_SUBDIR = 0x4000 };

/* One tree: the last key that was met in it, and what was counted. */
struct tree {
    enum tree_kind kind;
    unsigned depth;
    bool separator; /* the last key is a branch's: what follows may equal it */
    bool any;
    struct catalog_tree counted;
    size_t key_bytes;
    const uint8_t *key; /* in its page, until that is through; then in room */
    uint8_t room[MAX_KEY_BYTES];
};

/* A branch's key lies above all that comes before it, and not above what follows. */
static inline __attribute__((always_inline)) bool
next_key(struct tree *t, const struct node *n, bool separator)
{
    if (n->key_bytes == 0 || n->key_bytes > MAX_KEY_BYTES ||
        (t->kind == TREE_FREE && n->key_bytes != sizeof(uint64_t)))
        return false;
    int order = -1;
    if (t->any && t->kind == TREE_FREE) {
        uint64_t a = walk_get64(t->key), b = walk_get64(n->key); /* numbers */
        order = a < b ? -1 : a > b;
    } else if (t->any) {
        order = walk_compare(t->key, t->key_bytes, n->key, n->key_bytes);
    }
    if (order > 0 || (order == 0 && !t->separator))
        return false;
    t->key = n->key;
    t->key_bytes = n->key_bytes;
    t->separator = separator;
    t->counted.n_entries += !separator;
    return t->any = true;
}

static bool walk_tree(struct walk *w, const struct catalog_tree *said,
                      enum tree_kind kind);

static bool leaf_node(struct walk *w, struct tree *t, const struct node *n)
{
    uint64_t first = 0, n_pages = 0;
    if (n->flags > NODE_TREE || (n->flags == NODE_TREE) != (t->kind == TREE_MAIN) ||
        !next_key(t, n, false))
        return false;
    if (n->flags == NODE_BIG && !walk_overflow(w, n, &first, &n_pages))
        return false;
    t->counted.n_overflow += n_pages;
    if (t->kind == TREE_FREE)
        return walk_free_record(w, n, first);
    if (w->visitor && !w->visitor->node(w, n, first, t->kind == TREE_NAMED))
        return false;
    if (t->kind == TREE_NAMED)
        return true;
    struct catalog_tree named;
    if (n->data_bytes != sizeof named)
        return false;
    memcpy(&named, n->data, sizeof named);
    return walk_tree(w, &named, TREE_NAMED);
}

static bool leaf_nodes(struct walk *w, struct tree *t, const uint8_t *page)
{
    size_t n = walk_count(page);
    bool plain = t->kind == TREE_NAMED && !w->visitor; /* in a commit, mostly */
    t->counted.n_leaf++;
    for (size_t i = 0; i < n; i++) {
        struct node node = walk_node(page, i, false);
        if (plain && !node.flags ? !next_key(t, &node, false) : !leaf_node(w, t, &node))
            return false;
    }
    t->key = memcpy(t->room, t->key, t->key_bytes);
    return true;
}

static bool walk_page(struct walk *w, struct tree *t, const uint8_t *page,
                      uint64_t number, unsigned level);

/* LMDB mostly puts the children of a branch side by side: one read for several. */
static bool branch_nodes(struct walk *w, struct tree *t, const uint8_t *branch,
                         unsigned level)
{
    size_t n = walk_count(branch), at = 0, n_read = 0;
    t->counted.n_branch++;
    if (n == 1 && t->kind != TREE_FREE) /* LMDB's own list may be left with one child */
        return false;
    uint8_t *pages = malloc(WALK_AHEAD * w->page_bytes);
    bool good = pages != NULL;
    if (!good)
        w->failed = ENOMEM;
    for (size_t i = 0; good && i < n; i++, at++) {
        struct node node = walk_node(branch, i, true);
        if (at == n_read) {
            at = 0;
            n_read = walk_children(w, branch, i, pages);
        }
        /* The key of a branch's first node may be any: it is not looked at. */
        good = n_read && (i == 0 || next_key(t, &node, true)) &&
               walk_page(w, t, pages + at * w->page_bytes, node.child, level + 1);
    }
    free(pages);
    return good;
}

static bool walk_page(struct walk *w, struct tree *t, const uint8_t *page,
                      uint64_t number, unsigned level)
{
    bool branch = level < t->depth;
    return walk_good(w, page, number, branch) &&
           (branch ? branch_nodes(w, t, page, level) : leaf_nodes(w, t, page));
}

static bool walk_root(struct walk *w, struct tree *t, uint64_t number)
{
    uint8_t *page = number < w->n_pages ? malloc(w->page_bytes) : NULL;
    if (!page && number < w->n_pages)
        w->failed = ENOMEM;
    bool good = page && walk_read(w, page, w->page_bytes, number * w->page_bytes) &&
                walk_page(w, t, page, number, 1);
    free(page);
    return good;
}

static bool walk_tree(struct walk *w, const struct catalog_tree *said,
                      enum tree_kind kind)
{
    struct tree t = {.kind = kind, .depth = said->depth};
    unsigned flags = said->flags;
    /* LMDB keeps some of the environment's flags with those of this tree. */
    if (kind == TREE_FREE)
        flags = (flags & ~(unsigned)FLAG_NO_SUBDIR) ^ FLAG_INTEGER_KEYS;
    bool empty = said->root == UINT64_MAX;
    if (flags || empty != (said->depth == 0) || said->depth > MAX_DEPTH ||
        (!empty && !walk_root(w, &t, said->root)))
        return false;
    const struct catalog_tree *c = &t.counted;
    return c->n_branch == said->n_branch && c->n_leaf == said->n_leaf &&
           c->n_overflow == said->n_overflow && c->n_entries == said->n_entries;
}

/* 0, ERR_DAMAGED, or an errno if they can't be read. v may be NULL. */
static int catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
                        const struct catalog_state *s, const struct catalog_visitor *v)
{
    /* More pages than these LMDB never counts without writing them. */
    enum { MAX_UNWRITTEN = 1 << 20 };
    uint64_t in_file = file_bytes / page_bytes;
    if (s->last_page < FIRST_PAGE - 1 || s->last_page > in_file + MAX_UNWRITTEN)
        return TAMIS_ERR_DAMAGED;
    struct walk w = {.fd = fd, .page_bytes = page_bytes, .n_pages = s->last_page + 1};
    w.last_page = s->last_page;
    w.txn = s->txn;
    w.visitor = v;
    if (w.n_pages > in_file)
        w.n_pages = in_file;
    w.seen = calloc(s->last_page / 8 + 1, 1);
    w.ends = calloc(page_bytes / 2, sizeof *w.ends);
    if (!w.seen || !w.ends)
        w.failed = ENOMEM;
    bool good = !w.failed && walk_tree(&w, &s->trees[1], TREE_MAIN) &&
                walk_tree(&w, &s->trees[0], TREE_FREE);
    free(w.seen);
    free(w.ends);
    return good ? 0 : w.failed ? w.failed : TAMIS_ERR_DAMAGED;
}

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

/* LMDB's pages have the machine's word size; this file knows those of 64
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

static int meta_page_check(const struct lmdb_meta_page *m, const char *path,
                           uint64_t offset, struct tamis_diag *diag)
{
    /* The magic of another byte order, or where machines of 32 bits have it. */
    uint32_t there, swapped = __builtin_bswap32(LMDB_MAGIC);
    memcpy(&there, (const uint8_t *)m + MAGIC_AT_32_BITS, sizeof there);
    if (m->magic != LMDB_MAGIC &&
        (m->magic == swapped || there == LMDB_MAGIC || there == swapped))
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
    if (s->last_page < file_bytes / m.page_bytes)
        return makes_no_sense(diag, path);
    rc = diag_fail(diag, TAMIS_ERR_DAMAGED, path,
                   "cut short: %llu bytes, but pages up to %llu are in use",
                   (unsigned long long)file_bytes, (unsigned long long)s->last_page);
    diag_at(diag, file_bytes);
    return rc;
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
