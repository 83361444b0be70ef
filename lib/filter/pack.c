/* Kind 2, packs: rows that hold one bit of each of many filters.
 *
 * Each page of rows is checked when it is first used. A page that failed its check
 * counts as ones: they exclude no column. As a filter of its own a pack answers for all
 * of its columns together, dead ones, too.
 *
 * Its table has an entry for each column, found by a segment's name or by the number of
 * the column:
 *
 *     entry:  name, uuid, ...  3 blocks of its own
 *     rows:   blocks 0 0 1 1 2 2 of the column, in a band of 6 */
#include "lib/filter/pack.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/filter/kind.h"
#include "lib/filter/view.h"

#include <stdlib.h>

enum {
    BANDS_PER_PAGE = PAGE_BYTES / BAND_BYTES,
    WIDE = 64,      /* columns, some of which go on to the next lane */
    WORD = 8,       /* bytes that pack_ask_slowly() has room for */
    FEW_PAGES = 32, /* of rows: they are mapped */
    HELD_PAGES = 5, /* a block of four pages may reach into a fifth */
};

/* ---- the mapping ---- */

static size_t pack_memory(const struct commit *c)
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

static void pack_map(struct view *v, const struct commit *c, void *at)
{
    const struct stage *rows = &v->stages[PACK_ROWS];
    map_at_random(&v->map);
    uint32_t n = c->stages[PACK_ROWS].n_bands;
    v->bad_band = read_bands(v, c, at);
    v->bands = v->bad_band == n ? at : NULL;
    v->n_bands = v->bands ? n : 0;
    /* Is no page of rows ever read? A fault maps 16 pages: those of a small pack are
     * soon all there. */
    if (rows->mode == TAMIS_CHECK_NONE ||
        (rows->mode != TAMIS_CHECK_STRICT && rows->n_pages <= FEW_PAGES))
        map_leave_file(&v->map);
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

/* May its bits be used where they are mapped? A page that was not checked yet is read
 * instead. A key needs many pages, and mapping each with its neighbours would take most
 * of the time. */
static bool page_in_place(struct stage *s, uint64_t page)
{
    return s->mode != TAMIS_CHECK_STRICT &&
           (!s->map->file || s->mode == TAMIS_CHECK_NONE || stage_page_state(s, page));
}

/* Pages that lie together: those of a row, or of a small block (all rows of a lane). */
struct held {
    uint64_t first, n;
    bool read;             /* else each is copied when it is checked */
    bool good[HELD_PAGES]; /* if it has been checked */
    uint8_t bytes[HELD_PAGES][PAGE_BYTES];
};

static void hold_pages(const struct band_rows *b, uint64_t row, struct held *h)
{
    bool small = b->block_bytes <= (HELD_PAGES - 1) * PAGE_BYTES;
    uint64_t base = (uint64_t)(b->bits - b->stage->bits);
    uint64_t begin = small ? row - (row - base) % b->block_bytes : row;
    uint64_t end = begin + (small ? b->block_bytes : b->n_bytes);
    h->first = begin / PAGE_BYTES;
    h->n = (end - 1) / PAGE_BYTES - h->first + 1;
    h->read = stage_read(b->stage, h->first * PAGE_BYTES, h->n * PAGE_BYTES, *h->bytes);
    memset(h->good, false, sizeof h->good);
}

/* A page of this row, if it is good. */
static const uint8_t *page_of_row(const struct band_rows *b, uint64_t row,
                                  uint64_t page, struct held *h)
{
    struct stage *s = b->stage;
    bool holds = page - h->first < h->n;
    if (!holds && page_in_place(s, page))
        return stage_page_good(s, page) ? s->bits + page * PAGE_BYTES : NULL;
    if (!holds)
        hold_pages(b, row, h);
    uint64_t i = page - h->first;
    if (!h->good[i])
        h->good[i] = h->read ? stage_check_read(s, page, h->bytes[i])
                             : stage_copy_page(s, page, h->bytes[i]);
    return h->good[i] ? h->bytes[i] : NULL;
}

/* One row, page by page. A long row is parted between two of its lines. */
static void and_checked(const struct band_rows *b, uint64_t row, struct held *h,
                        uint64_t *left, bool *damaged)
{
    for (uint64_t at = row, end = row + b->n_bytes, n; at < end; at += n) {
        uint64_t in_page = at % PAGE_BYTES, *to = left + (at - row) / sizeof *left;
        const uint8_t *bits = page_of_row(b, row, at / PAGE_BYTES, h);
        n = PAGE_BYTES - in_page < end - at ? PAGE_BYTES - in_page : end - at;
        *damaged |= !bits;
        if (!bits)
            continue; /* ones exclude nothing */
        bits += in_page;
        b->kernel->and_rows(&bits, 1, (uint32_t)n, to, to);
    }
}

/* Looks from word *from on, where it found one before. */
static bool any_left(const struct band_rows *b, const uint64_t *columns, uint32_t *from)
{
    for (; *from < (b->n_bytes + 7) / 8; ++*from)
        if (columns[*from])
            return true;
    return false;
}

/* Stops when no column is left: a look is quicker than to read the other rows. */
static void and_all_checked(const struct band_rows *b, const uint8_t *const *rows,
                            uint32_t n, const uint64_t *columns, uint64_t *hits,
                            bool *damaged)
{
    struct held h;
    uint32_t from = 0;
    h.first = h.n = 0;
    memcpy(hits, columns, (b->n_bytes + 7) / 8 * sizeof *hits);
    for (uint32_t i = 0; i < n && any_left(b, hits, &from); i++)
        and_checked(b, (uint64_t)(rows[i] - b->stage->bits), &h, hits, damaged);
}

/* Are all pages of these rows good, in place? Checks pages that were not. */
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
            good = page_in_place(s, page) && stage_page_good(s, page);
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

/* Asks lane by lane while a column is left, where a row is a word. */
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
    uint64_t columns[ROW_MAX_WORDS] = {0};
    for (uint32_t c = 0; c < b->n_columns; c++)
        columns[c / 64] |= UINT64_C(1) << c % 64;
    struct key_rows rows;
    pack_fetch_rows(b, h, &rows);
    pack_ask_rows(b, &rows, columns, hits, damaged);
    return any_left(b, hits, &(uint32_t){0});
}

