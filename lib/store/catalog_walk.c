/* Walks the trees of an LMDB file by pread. Does every page that they reach lie inside
 * the file? (Through LMDB's mapping, one that does not is SIGBUS.) Are the keys in
 * order, and as many as the tree's root says? (Else a record has gone that LMDB would
 * not miss.) Opening a store does so for a file that is shorter than its meta page
 * says, which is rarely a good one; repair does it always. */
#include "lib/store/store.h"

#include <errno.h>
#include <stdlib.h>

enum {
    PAGE_HEAD = 16,
    PAGE_BRANCH = 1,
    PAGE_LEAF = 2,
    NODE_HEAD = 8,
    NODE_BIG = 1,  /* the data lies in overflow pages */
    NODE_TREE = 2, /* the data is the root of a named database */
    TREE_BYTES = 48,
    TREE_ENTRIES_AT = 32,
    TREE_ROOT_AT = 40,
    MAX_DEPTH = 32,
    MAX_KEY_BYTES = 511,
};

struct walk {
    int fd;
    size_t page_bytes;
    uint64_t n_pages; /* whole ones in the file */
    uint64_t n_left;  /* pages that may still be read: a tree has each at most once */
    int failed;       /* an errno: what could not be read says nothing of the trees */
};

/* One tree: the last key that was met in it, and how many. */
struct tree {
    bool numbers;   /* keys are numbers of eight bytes, as in the list of free pages */
    bool separator; /* the last key is a branch's: what follows may equal it */
    bool any;
    uint64_t n_entries;
    size_t key_bytes;
    uint8_t key[MAX_KEY_BYTES];
};

/* LMDB writes numbers in the machine's own order, and not always aligned. */
static uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool walk_pages(struct walk *w, struct tree *t, uint64_t root, int depth);

static bool walk_tree(struct walk *w, const struct catalog_tree *tree, bool numbers,
                      int depth)
{
    struct tree t = {.numbers = numbers};
    return (tree->root == UINT64_MAX || walk_pages(w, &t, tree->root, depth)) &&
           t.n_entries == tree->n_entries;
}

static int compare_keys(const struct tree *t, const uint8_t *key, size_t n)
{
    if (t->numbers) {
        uint64_t a = get64(t->key), b = get64(key);
        return a < b ? -1 : a > b;
    }
    int order = memcmp(t->key, key, n < t->key_bytes ? n : t->key_bytes);
    return order ? order : t->key_bytes < n ? -1 : t->key_bytes > n;
}

/* A branch's key lies above all that comes before it, and not above what follows. */
static bool next_key(struct tree *t, const uint8_t *key, size_t n, bool separator)
{
    if (n == 0 || n > MAX_KEY_BYTES || (t->numbers && n != sizeof(uint64_t)))
        return false;
    int order = t->any ? compare_keys(t, key, n) : -1;
    if (order > 0 || (order == 0 && !t->separator))
        return false;
    memcpy(t->key, key, n);
    t->key_bytes = n;
    t->separator = separator;
    t->n_entries += !separator;
    return t->any = true;
}

/* Two halves, the lower one first on a little-endian machine and last on a big-endian
 * one: together they are a number in the machine's own order. */
static uint32_t node_number(const uint8_t *node)
{
    return get32(node);
}

static bool walk_leaf_node(struct walk *w, struct tree *t, const uint8_t *node,
                           size_t room, int depth)
{
    uint16_t flags = get16(node + 4);
    size_t n = node_number(node);
    size_t key_bytes = get16(node + 6), at = NODE_HEAD + key_bytes;
    if (at > room || !next_key(t, node + NODE_HEAD, key_bytes, false))
        return false;
    if (flags & NODE_BIG) {
        if (at + 8 > room)
            return false;
        uint64_t first = get64(node + at);
        return first < w->n_pages &&
               (PAGE_HEAD + n - 1) / w->page_bytes < w->n_pages - first;
    }
    if (n > room - at)
        return false;
    if (!(flags & NODE_TREE))
        return true;
    if (n != TREE_BYTES)
        return false;
    struct catalog_tree tree = {get64(node + at + TREE_ROOT_AT),
                                get64(node + at + TREE_ENTRIES_AT)};
    return walk_tree(w, &tree, false, depth);
}

static bool walk_branch_node(struct walk *w, struct tree *t, const uint8_t *node,
                             size_t room, bool first, int depth)
{
    uint64_t child = node_number(node) | (uint64_t)get16(node + 4) << 32;
    size_t key_bytes = get16(node + 6);
    if (NODE_HEAD + key_bytes > room)
        return false;
    /* The first one's key is not looked at, whatever it is. */
    return (first || next_key(t, node + NODE_HEAD, key_bytes, true)) &&
           walk_pages(w, t, child, depth);
}

static bool walk_page(struct walk *w, struct tree *t, const uint8_t *page, int depth)
{
    uint16_t flags = get16(page + 10), lower = get16(page + 12);
    bool branch = flags & PAGE_BRANCH;
    if (lower < PAGE_HEAD || lower > w->page_bytes ||
        !(flags & (PAGE_BRANCH | PAGE_LEAF)))
        return false;
    for (size_t i = PAGE_HEAD; i + 1 < lower; i += 2) {
        size_t at = get16(page + i);
        if (at < lower || at + NODE_HEAD > w->page_bytes)
            return false;
        const uint8_t *node = page + at;
        size_t room = w->page_bytes - at;
        if (branch ? !walk_branch_node(w, t, node, room, i == PAGE_HEAD, depth + 1)
                   : !walk_leaf_node(w, t, node, room, depth + 1))
            return false;
    }
    return true;
}

static bool walk_pages(struct walk *w, struct tree *t, uint64_t root, int depth)
{
    size_t got;
    /* Pages that lead back to each other would keep us for ever. */
    if (depth > MAX_DEPTH || root >= w->n_pages || w->n_left == 0)
        return false;
    w->n_left--;
    uint8_t *page = malloc(w->page_bytes);
    int rc =
        page ? io_read(w->fd, page, w->page_bytes, root * w->page_bytes, &got) : ENOMEM;
    if (rc)
        w->failed = rc;
    bool good = !rc && got == w->page_bytes && get64(page) == root &&
                walk_page(w, t, page, depth);
    free(page);
    return good;
}

int catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
                 const struct catalog_tree trees[2])
{
    struct walk w = {fd, page_bytes, file_bytes / page_bytes, file_bytes / page_bytes,
                     0};
    if (walk_tree(&w, &trees[0], true, 0) && walk_tree(&w, &trees[1], false, 0))
        return 0;
    return w.failed ? w.failed : TAMIS_ERR_DAMAGED;
}
