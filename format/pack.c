/* The tables of a pack: encode, and decode with every check of SPEC.md §17.3 in its
 * order. */
#include "pack.h"
#include "checksum.h"

_Static_assert(sizeof(struct band_disk) == BAND_BYTES, "SPEC.md section 17.1");
_Static_assert(sizeof(struct column_disk) == COLUMN_HEAD_BYTES &&
                   offsetof(struct facts, strings) == COLUMN_HEAD_BYTES,
               "SPEC.md section 17.2");
_Static_assert(sizeof(struct index_disk) == INDEX_HEAD_BYTES, "SPEC.md section 17.2");
_Static_assert(INDEX_HEAD_BYTES + COLUMN_MAX_BYTES + 2 <= PAGE_BYTES &&
                   (PAGE_BYTES - INDEX_HEAD_BYTES) / (COLUMN_HEAD_BYTES + 3) <
                       1 << ITEM_BITS,
               "an entry has a page, and a page as many entries as item numbers");

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

static struct verdict band_check(const struct band_disk *d, const struct commit *c,
                                 uint32_t i, const struct band *before,
                                 const struct band *b)
{
    const struct stage_desc *rows = &c->stages[PACK_ROWS];
    /* The first byte after the rows of the band before, which lie within the stage. */
    uint64_t begin = before ? before->rows_offset + band_bytes(before) : 0;
    uint32_t first = before ? before->first_column + before->n_columns : 0;
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

uint32_t band_of_column(const struct band *bands, uint32_t n_bands, uint32_t column)
{
    uint32_t low = 0;
    for (uint32_t high = n_bands; high - low > 1;) {
        uint32_t middle = low + (high - low) / 2;
        *(bands[middle].first_column <= column ? &low : &high) = middle;
    }
    return low;
}

static uint8_t *add_piece(uint8_t *to, struct piece piece)
{
    if (piece.n)
        memcpy(to, piece.at, piece.n);
    return to + piece.n;
}

void column_set_strings(struct facts *c, struct piece name, struct piece binding,
                        struct piece first, struct piece last)
{
    c->disk.name_bytes = (uint8_t)name.n;
    c->disk.binding_bytes = (uint8_t)binding.n;
    c->disk.first_bytes = le16_of((uint16_t)first.n);
    c->disk.last_bytes = le16_of((uint16_t)last.n);
    uint8_t *end = add_piece(add_piece(c->strings, name), binding);
    add_piece(add_piece(end, first), last);
}

/* Rules K2 to K13. */
static struct verdict column_check(const struct facts *col, const struct band *bands,
                                   uint32_t n_bands)
{
    const struct column_disk *d = &col->disk;
    const struct band *last = &bands[n_bands - 1];
    uint64_t own_blocks = le64_get(d->own_blocks);
    uint32_t column = le32_get(d->column);
    double target_error = le64_get_f64(d->target_error);
    size_t most = d->has_range ? COLUMN_RANGE_MAX_BYTES : 0;
    if (all_zero(d->uuid, UUID_BYTES))
        return AT(RANGE, uuid);
    if (all_zero(d->set_id, UUID_BYTES))
        return AT(RANGE, set_id);
    if (le64_get(d->generation) == 0)
        return AT(RANGE, generation);
    if (!(target_error > 0 && target_error <= 1))
        return AT(RANGE, target_error);
    if (column >= last->first_column + last->n_columns)
        return AT(RANGE, column);
    if (own_blocks == 0 || bands[col->band].geometry.n_blocks % own_blocks != 0)
        return AT(RANGE, own_blocks);
    if (!segment_name_valid(col->strings, d->name_bytes))
        return AT(RANGE, name_bytes);
    if (d->binding_bytes > BINDING_MAX_BYTES)
        return AT(RANGE, binding_bytes);
    if (d->has_range > 1)
        return AT(RANGE, has_range);
    if (d->unused)
        return AT(UNUSED, unused);
    if (column_first(col).n > most ||
        name_compare(column_first(col), column_last(col)) > 0)
        return AT(RANGE, first_bytes);
    if (column_last(col).n > most)
        return AT(RANGE, last_bytes);
    return VERDICT_GOOD;
}

/* Reads each byte once, for the page may change meanwhile. Strings that are too long
 * for a column may fill a page: they are cut short here, and column_check() refuses
 * them. */
struct verdict column_decode(const uint8_t *in, size_t n_bytes,
                             const struct band *bands, uint32_t n_bands,
                             struct facts *col)
{
    struct verdict v = AT(SHORT, name_bytes);
    size_t n = n_bytes < COLUMN_MAX_BYTES ? n_bytes : COLUMN_MAX_BYTES;
    col->place = 0;
    col->mapped = NULL;
    if (n >= sizeof col->disk)
        memcpy(col, in, n);
    if (n >= sizeof col->disk && n_bytes == column_bytes(&col->disk)) {
        col->band = band_of_column(bands, n_bands, le32_get(col->disk.column));
        v = column_check(col, bands, n_bands);
    }
    if (v.code != VERDICT_OK)
        memset(col, 0, sizeof *col);
    return v;
}

#undef AT
#define AT(code, member) VERDICT_AT(VERDICT_##code, struct index_disk, member)

/* ---- pages of the table of columns ---- */

size_t name_separator(struct piece before, struct piece name)
{
    size_t i = 0;
    while (i < before.n && before.at[i] == name.at[i])
        i++;
    return i + 1;
}

static void set_head(uint8_t page[PAGE_BYTES], uint32_t n, uint32_t level,
                     uint32_t first_child)
{
    struct index_disk d = {.n_items = le16_of((uint16_t)n),
                           .level = (uint8_t)level,
                           .first_child = le32_of(first_child)};
    memcpy(page, &d, sizeof d);
}

/* Where item i ends. */
static uint32_t item_end(const uint8_t *page, uint32_t i)
{
    struct le16 end;
    memcpy(&end, page + PAGE_BYTES - (i + 1) * sizeof end, sizeof end);
    return le16_get(end);
}

void index_begin(uint8_t page[PAGE_BYTES], uint32_t level, uint32_t first_child)
{
    memset(page, 0, PAGE_BYTES);
    set_head(page, 0, level, first_child);
}

int index_add(uint8_t page[PAGE_BYTES], const void *item, size_t n_bytes)
{
    struct index_disk d;
    memcpy(&d, page, sizeof d);
    uint32_t n = le16_get(d.n_items), at = n ? item_end(page, n - 1) : INDEX_HEAD_BYTES;
    if (at + n_bytes + (n + 1) * sizeof(struct le16) > PAGE_BYTES)
        return -1;
    struct le16 end = le16_of((uint16_t)(at + n_bytes));
    if (n_bytes)
        memcpy(page + at, item, n_bytes);
    memcpy(page + PAGE_BYTES - (n + 1) * sizeof end, &end, sizeof end);
    set_head(page, n + 1, d.level, le32_get(d.first_child));
    return (int)n;
}

/* Where the ends begin. */
static uint32_t ends_at(const struct index_page *p)
{
    return PAGE_BYTES - p->n * (uint32_t)sizeof(struct le16);
}

struct verdict index_open(const uint8_t page[PAGE_BYTES], uint64_t number,
                          struct index_page *p)
{
    struct index_disk d;
    memcpy(&d, page, sizeof d);
    *p = (struct index_page){page, le16_get(d.n_items), d.level,
                             le32_get(d.first_child)};
    if (p->n < 1 || p->n > (PAGE_BYTES - INDEX_HEAD_BYTES) / 2 ||
        item_end(page, p->n - 1) > ends_at(p))
        return AT(RANGE, n_items);
    if (p->level > INDEX_MAX_LEVEL)
        return AT(RANGE, level);
    if (d.unused)
        return AT(UNUSED, unused);
    if (p->level ? (uint64_t)p->first_child + p->n > number : p->first_child)
        return AT(RANGE, first_child);
    return VERDICT_GOOD;
}

struct piece index_item(const struct index_page *p, uint32_t i)
{
    uint32_t begin = i ? item_end(p->at, i - 1) : INDEX_HEAD_BYTES;
    uint32_t end = item_end(p->at, i);
    if (begin < INDEX_HEAD_BYTES || end < begin || end > ends_at(p))
        return (struct piece){NULL, 0};
    return (struct piece){p->at + begin, end - begin};
}

struct piece index_name(const struct index_page *p, uint32_t i)
{
    struct piece item = index_item(p, i);
    struct column_disk d;
    if (p->level)
        return item.n <= NAME_MAX_BYTES ? item : (struct piece){NULL, 0};
    if (item.n < sizeof d)
        return (struct piece){NULL, 0};
    memcpy(&d, item.at, sizeof d);
    if (item.n - sizeof d < d.name_bytes)
        return (struct piece){NULL, 0};
    return (struct piece){item.at + sizeof d, d.name_bytes};
}

/* A name at or below is above all names that were at or below, and the others the same:
 * so one comparison more sees an order that is wrong where the search looks. */
bool index_search(const struct index_page *p, struct piece name, struct piece low,
                  struct piece high, uint32_t *n)
{
    uint32_t end = p->n, middle;
    for (*n = 0; *n < end;) {
        middle = *n + (end - *n) / 2;
        struct piece found = index_name(p, middle);
        if (!found.at)
            return false;
        bool is_below = name_compare(found, name) <= 0;
        if (is_below ? low.at && name_compare(found, low) < 0
                     : high.at && name_compare(found, high) >= 0)
            return false;
        *(is_below ? &low : &high) = found;
        if (is_below)
            *n = middle + 1;
        else
            end = middle;
    }
    return true;
}

bool index_rest_is_zero(const struct index_page *p)
{
    uint32_t end = item_end(p->at, p->n - 1);
    return all_zero(p->at + end, ends_at(p) - end);
}
