/* Packs: the tables of a file of kind 2 (SPEC.md §17).
 *
 *     header | rows of band 0 | rows of band 1 | ... | digests
 *            | bands, directory | table of columns   | digests
 *
 *     band:   column  0 1 2 3 ...
 *     row 0           . 1 . .      bit 0 of block 0, of each column's filter
 *     row 1           1 . . .      bit 1
 *     ...
 *
 *     table of columns:            [ "" | k ]         names of pages below
 *                                  /        \
 *                      [ a | c | g ]         [ k | s | t ]    entries, by name
 *     directory: column 0 --------------------------^
 *
 * Decoded entries are checked against the descriptors. So positions that are computed
 * from them stay inside the file. */
#ifndef TAMIS_FORMAT_PACK_H
#define TAMIS_FORMAT_PACK_H

#include "record.h"

enum {
    PACK_STAGES = 3,
    PACK_ROWS = 0,
    PACK_BANDS = 1,
    PACK_COLUMNS = 2,
    BAND_BYTES = 32,
    COLUMN_HEAD_BYTES = 104,
    COLUMN_RANGE_MAX_BYTES = 1024, /* of a first or last key, as in a record */
    COLUMN_MAX_BYTES = COLUMN_HEAD_BYTES + NAME_MAX_BYTES + BINDING_MAX_BYTES +
                       2 * COLUMN_RANGE_MAX_BYTES,
    INDEX_HEAD_BYTES = 8,
    INDEX_MAX_LEVEL = 6, /* at least 15 names a page, and 2^20 pages of entries */
    ITEM_BITS = 6,       /* of a place: page << ITEM_BITS | item */
    PLACE_BYTES = 4,     /* of the directory, behind the bands */
    BAND_MAX_COLUMNS = 32768,
    ROW_MAX_BYTES = BAND_MAX_COLUMNS / 8,
    LINE_COLUMNS = BLOCK_BITS, /* whose bits of a row are a line */
    PACK_MAX_BANDS = 4096,
};

struct band_disk {
    struct le64 rows_offset;
    struct le64 n_blocks;
    struct le32 n_columns;
    struct le32 first_column;
    struct le16 row_bytes;
    uint8_t lanes;
    uint8_t words;
    uint8_t unused[4];
};

struct band {
    uint64_t rows_offset; /* from the start of the rows */
    struct geometry geometry;
    uint32_t n_columns, first_column;
    uint32_t row_bytes;
};

/* A page of the table of columns. Its items follow, and the ends of these lie before
 * the end of the page, from the last item to the first. */
struct index_disk {
    struct le16 n_items;
    uint8_t level; /* 0: entries; else the names of pages of the level below */
    uint8_t unused;
    struct le32 first_child; /* the page of item 0 */
};

/* An entry: this head, then name, binding, first key, last key. */
struct column_disk {
    uint8_t uuid[UUID_BYTES];
    uint8_t set_id[UUID_BYTES];
    struct le64 table_digest;
    struct le64 generation;
    struct le64 watermark;
    struct le64 keys;
    struct le64 target_error;
    struct le64 created;
    struct le64 own_blocks;
    struct le32 rank;
    struct le32 column;
    uint8_t name_bytes;
    uint8_t binding_bytes;
    uint8_t has_range;
    uint8_t unused;
    struct le16 first_bytes;
    struct le16 last_bytes;
};

/* An entry as in the file, checked, and what follows from where it is. */
struct facts {
    struct column_disk disk;
    uint8_t strings[COLUMN_MAX_BYTES - COLUMN_HEAD_BYTES];
    uint32_t band, place;
    const uint8_t *mapped; /* where it is in an open pack */
};

static inline size_t column_bytes(const struct column_disk *d)
{
    return sizeof *d + d->name_bytes + d->binding_bytes + le16_get(d->first_bytes) +
           le16_get(d->last_bytes);
}

/* Where a column's place is, in the table of bands. */
static inline uint64_t place_offset(uint32_t n_bands, uint32_t column)
{
    return n_bands * (uint64_t)BAND_BYTES + column * (uint64_t)PLACE_BYTES;
}

static inline struct piece column_name(const struct facts *c)
{
    return (struct piece){c->strings, c->disk.name_bytes};
}

static inline struct piece column_binding(const struct facts *c)
{
    return (struct piece){c->strings + c->disk.name_bytes, c->disk.binding_bytes};
}

static inline struct piece column_first(const struct facts *c)
{
    struct piece before = column_binding(c);
    return (struct piece){before.at + before.n, le16_get(c->disk.first_bytes)};
}

static inline struct piece column_last(const struct facts *c)
{
    struct piece before = column_first(c);
    return (struct piece){before.at + before.n, le16_get(c->disk.last_bytes)};
}

/* The bytes of the smallest row for 1..32768 columns. */
uint32_t pack_row_bytes(uint32_t n_columns);
/* Bytes of a band's rows. */
uint64_t band_bytes(const struct band *b);

void band_encode(const struct band *b, uint8_t out[BAND_BYTES]);
/* Decodes entry i of n_bands, and checks it against the descriptors of `c`. `before` is
 * the entry before it, NULL for the first. The verdict's offset is in the entry. */
struct verdict band_decode(const uint8_t in[BAND_BYTES], const struct commit *c,
                           uint32_t i, const struct band *before, struct band *b);

/* The band of a column that is in one. */
uint32_t band_of_column(const struct band *bands, uint32_t n_bands, uint32_t column);

/* Puts the strings behind a head, with their lengths. */
void column_set_strings(struct facts *c, struct piece name, struct piece binding,
                        struct piece first, struct piece last);
/* Decodes an entry of exactly n_bytes, in a pack of these bands. */
struct verdict column_decode(const uint8_t *in, size_t n_bytes,
                             const struct band *bands, uint32_t n_bands,
                             struct facts *col);

/* ---- pages of the table of columns ---- */

/* How many first bytes of a name are enough to be above the name before it? */
size_t name_separator(struct piece before, struct piece name);

void index_begin(uint8_t page[PAGE_BYTES], uint32_t level, uint32_t first_child);
/* Adds an item, and returns its number; -1: the page has no room for it. */
int index_add(uint8_t page[PAGE_BYTES], const void *item, size_t n_bytes);

struct index_page {
    const uint8_t *at;
    uint32_t n, level, first_child;
};
/* Checks the head of page `number`. */
struct verdict index_open(const uint8_t page[PAGE_BYTES], uint64_t number,
                          struct index_page *p);
/* Item i, and its name; at is NULL if the page contradicts itself. */
struct piece index_item(const struct index_page *p, uint32_t i);
struct piece index_name(const struct index_page *p, uint32_t i);
/* How many names are at or below this one. False: the page contradicts itself, or has
 * names that are not between these of the page above (none: NULL), as far as the search
 * looked. */
bool index_search(const struct index_page *p, struct piece name, struct piece low,
                  struct piece high, uint32_t *n);
/* Is the rest of it zero, between items and ends? */
bool index_rest_is_zero(const struct index_page *p);

/* The row of bit i of block `block` of lane `lane`, as an offset from the start of the
 * rows. */
static inline uint64_t band_row(const struct band *b, uint32_t lane, uint64_t block,
                                uint32_t bit)
{
    return b->rows_offset +
           ((lane * b->geometry.n_blocks + block) * BLOCK_BITS + bit) * b->row_bytes;
}

#endif
