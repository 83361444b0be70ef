/* Walks the trees of an LMDB file by pread, for LMDB believes what it reads through its
 * mapping. Are all pages where and what they should be, each once, and as many of each
 * kind as the tree's root says? Are the keys in order and none missing? Is no free page
 * in use? A difference from what LMDB 0.9 writes is damage. The walk takes place when a
 * store is opened, before each transaction that writes, and in verify and repair.
 *
 * A page's nodes fill it from mp_upper to its end, without gaps and without overlap,
 * since LMDB closes the gap of a node that it takes out. So a damaged offset or length
 * shows. */
#include "lib/store/catalog/walk.h"

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

/* A page of a tree, its nodes checked; NULL if it is none. The caller frees it. */
static uint8_t *walk_page(struct walk *w, uint64_t number, bool branch)
{
    if (number >= w->n_pages)
        return NULL;
    uint8_t *page = malloc(w->page_bytes);
    if (!page)
        w->failed = ENOMEM;
    if (page && walk_read(w, page, w->page_bytes, number * w->page_bytes) &&
        walk_good(w, page, number, branch))
        return page;
    free(page);
    return NULL;
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

/* The key of a branch's first node may be any: it is not looked at. */
static bool branch_key(struct tree *t, const struct node *n, size_t index)
{
    return index == 0 || next_key(t, n, true);
}

/* A branch above leaves. LMDB mostly puts them side by side: one read for several. */
static bool walk_leaves(struct walk *w, struct tree *t, const uint8_t *branch)
{
    uint8_t *leaves = malloc(WALK_AHEAD * w->page_bytes);
    size_t n = walk_count(branch), at = 0, n_read = 0;
    bool good = leaves != NULL;
    if (!good)
        w->failed = ENOMEM;
    for (size_t i = 0; good && i < n; i++, at++) {
        struct node node = walk_node(branch, i, true);
        if (at == n_read) {
            at = 0;
            n_read = walk_children(w, branch, i, leaves);
        }
        const uint8_t *leaf = leaves + at * w->page_bytes;
        good = n_read && branch_key(t, &node, i) &&
               walk_good(w, leaf, node.child, false) && leaf_nodes(w, t, leaf);
    }
    free(leaves);
    return good;
}

static bool walk_pages(struct walk *w, struct tree *t, uint64_t number, unsigned level);

static bool branch_nodes(struct walk *w, struct tree *t, const uint8_t *page,
                         unsigned level)
{
    size_t n = walk_count(page);
    t->counted.n_branch++;
    if (n == 1 && t->kind != TREE_FREE) /* LMDB's own list may be left with one child */
        return false;
    if (level + 1 == t->depth)
        return walk_leaves(w, t, page);
    for (size_t i = 0; i < n; i++) {
        struct node node = walk_node(page, i, true);
        if (!branch_key(t, &node, i) || !walk_pages(w, t, node.child, level + 1))
            return false;
    }
    return true;
}

static bool walk_pages(struct walk *w, struct tree *t, uint64_t number, unsigned level)
{
    bool branch = level < t->depth;
    uint8_t *page = walk_page(w, number, branch);
    bool good =
        page && (branch ? branch_nodes(w, t, page, level) : leaf_nodes(w, t, page));
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
        (!empty && !walk_pages(w, &t, said->root, 1)))
        return false;
    const struct catalog_tree *c = &t.counted;
    return c->n_branch == said->n_branch && c->n_leaf == said->n_leaf &&
           c->n_overflow == said->n_overflow && c->n_entries == said->n_entries;
}

int catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
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
