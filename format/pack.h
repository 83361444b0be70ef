/* Packs: the tables of a file of kind 2 (SPEC.md §17).
 *
 *     header | rows of band 0 | rows of band 1 | ... | digests
 *            | table of bands | table of columns     | digests
 *
 *     band:   column  0 1 2 3 ...
 *     row 0           . 1 . .      bit 0 of block 0, of each column's filter
 *     row 1           1 . . .      bit 1
 *     ...
 *
 * Decoded entries are checked against the descriptors. So positions that are computed
 * from them stay inside the file. */
#ifndef TAMIS_FORMAT_PACK_H
#define TAMIS_FORMAT_PACK_H

#include "commit.h"

enum {
    PACK_STAGES = 3,
    PACK_ROWS = 0,
    PACK_BANDS = 1,
    PACK_COLUMNS = 2,
    BAND_BYTES = 32,
    COLUMN_HEAD_BYTES = 80,
    COLUMN_MIN_BYTES = 88,  /* a name of one byte, and padding */
    COLUMN_MAX_BYTES = 400, /* head, name, binding, rounded up to 8 */
    BAND_MAX_COLUMNS = 32768,
    ROW_MAX_BYTES = BAND_MAX_COLUMNS / 8,
    PACK_MAX_BANDS = 4096,
    PACK_MAX_COLUMNS = 1 << 20,
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

struct column_disk {
    uint8_t uuid[UUID_BYTES];
    struct le64 table_digest;
    struct le64 generation;
    struct le64 watermark;
    struct le64 keys;
    struct le64 target_error;
    struct le64 created;
    struct le64 own_blocks;
    struct le32 rank;
    struct le16 name_bytes;
    uint8_t binding_bytes;
    uint8_t unused;
};

struct column {
    uint8_t uuid[UUID_BYTES];
    uint64_t table_digest, generation, watermark, keys;
    double target_error;
    uint64_t created;
    uint64_t own_blocks; /* per lane; divides the band's */
    uint32_t rank;
    uint16_t name_bytes;
    uint8_t binding_bytes;
    uint8_t name[NAME_MAX_BYTES], binding[BINDING_MAX_BYTES];
};

/* Tombstones: the file "<uuid>.dead" (SPEC.md §17.5). Behind the head a bit for each
 * column, then the checksum. */
struct dead_disk {
    uint8_t magic[8];
    struct le16 major;
    struct le16 minor;
    struct le32 n_columns;
    uint8_t uuid[UUID_BYTES];
    struct le64 table_digest;
    uint8_t unused[8];
};
enum {
    DEAD_HEAD_BYTES = 48,
    DEAD_MAX_BYTES = DEAD_HEAD_BYTES + PACK_MAX_COLUMNS / 8 + 8
};

/* The smallest row for so many columns, 1..32768. */
uint32_t pack_row_bytes(uint32_t n_columns);
/* Bytes of a band's rows. */
uint64_t band_bytes(const struct band *b);

void band_encode(const struct band *b, uint8_t out[BAND_BYTES]);
/* Decodes entry i of n_bands, and checks it against the descriptors of `c`. `before` is
 * the entry before it, NULL for the first. The verdict's offset is that in the entry.
 */
struct verdict band_decode(const uint8_t in[BAND_BYTES], const struct commit *c,
                           uint32_t i, const struct band *before, struct band *b);

/* Bytes of an entry with names of these lengths. */
static inline size_t column_bytes(size_t name_bytes, size_t binding_bytes)
{
    return (COLUMN_HEAD_BYTES + name_bytes + binding_bytes + 7) / 8 * 8;
}

/* Returns the bytes written to out. */
size_t column_encode(const struct column *col, uint8_t out[COLUMN_MAX_BYTES]);
/* Decodes the entry that begins at `in`, of a column of band b. n_bytes: so many are
 * left of the table. On VERDICT_OK *used is the length of the entry. */
struct verdict column_decode(const uint8_t *in, size_t n_bytes, const struct commit *c,
                             const struct band *b, struct column *col, size_t *used);

static inline size_t dead_bytes(uint32_t n_columns)
{
    return DEAD_HEAD_BYTES + ((size_t)n_columns + 7) / 8 + 8;
}

/* Writes the head and the checksum of a file of dead_bytes(n_columns) bytes. The caller
 * has put the bits where they belong, at DEAD_HEAD_BYTES. */
void dead_encode(const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                 uint32_t n_columns, uint8_t *file);
/* Checks the file of the pack with this UUID and digest. On VERDICT_OK *n_columns bits
 * begin at DEAD_HEAD_BYTES. */
struct verdict dead_decode(const uint8_t *in, size_t n_bytes,
                           const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                           uint32_t *n_columns);

/* The row of bit i of block `block` of lane `lane`, as an offset from the start of the
 * rows. */
static inline uint64_t band_row(const struct band *b, uint32_t lane, uint64_t block,
                                uint32_t bit)
{
    return b->rows_offset +
           ((lane * b->geometry.n_blocks + block) * BLOCK_BITS + bit) * b->row_bytes;
}

#endif
