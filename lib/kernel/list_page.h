/* One page of a list, fast: is a value in it, and all of its values. The same results
 * as list_page_decode() of format/list.c, but for what only that one checks.
 *
 *     list_page_open(), then list_page_find() or list_page_values()
 *
 * Warning: nothing here checks the digest of the page. */
#ifndef TAMIS_KERNEL_LIST_PAGE_H
#define TAMIS_KERNEL_LIST_PAGE_H

#include "format/list.h"

/* The tops of group `group` begin here, a whole number of cache lines. */
static inline const uint8_t *list_group_tops(const uint8_t *page, uint32_t top_bytes,
                                             uint32_t group)
{
    return page + PAGE_BYTES - (group + 1) * LIST_GROUP * top_bytes;
}

/* Is the value in the page? */
bool list_page_find(const uint8_t *page, const struct list_page *p, uint64_t value);
/* The same in two steps, between which the tops may be fetched: where it could be, from
 * the head and the leaders, and whether it is there. */
struct list_search {
    uint64_t high;        /* the value's high part */
    uint32_t group, last; /* it can be in these groups only */
    bool known, found;    /* known: no group has to be asked */
};
void list_page_search(const uint8_t *page, const struct list_page *p, uint64_t value,
                      struct list_search *s);
bool list_page_has(const uint8_t *page, const struct list_page *p, uint64_t value,
                   const struct list_search *s);
/* All p->n values, in order. False: they do not fit the page, or hash_bits. */
bool list_page_values(const uint8_t *page, uint32_t hash_bits,
                      const struct list_page *p, uint64_t values[LIST_PAGE_MAX_HASHES]);

#endif
