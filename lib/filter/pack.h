/* An open pack: which columns may have a key? (SPEC.md §17)
 *
 *     h --> a block of each lane, and `words` bits in it --> as many rows
 *
 *     row       0 1 1 0 1 ...     column 2 may have the key: its bit is
 *     row       0 0 1 1 1 ...     set in all rows
 *     AND       0 0 1 0 1 ...
 *
 * A pack is opened as any filter is (tamis_filter_open(), filter_open_fd()), sealed at
 * birth, so that it has one view. Warning: nothing here knows which columns live. */
#ifndef TAMIS_FILTER_PACK_H
#define TAMIS_FILTER_PACK_H

#include "format/pack.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"
#include "lib/tamis.h"

/* The bands; NULL if f is no pack, or if its table of bands failed a check. Then every
 * answer is MAYBE. */
const struct band *pack_bands(struct tamis_filter *f, uint32_t *n_bands);

/* ---- all columns of a band ----
 *
 *     pack_fetch_rows()   h --> addresses of rows, on their way to the cache
 *     pack_ask_rows()     are their pages good? --> columns with all of their bits
 *
 * Between the two other work is done while the rows arrive. Inline: for one band it all
 * takes some 20 ns beside the rows. */

/* A band as probes read it; good as long as the filter is open. */
struct band_rows {
    const struct kernel *kernel;
    struct stage *stage; /* of the rows of all bands */
    const uint8_t *bits; /* where the band's rows begin */
    uint64_t n_blocks, block_bytes;
    uint32_t row_bytes;
    /* How many bytes of each row are asked, from `bits` on: all, or a part, of a length
     * that and_rows() takes. */
    uint32_t n_bytes;
    uint8_t lanes, words;
    /* How many lanes are asked at once: one, if a row is a word and has so few columns
     * that mostly none goes on to the next lane; else all. */
    uint8_t at_once;
    uint32_t n_columns;
};
struct band_rows pack_band_rows(struct tamis_filter *f, const struct band *b);
/* The pages that hold rows of the band, and those of them that were found damaged. */
void pack_band_pages(struct tamis_filter *f, const struct band *b,
                     struct tamis_verify *out);

/* Words of a set of columns, which is as long as a row: column c is bit c % 64 of word
 * c / 64. */
static inline uint32_t pack_row_words(const struct band *b)
{
    return (b->row_bytes + 7) / 8;
}

/* The rows that a key has in a band. */
enum { KEY_ROWS = MAX_LANES * MAX_WORDS, ROW_MAX_WORDS = ROW_MAX_BYTES / 8 };
struct key_rows {
    uint64_t hash;
    uint32_t n;
    const uint8_t *at[KEY_ROWS];
};

static inline void pack_fetch_lane(const struct band_rows *b, uint32_t lane, uint64_t h,
                                   const uint8_t **rows)
{
    uint64_t block = lane * b->n_blocks + geometry_block(h, b->n_blocks);
    b->kernel->fetch_rows(b->bits + block * b->block_bytes, b->row_bytes, b->words, h,
                          rows);
}

static inline void pack_fetch_rows(const struct band_rows *b, uint64_t h,
                                   struct key_rows *rows)
{
    uint32_t n = b->words;
    rows->hash = h;
    pack_fetch_lane(b, 0, h, rows->at);
    for (uint32_t lane = 1; lane < b->at_once; lane++, n += b->words) {
        h = geometry_next_lane(h);
        pack_fetch_lane(b, lane, h, rows->at + n);
    }
    rows->n = n;
}

/* Are all pages of these rows known as good? Without a branch for each: most of the
 * pages of a pack are so long before all are. */
