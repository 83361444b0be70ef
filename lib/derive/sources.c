/* The sources of a derived filter: sealed filters of one domain, and what their
 * geometries have in common. */
#include "lib/derive/inside.h"
#include "format/hash.h"

#include <stdio.h>

static uint64_t source_tag(const struct source *s)
{
    return hash_domain_tag(s->header.identity.hash_id, s->header.identity.hash_seed);
}

/* A filter that answers every probe with MAYBE has no bits to give: a filter made of
 * them would say ABSENT. */
static int check_answers(const struct tamis_filter *f, const struct standing *now,
                         struct tamis_diag *diag)
{
    if (now->refusal != TAMIS_NO_REASON)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, f->path,
                         "it is not what was expected of it when it was opened");
    if (now->watermark < f->min_watermark)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, f->path,
                         "its watermark is below the one that it was opened for");
    return 0;
}

int source_can(const struct tamis_filter *f, enum algebra what, struct tamis_diag *diag)
{
    if (f->kind->algebra & what)
        return 0;
    const char *wanted = what == CAN_UNITE       ? "union"
                         : what == CAN_INTERSECT ? "intersection"
                         : what == CAN_FOLD      ? "fold"
                         : what == CAN_COMPARE   ? "comparison"
                                                 : "estimate";
    return diag_fail(diag, TAMIS_ERR_UNFIT, f->path,
                     "a filter of kind %s allows no %s: build a Bloom filter from its "
                     "keys%s",
                     f->kind->name, wanted,
                     f->kind->number == KIND_LIST ? ", or merge the lists" : "");
}

static int source_take(struct source *s, struct tamis_filter *f, enum algebra what,
                       struct tamis_diag *diag)
{
    if (!f)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "one of the filters is NULL");
    int err = source_can(f, what, diag);
    if (!err)
        err = filter_header(f, &s->header, diag);
    if (err)
        return err;
    struct standing now;
    s->path = f->path;
    s->view = filter_look(f, &now);
    if (s->view->live_sequence || s->header.commit.state != STATE_SEALED)
        return diag_fail(diag, TAMIS_ERR_UNFIT, f->path, "it still grows: seal it");
    /* The header is read anew, the stages are as they were opened: of a file that was
     * written over since then the one would say what the other's bits mean. */
    if (memcmp(s->header.identity.uuid, f->identity.uuid, UUID_BYTES) != 0 ||
        source_tag(s) != f->tag || !view_shows(s->view, &s->header.commit))
        return diag_fail(diag, TAMIS_ERR_MISMATCH, f->path,
                         "it was written over since it was opened: open it again");
    return check_answers(f, &now, diag);
}

int sources_take(struct tamis_filter *const *filters, size_t n, enum algebra what,
                 struct source **out, struct tamis_diag *diag)
{
    *out = NULL;
    if (n == 0 || !filters || n > SIZE_MAX / sizeof **out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no filters are given");
    struct source *s = calloc(n, sizeof *s);
    int err = s ? 0 : diag_errno(diag, ENOMEM, NULL, "cannot combine filters");
    for (size_t i = 0; i < n && !err; i++) {
        err = source_take(&s[i], filters[i], what, diag);
        if (!err && source_tag(&s[i]) != source_tag(&s[0]))
            err = diag_fail(diag, TAMIS_ERR_MISMATCH, filters[i]->path,
                            "another hash or seed than the first one's");
    }
    if (err)
        free(s);
    else
        *out = s;
    return err;
}

const struct geometry *only_stage(const struct source *s)
{
    return s->view->n_stages == 1 ? &s->view->stages[0].geometry : NULL;
}

double common_target(const struct source *s, size_t n)
{
    double target = 0;
    for (size_t i = 0; i < n; i++)
        if (s[i].header.identity.target_error > target)
            target = s[i].header.identity.target_error;
    return target;
}

static bool same_words(const struct geometry *a, const struct geometry *b)
{
    return a->lanes == b->lanes && a->words == b->words;
}

bool same_geometry(const struct geometry *a, const struct geometry *b)
{
    return same_words(a, b) && a->n_blocks == b->n_blocks;
}

/* ---- one geometry for stages of several sizes ---- */

static double error_of_shape(const struct source *s, const struct geometry *shape)
{
    return plan_error_of_shape(shape, s->header.commit.keys,
                               s->header.identity.target_error);
}

/* Says what makes them one: for their errors may be equal, and the shapes are not. */
static int other_shape(const struct source *one, const struct source *other,
                       const char *doing, struct tamis_diag *diag)
{
    const struct geometry *f = only_stage(one), *g = only_stage(other);
    double error = error_of_shape(other, f), error_of_one = error_of_shape(one, g);
    char advice[64] = "no error gives both the same shape";
    if (error > 0)
        snprintf(advice, sizeof advice, "build it anew with the error %.2g", error);
    else if (error_of_one > 0)
        snprintf(advice, sizeof advice, "build the first anew with the error %.2g",
                 error_of_one);
    return diag_fail(diag, TAMIS_ERR_UNFIT, other->path,
                     "%s needs filters of one shape: %u lane%s of %u word%s, and %u "
                     "of %u; %s",
                     doing, f->lanes, f->lanes == 1 ? "" : "s", f->words,
                     f->words == 1 ? "" : "s", g->lanes, g->words, advice);
}

int common_geometry(const struct source *s, size_t n, const char *doing,
                    struct geometry *out, struct tamis_diag *diag)
{
    const struct geometry *first = only_stage(&s[0]);
    for (size_t i = 0; i < n; i++) {
        const struct geometry *g = only_stage(&s[i]);
        if (!g)
            return diag_fail(diag, TAMIS_ERR_UNFIT, s[i].path,
                             "%s needs filters of one stage: a key may be in any stage "
                             "of another; build it anew from its keys",
                             doing);
        if (!same_words(g, first))
            return other_shape(&s[0], &s[i], doing, diag);
        if (i == 0)
            *out = *g;
        out->n_blocks = greatest_common_divisor(out->n_blocks, g->n_blocks);
    }
    return 0;
}
