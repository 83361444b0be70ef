/* The union of filters, and what they have in common.
 *
 * A key sets the same bits in every stage of one geometry and domain. So the union of
 * two such stages has just the bits of a stage that was built from all the keys. An
 * intersection keeps every key that both have, but perhaps more bits than a stage built
 * from those keys. */
#include "lib/derive/inside.h"

/* ---- union ---- */

/* Adds an operand to the stage of its geometry, if there is one, else a stage. Several
 * stages of one source that have one geometry go together, too: a key's bits are the
 * same in each. */
static int union_add(struct derived *d, struct stage *stage, uint64_t keys)
{
    struct commit *c = &d->commit;
    uint32_t i = 0;
    while (i < c->n_stages && !same_geometry(&d->recipes[i].geometry, &stage->geometry))
        i++;
    if (i == MAX_STAGES)
        return diag_fail(d->diag, TAMIS_ERR_UNFIT, NULL,
                         "their stages have more than %d sizes: fold some, or build "
                         "the filter anew from its keys",
                         MAX_STAGES);
    struct recipe *r = &d->recipes[i];
    struct operand *more = realloc(r->operands, (r->n_operands + 1) * sizeof *more);
    if (!more)
        return diag_errno(d->diag, ENOMEM, NULL, "cannot combine filters");
    r->operands = more;
    r->operands[r->n_operands++] = (struct operand){stage, 1};
    r->keys = keys < UINT64_MAX - r->keys ? r->keys + keys : UINT64_MAX;
    if (i == c->n_stages) {
        r->geometry = c->stages[i].geometry = stage->geometry;
        c->n_stages++;
    }
    return 0;
}

int derive_union(struct derived *d, const struct source *s, size_t n)
{
    int err = 0;
    d->target = common_target(s, n);
    for (size_t i = 0; i < n && !err; i++)
        for (uint32_t k = 0; k < s[i].view->n_stages && !err; k++)
            err =
                union_add(d, &s[i].view->stages[k], s[i].header.commit.stages[k].keys);
    return err;
}

/* ---- intersection ---- */

int derive_intersection(struct derived *d, const struct source *s, size_t n)
{
    struct geometry g;
    int err = common_geometry(s, n, "an intersection", &g, d->diag);
    if (err)
        return err;
    struct operand *operands = calloc(n, sizeof *operands);
    if (!operands)
        return diag_errno(d->diag, ENOMEM, NULL, "cannot combine filters");
    uint64_t keys = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        operands[i] = operand_folded_to(&s[i], &g);
        if (s[i].header.commit.stages[0].keys < keys)
            keys = s[i].header.commit.stages[0].keys;
    }
    d->recipes[0] = (struct recipe){.geometry = g,
                                    .common = true,
                                    .operands = operands,
                                    .n_operands = n,
                                    .keys = keys};
    d->commit.stages[0].geometry = g;
    d->commit.n_stages = 1;
    d->target = common_target(s, n);
    return 0;
}
