/* All values of a page of a list, fast. tests/unit/format/list_reference.h has the
 * reference, which checks more.
 *
 *     list_page_open(), then values() of struct list_kernel
 *
 * Warning: nothing here checks the digest of the page. */
#ifndef TAMIS_KERNEL_LIST_PAGE_H
#define TAMIS_KERNEL_LIST_PAGE_H

#include "format/list.h"

/* All p->n values, in order. False: they do not fit the page, or hash_bits. */
bool list_page_values_plain(const uint8_t *page, uint32_t hash_bits,
                            const struct list_page *p,
                            uint64_t values[LIST_PAGE_MAX_HASHES]);
bool list_page_values_avx2(const uint8_t *page, uint32_t hash_bits,
                           const struct list_page *p,
                           uint64_t values[LIST_PAGE_MAX_HASHES]);
bool list_page_values_avx512(const uint8_t *page, uint32_t hash_bits,
                             const struct list_page *p,
                             uint64_t values[LIST_PAGE_MAX_HASHES]);

#endif
