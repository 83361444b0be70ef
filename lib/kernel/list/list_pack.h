/* Pages of a list, made fast: bit by bit what list_page_fill() of format/list.c makes.
 *
 *     list_page_pack()
 */
#ifndef TAMIS_KERNEL_LIST_PACK_H
#define TAMIS_KERNEL_LIST_PACK_H

#include "format/list.h"

/* As list_page_fill(), and as strict about the order of values. */
size_t list_page_pack(const uint64_t *values, size_t n, uint8_t page[PAGE_BYTES]);

#endif
