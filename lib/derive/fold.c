/* Folds: the same keys in fewer blocks. Block choice is a multiply-high, so the union
 * of runs of f neighbouring blocks is, bit for bit, the stage of n_blocks / f blocks
 * (SPEC.md section 4). */
#include "lib/derive/inside.h"
#include "lib/plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A stage of a source, its blocks in runs of so many equal ones. */
struct folding {
    const struct stage_desc *desc;
    uint32_t run;
};

static void foldings_of(const struct source *s, struct folding *out)
{
    for (uint32_t i = 0; i < s->view->n_stages; i++)
        out[i] = (struct folding){&s->header.commit.stages[i],
                                  stage_repeats(&s->view->stages[i])};
}

/* By its bits, where blocks that repeat count once. *own: those that differ. */
static uint64_t keys_of(const struct folding *f, struct geometry *own)
{
    *own = f->desc->geometry;
    own->n_blocks /= f->run;
    return plan_keys_of_bits(own, f->desc->bits_set / f->run);
}

static int fold_stages(struct derived *d, const struct source *s,
                       const struct folding *f, const uint64_t *factors,
                       struct tamis_diag *diag)
{
    struct commit *c = &d->commit;
    struct geometry own;
    for (uint32_t i = 0; i < s->header.commit.n_stages; i++) {
        struct operand *o = malloc(sizeof *o);
        if (!o)
            return diag_errno(diag, ENOMEM, NULL, "cannot fold");
        *o = (struct operand){&s->view->stages[i], factors[i]};
        c->stages[i].geometry = o->stage->geometry;
        c->stages[i].geometry.n_blocks /= factors[i];
        c->stages[i].keys = s->header.commit.stages[i].keys;
        d->recipes[i] = (struct recipe){.geometry = c->stages[i].geometry,
                                        .operands = o,
                                        .n_operands = 1,
                                        .keys = c->stages[i].keys};
        d->recipes[i].unfold = keys_of(&f[i], &own);
        c->n_stages++;
    }
    return 0;
}

/* The error of so many lanes whose blocks are each the union of n different ones. */
static double error_of_unions(struct geometry own, uint32_t lanes, uint64_t keys,
                              uint64_t n)
{
    own.lanes = lanes;
    own.n_blocks /= n;
    return own.n_blocks ? plan_geometry_error(&own, keys) : 1;
}

/* The error that a stage has once it is folded by this factor. A block of the fold
 * begins anywhere in a run, and meets `least` runs, or one more. */
static double stage_error(const struct folding *f, uint64_t factor)
{
    struct geometry own;
    uint64_t keys = keys_of(f, &own);
    if (keys == UINT64_MAX)
        return 1;
    uint64_t steps = f->run + factor - greatest_common_divisor(f->run, factor);
    uint64_t least = steps / f->run;
    double more = (double)(steps % f->run) / (double)f->run;
    if (more <= 0)
        return error_of_unions(own, own.lanes, keys, least);
    double error = 1, of_lane = (1 - more) * error_of_unions(own, 1, keys, least) +
                                more * error_of_unions(own, 1, keys, least + 1);
    for (uint32_t lane = 0; lane < own.lanes; lane++)
        error *= of_lane;
    return error;
}

/* The factors that divide the lanes of every stage are the divisors of this. */
static uint64_t largest_factor(const struct view *v)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        uint64_t pages = v->stages[i].geometry.n_blocks / BLOCKS_PER_PAGE;
        largest = greatest_common_divisor(largest, pages);
    }
    return largest;
}

static int does_not_divide(const struct view *v, uint32_t stage, uint64_t factor,
                           struct tamis_diag *diag)
{
    uint64_t pages = v->stages[stage].geometry.n_blocks / BLOCKS_PER_PAGE;
    uint64_t largest = largest_factor(v);
    char would[64] = "only 1 divides those of every stage";
    if (largest > 1)
        snprintf(would, sizeof would, "fold by a divisor of %llu",
                 (unsigned long long)largest);
    return diag_fail(diag, TAMIS_ERR_UNFIT, NULL,
                     "%llu does not divide the %llu page%s of a lane of stage %u: %s",
                     (unsigned long long)factor, (unsigned long long)pages,
                     pages == 1 ? "" : "s", stage, would);
}

int derive_fold(struct derived *d, const struct source *s, uint64_t factor,
                struct tamis_diag *diag)
{
    uint64_t factors[MAX_STAGES];
    struct folding f[MAX_STAGES];
    double passes = 1;
    foldings_of(s, f);
    for (uint32_t i = 0; i < s->view->n_stages; i++) {
        uint64_t pages = s->view->stages[i].geometry.n_blocks / BLOCKS_PER_PAGE;
        if (factor == 0 || pages % factor)
            return does_not_divide(s->view, i, factor, diag);
        factors[i] = factor;
        passes *= 1 - stage_error(&f[i], factor);
    }
    /* A caller who names the factor accepts the error. */
    d->target = common_target(s, 1);
    if (1 - passes > d->target)
        d->target = 1 - passes;
    return fold_stages(d, s, f, factors, diag);
}

/* ---- fold to an error ---- */

/* The largest factor at which the stage has at most this error; 1 if none has. */
static uint64_t factor_at(const struct folding *s, double error)
{
    uint64_t pages = s->desc->geometry.n_blocks / BLOCKS_PER_PAGE, best = 1;
    for (uint64_t f = 1; f <= pages / f; f++) {
        if (pages % f)
            continue;
        if (f > best && stage_error(s, f) <= error)
            best = f;
        if (pages / f > best && stage_error(s, pages / f) <= error)
            best = pages / f;
    }
    return best;
}

/* Each stage folded as far as it may be at this error of its own; the whole's error. */
static double factors_at(const struct folding *f, uint32_t n, double error,
                         uint64_t *factors)
{
    double passes = 1;
    for (uint32_t i = 0; i < n; i++) {
        factors[i] = factor_at(&f[i], error);
        passes *= 1 - stage_error(&f[i], factors[i]);
    }
    return 1 - passes;
}

/* One error for all stages, as large as the whole allows: the last one, which is seldom
 * full, gives most. False: the whole's error is above it as it is. */
static bool choose_factors(const struct folding *f, uint32_t n, double error,
                           uint64_t *factors)
{
    enum { STEPS = 30 };
    double low = 0, high = error;
    if (factors_at(f, n, error, factors) <= error)
        return true;
    for (int i = 0; i < STEPS; i++) {
        double middle = (low + high) / 2;
        if (factors_at(f, n, middle, factors) <= error)
            low = middle;
        else
            high = middle;
    }
    return factors_at(f, n, low, factors) <= error;
}

int derive_shrink(struct derived *d, const struct source *s, double error,
                  struct tamis_diag *diag)
{
    uint64_t factors[MAX_STAGES];
    struct folding f[MAX_STAGES];
    uint32_t n = s->view->n_stages;
    if (!(error >= ERROR_MIN && error <= ERROR_MAX))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "an error is 1e-8 to 0.5");
    d->target = error;
    d->most_error = error;
    foldings_of(s, f);
    if (choose_factors(f, n, error, factors))
        return fold_stages(d, s, f, factors, diag);
    return diag_fail(diag, TAMIS_ERR_UNFIT, NULL,
                     "its error is %.3g as it is: build it anew from its keys",
                     factors_at(f, n, 0, factors));
}
