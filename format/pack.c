/* The tables of a pack: encode, and decode with every check of SPEC.md §17.3 in its
 * order. */
#include "pack.h"
#include "checksum.h"

_Static_assert(sizeof(struct band_disk) == BAND_BYTES, "SPEC.md section 17.1");
_Static_assert(sizeof(struct column_disk) == COLUMN_HEAD_BYTES, "SPEC.md section 17.2");
_Static_assert(sizeof(struct dead_disk) == DEAD_HEAD_BYTES, "SPEC.md section 17.5");
_Static_assert((COLUMN_HEAD_BYTES + NAME_MAX_BYTES + BINDING_MAX_BYTES + 7) / 8 * 8 ==
                   COLUMN_MAX_BYTES,
               "SPEC.md section 17.3, P9");

/* ---- bands ---- */

uint32_t pack_row_bytes(uint32_t n_columns)
{
    uint32_t row_bytes = 1;
    while (row_bytes < 64 && row_bytes * 8 < n_columns)
        row_bytes *= 2;
    return row_bytes * 8 >= n_columns ? row_bytes : (n_columns + 511) / 512 * 64;
}

static bool row_bytes_valid(uint32_t n)
{
    return n >= 1 && n <= ROW_MAX_BYTES && (n <= 64 ? (n & (n - 1)) == 0 : n % 64 == 0);
}

/* At most 2^32 blocks * 4 lanes * 2^9 rows * 2^12 bytes: 2^55. */
uint64_t band_bytes(const struct band *b)
{
    return b->geometry.n_blocks * b->geometry.lanes * BLOCK_BITS * b->row_bytes;
}

void band_encode(const struct band *b, uint8_t out[BAND_BYTES])
{
    struct band_disk d = {
        .rows_offset = le64_of(b->rows_offset),
        .n_blocks = le64_of(b->geometry.n_blocks),
        .n_columns = le32_of(b->n_columns),
        .first_column = le32_of(b->first_column),
        .row_bytes = le16_of((uint16_t)b->row_bytes),
        .lanes = (uint8_t)b->geometry.lanes,
        .words = (uint8_t)b->geometry.words,
    };
    memcpy(out, &d, sizeof d);
}

#define AT(code, member) VERDICT_AT(VERDICT_##code, struct band_disk, member)

/* Where the entry before ends: the first column after it, the first byte after its
 * rows, which lie within the stage. */
static void band_end(const struct band *b, uint64_t *rows, uint32_t *column)
{
    *rows = b ? b->rows_offset + band_bytes(b) : 0;
    *column = b ? b->first_column + b->n_columns : 0;
}

static struct verdict band_check(const struct band_disk *d, const struct commit *c,
                                 uint32_t i, const struct band *before,
                                 const struct band *b)
{
    const struct stage_desc *rows = &c->stages[PACK_ROWS];
    uint64_t begin;
    uint32_t first;
    band_end(before, &begin, &first);
    if (b->geometry.n_blocks < 1 || b->geometry.n_blocks > MAX_BLOCKS)
        return AT(RANGE, n_blocks);
    if (b->geometry.lanes < 1 || b->geometry.lanes > MAX_LANES)
        return AT(RANGE, lanes);
    if (b->geometry.words < 1 || b->geometry.words > MAX_WORDS)
        return AT(RANGE, words);
    if (!row_bytes_valid(b->row_bytes))
        return AT(RANGE, row_bytes);
    if (b->n_columns < 1 || b->n_columns > 8 * b->row_bytes)
        return AT(RANGE, n_columns);
    if (b->first_column != first)
        return AT(RANGE, first_column);
    uint64_t end = begin + band_bytes(b); /* below 2^63 + 2^55 */
    if (b->rows_offset != begin || end > rows->length)
        return AT(RANGE, rows_offset);
    if (commit_unused_is_ours(c) && !all_zero(d->unused, sizeof d->unused))
        return AT(UNUSED, unused);
    if (first + b->n_columns > rows->n_columns ||
        (i + 1 == rows->n_bands && first + b->n_columns != rows->n_columns))
        return AT(RANGE, n_columns);
    if (i + 1 == rows->n_bands && rows->length - end >= PAGE_BYTES)
        return AT(RANGE, rows_offset);
    return VERDICT_GOOD;
}

struct verdict band_decode(const uint8_t in[BAND_BYTES], const struct commit *c,
                           uint32_t i, const struct band *before, struct band *b)
{
    struct band_disk d;
    memcpy(&d, in, sizeof d);
    *b = (struct band){
        .rows_offset = le64_get(d.rows_offset),
        .geometry = {le64_get(d.n_blocks), d.lanes, d.words},
        .n_columns = le32_get(d.n_columns),
        .first_column = le32_get(d.first_column),
        .row_bytes = le16_get(d.row_bytes),
    };
    struct verdict v = band_check(&d, c, i, before, b);
    if (v.code != VERDICT_OK)
        memset(b, 0, sizeof *b);
    return v;
}

#undef AT
#define AT(code, member) VERDICT_AT(VERDICT_##code, struct column_disk, member)

/* ---- columns ---- */

