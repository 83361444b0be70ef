/* Memory for the entries of a snapshot: taken piece by piece from a few large chunks,
 * for a catalog of 10,000 segments is read in milliseconds, of which 10,000 calls of
 * malloc() and as many of free() would be a good part.
 *
 *     arena ---> chunk    entry entry entry entry (room)      being filled
 *                chunk    entry  -    entry entry             full
 *                                |
 *                                +--> released: its bytes stay until all of them are
 *
 * Newer snapshots share entries, so a chunk lives as long as one of its entries does.
 * A chunk is as small as what is expected, and at most CHUNK_MAX_BYTES: that much is
 * kept by one entry at worst. A whole catalog of a MiB and more is read into huge pages
 * of memory, which the kernel maps in a third of the time. One entry then keeps
 * CHUNK_HUGE_BYTES, but all of them together no more than the first snapshot took. */
#ifndef TAMIS_STORE_SNAPSHOT_ARENA_H
#define TAMIS_STORE_SNAPSHOT_ARENA_H

#include "lib/store/base/base.h"

struct page_counts;

enum {
    CHUNK_MIN_BYTES = 4096,
    CHUNK_MAX_BYTES = 256 * 1024,
    CHUNK_HUGE_BYTES = 2 * 1024 * 1024, /* a huge page of x86-64 and of arm64 */
};

struct chunk {
    atomic_size_t refs; /* of entries; while it is being filled CHUNK_FILLING, less
                           those that were released already */
    struct page_counts *pages; /* of the ledger, to which entries count; or NULL */
    size_t n_bytes, used, n_taken;
    _Alignas(8) uint8_t bytes[];
};
#define CHUNK_FILLING (SIZE_MAX / 2)

struct arena {
    struct chunk *chunk; /* that is being filled; NULL: none */
    struct page_counts *pages;
    size_t expected; /* bytes, at most; 0: nobody knows */
    size_t last;     /* bytes of the last chunk */
};
/* n_bytes, not cleared, at a multiple of 8, and the chunk that they are in: release it
 * once for them. NULL: no memory. */
void *arena_take(struct arena *a, size_t n_bytes, struct chunk **in);
/* Nothing more is taken. */
void arena_end(struct arena *a);
/* n zeroed items, all of which will be written; free() them. NULL: no memory. */
void *table_new(size_t n, size_t item_bytes);
void chunk_release(struct chunk *c, size_t n);

#endif
