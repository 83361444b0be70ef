/* Compares two filters without their keys: containment, equality. */
#include "lib/derive/inside.h"

static bool page_beyond(const uint8_t part[PAGE_BYTES], const uint8_t whole[PAGE_BYTES])
{
    uint8_t beyond = 0;
    for (size_t i = 0; i < PAGE_BYTES; i++)
        beyond |= (uint8_t)(part[i] & ~whole[i]);
    return beyond != 0;
}

/* A bit that the whole lacks is some key's. A damaged page counts as zeros in the part,
 * and as ones in the whole: so it proves nothing. */
static enum tamis_answer compare(const struct operand *part,
                                 const struct operand *whole, uint64_t n_pages)
{
    uint8_t a[PAGE_BYTES], b[PAGE_BYTES];
    uint64_t n_damaged = 0;
    for (uint64_t page = 0; page < n_pages; page++) {
        operand_page(part, page, DAMAGED_AS_ZEROS, a, &n_damaged);
        operand_page(whole, page, DAMAGED_AS_ONES, b, &n_damaged);
        if (page_beyond(a, b))
            return TAMIS_ABSENT;
    }
    return TAMIS_MAYBE;
}

int tamis_filter_contains(struct tamis_filter *whole, struct tamis_filter *part,
                          enum tamis_answer *answer, struct tamis_diag *diag)
{
    struct operand o[2];
    struct geometry g;
    uint64_t n_bytes = 0;
    *answer = TAMIS_MAYBE;
    diag_clear(diag);
    int err = operands_take(whole, part, "containment", o, &g, diag);
    if (err)
        return err;
    geometry_stage_bytes(&g, &n_bytes); /* less than those of valid ones */
    *answer = compare(&o[1], &o[0], n_bytes / PAGE_BYTES);
    return 0;
}

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
