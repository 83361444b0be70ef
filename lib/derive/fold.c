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

/* The factors so far, and the error that each stage has with its own. */
struct folded {
    const struct folding *stages;
    uint32_t n;
    uint64_t factors[MAX_STAGES];
    double errors[MAX_STAGES];
};

static void folded_begin(struct folded *now, const struct folding *stages, uint32_t n)
{
    *now = (struct folded){.stages = stages, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        now->factors[i] = 1;
        now->errors[i] = stage_error(&stages[i], 1);
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

/* The least factor above this one; 0: it leaves the stage a page a lane. */
static uint64_t next_factor(const struct folding *stage, uint64_t above)
{
    uint64_t pages = stage->desc->geometry.n_blocks / BLOCKS_PER_PAGE;
    uint64_t next = pages > above ? pages : 0;
    for (uint64_t f = 2; f <= pages / f; f++) {
        if (pages % f)
            continue;
        if (f > above && f < next)
            next = f;
        if (pages / f > above && pages / f < next)
            next = pages / f;
    }
    return next;
}

/* One stage, folded further than it is. */
struct step {
    uint32_t stage;
    uint64_t factor;
    double error; /* the stage's */
};

/* The stage's next factor that leaves the whole's error at most at `error`. A larger
 * factor adds more error, except where blocks repeat: in runs of 4, factor 4 unites
 * equal blocks, and 3 does not. */
static bool next_step(const struct folded *now, uint32_t stage, double error,
                      struct step *out)
{
    const struct folding *f = &now->stages[stage];
    uint64_t factor = next_factor(f, now->factors[stage]);
    for (; factor; factor = f->run > 1 ? next_factor(f, factor) : 0) {
        *out = (struct step){stage, factor, stage_error(f, factor)};
        if (error_with(now, stage, out->error) <= error)
            return true;
    }
    return false;
}

/* The blocks that a step saves, for the error that it adds. */
static double gain_of(const struct folded *now, const struct step *step)
{
    const struct geometry *g = &now->stages[step->stage].desc->geometry;
    double blocks = (double)g->n_blocks * g->lanes;
    double saved =
        blocks / (double)now->factors[step->stage] - blocks / (double)step->factor;
    double added = step->error - now->errors[step->stage];
    return saved / ((added > 0 ? added : 0) + ERROR_MIN);
}

/* False: there is none. */
static bool best_step(const struct folded *now, double error, struct step *best)
{
    struct step step;
    double most = 0;
    for (uint32_t i = 0; i < now->n; i++) {
        if (!next_step(now, i, error, &step) || gain_of(now, &step) <= most)
            continue;
        most = gain_of(now, &step);
        *best = step;
    }
    return most > 0;
}

int derive_shrink(struct derived *d, const struct source *s, double error,
                  struct tamis_diag *diag)
{
    struct folding f[MAX_STAGES];
    struct folded now;
    struct step step;
    uint32_t n = s->view->n_stages;
    if (!(error >= ERROR_MIN && error <= ERROR_MAX))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "an error is 1e-8 to 0.5");
    d->target = error;
    d->most_error = error;
    foldings_of(s, f);
    folded_begin(&now, f, n);
    if (error_with(&now, n, 0) > error)
        return diag_fail(diag, TAMIS_ERR_UNFIT, NULL,
                         "its error is %.3g as it is: build it anew from its keys",
                         error_with(&now, n, 0));
    while (best_step(&now, error, &step)) {
        now.factors[step.stage] = step.factor;
        now.errors[step.stage] = step.error;
    }
    return fold_stages(d, s, f, now.factors, diag);
}

int tamis_filter_least_fold(struct tamis_filter *filter, double *error,
                            struct tamis_diag *diag)
{
    struct folding f[MAX_STAGES];
    struct folded now;
    struct source *s;
    diag_clear(diag);
    if (!error)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the error");
    *error = 1;
    int err = sources_take(&filter, 1, CAN_FOLD, &s, diag);
    if (err)
        return err;
    foldings_of(s, f);
    folded_begin(&now, f, s->view->n_stages);
    /* No larger factor adds less error: where blocks repeat, 2 adds none, and of odd
     * factors the least adds least. */
    for (uint32_t i = 0; i < now.n; i++) {
        uint64_t factor = next_factor(&f[i], 1);
        double then = factor ? error_with(&now, i, stage_error(&f[i], factor)) : 1;
        if (then < *error)
            *error = then;
    }
    free(s);
    return 0;
}
