/* Walks the trees of an LMDB file by pread, to tell whether every page that they reach
 * lies inside the file: through LMDB's mapping, one that does not is SIGBUS. Run only
 * for a file that is shorter than its meta page says, which is rarely a good one. */
#include "lib/store/store.h"

#include <stdlib.h>

enum {
    PAGE_HEAD = 16,
    PAGE_BRANCH = 1,
    PAGE_LEAF = 2,
    NODE_HEAD = 8,
    NODE_BIG = 1,  /* the data lies in overflow pages */
    NODE_TREE = 2, /* the data is the root of a named database */
    TREE_BYTES = 48,
    TREE_ROOT_AT = 40,
    MAX_DEPTH = 32,
};

struct walk {
    int fd;
    size_t page_bytes;
    uint64_t n_pages; /* whole ones in the file */
    uint64_t n_left;  /* pages that may still be read: a tree has each at most once */
};

/* LMDB writes numbers in the machine's own order, and not always aligned. */
static uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool walk_tree(struct walk *w, uint64_t root, int depth);

static bool walk_leaf_node(struct walk *w, const uint8_t *node, size_t room, int depth)
{
    uint16_t flags = get16(node + 4);
    size_t n = (size_t)get16(node) | (size_t)get16(node + 2) << 16;
    size_t at = NODE_HEAD + (size_t)get16(node + 6);
    if (flags & NODE_BIG) {
        if (at + 8 > room)
            return false;
        uint64_t first = get64(node + at);
        return first < w->n_pages &&
               (PAGE_HEAD + n - 1) / w->page_bytes < w->n_pages - first;
    }
    if (at > room || n > room - at)
        return false;
    if (flags & NODE_TREE)
        return n == TREE_BYTES && walk_tree(w, get64(node + at + TREE_ROOT_AT), depth);
    return true;
}

static bool walk_page(struct walk *w, const uint8_t *page, int depth)
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
        uint64_t child = (uint64_t)get16(node) | (uint64_t)get16(node + 2) << 16 |
                         (uint64_t)get16(node + 4) << 32;
        if (branch ? !walk_tree(w, child, depth + 1)
                   : !walk_leaf_node(w, node, w->page_bytes - at, depth + 1))
            return false;
    }
    return true;
}

static bool walk_tree(struct walk *w, uint64_t root, int depth)
{
    size_t got;
    if (root == UINT64_MAX)
        return true; /* an empty tree */
    /* Pages that lead back to each other would keep us for ever. */
    if (depth > MAX_DEPTH || root >= w->n_pages || w->n_left == 0)
        return false;
    w->n_left--;
    uint8_t *page = malloc(w->page_bytes);
    bool good =
        page && io_read(w->fd, page, w->page_bytes, root * w->page_bytes, &got) == 0 &&
        got == w->page_bytes && get64(page) == root && walk_page(w, page, depth);
    free(page);
    return good;
}

bool catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
                  const uint64_t roots[2])
{
    struct walk w = {fd, page_bytes, file_bytes / page_bytes, file_bytes / page_bytes};
    return walk_tree(&w, roots[0], 0) && walk_tree(&w, roots[1], 0);
}
