/* Integrity: floors and digest trees as bytes. lib/page/check.c
 * checks them; writers and builders write them. */
#include "integrity.h"
#include "checksum.h"

/* xxHash may choose at run time among its versions for instruction sets. Debian's
 * shared library does. Its static one lacks the function: so the symbol is weak, and
 * NULL. */
#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<xxh_x86dispatch.h>)
#define XXH_DISPATCH_DISABLE_REPLACE /* keys are too short to gain by it */
#include <xxh_x86dispatch.h>
#pragma weak XXH3_64bits_withSeed_dispatch
#define HAVE_DISPATCH 1
#endif
#endif

_Static_assert(sizeof(struct floor_sector_disk) == SECTOR_BYTES, "SPEC.md section 7");

uint64_t floors_bytes(uint64_t n_pages)
{
    /* n_pages is at most 2^28 (2^32 blocks, 4 lanes): no overflow. */
    uint64_t sectors = (n_pages + PAGES_PER_FLOOR_SECTOR - 1) / PAGES_PER_FLOOR_SECTOR;
    return (sectors * SECTOR_BYTES + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void floor_sector_seal(struct floor_sector_disk *s, const uint8_t uuid[UUID_BYTES],
                       uint64_t offset)
{
    memcpy(s->uuid_head, uuid, sizeof s->uuid_head);
    checksum_set(s, sizeof *s, offset);
}

bool floor_sector_good(const struct floor_sector_disk *s,
                       const uint8_t uuid[UUID_BYTES], uint64_t offset)
{
    return checksum_good(s, sizeof *s, offset) &&
           memcmp(s->uuid_head, uuid, sizeof s->uuid_head) == 0;
}

/* Set bits of 16 words: counts of 2, 4, 8 bits are made side by side in each, and those
 * bytes, of at most 16 * 8, added up. A builtin would be a call for each word, where
 * the compiler may not count on an instruction for it. */
static uint32_t count_16(const uint8_t *bytes)
{
    uint64_t sums = 0;
    for (size_t i = 0; i < 16; i++) {
        uint64_t w;
        memcpy(&w, bytes + i * sizeof w, sizeof w);
        w -= w >> 1 & UINT64_C(0x5555555555555555);
        w = (w & UINT64_C(0x3333333333333333)) +
            (w >> 2 & UINT64_C(0x3333333333333333));
        sums += (w + (w >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    }
    sums = (sums & UINT64_C(0x00ff00ff00ff00ff)) +
           (sums >> 8 & UINT64_C(0x00ff00ff00ff00ff));
    return (uint32_t)(sums * UINT64_C(0x0001000100010001) >> 48);
}

uint32_t sector_count(const uint8_t sector[SECTOR_BYTES])
{
    uint32_t n = 0;
    for (size_t i = 0; i < SECTOR_BYTES; i += 16 * sizeof(uint64_t))
        n += count_16(sector + i);
    return n;
}

bool page_meets_floors(const uint8_t page[PAGE_BYTES],
                       const struct le16 floor[SECTORS_PER_PAGE])
{
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        if (sector_count(page + i * SECTOR_BYTES) < le16_get(floor[i]))
            return false;
    return true;
}

void digest_tree_of(uint64_t n_pages, struct digest_tree *t)
{
    memset(t, 0, sizeof *t);
    t->n_pages[0] = n_pages;
    t->n_levels = 1;
    /* A descriptor may claim more pages than any file has: it is refused later. */
    while (t->n_pages[t->n_levels - 1] > 1 && t->n_levels < MAX_DIGEST_LEVELS) {
        uint32_t level = t->n_levels++;
        t->n_pages[level] =
            (t->n_pages[level - 1] + DIGESTS_PER_PAGE - 1) / DIGESTS_PER_PAGE;
        t->offset[level] = t->n_bytes;
        t->n_bytes += t->n_pages[level] * PAGE_BYTES;
    }
}

uint64_t digests_bytes(uint64_t n_pages)
{
    struct digest_tree t;
    digest_tree_of(n_pages, &t);
    return t.n_bytes;
}

/* Not inline, even by a linker: a caller that is compiled for AVX may have whole
 * vectors in registers. */
__attribute__((noinline)) uint64_t checksum_of(const void *record, size_t n_bytes,
                                               uint64_t seed)
{
    n_bytes -= sizeof(struct le64);
#ifdef HAVE_DISPATCH
    if (XXH3_64bits_withSeed_dispatch) {
        uint64_t sum = XXH3_64bits_withSeed_dispatch(record, n_bytes, seed);
        /* Debian's library leaves the upper halves of vector registers set. On Intel
         * all SSE code of the thread is slower from then on, exp() fifteen times. */
        if (__builtin_cpu_supports("avx"))
            __asm__ volatile("vzeroupper");
        return sum;
    }
#endif
    return XXH3_64bits_withSeed(record, n_bytes, seed);
}

uint64_t page_digest(const uint8_t page[PAGE_BYTES])
{
    return checksum_of(page, PAGE_BYTES + sizeof(struct le64), 0);
}

uint64_t digest_tree_finish(const struct digest_tree *t, uint8_t *digests)
{
    for (uint32_t level = 2; level < t->n_levels; level++) {
        const uint8_t *below = digests + t->offset[level - 1];
        uint8_t *here = digests + t->offset[level];
        memset(here, 0, t->n_pages[level] * PAGE_BYTES);
        for (uint64_t i = 0; i < t->n_pages[level - 1]; i++)
            digest_put(here, i, page_digest(below + i * PAGE_BYTES));
    }
    return page_digest(digests + t->offset[t->n_levels - 1]);
}
