/* Pages of an LMDB file and the nodes in them. A page's nodes fill it from mp_upper to
 * its end, without gaps and without overlap, since LMDB closes up whatever it takes
 * out: so a damaged offset or length does not go unseen. */
#include "lib/store/catalog/walk.h"

bool walk_read(struct walk *w, void *p, size_t n_bytes, uint64_t offset)
{
    size_t got;
    int rc = io_read(w->fd, p, n_bytes, offset, &got);
    if (rc)
        w->failed = rc;
    return !rc && got == n_bytes;
}

bool walk_mark(struct walk *w, uint64_t page, uint64_t n, uint64_t end)
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

/* Notes where each node ends. Returns how many could be noted: the first that could not
 * lies over another, or outside. */
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
    size_t n_noted = note_ends(w, page, branch);
    while (n_noted == n && at < w->page_bytes && w->ends[at / 2]) {
        at = w->ends[at / 2];
        n_met++;
    }
    for (size_t i = 0; i < n_noted; i++) /* the next page begins with zeros */
        w->ends[node_at(page, i) / 2] = 0;
    return at == w->page_bytes && n_met == n;
}

static bool page_good(const struct walk *w, const uint8_t *page, uint64_t number,
                      bool branch)
{
    uint16_t lower = walk_get16(page + 12), upper = walk_get16(page + 14);
    if (walk_get64(page) != number ||
        walk_get16(page + 10) != (branch ? PAGE_BRANCH : PAGE_LEAF) ||
        lower < PAGE_HEAD + 2 || lower & 1 || lower > upper || upper & 1 ||
        upper >= w->page_bytes)
        return false;
    return nodes_tile(w, page, branch);
}

uint8_t *walk_page(struct walk *w, uint64_t number, bool branch)
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

bool walk_good(struct walk *w, const uint8_t *page, uint64_t number, bool branch)
{
    return walk_mark(w, number, 1, w->n_pages) && page_good(w, page, number, branch);
}

size_t walk_children(struct walk *w, const uint8_t *page, size_t index, uint8_t *pages)
{
    size_t n_nodes = walk_count(page), n = 0;
    uint64_t first = walk_node(page, index, true).child;
    while (n < WALK_AHEAD && index + n < n_nodes && first + n < w->n_pages &&
           walk_node(page, index + n, true).child == first + n)
        n++;
    return n && walk_read(w, pages, n * w->page_bytes, first * w->page_bytes) ? n : 0;
}

/* There may be more of them than the data needs, when there was more of it once. */
bool walk_overflow(struct walk *w, const struct node *n, uint64_t *first,
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
 * LMDB believes it without a look: a page on it that is in use, or that is on it twice,
 * is written over by the next transactions. */

/* The numbers descend. There may be room for more than there are. */
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

bool walk_free_record(struct walk *w, const struct node *n, uint64_t first)
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
