/* A filter made from filters: its sources, its record, its pages, one after the other;
 * and the public calls. */
#include "lib/derive/inside.h"

/* ---- the result's record ---- */

/* same_keys: the result has the keys of the first source. */
static int derived_begin(struct derived *d, struct tamis_filter *first, bool same_keys,
                         const uint8_t *uuid, const struct tamis_derive_options *opt,
                         struct tamis_diag *diag)
{
    struct tamis_derive_options o;
    struct identity *id = &d->identity;
    struct tamis_domain domain = filter_domain(first);
    uint8_t fresh[UUID_BYTES];
    int err = options_copy(&o, sizeof o, opt);
    d->diag = diag;
    if (err)
        return diag_fail(diag, err, NULL, "options are not valid");
    err = identity_check(&o.identity, diag);
    if (err)
        return err;
    if (!uuid)
        io_calls.random(fresh, sizeof fresh);
    header_begin(KIND_BLOOM, &domain, &o.identity, uuid ? uuid : fresh, id, &d->commit);
    if (same_keys)
        memcpy(id->set_id, filter_set_id(first), UUID_BYTES);
    else
        io_calls.random(id->set_id, sizeof id->set_id);
    d->commit.watermark = o.watermark;
    return 0;
}

static void derived_report(const struct derived *d, struct tamis_derive_report *report)
{
    report->n_stages = d->commit.n_stages;
    report->keys = d->commit.keys;
    report->file_bytes = d->commit.committed_bytes;
    report->n_damaged = d->n_damaged;
    report->error = derived_error(&d->commit);
}

/* ---- made ---- */

static int plan(struct derived *d, const struct tamis_derivation *what,
                const struct source *s, size_t n)
{
    switch (what->operation) {
    case TAMIS_UNION:
        return derive_union(d, s, n);
    case TAMIS_INTERSECTION:
        return derive_intersection(d, s, n);
    case TAMIS_FOLD:
        return derive_fold(d, s, what->factor);
    case TAMIS_SHRINK:
        return derive_shrink(d, s, what->error);
    }
    return TAMIS_ERR_RANGE;
}

/* Finds the ability that the kind of the sources must have. */
static int check_derivation(const struct tamis_derivation *what, size_t n,
                            enum algebra *must, struct tamis_diag *diag)
{
    if (!what || (unsigned)what->operation > TAMIS_SHRINK)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no such derivation");
    *must = what->operation == TAMIS_UNION          ? CAN_UNITE
            : what->operation == TAMIS_INTERSECTION ? CAN_INTERSECT
                                                    : CAN_FOLD;
    if (*must == CAN_FOLD && n != 1)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a fold has one source, not %zu",
                         n);
    return 0;
}

int derive(struct tamis_filter *const *sources, size_t n,
           const struct tamis_derivation *what, const struct tamis_derive_options *opt,
           const struct derive_to *to, struct tamis_derive_report *report,
           struct tamis_diag *diag)
{
    struct source *s;
    diag_clear(diag);
    if (report)
        memset(report, 0, sizeof *report);
    enum algebra must = CAN_UNITE;
    int err = check_derivation(what, n, &must, diag);
    if (!err)
        err = sources_take(sources, n, must, &s, diag);
    if (err)
        return err;
    struct derived *d = calloc(1, sizeof *d);
    err = d ? derived_begin(d, sources[0], must == CAN_FOLD, to->uuid, opt, diag)
            : diag_errno(diag, ENOMEM, NULL, "cannot combine filters");
    if (!err) {
        err = plan(d, what, s, n);
        if (err && n == 1)
            diag_in(diag, sources[0]->path);
        if (!err)
            err = derived_write(d, to);
    }
    bool unfit = err == TAMIS_ERR_UNFIT && d->commit.committed_bytes;
    if (unfit) /* only a shrink has a limit, and one source */
        diag_in(diag, sources[0]->path);
    if ((!err || unfit) && report)
        derived_report(d, report);
    if (!err && to->made)
        *to->made = (struct built){d->identity, d->commit, d->commit.committed_bytes};
    for (size_t i = 0; d && i < MAX_STAGES; i++)
        free(d->recipes[i].operands);
    free(d);
    free(s);
    return err;
}

int tamis_filter_derive(struct tamis_filter *const *sources, size_t n,
                        const struct tamis_derivation *what, const char *path,
                        const struct tamis_derive_options *opt,
                        struct tamis_derive_report *report, struct tamis_diag *diag)
{
    return derive(sources, n, what, opt, &(struct derive_to){.path = path}, report,
                  diag);
}
