/* The table of columns of an open pack: found by a segment's name, or by the number of
 * a column; and whether the table is right, and the rows are as it says.
 *
 *     entry:  name, uuid, ...  3 blocks of its own
 *     rows:   blocks 0 0 1 1 2 2 of the column, in a band of 6 */
#include "lib/filter/pack.h"
#include "lib/error.h"
#include "lib/filter/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_columns(const struct view *v)
{
    const struct band *last = &v->bands[v->n_bands - 1];
    return last->first_column + last->n_columns;
}

/* ---- one column ---- */

struct reading {
    struct stage *pages, *bands; /* these have the directory, too */
    bool copies;                 /* pages are copied, checked, and read from the copy */
    uint8_t last;
    uint8_t copy[2][PAGE_BYTES];
};

static void reading_begin(struct reading *r, struct view *v, bool copies)
{
    r->pages = &v->stages[PACK_COLUMNS];
    r->bands = &v->stages[PACK_BANDS];
    r->copies = copies || r->pages->mode == TAMIS_CHECK_STRICT;
    r->last = 0;
}

/* A page that is good, until the next but one is read; NULL. */
static const uint8_t *table_page(struct reading *r, struct stage *s, uint64_t page)
{
    uint8_t *copy = r->copy[r->last ^= 1];
    if (r->copies)
        return stage_copy_page(s, page, copy) ? copy : NULL;
    return stage_page_good(s, page) ? s->bits + page * PAGE_BYTES : NULL;
}

static bool read_index(struct reading *r, uint32_t page, struct index_page *p)
{
    const uint8_t *bytes =
        page < r->pages->n_pages ? table_page(r, r->pages, page) : NULL;
    return bytes && index_open(bytes, page, p).code == VERDICT_OK;
}

static int read_entry(struct view *v, const struct index_page *p, uint32_t page,
                      uint32_t slot, struct column *out)
{
    struct piece item = {NULL, 0};
    if (p->level == 0 && slot < p->n)
        item = index_item(p, slot);
    if (!item.at ||
        column_decode(item.at, item.n, v->bands, v->n_bands, out).code != VERDICT_OK)
        return TAMIS_ERR_DAMAGED;
    out->place = page << SLOT_BITS | slot;
    out->mapped =
        v->stages[PACK_COLUMNS].bits + (uint64_t)page * PAGE_BYTES + (item.at - p->at);
    return 0;
}

/* From the last page, which is above all others, down to an entry. `low` and `high` are
 * the names that the page above has for this one and for the next, if it has that. */
static int find_entry(struct view *v, struct reading *r, struct piece name,
                      struct column *out)
{
    uint32_t page = (uint32_t)r->pages->n_pages - 1, n;
    struct piece low = {(const uint8_t *)"", 0}, high = {NULL, 0}, least;
    struct index_page p;
    for (uint32_t level = UINT32_MAX;; level = p.level) {
        if (!read_index(r, page, &p) || (level != UINT32_MAX && p.level != level - 1) ||
            !index_search(&p, name, low, high, &n))
            return TAMIS_ERR_DAMAGED;
        if (p.level == 0)
            break;
        least = index_name(&p, 0);
        if (!least.at || name_compare(least, low) != 0) /* else n is not 0 */
            return TAMIS_ERR_DAMAGED;
        low = index_name(&p, n - 1);
        high = n < p.n ? index_name(&p, n) : (struct piece){NULL, 0};
        page = p.first_child + n - 1;
    }
    if (n == 0 || name_compare(index_name(&p, n - 1), name) != 0)
        return TAMIS_ERR_NO_SEGMENT;
    return read_entry(v, &p, page, n - 1, out);
}

static int find_column(struct view *v, struct reading *r, uint32_t column,
                       struct column *out)
{
    struct le32 place;
    struct index_page p;
    if (column >= count_columns(v))
        return TAMIS_ERR_RANGE;
    uint64_t at = place_offset(v->n_bands, column);
    const uint8_t *places = table_page(r, r->bands, at / PAGE_BYTES);
    if (!places)
        return TAMIS_ERR_DAMAGED;
    memcpy(&place, places + at % PAGE_BYTES, sizeof place);
    uint32_t page = le32_get(place) >> SLOT_BITS;
    int rc = read_index(r, page, &p)
                 ? read_entry(v, &p, page, le32_get(place) % (1U << SLOT_BITS), out)
                 : TAMIS_ERR_DAMAGED;
    return rc || le32_get(out->disk.column) == column ? rc : TAMIS_ERR_DAMAGED;
}

