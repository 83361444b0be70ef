/* One page of a list, fast: is a value in it, and all of its values. The same results
 * as list_page_decode() of format/list.c, but for what only that one checks.
 *
 *     list_page_open(), then list_page_find() or list_page_values()
 *
 * Warning: nothing here checks the digest of the page. */
#ifndef TAMIS_KERNEL_LIST_PAGE_H
#define TAMIS_KERNEL_LIST_PAGE_H

#include "format/list.h"

/* Is the value in the page? */
bool list_page_find(const uint8_t *page, const struct list_page *p, uint64_t value);
/* All p->n values, in order. False: they do not fit the page, or hash_bits. */
bool list_page_values(const uint8_t *page, uint32_t hash_bits,
                      const struct list_page *p, uint64_t values[LIST_PAGE_MAX_HASHES]);

#endif
