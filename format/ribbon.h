/* Ribbon: a page of equations instead of bits (SPEC.md §19).
 *
 * A key stands for one equation: the XOR of the rows that its 64 coefficients choose is
 * its fingerprint. A page is a system of its own, solved when it was built. Rows are
 * kept in blocks of 64, column by column: a block is one 64-bit word a column.
 *
 *     page   [ block 0 | t | block 1 | block 2 | t | block 3 | ... | block B-1 ]
 *                 narrow: `digits` words each      wide: one word more
 *
 *     t      a byte for each pair of blocks: keys that start in the pair before row t
 *            are not in this stage; the next stage has them
 *
 *     key    row 0 .. 64 * (B - 1), where its coefficients begin
 *            [ ... 1 x x x x | x x x ... ]     a part in its block, the rest in the
 * next
 *
 * Warning: ones are no neutral here. A page that failed its check answers MAYBE for
 * every key that maps to it, and is never asked. This file has the scalar reference
 * that every kernel is tested against. */
#ifndef TAMIS_FORMAT_RIBBON_H
#define TAMIS_FORMAT_RIBBON_H

#include "commit.h"

enum {
    RIBBON_WIDTH = 64, /* coefficients of a key, and rows of a block */
    RIBBON_PAIR_ROWS = 2 * RIBBON_WIDTH,
    RIBBON_MIN_BLOCKS = 16,
    RIBBON_MAX_BLOCKS = 480, /* of the shorter pages; a long one has one more */
    RIBBON_MAX_COLUMNS = 32,
    RIBBON_MIN_STAGES = 2, /* the last is of split blocks, for the keys that are left */
};
#define RIBBON_MAX_PAGES  UINT64_C(0xffffffff) /* kernels multiply halves of words */
#define RIBBON_MULTIPLIER UINT64_C(0xD6E8FEB86659FD93)

/* The layout of a page of `blocks` blocks. */
struct ribbon_shape {
    uint32_t blocks;
    uint32_t digits; /* of a narrow block */
    uint32_t narrow; /* blocks that come first; the others have one column more */
};

static inline struct ribbon_shape ribbon_shape_of(uint32_t blocks)
{
    uint32_t words = (PAGE_BYTES - (blocks + 1) / 2) / 8;
    return (struct ribbon_shape){blocks, words / blocks, blocks - words % blocks};
}

/* The rest of the page is zero. */
static inline uint32_t ribbon_used_bytes(uint32_t blocks)
{
    uint32_t thresholds = (blocks + 1) / 2;
    return (PAGE_BYTES - thresholds) / 8 * 8 + thresholds;
}

static inline uint32_t ribbon_columns(const struct ribbon_shape *s, uint32_t block)
{
    return s->digits + (block >= s->narrow);
}

/* Where a block begins in its page. */
static inline uint32_t ribbon_block_at(const struct ribbon_shape *s, uint32_t block)
{
    uint32_t wide = block > s->narrow ? block - s->narrow : 0;
    return 8 * (s->digits * block + wide) + (block + 1) / 2;
}

/* Where the threshold of this block's pair is: behind the pair's first block. */
static inline uint32_t ribbon_threshold_at(const struct ribbon_shape *s, uint32_t block)
{
    block &= ~1U;
    return ribbon_block_at(s, block) + 8 * ribbon_columns(s, block);
}

static inline uint32_t ribbon_last_row(uint32_t blocks)
{
    return (blocks - 1) * RIBBON_WIDTH;
}

/* The places of a page on which hashes fall, on each as often: ribbon_row(). */
static inline uint32_t ribbon_places(uint32_t blocks)
{
    return blocks * RIBBON_WIDTH + 1;
}

/* The equation of a key. */
struct ribbon_key {
    uint64_t coefficients; /* bit i: of row + i; bit 0 is set */
    uint32_t fingerprint;  /* bit j: of column j */
};

static inline struct ribbon_key ribbon_key_of(uint64_t h)
{
    uint64_t m = (h ^ h >> 29) * LANE_MULTIPLIER;
    return (struct ribbon_key){((m ^ m >> 32) * RIBBON_MULTIPLIER) | 1,
                               (uint32_t)(m >> 32)};
}

/* A stage. The first n_long pages have a block more than the others. */
struct ribbon_geometry {
    uint64_t n_pages, n_long;
    uint32_t blocks;
};

static inline struct ribbon_geometry ribbon_geometry_of(const struct stage_desc *s)
{
    return (struct ribbon_geometry){s->length / PAGE_BYTES, s->n_long_pages,
                                    s->ribbon_blocks};
}

/* Where a key begins: its page and the row in it. */
struct ribbon_place {
    uint64_t page;
    uint32_t blocks; /* of the page */
    uint32_t row;
};