/* ---- one column ---- */

enum tamis_reason pack_probe_column(struct tamis_filter *f, const struct band *b,
                                    uint32_t column, uint64_t h)
{
    struct band_rows r = pack_band_rows(f, b);
    uint64_t hits, its = UINT64_C(1) << column % 64;
    struct key_rows rows;
    bool damaged = false;
    if (stage_all_good(r.stage)) {
        if (pack_column_set(&r, column, h))
            return TAMIS_HIT;
        atomic_thread_fence(memory_order_acquire);
        if (stage_all_good(r.stage)) /* else page by page */
            return TAMIS_NO_REASON;
    }
    /* Its word of each row, lane by lane. */
    r.bits += column / 64 * WORD;
    r.n_bytes = r.row_bytes < WORD ? r.row_bytes : WORD;
    r.at_once = 1;
    pack_fetch_rows(&r, h, &rows);
    pack_ask_rows(&r, &rows, &its, &hits, &damaged);
    return !hits ? TAMIS_NO_REASON : damaged ? TAMIS_DAMAGED : TAMIS_HIT;
}

/* ---- all columns together, as a filter ---- */

static void pack_prefetch(const struct view *v, uint64_t h)
{
    const uint8_t *rows[MAX_WORDS];
    for (uint32_t i = 0; i < v->n_bands; i++) {
        struct band_rows b = view_band_rows((void *)(uintptr_t)v, &v->bands[i]);
        pack_fetch_lane(&b, 0, h, rows);
    }
}

/* May any column have the key? Only damage says so if each of its bits that is left
 * rests on a page that failed. */
