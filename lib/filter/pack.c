/* Kind 2, packs: rows that hold one bit of each of many filters.
 *
 * Each page of rows is checked when it is first used. A page that failed its check
 * counts as ones: they exclude no column. As a filter of its own a pack answers for all
 * of its columns together, dead ones, too. */
#include "lib/filter/pack.h"
#include "lib/filter/filter.h"
#include "lib/filter/kind.h"
#include "lib/filter/view.h"

#include <stdatomic.h>
#include <string.h>

enum {
    BANDS_PER_PAGE = PAGE_BYTES / BAND_BYTES,
    WIDE = 64, /* of so many columns some go on to the next lane */
    WORD = 8,  /* bytes: what pack_ask_slowly() has room for, lane by lane */
};

/* ---- the mapping ---- */

static size_t memory(const struct commit *c)
{
    return c->stages[PACK_ROWS].n_bands * sizeof(struct band);
}

/* How many of them are good, until one is not. */
static uint32_t read_bands(struct view *v, const struct commit *c, struct band *bands)
{
    struct stage *table = &v->stages[PACK_BANDS];
    uint8_t copy[PAGE_BYTES];
    uint32_t n = c->stages[PACK_ROWS].n_bands;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i % BANDS_PER_PAGE;
        if (at == 0 && !stage_copy_page(table, i / BANDS_PER_PAGE, copy))
            return i;
        if (band_decode(copy + at * BAND_BYTES, c, i, i ? &bands[i - 1] : NULL,
                        &bands[i])
                .code != VERDICT_OK)
            return i;
    }
    return n;
}

static void map(struct view *v, const struct commit *c, void *at)
{
    map_at_random(&v->map);
    uint32_t n = c->stages[PACK_ROWS].n_bands;
    v->bad_band = read_bands(v, c, at);
    v->bands = v->bad_band == n ? at : NULL;
    v->n_bands = v->bands ? n : 0;
}

const struct band *pack_bands(struct tamis_filter *f, uint32_t *n_bands)
{
    *n_bands = view_of(f)->n_bands;
    return view_of(f)->bands;
}

/* ---- all columns of a band ---- */

static struct band_rows view_band_rows(struct view *v, const struct band *b)
{
    struct stage *s = &v->stages[PACK_ROWS];
    return (struct band_rows){
        .kernel = kernel_get(),
        .stage = s,
        .bits = s->bits + b->rows_offset,
        .n_blocks = b->geometry.n_blocks,
        .block_bytes = (uint64_t)BLOCK_BITS * b->row_bytes,
        .row_bytes = b->row_bytes,
        .n_bytes = b->row_bytes,
        .lanes = (uint8_t)b->geometry.lanes,
        .words = (uint8_t)b->geometry.words,
        .at_once = b->n_columns < WIDE && b->row_bytes <= WORD
                       ? 1
                       : (uint8_t)b->geometry.lanes,
        .n_columns = b->n_columns,
    };
}

struct band_rows pack_band_rows(struct tamis_filter *f, const struct band *b)
{
    return view_band_rows(view_of(f), b);
}

void pack_band_pages(struct tamis_filter *f, const struct band *b,
                     struct tamis_verify *out)
{
    struct stage *rows = pack_band_rows(f, b).stage;
    uint64_t at = b->rows_offset / PAGE_BYTES;
    uint64_t end = (band_row(b, b->geometry.lanes, 0, 0) - 1) / PAGE_BYTES + 1;
    memset(out, 0, sizeof *out);
    out->n_pages = end - at;
    for (; at < end && !stage_none_bad(rows); at++)
        if (stage_is_bad(rows, at) && out->n_damaged++ == 0)
            out->first_damaged = filter_page_offset(f, rows, at);
}

/* One row, page by page: a row of more than a line may reach into the next. */
static void and_checked(struct stage *s, uint64_t row, uint32_t row_bytes, uint8_t *out,
                        bool *damaged)
{
    bool strict = s->mode == TAMIS_CHECK_STRICT;
    uint8_t copy[PAGE_BYTES];
    for (uint64_t at = row, end = row + row_bytes; at < end;) {
        uint64_t page = at / PAGE_BYTES, in_page = at % PAGE_BYTES;
        uint64_t n = PAGE_BYTES - in_page < end - at ? PAGE_BYTES - in_page : end - at;
        bool good = strict ? stage_copy_page(s, page, copy) : stage_page_good(s, page);
        const uint8_t *bits = strict ? copy + in_page : s->bits + at;
        if (good)
            for (uint64_t i = 0; i < n; i++)
                out[at - row + i] &= bits[i];
        else
            *damaged = true;
        at += n;
    }
}

