/* Pages of lists, group by group. Leaders say which groups a value can be in, and tops
 * whether a group may have it. Nearly all absent values are found so, and none is
 * decoded.
 *
 * Warning: nothing here checks the digest of the page. */
#ifndef TAMIS_LIST_SPOT_H
#define TAMIS_LIST_SPOT_H

#include "format/list.h"
#include "lib/kernel/kernel.h"

/* ---- groups: compilers make vector instructions of these ---- */

/* Inlined, they take the instruction set of the function that they are in. */
#define GROUP_INLINE __attribute__((always_inline)) static inline

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words8 __attribute__((vector_size(16)));

enum { LANES = 16, WORDS = 8 };

GROUP_INLINE bytes16 load16(const uint8_t *at)
{
    bytes16 v;
    memcpy(&v, at, sizeof v);
    return v;
}

GROUP_INLINE words8 load_words(const uint8_t *at)
{
    words8 v;
    memcpy(&v, at, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = v << 8 | v >> 8;
#endif
    return v;
}

/* Bit i is set if byte i is; bytes are 0 or 255. */
GROUP_INLINE uint32_t mask16(bytes16 v)
{
#ifdef __SSE2__
    typedef char chars16 __attribute__((vector_size(16)));
    return (uint32_t)__builtin_ia32_pmovmskb128((chars16)v);
#else
    static const bytes16 weights = {1, 2, 4, 8, 16, 32, 64, 128,
                                    1, 2, 4, 8, 16, 32, 64, 128};
    const uint64_t sum = UINT64_C(0x0101010101010101);
    struct le64 half[2];
    bytes16 w = v & weights;
    memcpy(half, &w, sizeof half);
    return (uint32_t)((le64_get(half[0]) * sum) >> 56) |
           (uint32_t)((le64_get(half[1]) * sum) >> 56) << 8;
#endif
}

/* The tops of group `group` begin here, a whole number of cache lines. */
GROUP_INLINE const uint8_t *list_group_tops(const uint8_t *page, uint32_t top_bytes,
                                            uint32_t group)
{
    return page + PAGE_BYTES - (group + 1) * LIST_GROUP * top_bytes;
}

GROUP_INLINE uint32_t top_of(const struct list_page *p, uint64_t value)
{
    return (uint32_t)(low_bits(value, p->gap_bits) >> p->rest_bits);
}

/* How many leaders are below `high`, and how many are not above it. They rise, so the
 * first that is not so tells. Pages of random hashes have one vector of leaders. */
GROUP_INLINE void find_groups(const uint8_t *page, const struct list_page *p,
                              uint64_t high, uint32_t *first, uint32_t *last)
{
    uint64_t at = high >> p->leader_shift;
    uint32_t n = p->n_groups - 1, i = 0, n_below = 0, n_above = 0;
    bytes16 want = (bytes16){0} + (uint8_t)(at < UINT8_MAX ? at : UINT8_MAX);
    do {
        bytes16 leaders = load16(page + LIST_HEAD_BYTES + i);
        uint32_t below = mask16((bytes16)(leaders < want));
        uint32_t not_above = mask16((bytes16)(leaders <= want));
        uint32_t end = ~(uint32_t)0 << (n - i < LANES ? n - i : LANES);
        n_below += (uint32_t)__builtin_ctz(~below | end);
        n_above += (uint32_t)__builtin_ctz(~not_above | end);
        i += LANES;
    } while (__builtin_expect(i < n, 0));
    *first = at > UINT8_MAX ? n : n_below;
    *last = at > UINT8_MAX ? n : n_above;
}

/* Is a top of this group the one that is looked for? Hashes beyond the last may say so,
 * too: then no hash has the rest. */
GROUP_INLINE bool has_top(const uint8_t *tops, uint32_t top_bytes, uint32_t top)
{
    if (top_bytes == 2) {
        words8 want = (words8){0} + (uint16_t)top, same = {0};
        for (uint32_t i = 0; i < LIST_GROUP / WORDS; i++)
            same |= (words8)(load_words(tops + i * 16) == want);
        return mask16((bytes16)same) != 0;
    }
    bytes16 want = (bytes16){0} + (uint8_t)top, same = {0};
    for (uint32_t i = 0; i < LIST_GROUP / LANES; i++)
        same |= (bytes16)(load16(tops + i * LANES) == want);
    return mask16(same) != 0;
}

/* ---- absent values ---- */

/* Where a value would be in a page. */
struct list_spot {
    uint16_t top;
    uint8_t group, last; /* it can be in these groups only */
    uint8_t top_bytes;
};

/* A list, as a single probe needs it. */
enum { LIST_SHAPES = 256 };
struct list_plane {
    const uint8_t *pages, *table;
    uint64_t last_page;
    /* Compared with the key's tag: once they are the same, all of the table is good. */
    const _Atomic uint64_t *table_tag;
    /* 2^guide_bits + 1 places, in parts of a page (filter/list.c). */
    const _Atomic uint32_t *guide;
    uint32_t guide_bits, guide_shift, part_bits; /* guide_shift: 64 - guide_bits */
    uint32_t cut;                                /* 64 - hash_bits */
    /* Heads of pages that were found valid, by list_shape(); 0: none yet. */
    _Atomic uint32_t shapes[LIST_SHAPES];
};

/* The page where a hash should be that lies between two places of the guide. */
GROUP_INLINE uint64_t list_page_between(const struct list_plane *l, uint64_t h,
                                        uint64_t from, uint64_t to)
{
    return (from + ((to - from) * (h << l->guide_bits >> 40) >> 24)) >> l->part_bits;
}

/* n_hashes and gap_bits, as a page has them, and above them leader_shift: pages with
 * the same two differ in their values only. */
GROUP_INLINE uint32_t list_shape(const struct list_page *p)
{
    return p->n | p->gap_bits << 16 | p->leader_shift << 24;
}

/* Where a shape is kept. A list has two or three gap_bits, and n_hashes that are close
 * together. */
GROUP_INLINE uint32_t list_shape_at(uint32_t shape)
{
    return (shape ^ shape >> 9) % LIST_SHAPES;
}

struct list_kernel {
    /* One key, with the arguments of tamis_filter_probe(). `plane` is the address of an
     * own_head. */
    enum tamis_answer (*answer)(const struct plane *plane, const struct tamis_key *key,
                                enum tamis_reason *why);
    /* Does the page surely lack the value? False: find() knows, if the page is valid
     * and begins with `first`. */
    bool (*lacks)(const uint8_t *page, uint64_t first, uint64_t value);
    /* The same in two steps, between which the tops may be fetched. */
    bool (*spot)(const uint8_t *page, uint64_t first, uint64_t value,
                 struct list_spot *s);
    bool (*spot_lacks)(const uint8_t *page, const struct list_spot *s);
    /* Is the value in the page? */
    bool (*find)(const uint8_t *page, const struct list_page *p, uint64_t value);
    /* All values of a page, and a page of values. */
    bool (*values)(const uint8_t *page, uint32_t hash_bits, const struct list_page *p,
                   uint64_t values[LIST_PAGE_MAX_HASHES]);
    size_t (*encode)(const uint64_t *values, size_t n, uint8_t page[PAGE_BYTES]);
    /* Is each value above the one before? */
    bool (*rise)(const uint64_t *values, size_t n);
};

extern const struct list_kernel list_plain, list_avx2, list_avx512;
/* The one that goes with a kernel. */
const struct list_kernel *kernel_list(const struct kernel *k);
/* The one that goes with kernel_get(). */
const struct list_kernel *kernel_list_best(void);

/* ---- whole pages: parts that several kernels have ----
 *
 * tests/unit/format/list_reference.h has the reference for values, which checks more;
 * pages are byte for byte those of list_page_fill() of format/list.c. */

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
