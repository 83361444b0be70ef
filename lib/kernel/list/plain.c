/* The list kernel for every processor, by vectors of 16 bytes. */
#include "lib/kernel/list/list_put.h"

/* ---- all values of a page ---- */

/* 64 bits of unary from bit `at` on, a multiple of 8; zeros beyond the page. */
static inline uint64_t unary_word(const uint8_t *page, uint32_t at)
{
    uint32_t byte = at / 8 < PAGE_BYTES - 8 ? at / 8 : PAGE_BYTES - 8;
    struct le64 word;
    memcpy(&word, page + byte, sizeof word);
    uint32_t beyond = at - byte * 8;
    return beyond < 64 ? le64_get(word) >> beyond : 0;
}

/* All values of a page whose tops have top_bytes bytes, a constant in each call. */
__attribute__((always_inline)) static inline bool
values_of(const uint8_t *page, uint32_t hash_bits, const struct list_page *p,
          uint32_t top_bytes, uint64_t *values)
{
    uint32_t rest_bits = p->rest_bits, n = p->n;
    uint32_t at = p->unary_at * 8, rest_at = p->rests_at * 8;
    uint64_t word = 0, low = low_bits(p->first, p->gap_bits);
    uint64_t first_high = p->first >> p->gap_bits, high = first_high, steps = 0;
    uint64_t base = first_high + 1 - at - 64;
    values[0] = p->first;
    for (uint32_t i = 1; i < n; i++) {
        const uint8_t *tops = page + PAGE_BYTES - top_bytes * i;
        uint64_t before = low, top = tops[0];
        if (top_bytes == 2)
            top |= (uint64_t)tops[1] << 8;
        /* One bit more than there may be, so that the width is never 0. */
        low = top << rest_bits |
              low_bits(list_bits(page, rest_at, rest_bits + 1), rest_bits);
        rest_at += rest_bits;
        while (word == 0) {
            if (at >= PAGE_BYTES * 8)
                return false;
            word = unary_word(page, at);
            at += 64;
        }
        steps += low <= before;
        high = base + steps + at + (uint64_t)__builtin_ctzll(word) - i;
        word &= word - 1;
        values[i] = high << p->gap_bits | low;
    }
    /* All lie below the last one. Its place must be within unary, and it within
     * hash_bits. */
    return high - first_high - steps + n - 1 <= p->unary_bits &&
           high <= list_max(hash_bits) >> p->gap_bits &&
           values[n - 1] <= list_max(hash_bits);
}

bool list_page_values_plain(const uint8_t *page, uint32_t hash_bits,
                            const struct list_page *p,
                            uint64_t values[LIST_PAGE_MAX_HASHES])
{
    if (p->n == 0)
        return true;
    return p->top_bytes == 1 ? values_of(page, hash_bits, p, 1, values)
                             : values_of(page, hash_bits, p, 2, values);
}

/* ---- sorted values to a page, value by value ---- */

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

static size_t list_page_pack_plain(const uint64_t *v, size_t n,
                                   uint8_t page[PAGE_BYTES])
{
    PACK_PAGE(v, n, page);
}

#define KERNEL
#define KERNEL_INLINE GROUP_INLINE
#define HAS_TOP       has_top
#define LIST_KERNEL   list_plain
#define LIST_VALUES   list_page_values_plain
#define LIST_PACK     list_page_pack_plain
#define LIST_RISE     list_values_rise_plain
#include "lib/kernel/list/list_spots.h"
