/* Folds: the same keys in fewer blocks. Block choice is a multiply-high, so the union
 * of runs of f neighbouring blocks is, bit for bit, the stage of n_blocks / f blocks
 * (SPEC.md section 4). */
#include "lib/derive/inside.h"

#include <stdio.h>

static uint64_t keys_by_bits(const struct stage_desc *s)
{
    return plan_keys_of_bits(&s->geometry, s->bits_set);
}

static int fold_stages(struct derived *d, const struct source *s,
                       const uint64_t *factors)
{
    struct commit *c = &d->commit;
    for (uint32_t i = 0; i < s->header.commit.n_stages; i++) {
        struct operand *o = malloc(sizeof *o);
        if (!o)
            return diag_errno(d->diag, ENOMEM, NULL, "cannot fold");
        *o = (struct operand){&s->view->stages[i], factors[i]};
        c->stages[i].geometry = o->stage->geometry;
        c->stages[i].geometry.n_blocks /= factors[i];
        c->stages[i].keys = s->header.commit.stages[i].keys;
        d->recipes[i] = (struct recipe){.geometry = c->stages[i].geometry,
                                        .operands = o,
                                        .n_operands = 1,
                                        .keys = c->stages[i].keys};
        d->recipes[i].unfold = keys_by_bits(&s->header.commit.stages[i]);
        c->n_stages++;
    }
    return 0;
}

/* The error that a stage has once it is folded by this factor. */
static double folded_error(const struct stage_desc *s, uint64_t factor)
{
    struct geometry g = s->geometry;
    uint64_t keys = keys_by_bits(s);
    g.n_blocks /= factor;
    return keys == UINT64_MAX ? 1 : plan_geometry_error(&g, keys);
}

static int does_not_divide(const struct view *v, uint32_t stage, uint64_t factor,
                           struct tamis_diag *diag)
{
    uint64_t n_blocks = v->stages[stage].geometry.n_blocks, largest = 0;
    char would[64] = "only 1 divides those of every stage";
    /* The factors that divide the lanes of every stage are the divisors of this. */
    for (uint32_t i = 0; i < v->n_stages; i++)
        largest = greatest_common_divisor(largest, v->stages[i].geometry.n_blocks);
    if (largest > 1)
        snprintf(would, sizeof would, "fold by a divisor of %llu",
                 (unsigned long long)largest);
    return diag_fail(diag, TAMIS_ERR_UNFIT, NULL,
                     "%llu does not divide the %llu block%s of a lane of stage %u: %s",
                     (unsigned long long)factor, (unsigned long long)n_blocks,
                     n_blocks == 1 ? "" : "s", stage, would);
}

int derive_fold(struct derived *d, const struct source *s, uint64_t factor)
{
    uint64_t factors[MAX_STAGES];
    double passes = 1;
    for (uint32_t i = 0; i < s->view->n_stages; i++) {
        if (factor == 0 || s->view->stages[i].geometry.n_blocks % factor)
            return does_not_divide(s->view, i, factor, d->diag);
        factors[i] = factor;
        passes *= 1 - folded_error(&s->header.commit.stages[i], factor);
    }
    /* A caller who names the factor accepts the error. */
    d->target = common_target(s, 1);
    if (1 - passes > d->target)
        d->target = 1 - passes;
    return fold_stages(d, s, factors);
}

/* ---- fold to an error ---- */

/* The factors so far, and the error that each stage has with its own. */
struct folded {
    const struct stage_desc *stages;
    uint32_t n;
    uint64_t factors[MAX_STAGES];
    double errors[MAX_STAGES];
};

static void folded_begin(struct folded *now, const struct source *s)
{
    const struct commit *c = &s->header.commit;
    *now = (struct folded){.stages = c->stages, .n = c->n_stages};
    for (uint32_t i = 0; i < now->n; i++) {
        now->factors[i] = 1;
        now->errors[i] = folded_error(&c->stages[i], 1);
    }
}

/* The whole's error, if this stage had this one; n: as it is. */
static double error_with(const struct folded *now, uint32_t stage, double error)
{
    double passes = 1;
    for (uint32_t i = 0; i < now->n; i++)
        passes *= 1 - (i == stage ? error : now->errors[i]);
    return 1 - passes;
}

/* The least factor above this one; 0: none, or the stage is one page already. */
static uint64_t next_factor(const struct stage_desc *s, uint64_t above)
{
    uint64_t n = s->geometry.n_blocks, next = n > above ? n : 0;
    if (n / above * s->geometry.lanes <= BLOCKS_PER_PAGE)
        return 0;
    for (uint64_t f = 2; f <= n / f; f++) {
        if (n % f)
            continue;
        if (f > above && f < next)
            next = f;
        if (n / f > above && n / f < next)
            next = n / f;
    }
    return next;
}

/* The blocks that a stage saves by the next factor, for the error that it adds. */
static double gain_of(const struct folded *now, uint32_t stage, uint64_t factor,
                      double error)
{
    const struct geometry *g = &now->stages[stage].geometry;
    double blocks = (double)g->n_blocks * g->lanes;
    double saved = blocks / (double)now->factors[stage] - blocks / (double)factor;
    double added = error - now->errors[stage];
    return saved / ((added > 0 ? added : 0) + ERROR_MIN);
}

/* Takes the next factor of the stage that gains most by it, if there is one that leaves
 * the whole's error at most at `error`. A larger factor adds more error. */
static bool take_best_step(struct folded *now, double error)
{
    double most = 0, best_error = 0;
    uint64_t best_factor = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < now->n; i++) {
        const struct stage_desc *s = &now->stages[i];
        uint64_t factor = next_factor(s, now->factors[i]);
        double then = factor ? folded_error(s, factor) : 1;
        if (!factor || error_with(now, i, then) > error ||
            gain_of(now, i, factor, then) <= most)
            continue;
        most = gain_of(now, i, factor, then);
        best = i;
        best_factor = factor;
        best_error = then;
    }
    if (most > 0) {
        now->factors[best] = best_factor;
        now->errors[best] = best_error;
    }
    return most > 0;
}

int derive_shrink(struct derived *d, const struct source *s, double error)
{
    struct folded now;
    if (!(error >= ERROR_MIN && error <= ERROR_MAX))
        return diag_fail(d->diag, TAMIS_ERR_RANGE, NULL, "an error is 1e-8 to 0.5");
    d->target = error;
    d->most_error = error;
    folded_begin(&now, s);
    if (error_with(&now, now.n, 0) > error)
        return diag_fail(d->diag, TAMIS_ERR_UNFIT, NULL,
                         "its error is %.3g as it is: build it anew from its keys",
                         error_with(&now, now.n, 0));
    while (take_best_step(&now, error))
        ;
    return fold_stages(d, s, now.factors);
}

int tamis_filter_least_fold(struct tamis_filter *filter, double *error,
                            struct tamis_diag *diag)
{
    struct folded now;
    struct source *s;
    diag_clear(diag);
    if (!error)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the error");
    *error = 1;
    int err = sources_take(&filter, 1, CAN_FOLD, &s, diag);
    if (err)
        return err;
    folded_begin(&now, s);
    for (uint32_t i = 0; i < now.n; i++) {
        uint64_t factor = next_factor(&now.stages[i], 1);
        double then =
            factor ? error_with(&now, i, folded_error(&now.stages[i], factor)) : 1;
        if (then < *error)
            *error = then;
    }
    free(s);
    return 0;
}
