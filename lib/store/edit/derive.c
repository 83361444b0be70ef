/* Putting a segment whose filter is made from those of others, without their keys. The
 * sources are a snapshot's: they stay open whatever becomes of their segments. */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/derive/derive.h"
#include "lib/error.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sources ---- */

struct sources {
    struct tamis_snapshot *snapshot;
    const size_t *segments;
    size_t n;
};

int edit_check_sources(const struct tamis_edit *e, const struct tamis_snapshot *s,
                       const size_t *segments, size_t n, struct tamis_diag *diag)
{
    if (!s || !segments || !n)
        return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                         "no segments are given");
    if (s->dir != e->catalog->filters)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, e->catalog->path,
                         "the snapshot is of another store");
    /* A binding would vouch for the result though none has for its sources (SPEC.md
     * section 13.10, "uncommitted edit"). */
    if (!s->complete)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, e->catalog->path,
                         "the list was rebuilt: compare it with the engine's, confirm "
                         "it, then combine its filters");
    return 0;
}

static int take(const struct sources *s, struct tamis_filter **filters,
                struct tamis_diag *diag)
{
    for (size_t i = 0; i < s->n; i++) {
        int rc = tamis_snapshot_filter(s->snapshot, s->segments[i], &filters[i], diag);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the key range ---- */

/* From the least key of any source to the greatest. One that is not known may be any:
 * then nothing is known of the result's. */
void edit_range_over(const struct tamis_snapshot *s, const size_t *segments, size_t n,
                     struct record *r)
{
    for (size_t i = 0; i < n; i++) {
        struct column col;
        if (segment_facts(s, segments[i], &col, NULL) != 0 || !col.disk.has_range) {
            r->first_bytes = r->last_bytes = 0;
            return;
        }
        struct piece first = column_first(&col), last = column_last(&col);
        if (i == 0 ||
            name_compare(first, (struct piece){r->first, r->first_bytes}) < 0) {
            memcpy(r->first, first.at, first.n);
            r->first_bytes = (uint16_t)first.n;
        }
        if (i == 0 || name_compare(last, (struct piece){r->last, r->last_bytes}) > 0) {
            memcpy(r->last, last.at, last.n);
            r->last_bytes = (uint16_t)last.n;
        }
    }
    r->has_range = 1;
}

/* ---- the put ---- */

static int derive_file(struct tamis_edit *e, const void *name, size_t name_bytes,
                       struct tamis_filter *const *filters, size_t n,
                       const struct tamis_derivation *what,
                       const struct tamis_segment_options *opt, struct built *made,
                       struct tamis_derive_report *report, struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    struct tamis_derive_options d = {
        .size = sizeof d,
        .identity.name = name,
        .identity.name_bytes = name_bytes,
        .identity.binding = opt->binding,
        .identity.binding_bytes = opt->binding_bytes,
        .identity.store_uuid = e->catalog->meta.store_uuid,
        .watermark = opt->watermark,
    };
    uuid_random(uuid);
    filter_file_name(uuid, file);
    struct derive_to to = {.name = file, .dir = e->dir.fd, .uuid = uuid, .made = made};
    struct tamis_diag ours;
    int rc = derive(filters, n, what, &d, &to, report, &ours);
    if (rc && diag)
        *diag = ours;
    /* A diagnosis of a source has that file's path. */
    return rc && strcmp(ours.file, file) == 0 ? edit_not_put(e, rc, file, diag) : rc;
}

bool edit_drops_as(struct tamis_edit *e, struct tamis_snapshot *s, size_t index)
{
    struct tamis_segment_info info;
    bool found = false;
    if (!is_loose(s, index) || tamis_snapshot_segment(s, index, &info) != 0 ||
        !info.state)
        return false;
    pthread_mutex_lock(&e->mutex);
    for (size_t i = 0; i < e->n_ops && !found; i++) {
        struct edit_op *op = e->ops[i];
        found = op->kind == EDIT_DROP && op->only &&
                op->name_bytes == info.name_bytes &&
                memcmp(op->bytes, info.name, op->name_bytes) == 0 &&
                memcmp(op->uuid, info.uuid, UUID_BYTES) == 0;
        if (!found)
            continue;
        if (!op->as) /* only a record has a list */
            op->as = entry_hold(s->entries[index]);
    }
    pthread_mutex_unlock(&e->mutex);
    return found;
}

/* A fold has the keys of its source, so if it takes the source's place it keeps the
 * list. Under another name it could be one of several that have the list. */
static enum edit_put keep_list(struct tamis_edit *e, const struct sources *s,
                               const struct tamis_derivation *what, const void *name,
                               size_t name_bytes, struct record *r)
{
    struct column was;
    size_t index = s->segments[0];
    if ((what->operation != TAMIS_FOLD && what->operation != TAMIS_SHRINK) ||
        segment_facts(s->snapshot, index, &was, NULL) != 0 ||
        name_compare(column_name(&was), (struct piece){name, name_bytes}) != 0 ||
        !segment_list(s->snapshot, index, r->list_uuid, &r->list_digest))
        return PUT_NEW;
    if (edit_drops_as(e, s->snapshot, index))
        return PUT_KEEPS_LIST;
    record_unlist(r);
    return PUT_NEW;
}

static int put_derived(struct tamis_edit *e, const void *name, size_t name_bytes,
                       const struct sources *s, const struct tamis_derivation *what,
                       const struct tamis_segment_options *opt,
                       struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct tamis_filter **filters = calloc(s->n, sizeof(struct tamis_filter *));
    struct built *made = calloc(1, sizeof *made);
    int rc = filters && made
                 ? take(s, filters, diag)
                 : diag_errno(diag, ENOMEM, e->catalog->path, "combining filters");
    if (!rc)
        rc = derive_file(e, name, name_bytes, filters, s->n, what, opt, made, report,
                         diag);
    if (!rc) {
        struct record r = record_of_commit(&made->commit, made->identity.target_error,
                                           made->identity.created, opt->rank);
        edit_range_over(s->snapshot, s->segments, s->n, &r);
        enum edit_put how = keep_list(e, s, what, name, name_bytes, &r);
        rc = edit_put_append(e, name, name_bytes, &r, how, diag);
    }
    for (size_t i = 0; filters && i < s->n; i++)
        tamis_filter_close(filters[i]);
    free(made);
    free(filters);
    return rc;
}

int tamis_edit_derive(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                      const struct tamis_derivation *what,
                      const struct tamis_segment_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct sources s = {snapshot, segments, n};
    struct tamis_segment_options ours;
    if (report)
        memset(report, 0, sizeof *report);
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (!rc)
        rc = edit_check_sources(edit, snapshot, segments, n, diag);
    if (!rc)
        rc = put_derived(edit, name, name_bytes, &s, what, &ours, report, diag);
    if (rc && rc != TAMIS_ERR_UNFIT && report)
        memset(report, 0, sizeof *report);
    return rc;
}
