/* LMDB's list of free pages. LMDB believes it without a look: a page on it that is in
 * use, or that is on it twice, is written over by the next transactions. */
#include "lib/store/catalog/walk.h"

#include <errno.h>
#include <stdlib.h>

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
