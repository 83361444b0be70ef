/* Lists: sorted hashes in pages (SPEC.md §18), a file of kind 5.
 *
 *     header | pages of hashes | digests | table of first values | digests
 *
 *     page:  first, n, gap_bits | leaders | rests --> | unary --> | zeros | <-- tops
 *
 * A hash is its high part and gap_bits low bits; the top 8 or 16 of these are stored by
 * themselves. Those of 64 hashes are one or two cache lines, so a probe compares a
 * group at once.
 *
 *     list_page_fill()     as many values as a page holds, and the page
 *     list_page_open()     the head of a page, checked
 *     list_page_valid()    the rest of it, once its values are known
 *
 * Warning: a page has no checksum of its own. Check its digest first (§7.2). */
#ifndef TAMIS_FORMAT_LIST_H
#define TAMIS_FORMAT_LIST_H

#include "commit.h"

enum {
    LIST_STAGES = 2,
    LIST_PAGES = 0,
    LIST_INDEX = 1,
    LIST_MAX_PAGES = 1 << 28, /* as many as a digest tree has */
    LIST_ENTRY_BYTES = 8,
    LIST_ENTRIES_PER_PAGE = PAGE_BYTES / LIST_ENTRY_BYTES,
    LIST_HEAD_BYTES = 11,
    LIST_GROUP = 64,
    LIST_GAP_BITS_MIN = 8,
    LIST_GAP_BITS_MAX = 63,
    LIST_WIDE_BITS = 16,         /* tops have two bytes from these gap_bits on */
    LIST_PAGE_MAX_HASHES = 3583, /* gap_bits 8, no gap above 256 */
};

struct list_page_disk {
    struct le64 first;
    struct le16 n_hashes;
    uint8_t gap_bits;
};

/* The head of a page, checked. Positions are in bytes of the page. */
struct list_page {
    uint64_t first;
    uint32_t n; /* hashes, the first one counted */
    uint32_t gap_bits, leader_shift;
    uint32_t top_bytes;  /* 1 or 2 */
    uint32_t rest_bits;  /* gap_bits without the top */
    uint32_t n_groups;   /* of the n - 1 hashes after the first */
    uint32_t rests_at;   /* rest_bits each */
    uint32_t unary_at;   /* a one for each hash, and zeros before it */
    uint32_t unary_bits; /* bits that there is room for */
};

static inline uint64_t low_bits(uint64_t v, uint32_t n)
{
    return v & ((UINT64_C(1) << n) - 1); /* n < 64 */
}

/* The greatest value of hash_bits bits, 1..64. */
static inline uint64_t list_max(uint32_t hash_bits)
{
    return UINT64_MAX >> (64 - hash_bits);
}

/* A hash as a list of hash_bits bits has it. */
static inline uint64_t list_cut(uint64_t h, uint32_t hash_bits)
{
    return h >> (64 - hash_bits);
}

/* n (1..57) bits from bit `at` on, which lie within the page. Reads only the page. */
static inline uint64_t list_bits(const uint8_t page[PAGE_BYTES], uint32_t at,
                                 uint32_t n)
{
    uint32_t byte = at / 8 < PAGE_BYTES - 8 ? at / 8 : PAGE_BYTES - 8;
    struct le64 word;
    memcpy(&word, page + byte, sizeof word);
    return low_bits(le64_get(word) >> (at - byte * 8), n);
}

static inline uint32_t list_top_bytes(uint32_t gap_bits)
{
    return gap_bits < LIST_WIDE_BITS ? 1 : 2;
}

/* The top of hash i, 1..n - 1. */
static inline uint32_t list_top(const uint8_t page[PAGE_BYTES],
                                const struct list_page *p, uint32_t i)
{
    const uint8_t *at = page + PAGE_BYTES - p->top_bytes * i;
    return p->top_bytes == 1 ? at[0] : (uint32_t)(at[0] | at[1] << 8);
}

/* ---- the head ---- */

static inline uint32_t list_bytes_of(uint32_t n_bits)
{
    return (n_bits + 7) / 8;
}

