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

bool second_counts(const struct second *s, const struct tamis_domain *domain,
                   const struct pack_place *place)
{
    if (!s->bands || s->id.hash_id != domain->hash_id ||
        s->id.hash_seed != domain->seed || memcmp(s->id.uuid, place->uuid, 16) != 0 ||
        s->commit.table_digest != place->digest || place->digest == 0)
        return false;
    return place->column < s->commit.stages[PACK_ROWS].n_columns &&
           !dead_by_spec(s, place->column);
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

bool second_absent(const struct second *s, const struct pack_place *place,
                   uint64_t hash)
{
    uint32_t i = n_bands(s) - 1;
    while (band_at(s, i).first_column > place->column)
        i--;
    struct row_band b = band_at(s, i);
    return column_absent(s, &b, place->column - b.first_column, hash);
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

/* ---- §17.2 ---- */

const uint8_t *second_entry(const struct second *s, uint32_t column)
{
    const struct stage_desc *d = &s->commit.stages[PACK_COLUMNS];
    const uint8_t *table = s->pack + d->offset, *page;
    const uint8_t *places =
        s->pack + s->commit.stages[PACK_BANDS].offset + (uint64_t)32 * n_bands(s);
    uint64_t n_pages = d->length / 4096,
             place = get_number(places + 4 * (uint64_t)column, 4);
    uint64_t slot = place % 64;
    if (place / 64 >= n_pages)
        return NULL;
    page = table + place / 64 * 4096;
    if (page[2] != 0 || slot >= get_number(page, 2))
        return NULL;
    uint64_t begin = slot ? get_number(page + 4096 - 2 * slot, 2) : 8;
    uint64_t end = get_number(page + 4094 - 2 * slot, 2);
    return begin < 8 || end < begin + 104 || end > 4096 ? NULL : page + begin;
}
