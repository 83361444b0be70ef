/* Kernels for ribbon pages: they probe a stage, and solve a page. A kernel of kernel.h
 * names the one that goes with it. All are bit-identical to format/ribbon.c.
 *
 * Warning: nothing here checks a page. Ones are no neutral here: the caller must not
 * ask a page that failed its check, and must not believe one that was lost. */
#ifndef TAMIS_KERNEL_RIBBON_H
#define TAMIS_KERNEL_RIBBON_H

#include "format/ribbon.h"
#include "lib/kernel/kernel.h"

/* Where a block is in its page, so that a probe need not compute it. Eight words of the
 * block and of the next one are loaded at a time. At the end of the page they would
 * reach beyond it, so there they begin `before` words earlier. */
struct ribbon_entry {
    uint16_t here, next, threshold;
    uint8_t before;
    uint8_t first; /* a bit for each of the eight words that is a digit */
};
enum { RIBBON_WORDS = 8 }; /* that are loaded at a time */

/* Pages of one length. */
struct ribbon_size {
    uint64_t n_places; /* of which rows are made: ribbon_row() */
    uint64_t last_row;
    const struct ribbon_entry *entries;
};

/* A stage, as a probe needs it. Its entries are those of the shorter pages, then those
 * of the longer ones. It must not move: sizes point to them. */
struct ribbon_plane {
    const uint8_t *bits;
    uint64_t n_pages, n_long;
    uint32_t blocks;             /* of the shorter pages */
    struct ribbon_size sizes[2]; /* of the shorter pages, of the longer ones */
    struct ribbon_entry entries[];
};

static inline size_t ribbon_plane_bytes(uint32_t blocks)
{
    size_t n = 2 * (size_t)blocks + 1;
    return (sizeof(struct ribbon_plane) + n * sizeof(struct ribbon_entry) + 7) / 8 * 8;
}
void ribbon_plane_init(struct ribbon_plane *p, const uint8_t *bits,
                       const struct ribbon_geometry *g);

/* A key of a page, for the solver. */
struct ribbon_equation {
    uint64_t coefficients;
    uint32_t fingerprint;
    uint32_t row;
};
/* Room for the rows of a page, and for a key that is taken back. */
enum { RIBBON_ROOM_ROWS = (RIBBON_MAX_BLOCKS + 2) * RIBBON_WIDTH };
struct ribbon_room {
    uint64_t coefficients[RIBBON_ROOM_ROWS];
    uint32_t fingerprints[RIBBON_ROOM_ROWS];
};

struct ribbon_kernel {
    enum ribbon_answer (*probe)(const struct ribbon_plane *p, uint64_t h);
    /* One key, with the arguments of tamis_filter_probe(). `plane` is the address of an
     * own_head. */
    enum tamis_answer (*answer)(const struct plane *plane, const struct tamis_key *key,
                                enum tamis_reason *why);
    /* n keys: bit i % 64 of word i / 64 of `match` and `bumped` is their answer; if
     * neither is set, the key is absent. Words are written whole. */
    void (*probe_many)(const struct ribbon_plane *p, const uint64_t *hashes, size_t n,
                       uint64_t *match, uint64_t *bumped);
    /* Writes the page of n keys. They come in the order of their pairs of blocks, and
     * within a pair by falling rows. Keys before the thresholds of the finished page
     * are not in it. */
    void (*solve)(const struct ribbon_shape *shape, const struct ribbon_equation *keys,
                  size_t n, struct ribbon_room *room, uint8_t page[PAGE_BYTES]);
};

extern const struct ribbon_kernel ribbon_scalar, ribbon_avx2, ribbon_avx512,
    ribbon_neon;

#endif