/* By its name, or else by its number. A page that is lost meanwhile has the guard's
 * ones, which no check has seen: then all is read again from copies. */
static int find_either(struct view *v, struct piece name, uint32_t column, bool copies,
                       struct column *out)
{
    struct reading r;
    if (!v->bands)
        return TAMIS_ERR_DAMAGED;
    reading_begin(&r, v, copies || lost_any(&v->map));
    int rc = name.at ? find_entry(v, &r, name, out) : find_column(v, &r, column, out);
    if (!r.copies && lost_any(&v->map))
        return find_either(v, name, column, true, out);
    return rc;
}

int pack_find(struct tamis_filter *f, const void *name, size_t name_bytes, bool anew,
              struct column *out)
{
    struct piece piece = {name, name_bytes};
    return find_either(view_of(f), piece, 0, anew, out);
}

int pack_describe(struct tamis_filter *f, uint32_t column, bool anew,
                  struct column *out)
{
    struct piece none = {NULL, 0};
    return find_either(view_of(f), none, column, anew, out);
}

/* ---- all of them ---- */

/* Sets *page to the page that is read, or at fault. */
static int read_entries(struct view *v, uint32_t *page, pack_column_fn *fn, void *ctx)
{
    struct reading r;
    struct index_page p;
    struct column col[2]; /* this one, and the one before */
    uint32_t n = 0;
    reading_begin(&r, v, true);
    for (*page = 0; *page < r.pages->n_pages; ++*page) {
        stage_read_ahead(r.pages, *page);
        if (!read_index(&r, *page, &p))
            return TAMIS_ERR_DAMAGED;
        if (p.level)
            break;
        for (uint32_t i = 0; i < p.n; i++, n++) {
            int rc = read_entry(v, &p, *page, i, &col[n % 2]);
            if (!rc && n &&
                name_compare(column_name(&col[1 - n % 2]), column_name(&col[n % 2])) >=
                    0)
                rc = TAMIS_ERR_DAMAGED;
            if (!rc)
                rc = fn(ctx, &col[n % 2]);
            if (rc)
                return rc;
        }
    }
    *page -= *page > 0;
    return n == count_columns(v) ? 0 : TAMIS_ERR_DAMAGED;
}

int pack_each_column(struct tamis_filter *f, pack_column_fn *fn, void *ctx)
{
    uint32_t page;
    return view_of(f)->bands ? read_entries(view_of(f), &page, fn, ctx)
                             : TAMIS_ERR_DAMAGED;
}

/* ---- is the table right? ---- */

/* Is the entry found by its name and by its number? If all are, no name leads past an
 * entry that has it, and no column has two entries, or none. */
static int judge_entry(void *ctx, const struct column *col)
{
    struct view *v = ctx;
    struct piece none = {NULL, 0};
    struct column by_name, by_number;
    if (find_either(v, column_name(col), 0, false, &by_name) != 0 ||
        find_either(v, none, le32_get(col->disk.column), false, &by_number) != 0)
        return TAMIS_ERR_DAMAGED;
    return by_name.place == col->place && by_number.place == col->place
               ? 0
               : TAMIS_ERR_DAMAGED;
}

/* The levels so far: their last one, where it begins, and the next page to be named. */
struct levels {
    uint32_t level, begin, next;
};

/* Do the pages of each level name those of the level below, one after the other? */
static bool follows(struct levels *l, const struct index_page *p, uint32_t page)
{
    if (p->level == l->level + 1 && l->next == l->begin && page - l->begin > 1)
        *l = (struct levels){p->level, page, l->begin};
    if (p->level != l->level || (p->level && p->first_child != l->next))
        return false;
    l->next += p->level ? p->n : 0;
    return l->next <= l->begin;
}

