/* A second reader of packs (SPEC.md §17). Headers are left to format/, which
 * fuzz_header.c holds against the text. */
#include "fuzz/pack/pack.h"

#include <xxhash.h>

struct row_band {
    uint64_t rows_offset, n_blocks;
    uint32_t n_columns, first_column, row_bytes, lanes, words;
};

static struct row_band band_at(const struct second *s, uint32_t i)
{
    const uint8_t *p = s->pack + s->commit.stages[PACK_BANDS].offset + (uint64_t)32 * i;
    return (struct row_band){get_number(p, 8),
                             get_number(p + 8, 8),
                             (uint32_t)get_number(p + 16, 4),
                             (uint32_t)get_number(p + 20, 4),
                             (uint32_t)get_number(p + 24, 2),
                             p[26],
                             p[27]};
}

static uint32_t n_bands(const struct second *s)
{
    return s->commit.stages[PACK_ROWS].n_bands;
}

/* ---- §17.3, B1 to B8, in no order ---- */

static bool row_bytes_by_spec(uint32_t n)
{
    return n == 1 || n == 2 || n == 4 || n == 8 || n == 16 || n == 32 ||
           (n && n <= 4096 && n % 64 == 0);
}

static bool bands_by_spec(const struct second *s)
{
    wide rows = 0;
    uint64_t columns = 0, length = s->commit.stages[PACK_ROWS].length;
    bool features = s->commit.compat || s->commit.ro_compat;
    for (uint32_t i = 0; i < n_bands(s); i++) {
        struct row_band b = band_at(s, i);
        const uint8_t *p =
            s->pack + s->commit.stages[PACK_BANDS].offset + (uint64_t)32 * i;
        if (b.n_blocks < 1 || b.n_blocks > UINT64_C(1) << 32 || b.lanes < 1 ||
            b.lanes > 4 || b.words < 1 || b.words > 8 ||
            !row_bytes_by_spec(b.row_bytes) || b.n_columns < 1 ||
            b.n_columns > 8 * b.row_bytes || b.first_column != columns ||
            b.rows_offset != rows || (!features && get_number(p + 28, 4)))
            return false;
        columns += b.n_columns;
        rows += (wide)b.lanes * b.n_blocks * 512 * b.row_bytes;
        if (rows > length || columns > s->commit.stages[PACK_ROWS].n_columns)
            return false;
    }
    return columns == s->commit.stages[PACK_ROWS].n_columns && length - rows < 4096;
}

struct second second_reading(const uint8_t *pack, size_t n_pack, const uint8_t *dead,
                             size_t n_dead)
{
    struct second s = {.pack = pack, .dead = dead, .n_pack = n_pack, .n_dead = n_dead};
    uint8_t header[HEADER_MAX_BYTES] = {0};
    struct slot_health health;
    memcpy(header, pack, n_pack < sizeof header ? n_pack : sizeof header);
    s.opens = identity_decode(header, n_pack, &s.id).code == VERDICT_OK &&
              commit_choose_slot(header, &s.id, n_pack, &s.commit, &health).code ==
                  VERDICT_OK;
    s.bands = s.opens && s.id.kind == 2 && bands_by_spec(&s);
    return s;
}

/* ---- §17.4, §17.5 ---- */

static bool dead_by_spec(const struct second *s, uint32_t column)
{
    const uint8_t *p = s->dead;
    size_t n = s->n_dead, columns = s->commit.stages[PACK_ROWS].n_columns;
    if (n != 48 + (columns + 7) / 8 + 8)
        return true;
    return memcmp(p, "\x89TMD\r\n\x1a\n", 8) != 0 || get_number(p + 8, 2) != 1 ||
           get_number(p + 12, 4) != columns || memcmp(p + 16, s->id.uuid, 16) != 0 ||
           get_number(p + 32, 8) != s->commit.table_digest ||
           get_number(p + n - 8, 8) != XXH3_64bits(p, n - 8) ||
           (p[48 + column / 8] >> column % 8 & 1);
}

