/* Integrity: how a page of bits is checked before any bit of it is believed
 * (SPEC.md §7).
 *
 * An open stage has floors: per 512-byte sector a lower bound of its set bits,
 * the checksum of a set that only grows (R8). A sealed stage has digests:
 * XXH3-64 of each page, the digests in pages of their own, and so on up to one
 * root in the stage descriptor (R11). */
#ifndef TAMIS_FORMAT_INTEGRITY_H
#define TAMIS_FORMAT_INTEGRITY_H

#include "geometry.h"
#include "identity.h"

enum {
    SECTORS_PER_PAGE = PAGE_BYTES / SECTOR_BYTES,
    PAGES_PER_FLOOR_SECTOR = 31,
    FLOORS_PER_SECTOR = PAGES_PER_FLOOR_SECTOR * SECTORS_PER_PAGE,
    FLOOR_DAMAGED = 0xFFFF, /* more than a sector holds: fails for ever */
    DIGEST_BYTES = 8,
    DIGESTS_PER_PAGE = PAGE_BYTES / DIGEST_BYTES,
    MAX_DIGEST_LEVELS = 5, /* 2^28 pages, 2^19, 2^10, 2, 1 */
};

/* One 512-byte sector of floors guards 31 pages. Its checksum is seeded with its
 * own offset from the start of the filter and covers the filter's UUID, so floors
 * of another place or filter fail. */
struct floor_sector_disk {
    struct le16 floor[FLOORS_PER_SECTOR];
    uint8_t uuid_head[8];
    struct le64 checksum;
};

/* Bytes of the floors of a stage of n_pages, a multiple of 4096. */
uint64_t floors_bytes(uint64_t n_pages);

/* Where in the floors area the sector for this page is. */
static inline uint64_t floor_sector_of(uint64_t page)
{
    return page / PAGES_PER_FLOOR_SECTOR * SECTOR_BYTES;
}

/* Seals a floor sector that will stand at `offset` in the filter. */
void floor_sector_seal(struct floor_sector_disk *s, const uint8_t uuid[UUID_BYTES],
                       uint64_t offset);
bool floor_sector_good(const struct floor_sector_disk *s,
                       const uint8_t uuid[UUID_BYTES], uint64_t offset);

/* Set bits of one sector, 0..4096. */
uint32_t sector_count(const uint8_t sector[SECTOR_BYTES]);

/* The floors of page `page` within its sector: eight of them. */
static inline const struct le16 *floor_sector_page(const struct floor_sector_disk *s,
                                                   uint64_t page)
{
    return &s->floor[page % PAGES_PER_FLOOR_SECTOR * SECTORS_PER_PAGE];
}

/* Does every sector of the page have at least its floor of bits? */
bool page_meets_floors(const uint8_t page[PAGE_BYTES],
                       const struct le16 floor[SECTORS_PER_PAGE]);

/* The digest tree. Level 0 is the pages of bits themselves; level i + 1 holds the
 * digests of the pages of level i, packed and padded with zeros to whole pages.
 * The last level has one page, whose digest is the root. Levels 1, 2, ... are
 * stored one after the other from digests_offset on. */
struct digest_tree {
    uint64_t n_pages[MAX_DIGEST_LEVELS]; /* of each level */
    uint64_t offset[MAX_DIGEST_LEVELS];  /* of level i >= 1, from digests_offset */
    uint32_t n_levels;                   /* counting level 0 */
    uint64_t n_bytes;                    /* of all stored levels */
};

void digest_tree_of(uint64_t n_pages, struct digest_tree *t);
uint64_t digests_bytes(uint64_t n_pages);

uint64_t page_digest(const uint8_t page[PAGE_BYTES]);

/* Fills levels 2 and up from level 1, which the caller wrote at `digests`, and
 * returns the root. For a stage of one page the root is page_digest(page 0), and
 * this is not called. */
uint64_t digest_tree_finish(const struct digest_tree *t, uint8_t *digests);

static inline void digest_put(uint8_t *level, uint64_t index, uint64_t digest)
{
    struct le64 d = le64_of(digest);
    memcpy(level + index * DIGEST_BYTES, &d, sizeof d);
}

static inline uint64_t digest_at(const uint8_t *level, uint64_t index)
{
    struct le64 d;
    memcpy(&d, level + index * DIGEST_BYTES, sizeof d);
    return le64_get(d);
}

#endif