static inline uint32_t list_groups_of(uint32_t n_more)
{
    return (n_more + LIST_GROUP - 1) / LIST_GROUP;
}

static inline uint32_t list_leaders_of(uint32_t n_more)
{
    return n_more ? list_groups_of(n_more) - 1 : 0;
}

/* Do n_more hashes after the first, with `zeros` zeros in unary, fit a page? */
__attribute__((always_inline)) static inline bool
list_page_fits(uint32_t n_more, uint32_t gap_bits, uint64_t zeros)
{
    if (zeros > PAGE_BYTES * 8)
        return false;
    uint32_t top_bytes = list_top_bytes(gap_bits);
    return LIST_HEAD_BYTES + list_leaders_of(n_more) +
               list_bytes_of(n_more * (gap_bits - 8 * top_bytes)) +
               list_bytes_of(n_more + (uint32_t)zeros) + n_more * top_bytes <=
           PAGE_BYTES;
}

__attribute__((always_inline)) static inline void
list_page_set_places(struct list_page *p)
{
    uint32_t n_more = p->n - 1;
    p->n_groups = list_groups_of(n_more);
    p->rests_at = LIST_HEAD_BYTES + list_leaders_of(n_more);
    p->top_bytes = list_top_bytes(p->gap_bits);
    p->rest_bits = p->gap_bits - 8 * p->top_bytes;
    p->unary_at = p->rests_at + list_bytes_of(n_more * p->rest_bits);
    p->unary_bits = (PAGE_BYTES - n_more * p->top_bytes - p->unary_at) * 8;
    p->leader_shift = 24 - (uint32_t)__builtin_clz(p->unary_bits | UINT8_MAX);
}

/* Reads the head of a page of a list of hash_bits bits. False: it is not valid, nor are
 * its hashes. n may be 0. */
__attribute__((always_inline)) static inline bool
list_page_open(const uint8_t page[PAGE_BYTES], uint32_t hash_bits, struct list_page *p)
{
    /* Member by member: a copy of the head would be stored, and to load from it again a
     * processor waits until the store has retired. */
    struct le64 first;
    struct le16 n;
    memcpy(&first, page + offsetof(struct list_page_disk, first), sizeof first);
    memcpy(&n, page + offsetof(struct list_page_disk, n_hashes), sizeof n);
    *p =
        (struct list_page){.first = le64_get(first),
                           .n = le16_get(n),
                           .gap_bits = page[offsetof(struct list_page_disk, gap_bits)]};
    if (p->n == 0)
        return all_zero(page, sizeof(struct list_page_disk));
    if (p->first > list_max(hash_bits) || p->gap_bits < LIST_GAP_BITS_MIN ||
        p->gap_bits > LIST_GAP_BITS_MAX)
        return false;
    if (!list_page_fits(p->n - 1, p->gap_bits,
                        0)) /* then every place is within the page */
        return false;
    list_page_set_places(p);
    return true;
}

/* ---- pages ---- */

/* High part of a value, from that of the page's first. */
__attribute__((always_inline)) static inline uint64_t
list_high(const struct list_page *p, uint64_t value)
{
    return (value >> p->gap_bits) - (p->first >> p->gap_bits);
}

/* Fills a page with the first values of a sorted list of n, and zeros the rest; returns
 * how many it took: 1 or more, if n is. Give it LIST_PAGE_MAX_HASHES, if there are so
 * many, else pages are less full than they could be. */
size_t list_page_fill(const uint64_t *values, size_t n, uint8_t page[PAGE_BYTES]);
/* Writes head and leaders of p->n values, with p->gap_bits. Sets the other fields. */
void list_page_begin(const uint64_t *values, struct list_page *p,
                     uint8_t page[PAGE_BYTES]);
/* A decoder let pass the page's head and these values. Is the rest valid: leaders,
 * unary behind the last one, unused bits, the page of no value? */
bool list_page_valid(const uint8_t page[PAGE_BYTES], const struct list_page *p,
                     const uint64_t *values);

#endif