/* ---- §17.1 ---- */

static bool column_absent(const struct second *s, const struct row_band *b, uint32_t c,
                          uint64_t h)
{
    const uint8_t *rows = s->pack + s->commit.stages[PACK_ROWS].offset + b->rows_offset;
    for (uint32_t lane = 0; lane < b->lanes; lane++, h = geometry_next_lane(h)) {
        uint64_t block = (uint64_t)((wide)h * b->n_blocks >> 64);
        for (uint32_t i = 0; i < b->words; i++) {
            uint32_t word = (((uint32_t)h >> 29) + i) % 8;
            uint64_t bit = word * 64 + geometry_bit(h, word);
            uint64_t row = (lane * b->n_blocks + block) * 512 + bit;
            if (!(rows[row * b->row_bytes + c / 8] >> c % 8 & 1))
                return true;
        }
    }
    return false;
}

static bool absent_by_rows(const struct second *s, uint32_t column, uint64_t hash)
{
    uint32_t i = n_bands(s) - 1;
    while (band_at(s, i).first_column > column)
        i--;
    struct row_band b = band_at(s, i);
    return column_absent(s, &b, column - b.first_column, hash);
}

bool second_all_absent(const struct second *s, uint64_t hash)
{
    for (uint32_t i = 0; i < n_bands(s); i++) {
        struct row_band b = band_at(s, i);
        for (uint32_t c = 0; c < b.n_columns; c++)
            if (!column_absent(s, &b, c, hash))
                return false;
    }
    return true;
}

/* ---- §17.2, §17.3: the table of columns ---- */

static uint64_t n_pages(const struct second *s)
{
    return s->commit.stages[PACK_COLUMNS].length / 4096;
}

static const uint8_t *page_at(const struct second *s, uint64_t page)
{
    return s->pack + s->commit.stages[PACK_COLUMNS].offset + page * 4096;
}

static uint64_t place_of(const struct second *s, uint64_t column)
{
    const uint8_t *bands = s->pack + s->commit.stages[PACK_BANDS].offset;
    return get_number(bands + (uint64_t)32 * n_bands(s) + 4 * column, 4);
}

static int order(struct piece a, struct piece b)
{
    for (size_t i = 0; i < a.n && i < b.n; i++)
        if (a.at[i] != b.at[i])
            return a.at[i] < b.at[i] ? -1 : 1;
    return a.n < b.n ? -1 : a.n > b.n;
}

/* X1 to X4. */
static bool head_by_spec(const uint8_t *p, uint64_t number)
{
    uint64_t n = get_number(p, 2), child = get_number(p + 4, 4);
    return n >= 1 && n <= 2044 && get_number(p + 4096 - 2 * n, 2) <= 4096 - 2 * n &&
           p[2] <= 6 && p[3] == 0 && (p[2] ? child + n <= number : child == 0);
}

/* at is NULL: it does not end where another begins. */
static struct piece item_at(const uint8_t *p, uint64_t i)
{
    uint64_t begin = i ? get_number(p + 4096 - 2 * i, 2) : 8;
    uint64_t end = get_number(p + 4094 - 2 * i, 2), ends = 4096 - 2 * get_number(p, 2);
    bool good = begin >= 8 && begin <= end && end <= ends;
    return good ? (struct piece){p + begin, end - begin} : (struct piece){NULL, 0};
}

static uint64_t blocks_of_band(const struct second *s, uint64_t column)
{
    for (uint32_t i = 0; i < n_bands(s); i++) {
        struct row_band b = band_at(s, i);
        if (column >= b.first_column && column - b.first_column < b.n_columns)
            return b.n_blocks;
    }
    return 1;
}

