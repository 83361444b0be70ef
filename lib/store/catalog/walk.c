/* Walks the trees of an LMDB file by pread, for LMDB believes what it reads through its
 * mapping. Are all pages where and what they should be, each once, and as many of each
 * kind as the tree's root says? Are the keys in order and none missing? Is no free page
 * in use? Whatever is not as LMDB writes it (0.9) is damage. It happens when a store is
 * opened, before each transaction that writes, and in verify and repair. */
#include "lib/store/catalog/walk.h"

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
    uint8_t key[MAX_KEY_BYTES];
};

static int compare_keys(const struct tree *t, const uint8_t *key, size_t n)
{
    if (t->kind == TREE_FREE) { /* numbers */
        uint64_t a = walk_get64(t->key), b = walk_get64(key);
        return a < b ? -1 : a > b;
    }
    return walk_compare(t->key, t->key_bytes, key, n);
}

/* A branch's key lies above all that comes before it, and not above what follows. */
static bool next_key(struct tree *t, const struct node *n, bool separator)
{
    if (n->key_bytes == 0 || n->key_bytes > MAX_KEY_BYTES ||
        (t->kind == TREE_FREE && n->key_bytes != sizeof(uint64_t)))
        return false;
    int order = t->any ? compare_keys(t, n->key, n->key_bytes) : -1;
    if (order > 0 || (order == 0 && !t->separator))
        return false;
    memcpy(t->key, n->key, n->key_bytes);
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
    t->counted.n_leaf++;
    for (size_t i = 0; i < n; i++) {
        struct node node = walk_node(page, i, false);
        if (!leaf_node(w, t, &node))
            return false;
    }
    return true;
}

/* The key of a branch's first node is not looked at, whatever it is. */
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