static enum tamis_reason pack_probe_one(struct view *v, const struct kernel *k,
                                        uint64_t h)
{
    uint64_t hits[ROW_MAX_WORDS];
    enum tamis_reason reason = v->bands ? TAMIS_NO_REASON : TAMIS_DAMAGED;
    (void)k;
    pack_prefetch(v, h);
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

static size_t pack_probe_many(struct view *v, const struct kernel *k,
                              const uint64_t *hashes, size_t n, uint64_t *absent)
{
    size_t n_absent = 0;
    for (size_t done = 0; done < n; done += 64) {
        uint64_t word = 0;
        for (size_t i = done; i < n && i < done + 64; i++)
            word |= (uint64_t)(pack_probe_one(v, k, hashes[i]) == TAMIS_NO_REASON)
                    << i % 64;
        absent[done / 64] = word; /* whole: a caller may jump out of a probe */
        n_absent += (size_t)__builtin_popcountll(word);
    }
    return n_absent;
}

/* ---- the table of columns ---- */

static uint32_t count_columns(const struct view *v)
{
    const struct band *last = &v->bands[v->n_bands - 1];
    return last->first_column + last->n_columns;
}

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

/* A good page, which is valid until the next but one is read; NULL: it is not good. */
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
                      uint32_t number, struct facts *out)
{
    struct piece item = {NULL, 0};
    if (p->level == 0 && number < p->n)
        item = index_item(p, number);
    if (!item.at ||
        column_decode(item.at, item.n, v->bands, v->n_bands, out).code != VERDICT_OK)
        return TAMIS_ERR_DAMAGED;
    out->place = page << ITEM_BITS | number;
    out->mapped =
        v->stages[PACK_COLUMNS].bits + (uint64_t)page * PAGE_BYTES + (item.at - p->at);
    return 0;
}

/* ---- a guide to names ----
 *
 * For each page of entries the guide has eight bytes of the page's least name, after
 * the bytes that all names begin with. A search believes the guide only if the page of
 * names above that page agrees. */

enum {
    NO_GUIDE = 16, /* pages of entries need none */
    UNGUIDED = 64, /* searches before a guide is made; making it takes as long */
};

struct guide {
    uint32_t n, n_same; /* n pages of entries; n_same bytes begin all names */
    uint16_t *above;    /* by page of entries: which page of names is above it */
    uint64_t keys[];
};

static uint64_t guide_key(const struct guide *g, struct piece name)
{
    struct le64 some = le64_of(0);
    size_t n = name.n > g->n_same ? name.n - g->n_same : 0;
    memcpy(&some, name.at + g->n_same * (n > 0), n < sizeof some ? n : sizeof some);
    return __builtin_bswap64(le64_get(some));
}

static bool guide_fill(struct guide *g, struct reading *r)
{
    struct index_page p;
    struct piece name = {(const uint8_t *)"", 0};
    uint32_t at = 0;
    for (uint32_t page = g->n; at < g->n && read_index(r, page, &p) && name.at; page++)
        for (uint32_t i = 0; i < p.n && at < g->n && name.at; i++, at++) {
            name = index_name(&p, i);
            g->keys[at] = name.at ? guide_key(g, name) : 0;
            g->above[at] = (uint16_t)(page - g->n);
        }
    return name.at && at == g->n;
}

/* Without memory, or without a page that it needs, no guide is made. */
static void guide_make(struct view *v, struct reading *r)
{
    struct index_page p;
    struct guide *none = NULL, *g;
    uint32_t n = (uint32_t)r->pages->n_pages - 1;
    bool has = read_index(r, n, &p);
    struct piece last = has ? index_name(&p, p.n - 1) : (struct piece){NULL, 0};
    for (; has && p.level > 1; has = read_index(r, n, &p))
        n = p.first_child;
    struct piece first = has ? index_name(&p, 1) : last;
    if (n < NO_GUIDE || !first.at || !last.at ||
        !(g = malloc(sizeof *g + n * (sizeof g->keys[0] + sizeof g->above[0]))))
        return;
    *g = (struct guide){.n = n, .above = (uint16_t *)(void *)(g->keys + n)};
    while (g->n_same < first.n && g->n_same < last.n &&
           first.at[g->n_same] == last.at[g->n_same])
        g->n_same++;
    if (!guide_fill(g, r) || !atomic_compare_exchange_strong(&v->guide, &none, g))
        free(g);
}

