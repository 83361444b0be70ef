/* The ways to put a segment into an edit: built, bare, growing, attached. Each writes
 * its file outside the edit's mutex, then appends one operation. */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/builder/builder.h"
#include "lib/error.h"
#include "lib/filter/header.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"
#include "lib/store/catalog/catalog.h"
#include "lib/writer/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- arguments ---- */

static int check_name(const struct tamis_edit *e, const void *name, size_t name_bytes,
                      struct tamis_diag *diag)
{
    if (segment_name_valid(name, name_bytes))
        return 0;
    return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                     "a segment's name is 1 to 255 bytes without NUL, not these %zu",
                     name_bytes);
}

static int check_options(const struct tamis_edit *e, struct tamis_segment_options *opt,
                         const struct tamis_segment_options *theirs,
                         struct tamis_diag *diag)
{
    int rc = options_copy(opt, sizeof *opt, theirs);
    if (rc)
        return diag_fail(diag, rc, e->catalog->path, "size of the option struct");
    if (!opt->binding)
        opt->binding_bytes = 0;
    if (opt->binding_bytes <= BINDING_MAX_BYTES)
        return 0;
    return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                     "a binding is at most %d bytes, not %zu", BINDING_MAX_BYTES,
                     opt->binding_bytes);
}

int edit_put_begin(struct tamis_edit *e, const void *name, size_t name_bytes,
                   struct tamis_segment_options *opt,
                   const struct tamis_segment_options *theirs, struct tamis_diag *diag)
{
    int rc = edit_usable(e, diag);
    if (!rc)
        rc = check_name(e, name, name_bytes, diag);
    if (!rc)
        rc = check_options(e, opt, theirs, diag);
    return rc ? rc : edit_expect_none(e, name, name_bytes, diag);
}

/* ---- records ---- */

void edit_record_range(struct record *r, const struct key_range *range)
{
    if (!range || !range->known || range->first_bytes > RANGE_MAX_BYTES ||
        range->last_bytes > RANGE_MAX_BYTES)
        return;
    r->has_range = 1;
    r->first_bytes = (uint16_t)range->first_bytes;
    r->last_bytes = (uint16_t)range->last_bytes;
    memcpy(r->first, range->first, range->first_bytes);
    memcpy(r->last, range->last, range->last_bytes);
}

int edit_put_append(struct tamis_edit *e, const void *name, size_t name_bytes,
                    const struct record *r, enum edit_put how, struct tamis_diag *diag)
{
    bool has_file = r->state != RECORD_NO_FILTER;
    bool has_list = record_listed(r) && how != PUT_KEEPS_LIST;
    struct edit_op *op = edit_op_new(name, name_bytes, r);
    int rc;
    if (op) {
        op->has_file = has_file;
        op->has_list = has_list;
        op->attached = how == PUT_ATTACHED;
        rc = edit_append(e, op, diag);
    } else {
        rc = diag_errno(diag, ENOMEM, e->catalog->path, "noting the segment");
    }
    if (rc && has_file)
        filter_file_unlink(e->dir.fd, r->uuid);
    if (rc && has_list)
        filter_file_unlink(e->dir.fd, r->list_uuid);
    return rc;
}

int edit_not_put(const struct tamis_edit *e, int rc, const char *file,
                 struct tamis_diag *diag)
{
    char path[STORE_PATH_BYTES];
    filters_dir_path(e->catalog->filters, file, path);
    diag_in(diag, path);
    return rc;
}

/* ---- built ---- */

int tamis_edit_builder(struct tamis_edit *edit, const void *name, size_t name_bytes,
                       double error, const struct tamis_segment_options *opt,
                       struct tamis_builder **out, struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the builder");
    *out = NULL;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    const struct catalog *c = edit->catalog;
    struct tamis_builder_options b = {
        .size = sizeof b,
        .domain = &c->domain,
        .error = error != 0 ? error : c->meta.target_error,
        .identity.name = name,
        .identity.name_bytes = name_bytes,
        .identity.binding = ours.binding,
        .identity.binding_bytes = ours.binding_bytes,
        .identity.store_uuid = c->meta.store_uuid,
        .watermark = ours.watermark,
        .memory_limit = ours.memory_limit,
        .n_threads = ours.n_threads,
        .check = ours.check,
        .kind = ours.kind,
        .list_bits = ours.list_bits,
    };
    rc = tamis_builder_create(&b, out, diag);
    if (!rc)
        builder_set_edit(*out, ours.rank, error == 0);
    return rc;
}

int edit_check_built(const struct tamis_edit *e, const struct tamis_builder *b,
                     struct identity *id, struct commit *c, struct tamis_diag *diag)
{
    const struct catalog *to = e->catalog;
    int rc = builder_describe(b, id, c);
    if (tamis_builder_domain(b).tag != to->domain.tag)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, to->path,
                         "built with another seed or hash than the store's domain");
    if (!all_zero(id->store_uuid, UUID_BYTES) &&
        memcmp(id->store_uuid, to->meta.store_uuid, UUID_BYTES) != 0)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, to->path,
                         "the builder was made for another store");
    return rc ? diag_errno(diag, rc, to->path, "an earlier add failed") : 0;
}

/* The list of the builder's hashes, if it is to have one. */
static int put_list(struct tamis_edit *edit, struct tamis_builder *builder,
                    struct record *r, struct tamis_diag *diag)
{
    struct list_written list;
    char file[FILTER_NAME_BYTES];
    if (!builder_list_bits(builder))
        return 0;
    uuid_random(r->list_uuid);
    filter_file_name(r->list_uuid, file);
    int rc =
        builder_list_at(builder, r->list_uuid, edit->dir.fd, file, false, &list, diag);
    if (rc)
        return edit_not_put(edit, rc, file, diag);
    r->list_digest = list.table_digest;
    return 0;
}

