/* The table of columns of an open pack: what verify, repair and repacking read of it.
 */
#include "lib/pack/pack.h"
#include "lib/error.h"
#include "lib/filter/view.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct view *view_of_pack(struct tamis_filter *f)
{
    return atomic_load_explicit(&f->view, memory_order_acquire);
}

/* A private copy, every page checked. */
static int copy_table(struct tamis_filter *f, struct header *h, uint8_t **out,
                      struct tamis_diag *diag)
{
    struct stage *s = &view_of_pack(f)->stages[PACK_COLUMNS];
    *out = NULL;
    int rc = filter_header(f, h, diag);
    if (rc)
        return rc;
    uint8_t *table = malloc((size_t)s->n_pages * PAGE_BYTES);
    if (!table)
        return diag_errno(diag, ENOMEM, f->path, "reading its columns");
    for (uint64_t page = 0; page < s->n_pages && !rc; page++)
        if (!stage_copy_page(s, page, table + page * PAGE_BYTES))
            rc = diag_fail(diag, TAMIS_ERR_DAMAGED, f->path,
                           "page %llu of the table of columns fails its check",
                           (unsigned long long)page);
    if (rc)
        free(table);
    else
        *out = table;
    return rc;
}

static int bad_entry(const struct tamis_filter *f, uint32_t column, const char *field,
                     struct tamis_diag *diag)
{
    return diag_fail(diag, TAMIS_ERR_DAMAGED, f->path, "column %u: %s is not valid",
                     (unsigned)column, field);
}

int pack_each_column(struct tamis_filter *f, pack_column_fn *fn, void *ctx,
                     struct tamis_diag *diag)
{
    const struct view *v = view_of_pack(f);
    struct column col;
    struct header h;
    uint8_t *table;
    size_t at = 0, used;
    if (!v->bands)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, f->path,
                         "its table of bands fails its check");
    int rc = copy_table(f, &h, &table, diag);
    if (rc)
        return rc;
    size_t n_bytes = (size_t)h.commit.stages[PACK_COLUMNS].used_bytes;
    for (uint32_t i = 0; i < v->n_bands && !rc; i++)
        for (uint32_t c = 0; c < v->bands[i].n_columns && !rc; c++) {
            struct verdict verdict = column_decode(table + at, n_bytes - at, &h.commit,
                                                   &v->bands[i], &col, &used);
            rc = verdict.code == VERDICT_OK
                     ? fn(ctx, i, c, &col)
                     : bad_entry(f, v->bands[i].first_column + c, verdict.field, diag);
            at += used;
        }
    if (!rc && at != n_bytes)
        rc = bad_entry(f, h.commit.stages[PACK_ROWS].n_columns - 1, "name_bytes", diag);
    free(table);
    return rc;
}
