/* A filter made from filters: its sources, its record, its pages, one after the other;
 * and the public calls. */
#include "lib/derive/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the result's record ---- */

static int derived_begin(struct derived *d, const struct source *first,
                         const uint8_t *uuid, const struct tamis_derive_options *opt,
                         struct tamis_diag *diag)
{
    struct tamis_derive_options o;
    struct identity *id = &d->identity;
    struct commit *c = &d->commit;
    if (options_copy(&o, sizeof o, opt) || o.name_bytes > NAME_MAX_BYTES ||
        o.binding_bytes > BINDING_MAX_BYTES ||
        (o.name_bytes && (!o.name || memchr(o.name, 0, o.name_bytes))) ||
        (o.binding_bytes && !o.binding))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "options are not valid");
    id->major = FORMAT_MAJOR;
    id->minor = FORMAT_MINOR;
    if (uuid)
        memcpy(id->uuid, uuid, UUID_BYTES);
    else
        io_calls.random(id->uuid, sizeof id->uuid);
    id->kind = KIND_BLOOM;
    id->hash_id = first->header.identity.hash_id;
    id->hash_seed = first->header.identity.hash_seed;
    id->created = io_calls.now();
    if (o.store_uuid)
        memcpy(id->store_uuid, o.store_uuid, UUID_BYTES);
    id->name_bytes = (uint16_t)o.name_bytes;
    if (o.name_bytes)
        memcpy(id->name, o.name, o.name_bytes);
    memcpy(c->uuid, id->uuid, UUID_BYTES);
    c->sequence = c->generation = 1;
    c->state = STATE_SEALED;
    c->clean = 1;
    c->watermark = o.watermark;
    c->binding_bytes = (uint8_t)o.binding_bytes;
    if (o.binding_bytes)
        memcpy(c->binding, o.binding, o.binding_bytes);
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

static int plan(struct derived *d, const struct derivation *what,
                const struct source *s, struct tamis_diag *diag)
{
    switch (what->how) {
    case DERIVE_UNION:
        return derive_union(d, s, what->n, diag);
    case DERIVE_INTERSECTION:
        return derive_intersection(d, s, what->n, diag);
    case DERIVE_FOLD:
        return derive_fold(d, s, what->factor, diag);
    case DERIVE_SHRINK:
        return derive_shrink(d, s, what->error, diag);
    }
    return TAMIS_ERR_RANGE;
}

static enum algebra algebra_of(const struct derivation *what)
{
    return what->how == DERIVE_UNION          ? CAN_UNITE
           : what->how == DERIVE_INTERSECTION ? CAN_INTERSECT
                                              : CAN_FOLD;
}

/* Names the filter in the diagnosis if only one was given. */
static int about(const struct derivation *what, int err, struct tamis_diag *diag)
{
    if (err && what->n == 1)
        diag_in(diag, what->sources[0]->path);
    return err;
}

int derive(const struct derivation *what, const struct tamis_derive_options *opt,
           const struct derive_to *to, struct tamis_derive_report *report,
           struct tamis_diag *diag)
{
    struct source *s;
    diag_clear(diag);
    if (report)
        memset(report, 0, sizeof *report);
    int err = sources_take(what->sources, what->n, algebra_of(what), &s, diag);
    if (err)
        return err;
    struct derived *d = calloc(1, sizeof *d);
    err = d ? derived_begin(d, &s[0], to->uuid, opt, diag)
            : diag_errno(diag, ENOMEM, NULL, "cannot combine filters");
    if (!err)
        err = about(what, plan(d, what, s, diag), diag);
    if (!err)
        err = derived_write(d, to, diag);
    bool unfit = err == TAMIS_ERR_UNFIT && d->commit.committed_bytes;
    if (unfit)
        about(what, err, diag);
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

/* ---- the public calls ---- */

int tamis_filter_union(struct tamis_filter *const *sources, size_t n, const char *path,
                       const struct tamis_derive_options *opt,
                       struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct derivation what = {.how = DERIVE_UNION, .sources = sources, .n = n};
    return derive(&what, opt, &(struct derive_to){.path = path}, report, diag);
}

int tamis_filter_intersection(struct tamis_filter *const *sources, size_t n,
                              const char *path, const struct tamis_derive_options *opt,
                              struct tamis_derive_report *report,
                              struct tamis_diag *diag)
{
    struct derivation what = {.how = DERIVE_INTERSECTION, .sources = sources, .n = n};
    return derive(&what, opt, &(struct derive_to){.path = path}, report, diag);
}

int tamis_filter_fold(struct tamis_filter *source, uint64_t factor, const char *path,
                      const struct tamis_derive_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct derivation what = {
        .how = DERIVE_FOLD, .sources = &source, .n = 1, .factor = factor};
    return derive(&what, opt, &(struct derive_to){.path = path}, report, diag);
}

int tamis_filter_shrink(struct tamis_filter *source, double error, const char *path,
                        const struct tamis_derive_options *opt,
                        struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct derivation what = {
        .how = DERIVE_SHRINK, .sources = &source, .n = 1, .error = error};
    return derive(&what, opt, &(struct derive_to){.path = path}, report, diag);
}
