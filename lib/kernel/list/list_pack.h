/* Pages of lists, made fast: byte by byte what list_page_fill() of format/list.c makes.
 * struct list_kernel has the one for each kernel. */
#ifndef TAMIS_KERNEL_LIST_PACK_H
#define TAMIS_KERNEL_LIST_PACK_H

#include "format/list.h"

/* Is each of n values above the one before? Without a branch on values. */
bool list_values_rise_plain(const uint64_t *values, size_t n);
bool list_values_rise_avx2(const uint64_t *values, size_t n);

/* As list_page_fill(), and as strict about the order of values. */
size_t list_page_pack_plain(const uint64_t *values, size_t n, uint8_t page[PAGE_BYTES]);
size_t list_page_pack_avx2(const uint64_t *values, size_t n, uint8_t page[PAGE_BYTES]);

#endif
