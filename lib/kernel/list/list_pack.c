/* Sorted values to a page of a list (format/list.h), value by value. */
#include "lib/kernel/list/list_pack.h"
#include "lib/kernel/list/list_put.h"

bool list_values_rise_plain(const uint64_t *v, size_t n)
{
    bool falls = false;
    for (size_t i = 1; i < n; i++)
        falls |= v[i] <= v[i - 1];
    return !falls;
}

PACK_INLINE void put_page(const uint64_t *v, const struct list_page *p,
                          uint32_t top_bytes, uint8_t *page)
{
    uint8_t buffer[UNARY_ROOM];
    struct unary u = {buffer, 0, 0};
    put_values(v, p, top_bytes, 1, &u, page);
    put_unary(buffer, &u, p, page);
}

size_t list_page_pack_plain(const uint64_t *v, size_t n, uint8_t page[PAGE_BYTES])
{
    PACK_PAGE(v, n, page);
}