/* The page of entries that has the name, if one has, and its two names in the page
 * above. False: these do not agree, or there is no next name, or no guide. */
static bool guide_leads(struct view *v, struct reading *r, struct piece name,
                        uint32_t *page, struct piece *low, struct piece *high)
{
    struct index_page p;
    const struct guide *g = atomic_load_explicit(&v->guide, memory_order_acquire);
    uint32_t n_before = atomic_load_explicit(&v->n_unguided, memory_order_relaxed);
    if (!g && !r->copies && n_before <= UNGUIDED) {
        atomic_store_explicit(&v->n_unguided, n_before + 1, memory_order_relaxed);
        if (n_before == UNGUIDED)
            guide_make(v, r);
    }
    if (!g || r->copies)
        return false;
    const uint64_t key = guide_key(g, name), *at = g->keys;
    for (uint32_t n = g->n, half; n > 1; n -= half) {
        half = n / 2;
        at += (at[half] <= key) * half;
    }
    *page = (uint32_t)(at - g->keys);
    /* A search begins at these bytes, if entries are of one size. */
    static const uint16_t soon[] = {0, 4032, 3968, 2048, 2112, 1024, 1088, 3008, 3072};
    for (uint32_t i = 0; i < sizeof soon / sizeof soon[0]; i++)
        __builtin_prefetch(r->pages->bits + (uint64_t)*page * PAGE_BYTES + soon[i]);
    if (!read_index(r, g->n + g->above[*page], &p) || p.level != 1 ||
        *page < p.first_child || *page - p.first_child + 1 >= p.n)
        return false;
    *low = index_name(&p, *page - p.first_child);
    *high = index_name(&p, *page - p.first_child + 1);
    return low->at && high->at && name_compare(*low, name) <= 0 &&
           name_compare(*high, name) > 0;
}

/* Searches from the last page, which is above all others, down to an entry. The page
 * above has the names `low` for this page, and `high` for the next, if there is one. */