size_t column_encode(const struct column *col, uint8_t out[COLUMN_MAX_BYTES])
{
    struct column_disk d = {
        .table_digest = le64_of(col->table_digest),
        .generation = le64_of(col->generation),
        .watermark = le64_of(col->watermark),
        .keys = le64_of(col->keys),
        .target_error = le64_of_f64(col->target_error),
        .created = le64_of(col->created),
        .own_blocks = le64_of(col->own_blocks),
        .rank = le32_of(col->rank),
        .name_bytes = le16_of(col->name_bytes),
        .binding_bytes = col->binding_bytes,
    };
    memcpy(d.uuid, col->uuid, UUID_BYTES);
    memset(out, 0, COLUMN_MAX_BYTES);
    memcpy(out, &d, sizeof d);
    memcpy(out + sizeof d, col->name, col->name_bytes);
    memcpy(out + sizeof d + col->name_bytes, col->binding, col->binding_bytes);
    return column_bytes(col->name_bytes, col->binding_bytes);
}

/* Rules K2 to K7. */
static struct verdict column_check(const uint8_t *name, const struct band *b,
                                   const struct column *col)
{
    if (all_zero(col->uuid, UUID_BYTES))
        return AT(RANGE, uuid);
    if (col->generation == 0)
        return AT(RANGE, generation);
    if (!(col->target_error > 0 && col->target_error <= 1))
        return AT(RANGE, target_error);
    if (col->own_blocks == 0 || b->geometry.n_blocks % col->own_blocks != 0)
        return AT(RANGE, own_blocks);
    if (!segment_name_valid(name, col->name_bytes))
        return AT(RANGE, name_bytes);
    if (col->binding_bytes > BINDING_MAX_BYTES)
        return AT(RANGE, binding_bytes);
    return VERDICT_GOOD;
}

static void column_load(const struct column_disk *d, struct column *col)
{
    memset(col, 0, sizeof *col);
    memcpy(col->uuid, d->uuid, UUID_BYTES);
    col->table_digest = le64_get(d->table_digest);
    col->generation = le64_get(d->generation);
    col->watermark = le64_get(d->watermark);
    col->keys = le64_get(d->keys);
    col->target_error = le64_get_f64(d->target_error);
    col->created = le64_get(d->created);
    col->own_blocks = le64_get(d->own_blocks);
    col->rank = le32_get(d->rank);
    col->name_bytes = le16_get(d->name_bytes);
    col->binding_bytes = d->binding_bytes;
}

struct verdict column_decode(const uint8_t *in, size_t n_bytes, const struct commit *c,
                             const struct band *b, struct column *col, size_t *used)
{
    struct column_disk d;
    struct verdict v = AT(SHORT, name_bytes);
    *used = 0;
    memset(col, 0, sizeof *col);
    if (n_bytes < sizeof d)
        return v;
    memcpy(&d, in, sizeof d);
    column_load(&d, col);
    size_t names = sizeof d + col->name_bytes + col->binding_bytes;
    size_t n = column_bytes(col->name_bytes, col->binding_bytes);
    if (n <= n_bytes)
        v = column_check(in + sizeof d, b, col);
    if (v.code == VERDICT_OK && commit_unused_is_ours(c) &&
        (d.unused || !all_zero(in + names, n - names)))
        v = AT(UNUSED, unused);
    if (v.code != VERDICT_OK) {
        memset(col, 0, sizeof *col);
        return v;
    }
    memcpy(col->name, in + sizeof d, col->name_bytes);
    memcpy(col->binding, in + sizeof d + col->name_bytes, col->binding_bytes);
    *used = n;
    return v;
}

#undef AT
#define AT(code, member) VERDICT_AT(VERDICT_##code, struct dead_disk, member)

/* ---- tombstones ---- */

void dead_encode(const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                 uint32_t n_columns, uint8_t *file)
{
    struct dead_disk d = {.major = le16_of(FORMAT_MAJOR),
                          .minor = le16_of(FORMAT_MINOR),
                          .n_columns = le32_of(n_columns),
                          .table_digest = le64_of(table_digest)};
    memcpy(d.magic, MAGIC_DEAD, sizeof d.magic);
    memcpy(d.uuid, uuid, UUID_BYTES);
    memcpy(file, &d, sizeof d);
    checksum_set(file, dead_bytes(n_columns), 0);
}

struct verdict dead_decode(const uint8_t *in, size_t n_bytes,
                           const uint8_t uuid[UUID_BYTES], uint64_t table_digest,
                           uint32_t *n_columns)
{
    struct dead_disk d;
    *n_columns = 0;
    if (n_bytes < sizeof d)
        return AT(SHORT, magic);
    memcpy(&d, in, sizeof d);
    uint32_t n = le32_get(d.n_columns);
    if (!magic_is(d.magic, MAGIC_DEAD))
        return AT(MAGIC, magic);
    if (le16_get(d.major) != FORMAT_MAJOR)
        return AT(VERSION, major);
    if (n < 1 || n > PACK_MAX_COLUMNS || n_bytes != dead_bytes(n))
        return AT(SHORT, n_columns);
    if (!checksum_good(in, n_bytes, 0))
        return AT(CHECKSUM, magic);
    if (memcmp(d.uuid, uuid, UUID_BYTES) != 0)
        return AT(IDENTITY, uuid);
    if (le64_get(d.table_digest) != table_digest)
        return AT(IDENTITY, table_digest);
    *n_columns = n;
    return VERDICT_GOOD;
}
