/* Whole pages of a list, fast: all values of one (tests/unit/format/list_reference.h
 * has the reference, which checks more), and one of values, byte by byte what
 * list_page_fill() of format/list.c makes. struct list_kernel has the ones for each
 * kernel; these are parts that several have.
 *
 * Warning: nothing here checks the digest of a page. */
#ifndef TAMIS_KERNEL_LIST_PAGE_H
#define TAMIS_KERNEL_LIST_PAGE_H

#include "format/list.h"

/* All p->n values, in order. False: they do not fit the page, or hash_bits. */
bool list_page_values_plain(const uint8_t *page, uint32_t hash_bits,
                            const struct list_page *p,
                            uint64_t values[LIST_PAGE_MAX_HASHES]);

/* Is each of n values above the one before? Without a branch on values. */
bool list_values_rise_plain(const uint64_t *values, size_t n);
bool list_values_rise_avx2(const uint64_t *values, size_t n);

/* As list_page_fill(), and as strict about the order of values. */
size_t list_page_pack_avx2(const uint64_t *values, size_t n, uint8_t page[PAGE_BYTES]);

#endif