static int find_entry(struct view *v, struct reading *r, struct piece name,
                      struct facts *out)
{
    uint32_t page, n, level = 1;
    struct piece low, high, least;
    struct index_page p;
    if (!guide_leads(v, r, name, &page, &low, &high)) {
        page = (uint32_t)r->pages->n_pages - 1;
        level = UINT32_MAX;
        low = (struct piece){(const uint8_t *)"", 0};
        high = (struct piece){NULL, 0};
    }
    for (;; level = p.level) {
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

/* Where the directory says that a column's entry is. False: its page is not good. */
static bool read_place(struct view *v, struct reading *r, uint32_t column,
                       uint32_t *page, uint32_t *item)
{
    struct le32 place;
    uint64_t at = place_offset(v->n_bands, column);
    const uint8_t *places = table_page(r, r->bands, at / PAGE_BYTES);
    if (!places)
        return false;
    memcpy(&place, places + at % PAGE_BYTES, sizeof place);
    *page = le32_get(place) >> ITEM_BITS;
    *item = le32_get(place) % (1U << ITEM_BITS);
    return true;
}

static int find_column(struct view *v, struct reading *r, uint32_t column,
                       struct facts *out)
{
    struct index_page p;
    uint32_t page, item;
    if (column >= count_columns(v))
        return TAMIS_ERR_RANGE;
    int rc = read_place(v, r, column, &page, &item) && read_index(r, page, &p)
                 ? read_entry(v, &p, page, item, out)
                 : TAMIS_ERR_DAMAGED;
    return rc || le32_get(out->disk.column) == column ? rc : TAMIS_ERR_DAMAGED;
}

void pack_fetch_entries(struct tamis_filter *f, const uint32_t *columns, size_t n)
{
    struct view *v = view_of(f);
    struct reading r;
    struct index_page p;
    uint32_t page[PACK_FETCHED], item[PACK_FETCHED];
    reading_begin(&r, v, false);
    if (r.copies)
        return;
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(r.bands->bits + place_offset(v->n_bands, columns[i]));
    for (size_t i = 0; i < n; i++) {
        page[i] = UINT32_MAX; /* no page */
        if (!read_place(v, &r, columns[i], &page[i], &item[i]))
            continue;
        const uint8_t *end = r.pages->bits + (page[i] + UINT64_C(1)) * PAGE_BYTES;
        __builtin_prefetch(end - PAGE_BYTES);
        __builtin_prefetch(end - (item[i] + 1) * sizeof(struct le16));
    }
    for (size_t i = 0; i < n; i++) {
        if (!read_index(&r, page[i], &p))
            continue;
        struct piece entry = index_item(&p, item[i]);
        for (size_t k = 0; k < entry.n; k += BLOCK_BYTES)
            __builtin_prefetch(entry.at + k);
    }
}

/* Finds a column by its name, or else by its number. A page that is lost meanwhile has
 * the guard's ones, which no check has seen: then all is read again from copies. */
static int find_either(struct view *v, struct piece name, uint32_t column, bool copies,
                       struct facts *out)
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
              struct facts *out)
{
    return find_either(view_of(f), (struct piece){name, name_bytes}, 0, anew, out);
}

int pack_describe(struct tamis_filter *f, uint32_t column, bool anew, struct facts *out)
{
    return find_either(view_of(f), (struct piece){NULL, 0}, column, anew, out);
}

/* ---- is the table right? ---- */

/* Is the entry found by its name and by its number? If all entries are, no name leads
 * past its entry, and each column has one entry. */
static int judge_entry(struct view *v, const struct facts *col)
{
    struct facts by_name, by_number;
    uint32_t number = le32_get(col->disk.column);
    bool good =
        find_either(v, column_name(col), 0, false, &by_name) == 0 &&
        find_either(v, (struct piece){NULL, 0}, number, false, &by_number) == 0 &&
        by_name.place == col->place && by_number.place == col->place;
    return good ? 0 : TAMIS_ERR_DAMAGED;
}

/* All entries, in the order of names and a page at a time. Sets *page to the page that
 * is read, or at fault. */
static int judge_entries(struct view *v, uint32_t *page)
{
    struct reading r;
    struct index_page p;
    struct facts col[2]; /* this one, and the one before */
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
                rc = judge_entry(v, &col[n % 2]);
            if (rc)
                return rc;
        }
    }
    *page -= *page > 0;
    return n == count_columns(v) ? 0 : TAMIS_ERR_DAMAGED;
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
        rc = judge_entries(v, &page);
    if (rc)
        verify_blame(f, PACK_COLUMNS, page, report);
    return rc;
}

int pack_judge_names(struct tamis_filter *f)
{
    int rc = judge_table(f, &(struct tamis_verify){0});
    return rc && lost_any(&view_of(f)->map) ? EIO : rc;
}

/* ---- are the rows as the table says? ---- */

struct own_blocks {
    uint64_t n;
    uint32_t page; /* of the entry that says n */
};

/* Is block i the same as the one before, in columns that repeat blocks? Are bits beyond
 * the last column zero? */
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
    struct facts col;
    for (uint32_t c = 0; c < b->n_columns; c++) {
        int rc = pack_describe(f, b->first_column + c, true, &col);
        if (rc)
            return rc;
        own[c] =
            (struct own_blocks){le64_get(col.disk.own_blocks), col.place >> ITEM_BITS};
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

static int pack_judge(struct tamis_filter *f, const struct commit *c,
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

const struct filter_kind kind_pack = {
    .number = KIND_PACK,
    .name = "pack",
    .keeps_file = true,
    .memory = pack_memory,
    .map = pack_map,
    .probe = pack_probe_one,
    .probe_many = pack_probe_many,
    .prefetch = pack_prefetch,
    .explain = NULL, /* no stage decides by itself */
    .judge = pack_judge,
};
