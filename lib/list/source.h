/* Lists read in order, for merges and builders.
 *
 *     tamis_list_cursor_create(), list_source_next() until *n is 0
 *
 * Warning: a page that fails its check ends the reading with ERR_DAMAGED. A filter made
 * of the hashes before that page lacks keys, and must not be kept. */
#ifndef TAMIS_LIST_SOURCE_H
#define TAMIS_LIST_SOURCE_H

#include "lib/error.h"
#include "lib/filter/filter.h"

struct tamis_list_cursor {
    struct tamis_filter *filter;
    const struct list_map *list;
    int failed;
    uint64_t failed_at; /* offset in the file */
    uint32_t n, next;   /* in `values`; the next to be given */
    uint64_t values[LIST_PAGE_MAX_HASHES];
    struct list_order order;
};

/* The values of the next page, as of a struct merge_source; `source` is the cursor.
 * ERR_DAMAGED stays, in `failed`. */
int list_source_next(void *source, const uint64_t **block, size_t *n);
/* Says at which page it failed, if it did. ERR_DAMAGED, or 0. */
int list_source_failed(const struct tamis_list_cursor *c, struct tamis_diag *diag);

#endif