/* K1 to K13; NULL. */
static const uint8_t *entry_by_spec(const struct second *s, uint64_t place)
{
    const uint8_t *p = place / 64 < n_pages(s) ? page_at(s, place / 64) : NULL;
    if (!p || !head_by_spec(p, place / 64) || p[2] || place % 64 >= get_number(p, 2))
        return NULL;
    struct piece item = item_at(p, place % 64);
    const uint8_t *e = item.at;
    if (!e || item.n < 104)
        return NULL;
    double error = get_real(e + 64);
    uint64_t own = get_number(e + 80, 8), column = get_number(e + 92, 4);
    uint64_t name = e[96], binding = e[97], first = get_number(e + 100, 2),
             last = get_number(e + 102, 2), most = e[98] ? 1024 : 0;
    const uint8_t *key = e + 104 + name + binding;
    bool good =
        item.n == 104 + name + binding + first + last && !all_zero(e, 16) &&
        !all_zero(e + 16, 16) && get_number(e + 40, 8) && error > 0 && error <= 1 &&
        column < s->commit.stages[PACK_ROWS].n_columns && own &&
        blocks_of_band(s, column) % own == 0 && name && binding <= 64 &&
        !memchr(e + 104, 0, name) && e[98] <= 1 && !e[99] && first <= most &&
        last <= most &&
        order((struct piece){key, first}, (struct piece){key + first, last}) <= 0;
    return good ? e : NULL;
}

const uint8_t *second_entry(const struct second *s, uint32_t column)
{
    const uint8_t *e = entry_by_spec(s, place_of(s, column));
    return e && get_number(e + 92, 4) == column ? e : NULL;
}

/* ---- §17.3: what code that verifies must find ---- */

static struct piece name_of_entry(const struct second *s, uint64_t page, uint64_t i)
{
    struct piece item = item_at(page_at(s, page), i);
    return (struct piece){item.at + 104, item.at[96]};
}

static bool entries_by_spec(const struct second *s, uint64_t n_level_0)
{
    struct piece before = {NULL, 0};
    uint64_t n = 0;
    for (uint64_t page = 0; page < n_level_0; page++)
        for (uint64_t i = 0; i < get_number(page_at(s, page), 2); i++, n++) {
            const uint8_t *e = i < 64 ? entry_by_spec(s, 64 * page + i) : NULL;
            if (!e || place_of(s, get_number(e + 92, 4)) != 64 * page + i ||
                order(before, name_of_entry(s, page, i)) >= 0)
                return false;
            before = name_of_entry(s, page, i);
        }
    return n == s->commit.stages[PACK_ROWS].n_columns;
}

/* The names in a page above good ones: of level 1 they lie between entries, above that
 * they are the first names of pages. */
static bool names_by_spec(const struct second *s, const uint8_t *p)
{
    for (uint64_t i = 0, c = get_number(p + 4, 4); i < get_number(p, 2); i++, c++) {
        const uint8_t *child = page_at(s, c), *before = page_at(s, c - (c > 0));
        struct piece name = item_at(p, i);
        if (!name.at || name.n > 255)
            return false;
        if (p[2] > 1 ? order(name, item_at(child, 0)) != 0
            : c      ? order(name, name_of_entry(s, c, 0)) > 0 ||
                      order(name_of_entry(s, c - 1, get_number(before, 2) - 1), name) >=
                          0
                : name.n > 0)
            return false;
    }
    return true;
}

bool second_levels(const struct second *s)
{
    uint64_t below = 0, begin = 0, end = 0;
    for (unsigned level = 0;; level++, below = begin, begin = end) {
        uint64_t child = below;
        for (; end < n_pages(s) && page_at(s, end)[2] == level; end++) {
            const uint8_t *p = page_at(s, end);
            uint64_t n = get_number(p, 2);
            if (!head_by_spec(p, end))
                return false;
            uint64_t used = get_number(p + 4096 - 2 * n, 2);
            if (used < 8 || !all_zero(p + used, 4096 - 2 * n - used) ||
                (level && (get_number(p + 4, 4) != child || child + n > begin ||
                           !names_by_spec(s, p))))
                return false;
            child += n;
        }
        if (end == begin || (level ? child != begin : !entries_by_spec(s, end)))
            return false;
        if (end - begin == 1)
            return end == n_pages(s);
    }
}

