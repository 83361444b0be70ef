/* Values of a list in order: for callers, and page by page for merges and builders.
 * lib/filter/list.c says which pages count. */
#include "lib/filter/view.h"
#include "lib/list/list.h"

#include <stdlib.h>

int tamis_list_cursor_create(struct tamis_filter *f, struct tamis_list_cursor **out,
                             struct tamis_diag *diag)
{
    *out = NULL;
    diag_clear(diag);
    if (!f || !filter_list(f))
        return diag_fail(diag, TAMIS_ERR_UNFIT, f ? filter_path(f) : NULL,
                         "not a list of hashes: a filter's keys cannot be read back");
    struct tamis_list_cursor *c = malloc(sizeof *c);
    if (!c)
        return diag_errno(diag, ENOMEM, filter_path(f), "cannot read its values");
    memset(c, 0, offsetof(struct tamis_list_cursor, values));
    list_order_begin(&c->order);
    c->filter = f;
    c->list = filter_list(f);
    filter_hold(f);
    *out = c;
    return 0;
}

void tamis_list_cursor_free(struct tamis_list_cursor *c)
{
    if (!c)
        return;
    filter_release(c->filter);
    free(c);
}

static void read_page(struct tamis_list_cursor *c, uint64_t *values, uint32_t *n)
{
    stage_read_ahead(filter_list_stage(c->filter, LIST_PAGES), c->order.page);
    if (list_order_next(c->filter, &c->order, values, n))
        return;
    const struct stage *s = filter_list_stage(c->filter, c->order.failed_stage);
    c->failed = TAMIS_ERR_DAMAGED;
    c->failed_at = filter_page_offset(c->filter, s, c->order.failed_page);
    c->n = c->next = 0;
}

/* ---- for merges and builders ---- */

int list_source_next(void *source, const uint64_t **block, size_t *n)
{
    struct tamis_list_cursor *c = source;
    c->n = 0;
    if (c->order.page < c->list->n_pages && !c->failed)
        read_page(c, c->values, &c->n);
    *block = c->values;
    *n = c->n;
    return c->failed;
}

int list_source_failed(const struct tamis_list_cursor *c, struct tamis_diag *diag)
{
    if (!c->failed)
        return 0;
    diag_fail(diag, c->failed, filter_path(c->filter),
              "page %llu of %llu fails its check: what is made of the list would lack "
              "keys",
              (unsigned long long)c->order.page + 1,
              (unsigned long long)c->list->n_pages);
    diag_at(diag, c->failed_at);
    return c->failed;
}

/* ---- for callers ---- */

int tamis_list_cursor_next(struct tamis_list_cursor *c, uint64_t *values, size_t n,
                           size_t *got, struct tamis_diag *diag)
{
    *got = 0;
    diag_clear(diag);
    while (n > *got && !c->failed) {
        uint32_t left = c->n - c->next;
        if (left) {
            uint32_t some = left < n - *got ? left : (uint32_t)(n - *got);
            memcpy(values + *got, c->values + c->next, some * sizeof *values);
            c->next += some;
            *got += some;
        } else if (c->order.page == c->list->n_pages) {
            break;
        } else if (n - *got >= LIST_PAGE_MAX_HASHES) {
            uint32_t some;
            read_page(c, values + *got, &some);
            *got += some;
        } else {
            c->next = 0;
            read_page(c, c->values, &c->n);
        }
    }
    if (c->failed)
        *got = 0;
    return list_source_failed(c, diag);
}