/* The row of a key whose hash, times the number of pages, is this modulo 2^64. Half a
 * block of hashes falls on the first row, and as much on the last: so the rows at both
 * ends get as many equations as the others. */
static inline uint32_t ribbon_row(uint64_t low, uint32_t blocks)
{
    uint32_t last = ribbon_last_row(blocks), half = RIBBON_WIDTH / 2;
    uint32_t at = (uint32_t)((low >> 32) * ribbon_places(blocks) >> 32);
    at = at > half ? at - half : 0;
    return at < last ? at : last;
}

static inline struct ribbon_place ribbon_place_of(const struct ribbon_geometry *g,
                                                  uint64_t h)
{
    struct ribbon_place p;
    p.page = geometry_block(h, g->n_pages);
    p.blocks = g->blocks + (p.page < g->n_long);
    p.row = ribbon_row(h * g->n_pages, p.blocks);
    return p;
}

/* The hash of a key for the next stage. */
static inline uint64_t ribbon_next_hash(uint64_t h)
{
    return geometry_next_lane(h);
}

/* In a page that was checked: the key is not in this stage, but may be in the next; it
 * may be here; it is in no stage. */
enum ribbon_answer { RIBBON_ABSENT, RIBBON_MATCH, RIBBON_BUMPED };

/* ---- the reference ---- */

static inline uint64_t ribbon_word(const uint8_t *page, uint32_t at)
{
    struct le64 w;
    memcpy(&w, page + at, sizeof w);
    return le64_get(w);
}

/* One key, whose row and blocks are those of its place. */
static inline enum ribbon_answer ribbon_page_probe(const uint8_t page[PAGE_BYTES],
                                                   const struct ribbon_place *p,
                                                   uint64_t h)
{
    struct ribbon_shape s = ribbon_shape_of(p->blocks);
    struct ribbon_key key = ribbon_key_of(h);
    uint32_t block = p->row / RIBBON_WIDTH, shift = p->row % RIBBON_WIDTH;
    if (p->row % RIBBON_PAIR_ROWS < page[ribbon_threshold_at(&s, block)])
        return RIBBON_BUMPED;
    uint32_t here = ribbon_block_at(&s, block), next = ribbon_block_at(&s, block + 1);
    for (uint32_t j = 0; j < ribbon_columns(&s, block); j++) {
        uint64_t chosen = ribbon_word(page, here + 8 * j) & key.coefficients << shift;
        if (shift) /* else the key ends with its block, and the page may */
            chosen ^=
                ribbon_word(page, next + 8 * j) & key.coefficients >> (64 - shift);
        if ((uint32_t)__builtin_parityll(chosen) != (key.fingerprint >> j & 1))
            return RIBBON_ABSENT;
    }
    return RIBBON_MATCH;
}

/* The same over a stage in memory, all pages of which are good. */
static inline enum ribbon_answer
ribbon_probe(const uint8_t *bits, const struct ribbon_geometry *g, uint64_t h)
{
    struct ribbon_place p = ribbon_place_of(g, h);
    return ribbon_page_probe(bits + p.page * PAGE_BYTES, &p, h);
}

/* The chance that an absent key matches in a page of `blocks` blocks without a bump. */
static inline double ribbon_page_error(uint32_t blocks)
{
    struct ribbon_shape s = ribbon_shape_of(blocks);
    double narrow = 1.0 / (double)(UINT64_C(1) << s.digits);
    uint32_t first = s.narrow * RIBBON_WIDTH + RIBBON_WIDTH / 2;
    double share = s.narrow == blocks ? 1 : (double)first / ribbon_places(blocks);
    return narrow * (share + (1 - share) / 2);
}

/* How many places of a page are bumped, and the sum of the others' chances that an
 * absent key matches there, in units of 2^-(digits + 1). */
struct ribbon_odds {
    uint64_t bumped, matches;
};

static inline struct ribbon_odds ribbon_page_odds(const struct ribbon_shape *s,
                                                  const uint8_t page[PAGE_BYTES])
{
    struct ribbon_odds o = {0, 0};
    for (uint32_t b = 0; b < s->blocks; b++) {
        uint32_t rows = b + 1 < s->blocks ? RIBBON_WIDTH : 1;
        uint32_t more = b == 0 || rows == 1 ? RIBBON_WIDTH / 2 : 0;
        uint32_t threshold = page[ribbon_threshold_at(s, b)];
        uint32_t before = b % 2 * RIBBON_WIDTH, bumped = 0;
        if (threshold > before)
            bumped = more + (threshold - before < rows ? threshold - before : rows);
        o.bumped += bumped;
        o.matches += (uint64_t)(rows + more - bumped) << (b < s->narrow);
    }
    return o;
}

#endif