/* Blocks that are there some times are the same, and no column has bits but those of
 * the band. */
static bool rows_by_spec(const struct second *s, const struct row_band *b)
{
    const uint8_t *rows = s->pack + s->commit.stages[PACK_ROWS].offset + b->rows_offset;
    uint64_t n = (uint64_t)512 * b->row_bytes;
    for (uint64_t i = 0; i < b->lanes * b->n_blocks * n; i++)
        for (uint32_t bit = 0; bit < 8; bit++) {
            uint64_t c = i % b->row_bytes * 8 + bit, block = i / n % b->n_blocks;
            if (c >= b->n_columns && rows[i] >> bit & 1)
                return false;
            if (c >= b->n_columns || block == 0)
                continue;
            const uint8_t *e = second_entry(s, b->first_column + (uint32_t)c);
            if (block % (b->n_blocks / get_number(e + 80, 8)) != 0 &&
                (rows[i] ^ rows[i - n]) >> bit & 1)
                return false;
        }
    return true;
}

bool second_verifies(const struct second *s)
{
    if (!s->bands || !second_levels(s))
        return false;
    const struct stage_desc *bands = &s->commit.stages[PACK_BANDS];
    if (!all_zero(s->pack + bands->offset + bands->used_bytes,
                  bands->length - bands->used_bytes))
        return false;
    for (uint32_t i = 0; i < n_bands(s); i++) {
        struct row_band b = band_at(s, i);
        if (!rows_by_spec(s, &b))
            return false;
    }
    return true;
}

/* ---- §17.4 ---- */

bool second_names(const struct second *s, const struct hurt *h)
{
    const uint8_t *p = h->list.record;
    return s->bands && s->id.hash_id == pack_domain()->hash_id &&
           s->id.hash_seed == pack_domain()->seed &&
           memcmp(s->id.uuid, h->list.uuid, 16) == 0 &&
           s->commit.table_digest == get_number(p, 8) && get_number(p, 8) &&
           s->commit.stages[PACK_ROWS].n_columns == get_number(p + 24, 4);
}

/* 8b to 8f. Rows come before the range of a listed column, which they make needless. */
enum tamis_reason second_answer(const struct second *s, const struct hurt *h,
                                uint32_t column, int segment,
                                const struct tamis_key *key)
{
    if (!second_names(s, h) || dead_by_spec(s, column))
        return TAMIS_FILE_LOST;
    const uint8_t *e = second_entry(s, column);
    const struct record *r = segment < 0 ? NULL : &h->records[segment];
    struct piece name = {(const uint8_t *)pack_segment(r ? (size_t)segment : 0), 10};
    if (r && !e)
        return TAMIS_DAMAGED;
    if (r && (memcmp(e, r->uuid, 16) != 0 ||
              order((struct piece){e + 104, e[96]}, name) != 0))
        return TAMIS_MISMATCH;
    if (absent_by_rows(s, column, key->hash))
        return TAMIS_NO_REASON;
    if (key->bytes && !e)
        return TAMIS_DAMAGED;
    if (!key->bytes || !(r ? r->has_range : e[98]))
        return TAMIS_HIT;
    const uint8_t *first = r ? r->first : e + 104 + e[96] + e[97];
    size_t n = r ? r->first_bytes : get_number(e + 100, 2);
    const uint8_t *last = r ? r->last : first + n;
    struct piece k = {key->bytes, key->n_bytes}, low = {first, n},
                 high = {last, r ? r->last_bytes : get_number(e + 102, 2)};
    return order(k, low) < 0 || order(k, high) > 0 ? TAMIS_NO_REASON : TAMIS_HIT;
}
