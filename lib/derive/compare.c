/* Are two filters equal, bit for bit? Without their keys. */
#include "lib/derive/inside.h"

/* 0 if no page differs; *equal is then 1, unless a page of one is damaged. */
static int stages_equal(struct stage *a, struct stage *b, int *equal)
{
    uint8_t of_a[PAGE_BYTES], of_b[PAGE_BYTES];
    for (uint64_t page = 0; page < a->n_pages; page++) {
        if (!stage_copy_page(a, page, of_a) || !stage_copy_page(b, page, of_b))
            return TAMIS_ERR_DAMAGED;
        if (memcmp(of_a, of_b, PAGE_BYTES) != 0)
            return *equal = 0;
    }
    return 0;
}

int tamis_filter_equal(struct tamis_filter *one, struct tamis_filter *other, int *equal,
                       struct tamis_diag *diag)
{
    struct tamis_filter *const both[] = {one, other};
    struct source *s;
    *equal = 0;
    diag_clear(diag);
    int err = sources_take(both, 2, CAN_COMPARE, &s, diag);
    if (err)
        return err;
    struct view *a = s[0].view, *b = s[1].view;
    *equal = a->n_stages == b->n_stages;
    for (uint32_t i = 0; i < a->n_stages && *equal; i++)
        *equal = same_geometry(&a->stages[i].geometry, &b->stages[i].geometry);
    for (uint32_t i = 0; i < a->n_stages && *equal && !err; i++)
        err = stages_equal(&a->stages[i], &b->stages[i], equal);
    free(s);
    if (err) {
        *equal = 0;
        return diag_fail(diag, err, one->path,
                         "a page of it, or of the other one, fails its check");
    }
    return 0;
}