static void and_all_checked(const struct band_rows *b, const uint8_t *const *rows,
                            uint32_t n, const uint64_t *columns, uint64_t *hits,
                            bool *damaged)
{
    struct le64 left[ROW_MAX_WORDS];
    uint32_t n_words = (b->n_bytes + 7) / 8;
    memset(left, 0xff, n_words * sizeof left[0]);
    for (uint32_t i = 0; i < n; i++)
        and_checked(b->stage, (uint64_t)(rows[i] - b->stage->bits), b->n_bytes,
                    (uint8_t *)left, damaged);
    for (uint32_t i = 0; i < n_words; i++)
        hits[i] = columns[i] & le64_get(left[i]);
}

/* Are all pages of these rows good? Checks those that were not. */
static bool rows_good(struct stage *s, const uint8_t *const *rows, uint32_t n,
                      uint32_t row_bytes)
{
    if (stage_all_good(s))
        return true;
    bool good = s->mode != TAMIS_CHECK_STRICT;
    for (uint32_t i = 0; i < n && good; i++) {
        uint64_t at = (uint64_t)(rows[i] - s->bits);
        uint64_t last = (at + row_bytes - 1) / PAGE_BYTES;
        for (uint64_t page = at / PAGE_BYTES; page <= last && good; page++)
            good = stage_page_good(s, page);
    }
    return good;
}

static void ask_some(const struct band_rows *b, const uint8_t *const *rows, uint32_t n,
                     const uint64_t *columns, uint64_t *hits, bool *damaged)
{
    if (rows_good(b->stage, rows, n, b->n_bytes))
        b->kernel->and_rows(rows, n, b->n_bytes, columns, hits);
    else
        and_all_checked(b, rows, n, columns, hits, damaged);
}

/* Lane by lane, while a column is left: then a row is a word. */
void pack_ask_slowly(const struct band_rows *b, const struct key_rows *first,
                     const uint64_t *columns, uint64_t *hits, bool *damaged)
{
    const uint8_t *rows[MAX_WORDS];
    uint64_t h = first->hash, left;
    if (b->at_once == b->lanes) {
        ask_some(b, first->at, first->n, columns, hits, damaged);
        return;
    }
    ask_some(b, first->at, first->n, columns, &left, damaged);
    for (uint32_t lane = 1; lane < b->lanes && left; lane++) {
        uint64_t before = left;
        h = geometry_next_lane(h);
        pack_fetch_lane(b, lane, h, rows);
        ask_some(b, rows, b->words, &before, &left, damaged);
    }
    *hits = left;
}

bool pack_probe_band(const struct band_rows *b, uint64_t h,
                     uint64_t hits[ROW_MAX_WORDS], bool *damaged)
{
    uint64_t columns[ROW_MAX_WORDS] = {0}, any = 0;
    uint32_t n = (b->row_bytes + 7) / 8;
    for (uint32_t c = 0; c < b->n_columns; c++)
        columns[c / 64] |= UINT64_C(1) << c % 64;
    struct key_rows rows;
    pack_fetch_rows(b, h, &rows);
    pack_ask_rows(b, &rows, columns, hits, damaged);
    for (uint32_t i = 0; i < n; i++)
        any |= hits[i];
    return any != 0;
}

/* ---- one column ---- */

/* Where the rows of one lane begin, from the start of the rows. */
static uint32_t rows_of_lane(const struct band *b, uint32_t lane, uint64_t h,
                             uint64_t rows[MAX_WORDS])
{
    const struct geometry *g = &b->geometry;
    uint64_t block = band_row(b, lane, geometry_block(h, g->n_blocks), 0);
    for (uint32_t i = 0; i < g->words; i++) {
        uint32_t word = (geometry_start(h) + i) % WORDS_PER_BLOCK;
        rows[i] = block + (word * 64 + geometry_bit(h, word)) * (uint64_t)b->row_bytes;
    }
    return g->words;
}

