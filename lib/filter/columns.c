/* The table of columns of an open pack: what verify, repair and repacking read of it;
 * and whether the rows are as it says.
 *
 *     entry:  name, uuid, ...  3 blocks of its own
 *     rows:   blocks 0 0 1 1 2 2 of the column, in a band of 6 */
#include "lib/filter/pack.h"
#include "format/hash.h"
#include "lib/error.h"
#include "lib/filter/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the entries ---- */

/* The UUID of a column, or a hash of its name: each occurs once. */
struct mark {
    uint8_t bytes[UUID_BYTES];
    uint32_t column, at;
};

struct entries {
    const struct commit *c;
    uint8_t *table;     /* a private copy, every page checked */
    struct mark *marks; /* two for each column */
    uint32_t n;         /* the column that is read, or at fault */
    size_t at;          /* where its entry begins */
    const char *bad;    /* the field at fault */
};

static void mark_entry(struct entries *e, const struct column *col)
{
    XXH128_hash_t name = XXH3_128bits(col->name, col->name_bytes);
    struct mark *m = e->marks + (size_t)2 * e->n;
    m[0] = m[1] = (struct mark){.column = e->n, .at = (uint32_t)e->at};
    memcpy(m[0].bytes, col->uuid, UUID_BYTES);
    memcpy(m[1].bytes, &name, UUID_BYTES);
}

static int compare_marks(const void *a, const void *b)
{
    return memcmp(a, b, UUID_BYTES);
}

static bool has_twins(struct entries *e)
{
    struct mark *m = e->marks, *end = m + (size_t)2 * e->n;
    qsort(m, (size_t)(end - m), sizeof *m, compare_marks);
    while (++m < end && compare_marks(m - 1, m) != 0)
        ;
    if (m < end) {
        e->n = m->column;
        e->at = m->at;
    }
    return m < end;
}

static int read_entries(const struct view *v, struct entries *e, pack_column_fn *fn,
                        void *ctx)
{
    size_t n_bytes = (size_t)e->c->stages[PACK_COLUMNS].used_bytes, used;
    struct column col;
    for (uint32_t i = 0; i < v->n_bands; i++)
        for (uint32_t c = 0; c < v->bands[i].n_columns; c++, e->n++, e->at += used) {
            struct verdict verdict = column_decode(e->table + e->at, n_bytes - e->at,
                                                   e->c, &v->bands[i], &col, &used);
            e->bad = verdict.field;
            if (verdict.code != VERDICT_OK)
                return TAMIS_ERR_DAMAGED;
            mark_entry(e, &col);
            int rc = fn(ctx, i, c, &col);
            if (rc)
                return rc;
        }
    e->bad = e->at < n_bytes ? "name_bytes" : "uuid";
    return e->at < n_bytes || has_twins(e) ? TAMIS_ERR_DAMAGED : 0;
}

static uint32_t count_columns(const struct view *v)
{
    const struct band *last = &v->bands[v->n_bands - 1];
    return last->first_column + last->n_columns;
}

static int copy_entries(struct tamis_filter *f, struct entries *e, pack_column_fn *fn,
                        void *ctx, struct tamis_diag *diag)
{
    struct view *v = view_of(f);
    uint64_t n_bytes = v->stages[PACK_COLUMNS].n_pages * PAGE_BYTES;
    int rc;
    e->table = malloc(n_bytes);
    e->marks = malloc((size_t)2 * count_columns(v) * sizeof *e->marks);
    if (!e->table || !e->marks)
        rc = ENOMEM;
    else if (e->c->stages[PACK_COLUMNS].used_bytes > n_bytes ||
             !stage_copy_bytes(&v->stages[PACK_COLUMNS], 0, n_bytes, e->table))
        rc = TAMIS_ERR_DAMAGED;
    else
        rc = read_entries(v, e, fn, ctx);
    free(e->table);
    free(e->marks);
    if (rc == TAMIS_ERR_DAMAGED && e->bad)
        diag_fail(diag, rc, f->path, "column %u: %s is not valid", e->n, e->bad);
    else if (rc == TAMIS_ERR_DAMAGED)
        diag_fail(diag, rc, f->path, "its table of columns fails its check");
    else if (rc == ENOMEM)
        diag_errno(diag, rc, f->path, "reading its columns");
    return rc;
}

int pack_each_entry(struct tamis_filter *f, const struct commit *c, pack_column_fn *fn,
                    void *ctx, struct tamis_diag *diag)
{
    struct entries e = {.c = c};
    if (!view_of(f)->bands)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, f->path,
                         "its table of bands fails its check");
    return copy_entries(f, &e, fn, ctx, diag);
}

/* ---- the rows ---- */

struct own_blocks {
    uint64_t n;
    size_t at; /* of the entry that says so */
};

struct judging {
    struct entries e;
    struct own_blocks *own; /* of each column */
};

static int note_own(void *ctx, uint32_t band, uint32_t column, const struct column *col)
{
    struct judging *j = ctx;
    (void)band, (void)column;
    j->own[j->e.n] = (struct own_blocks){col->own_blocks, j->e.at};
    return 0;
}

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
            verify_blame(f, PACK_COLUMNS, own[c].at / PAGE_BYTES, report);
}

static int judge_band(struct tamis_filter *f, const struct band *b,
                      const struct own_blocks *own, struct tamis_verify *report)
{
    struct stage *s = &view_of(f)->stages[PACK_ROWS];
    uint64_t n = (uint64_t)BLOCK_BITS * b->row_bytes;
    uint8_t *two = malloc(2 * n);
    bool had = false;
    if (!two)
        return ENOMEM;
    for (uint64_t i = 0; i < b->geometry.lanes * b->geometry.n_blocks; i++) {
        uint8_t *rows = two + i % 2 * n, *before = two + (i + 1) % 2 * n;
        bool has = stage_copy_bytes(s, band_row(b, 0, i, 0), n, rows);
        if (has)
            judge_block(f, b, i, rows, had ? before : rows, own, report);
        had = has;
    }
    free(two);
    return 0;
}

int pack_judge(struct tamis_filter *f, const struct commit *c,
               struct tamis_verify *report)
{
    struct view *v = view_of(f);
    struct judging j = {.e.c = c};
    if (!v->bands) {
        verify_blame(f, PACK_BANDS, v->bad_band * BAND_BYTES / PAGE_BYTES, report);
        return 0;
    }
    j.own = calloc(count_columns(v), sizeof *j.own);
    int rc = j.own ? copy_entries(f, &j.e, note_own, &j, NULL) : ENOMEM;
    if (rc == TAMIS_ERR_DAMAGED)
        verify_blame(f, PACK_COLUMNS, j.e.at / PAGE_BYTES, report);
    for (uint32_t i = 0; i < v->n_bands && !rc; i++)
        rc = judge_band(f, &v->bands[i], j.own + v->bands[i].first_column, report);
    free(j.own);
    return rc == TAMIS_ERR_DAMAGED ? 0 : rc;
}