static int judge_table(struct tamis_filter *f, struct tamis_verify *report)
{
    struct view *v = view_of(f);
    struct reading r;
    struct index_page p;
    struct levels levels = {0};
    uint32_t page;
    int rc = 0;
    reading_begin(&r, v, true);
    for (page = 0; page < r.bands->n_pages; page++)
        if (stage_is_bad(r.bands, page)) /* and counted */
            return TAMIS_ERR_DAMAGED;
    for (page = 0; page < r.pages->n_pages && !rc; page += !rc)
        if (!read_index(&r, page, &p) || !index_rest_is_zero(&p) ||
            !follows(&levels, &p, page) ||
            (page + 1 == r.pages->n_pages && levels.next != page))
            rc = TAMIS_ERR_DAMAGED;
    if (!rc)
        rc = read_entries(v, &page, judge_entry, v);
    if (rc)
        verify_blame(f, PACK_COLUMNS, page, report);
    return rc;
}

/* ---- are the rows as it says? ---- */

struct own_blocks {
    uint64_t n;
    uint32_t page; /* that says so */
};

/* Is block i of the band the one before, where columns repeat that? Are bits beyond the
 * last column zero? */
static void judge_block(struct tamis_filter *f, const struct band *b, uint64_t i,
                        const uint8_t *rows, const uint8_t *before,
                        const struct own_blocks *own, struct tamis_verify *report)
{
    uint8_t set[ROW_MAX_BYTES] = {0}, differ[ROW_MAX_BYTES] = {0};
    uint64_t n = b->geometry.n_blocks;
    for (uint32_t row = 0; row < BLOCK_BITS; row++)
        for (uint32_t k = 0; k < b->row_bytes; k++, rows++, before++) {
            set[k] |= *rows;
            differ[k] |= *rows ^ *before;
        }
    for (uint32_t c = 0; c < 8 * b->row_bytes; c++)
        if (c >= b->n_columns && set[c / 8] >> c % 8 & 1)
            verify_blame(f, PACK_ROWS, band_row(b, 0, i, 0) / PAGE_BYTES, report);
        else if (c < b->n_columns && differ[c / 8] >> c % 8 & 1 &&
                 i % n % (n / own[c].n) != 0)
            verify_blame(f, PACK_COLUMNS, own[c].page, report);
}

static int own_blocks_of(struct tamis_filter *f, const struct band *b,
                         struct own_blocks *own)
{
    struct column col;
    for (uint32_t c = 0; c < b->n_columns; c++) {
        int rc = pack_describe(f, b->first_column + c, true, &col);
        if (rc)
            return rc;
        own[c] =
            (struct own_blocks){le64_get(col.disk.own_blocks), col.place >> SLOT_BITS};
    }
    return 0;
}

static int judge_band(struct tamis_filter *f, const struct band *b,
                      struct tamis_verify *report)
{
    struct stage *s = &view_of(f)->stages[PACK_ROWS];
    uint64_t n = (uint64_t)BLOCK_BITS * b->row_bytes;
    uint8_t *two = malloc(2 * n);
    struct own_blocks *own = malloc(b->n_columns * sizeof *own);
    bool had = false;
    int rc = two && own ? own_blocks_of(f, b, own) : ENOMEM;
    for (uint64_t i = 0; i < b->geometry.lanes * b->geometry.n_blocks && !rc; i++) {
        uint8_t *rows = two + i % 2 * n, *before = two + (i + 1) % 2 * n;
        bool has = stage_copy_bytes(s, band_row(b, 0, i, 0), n, rows);
        if (has)
            judge_block(f, b, i, rows, had ? before : rows, own, report);
        had = has;
    }
    free(two);
    free(own);
    return rc;
}

int pack_judge(struct tamis_filter *f, const struct commit *c,
               struct tamis_verify *report)
{
    struct view *v = view_of(f);
    (void)c;
    if (!v->bands) {
        verify_blame(f, PACK_BANDS, v->bad_band * BAND_BYTES / PAGE_BYTES, report);
        return 0;
    }
    int rc = judge_table(f, report);
    for (uint32_t i = 0; i < v->n_bands && !rc; i++)
        rc = judge_band(f, &v->bands[i], report);
    return rc;
}