/* Its bit in one row: 0 or 1; -1 if the page failed its check. */
static int column_bit(struct stage *s, uint64_t at, uint32_t bit)
{
    uint8_t copy[PAGE_BYTES];
    bool strict = s->mode == TAMIS_CHECK_STRICT;
    uint64_t page = at / PAGE_BYTES;
    if (!(strict ? stage_copy_page(s, page, copy) : stage_page_good(s, page)))
        return -1;
    return (strict ? copy[at % PAGE_BYTES] : s->bits[at]) >> bit & 1;
}

enum tamis_reason pack_probe_column(struct tamis_filter *f, const struct band *b,
                                    uint32_t column, uint64_t h)
{
    struct view *v = view_of(f);
    struct stage *s = &v->stages[PACK_ROWS];
    enum tamis_reason reason = TAMIS_HIT;
    uint64_t rows[MAX_WORDS];
    for (uint32_t lane = 0; lane < b->geometry.lanes; lane++) {
        uint32_t n = rows_of_lane(b, lane, h, rows);
        for (uint32_t i = 0; i < n; i++)
            __builtin_prefetch(s->bits + rows[i] + column / 8);
        for (uint32_t i = 0; i < n; i++) {
            int bit = column_bit(s, rows[i] + column / 8, column % 8);
            if (bit == 0)
                return TAMIS_NO_REASON;
            if (bit < 0)
                reason = TAMIS_DAMAGED; /* ones: this row says nothing */
        }
        h = geometry_next_lane(h);
    }
    return reason;
}

void pack_prefetch_column(struct tamis_filter *f, const struct band *b, uint32_t column,
                          uint64_t h)
{
    const uint8_t *bits = view_of(f)->stages[PACK_ROWS].bits + column / 8;
    uint64_t rows[MAX_WORDS];
    for (uint32_t r = rows_of_lane(b, 0, h, rows); r > 0; r--)
        __builtin_prefetch(bits + rows[r - 1]);
}

/* ---- all columns together, as a filter ---- */

/* May any column have the key? Only damage says so if each of its bits that is left
 * rests on a page that failed. */
static enum tamis_reason probe_bands(struct view *v, uint64_t h)
{
    uint64_t hits[ROW_MAX_WORDS];
    enum tamis_reason reason = TAMIS_NO_REASON;
    for (uint32_t i = 0; i < v->n_bands; i++) {
        bool damaged = false;
        struct band_rows r = view_band_rows(v, &v->bands[i]);
        if (!pack_probe_band(&r, h, hits, &damaged))
            continue;
        if (!damaged)
            return TAMIS_HIT;
        reason = TAMIS_DAMAGED;
    }
    return reason;
}

static void prefetch(const struct view *v, uint64_t h)
{
    const uint8_t *bits = v->stages[PACK_ROWS].bits;
    uint64_t rows[MAX_WORDS];
    for (uint32_t b = 0; b < v->n_bands; b++)
        for (uint32_t i = rows_of_lane(&v->bands[b], 0, h, rows); i > 0; i--)
            __builtin_prefetch(bits + rows[i - 1]);
}

static enum tamis_reason probe_one(struct view *v, const struct kernel *k, uint64_t h)
{
    (void)k;
    if (!v->bands)
        return TAMIS_DAMAGED;
    prefetch(v, h);
    return probe_bands(v, h);
}

static size_t probe_many(struct view *v, const struct kernel *k, const uint64_t *hashes,
                         size_t n, uint64_t *absent)
{
    size_t n_absent = 0;
    for (size_t done = 0; done < n; done += 64) {
        uint64_t word = 0;
        for (size_t i = done; i < n && i < done + 64; i++)
            word |= (uint64_t)(probe_one(v, k, hashes[i]) == TAMIS_NO_REASON) << i % 64;
        absent[done / 64] = word; /* whole: a caller may jump out of a probe */
        n_absent += (size_t)__builtin_popcountll(word);
    }
    return n_absent;
}

const struct filter_kind kind_pack = {
    .number = KIND_PACK,
    .name = "pack",
    .algebra = 0,
    .planes = false,
    .memory = memory,
    .map = map,
    .probe = probe_one,
    .probe_many = probe_many,
    .prefetch = prefetch,
    .explain = NULL, /* no stage decides by itself */
    .judge = pack_judge,
};