static inline bool pack_rows_known(const struct band_rows *b,
                                   const struct key_rows *rows)
{
    const _Atomic uint64_t *pages = b->stage->pages;
    const uint8_t *bits = b->stage->bits;
    uint64_t good = PAGE_GOOD, bad = 0;
    if (b->row_bytes > BLOCK_BYTES) /* one may lie in two pages */
        return false;
    for (uint32_t i = 0; i < rows->n; i++) {
        uint64_t page = (uint64_t)(rows->at[i] - bits) / PAGE_BYTES;
        uint64_t state =
            atomic_load_explicit(&pages[page / PAGES_PER_WORD], memory_order_relaxed) >>
            page % PAGES_PER_WORD * 2;
        good &= state;
        bad |= state;
    }
    atomic_thread_fence(memory_order_acquire); /* bits after states of pages */
    return good && !(bad & PAGE_BAD);
}

/* The same with pages that must be checked, or lane by lane. */
void pack_ask_slowly(const struct band_rows *b, const struct key_rows *rows,
                     const uint64_t *among, uint64_t *hits, bool *damaged);

/* Writes the columns of `among` that may have the key to `hits`. *damaged becomes
 * true if a page that failed its check took part: then a bit may stand for damage
 * alone. It is not cleared. Waits for nothing. */
static inline void pack_ask_rows(const struct band_rows *b, const struct key_rows *rows,
                                 const uint64_t *among, uint64_t *hits, bool *damaged)
{
    if (b->at_once == b->lanes &&
        (stage_all_good(b->stage) || pack_rows_known(b, rows)))
        b->kernel->and_rows(rows->at, rows->n, b->n_bytes, among, hits);
    else
        pack_ask_slowly(b, rows, among, hits, damaged);
}

/* Asks all columns of a band, dead ones, too, and writes all words of `hits`. False:
 * none may have the key. */
bool pack_probe_band(const struct band_rows *b, uint64_t h,
                     uint64_t hits[ROW_MAX_WORDS], bool *damaged);

/* ---- one column ---- */

/* Is its bit set in all rows of the key? Their pages are good. */
static inline bool pack_column_set(const struct band_rows *b, uint32_t column,
                                   uint64_t h)
{
    const uint8_t *rows[MAX_WORDS];
    uint32_t bits = UINT32_C(1) << column % 8;
    for (uint32_t lane = 0; lane < b->lanes && bits; lane++) {
        uint64_t block = lane * b->n_blocks + geometry_block(h, b->n_blocks);
        b->kernel->fetch_rows(b->bits + block * b->block_bytes + column / 8,
                              b->row_bytes, 0, h, rows); /* 0: they are read now */
        for (uint32_t i = 0; i < b->words; i++)          /* no branch for each */
            bits &= *rows[i];
        h = geometry_next_lane(h);
    }
    return bits;
}

/* One column of a band: TAMIS_NO_REASON (absent), TAMIS_HIT or TAMIS_DAMAGED. */
enum tamis_reason pack_probe_column(struct tamis_filter *f, const struct band *b,
                                    uint32_t column, uint64_t h);

/* ---- the table of columns ----
 *
 * Each page is checked as pages of rows are, and its items when they are read. A page
 * that fails is TAMIS_ERR_DAMAGED, never "not there". */

/* The column of the segment of this name, dead or not. `anew`: pages that were good
 * once are checked again, for a caller who writes facts of theirs anew (SPEC.md §16.4).
 * ERR_NO_SEGMENT, ERR_DAMAGED. */
int pack_find(struct tamis_filter *f, const void *name, size_t name_bytes, bool anew,
              struct facts *out);
/* The column's entry in the table. ERR_DAMAGED. */
int pack_describe(struct tamis_filter *f, uint32_t column, bool anew,
                  struct facts *out);
/* Brings what pack_describe() reads of n columns, side by side: places in the
 * directory, ends of pages, entries. */
enum { PACK_FETCHED = 16 };
void pack_fetch_entries(struct tamis_filter *f, const uint32_t *columns, size_t n);
/* Is each column found by its name and by its number? ERR_DAMAGED, EIO. */
int pack_judge_names(struct tamis_filter *f);

#endif