static int put_built(struct tamis_edit *edit, struct tamis_builder *builder,
                     const struct edit_list *list, struct tamis_diag *diag)
{
    struct tamis_segment_options none;
    const void *name = NULL;
    size_t name_bytes = 0;
    if (builder)
        builder_name(builder, &name, &name_bytes);
    struct built built;
    int rc = edit_put_begin(edit, name, name_bytes, &none, NULL, diag);
    if (!rc)
        rc = edit_check_built(edit, builder, &built.identity, &built.commit, diag);
    if (rc)
        return rc;
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    uuid_random(uuid);
    filter_file_name(uuid, file);
    balance_choose(edit, builder);
    rc = builder_finish_at(builder, uuid, edit->dir.fd, file, false, &built, diag);
    if (rc)
        return edit_not_put(edit, rc, file, diag);
    struct record r = record_of_commit(&built.commit, built.identity.target_error,
                                       built.identity.created, builder_rank(builder));
    r.file_bytes = built.file_bytes;
    if (list) {
        r.has_range = list->range->has_range;
        r.first_bytes = list->range->first_bytes;
        r.last_bytes = list->range->last_bytes;
        memcpy(r.first, list->range->first, r.first_bytes);
        memcpy(r.last, list->range->last, r.last_bytes);
        memcpy(r.list_uuid, list->uuid, UUID_BYTES);
        r.list_digest = list->digest;
    } else {
        edit_record_range(&r, builder_range(builder));
        rc = put_list(edit, builder, &r, diag);
    }
    if (rc) {
        filter_file_unlink(edit->dir.fd, uuid);
        return rc;
    }
    return edit_put_append(edit, name, name_bytes, &r, list ? list->how : PUT_NEW,
                           diag);
}

int edit_put_built(struct tamis_edit *edit, struct tamis_builder *builder,
                   const struct edit_list *list, struct tamis_diag *diag)
{
    int rc = put_built(edit, builder, list, diag);
    balance_settle(edit, builder, rc == 0);
    return rc;
}

int tamis_edit_size(struct tamis_edit *edit, struct tamis_builder *builder,
                    struct tamis_diag *diag)
{
    int rc = edit_usable(edit, diag);
    if (!rc && !builder)
        rc = diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path, "no builder");
    if (!rc)
        balance_choose(edit, builder);
    return rc;
}

int tamis_edit_put(struct tamis_edit *edit, struct tamis_builder *builder,
                   struct tamis_diag *diag)
{
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    return edit_put_built(edit, builder, NULL, diag);
}

/* ---- bare and growing ---- */

int tamis_edit_put_bare(struct tamis_edit *edit, const void *name, size_t name_bytes,
                        const struct tamis_segment_options *opt,
                        struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    struct record r = {
        .state = RECORD_NO_FILTER,
        .binding_bytes = (uint8_t)ours.binding_bytes,
        .rank = ours.rank,
        .created = io_calls.now(),
    };
    if (ours.binding_bytes)
        memcpy(r.binding, ours.binding, ours.binding_bytes);
    return edit_put_append(edit, name, name_bytes, &r, PUT_NEW, diag);
}

/* Fills in the store's defaults. */
static struct tamis_growth growth_of(const struct meta *m, const struct tamis_growth *g)
{
    struct tamis_growth all = {
        .error = m->target_error,
        .factor = m->growth_factor,
        .tightening = m->tightening_ratio,
        .first_capacity = m->first_capacity,
    };
    if (g && g->error != 0)
        all.error = g->error;
    if (g && g->factor != 0)
        all.factor = g->factor;
    if (g && g->tightening != 0)
        all.tightening = g->tightening;
    if (g && g->first_capacity)
        all.first_capacity = g->first_capacity;
    return all;
}

int tamis_edit_put_growing(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const struct tamis_growth *growth,
                           const struct tamis_segment_options *opt,
                           struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    const struct catalog *c = edit->catalog;
    struct tamis_writer_options w = {
        .size = sizeof w,
        .growth = growth_of(&c->meta, growth),
        .domain = &c->domain,
        .identity.name = name,
        .identity.name_bytes = name_bytes,
        .identity.binding = ours.binding,
        .identity.binding_bytes = ours.binding_bytes,
        .identity.store_uuid = c->meta.store_uuid,
    };
    struct commit first;
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    uuid_random(uuid);
    filter_file_name(uuid, file);
    rc = writer_format(edit->dir.fd, file, &w, uuid, false, &first, diag);
    if (rc)
        return edit_not_put(edit, rc, file, diag);
    struct record r =
        record_of_commit(&first, w.growth.error, io_calls.now(), ours.rank);
    return edit_put_append(edit, name, name_bytes, &r, PUT_NEW, diag);
}

/* ---- attached ---- */

int tamis_edit_attach(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const char *path, const struct tamis_segment_options *opt,
                      struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    if (!path)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path, "no file");
    struct attach a = {
        .catalog = edit->catalog,
        .dir = edit->dir.fd,
        .path = path,
        .name = name,
        .name_bytes = name_bytes,
        .binding = ours.binding,
        .binding_bytes = ours.binding_bytes,
    };
    struct header h;
    rc = attach_copy(&a, &h, diag);
    if (rc)
        return rc;
    struct record r = record_of_commit(&h.commit, h.identity.target_error,
                                       h.identity.created, ours.rank);
    if (ours.binding_bytes) {
        r.binding_bytes = (uint8_t)ours.binding_bytes;
        memcpy(r.binding, ours.binding, ours.binding_bytes);
    }
    return edit_put_append(edit, name, name_bytes, &r, PUT_ATTACHED, diag);
}
