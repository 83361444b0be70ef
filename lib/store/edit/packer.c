/* tamis_edit_packer(): segments put straight into a pack, without a file for each.
 *
 *     tamis_packer_take()       a builder's hashes go to a spool (lib/pack/hashes.c);
 *          |                    its record waits, as an operation
 *     tamis_edit_put_packed()   all sizes are known: the pack is written, each record
 *          |                    gets its place
 *          v
 *     one operation for the pack's files, and one put for each segment */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/plan/plan.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tamis_packer {
    struct tamis_edit *edit;
    struct pack_hashes *hashes;
    struct pack_source *sources;
    struct edit_op **ops; /* that of the pack, then a put for each source: with a record
                             for as long as it has no place */
    size_t n, max;        /* sources */
    size_t max_ops;
    struct names names; /* of the puts */
    uint64_t n_loose;
    int failed; /* when the pack was written */
    bool is_put;
};

int tamis_edit_packer(struct tamis_edit *edit, const struct tamis_packer_options *opt,
                      struct tamis_packer **out, struct tamis_diag *diag)
{
    struct tamis_packer_options ours;
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the packer");
    *out = NULL;
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    rc = options_copy(&ours, sizeof ours, opt);
    if (rc)
        return diag_fail(diag, rc, edit->catalog->path, "size of the option struct");
    const char *dir = ours.spool_dir ? ours.spool_dir : getenv("TMPDIR");
    dir = dir && *dir ? dir : "/tmp";
    struct tamis_packer *p = calloc(1, sizeof *p);
    rc = p ? pack_hashes_new(dir, &p->hashes) : ENOMEM;
    if (!rc && (!(p->ops = room_for(NULL, 1, &p->max_ops, sizeof(struct edit_op *))) ||
                !(p->ops[0] = edit_op_of_pack(0, NULL))))
        rc = ENOMEM;
    if (rc) {
        tamis_packer_free(p);
        return diag_errno(diag, rc, dir, "making a file for hashes");
    }
    p->edit = edit;
    *out = p;
    return 0;
}

void tamis_packer_free(struct tamis_packer *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->ops && i <= p->n; i++)
        edit_op_free(p->ops[i]);
    names_clear(&p->names);
    pack_hashes_free(p->hashes);
    free(p->sources);
    free(p->ops);
    free(p);
}

/* ---- taking ---- */

static int make_room(struct tamis_packer *p)
{
    void *sources = room_for(p->sources, p->n + 1, &p->max, sizeof *p->sources);
    if (sources)
        p->sources = sources;
    void *ops = room_for(p->ops, p->n + 2, &p->max_ops, sizeof(struct edit_op *));
    if (ops)
        p->ops = ops;
    return sources && ops ? names_reserve(&p->names, 1) : ENOMEM;
}

/* May the builder's segment be put? */
static int check_take(const struct tamis_packer *p, const struct tamis_builder *b,
                      const void *name, size_t name_bytes, struct tamis_diag *diag)
{
    const struct catalog *c = p->edit->catalog;
    struct tamis_segment_options none;
    char text[NAME_TEXT_BYTES];
    int rc = edit_put_begin(p->edit, name, name_bytes, &none, NULL, diag);
    if (rc)
        return rc;
    if (p->is_put)
        return diag_fail(diag, TAMIS_ERR_RANGE, c->path,
                         "the packer's pack is written: make another packer");
    if (tamis_builder_domain(b).tag != c->domain.tag)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, c->path,
                         "built with another seed or hash than the store's domain");
    if (builder_list_bits(b))
        return diag_fail(diag, TAMIS_ERR_UNFIT, c->path,
                         "a column that is made of keys has no list: put the segment, "
                         "then pack it");
    if (names_get(&p->names, name, name_bytes))
        return diag_fail(diag, TAMIS_ERR_EXISTS, c->path, "segment '%s' exists already",
                         name_text(text, name, name_bytes));
    return 0;
}

/* The record of the segment; its keys are those that differ. */
static struct record record_of(const struct tamis_builder *b, const struct identity *id,
                               const struct commit *c, uint64_t keys)
{
    struct record r =
        record_of_commit(c, id->target_error, id->created, builder_rank(b));
    r.table_digest = r.min_sequence = 0; /* there is no file */
    r.keys = keys;
    uuid_random(r.uuid);
    edit_record_range(&r, builder_range(b));
    return r;
}

static int take(struct tamis_packer *p, struct tamis_builder *b,
                const struct identity *id, const struct commit *c,
                const uint64_t *hashes, size_t n, struct tamis_diag *diag)
{
    struct pack_source s = {.target_error = id->target_error, .any_size = true};
    const char *store = p->edit->catalog->path;
    int rc = make_room(p);
    if (!rc)
        rc = plan_packed_geometry(n, s.target_error, &s.geometry);
    if (!rc)
        rc = pack_hashes_add(p->hashes, s.geometry.lanes, hashes, n, &s.keys);
    if (!rc)
        rc = plan_packed_geometry(s.keys, s.target_error, &s.geometry);
    if (rc)
        return rc < 0 ? diag_fail(diag, rc, store, "too many keys for one filter")
                      : diag_errno(diag, rc, store, "keeping the hashes");
    s.own_blocks = s.geometry.n_blocks;
    memcpy(s.set_id, builder_set_id(b), UUID_BYTES);
    struct record r = record_of(b, id, c, s.keys);
    struct edit_op *op = edit_op_new(id->name, id->name_bytes, &r);
    if (!op) {
        pack_hashes_forget(p->hashes);
        return diag_errno(diag, ENOMEM, store, "noting the segment");
    }
    p->sources[p->n] = s;
    p->ops[++p->n] = op;
    return names_set(&p->names, op->bytes, op->name_bytes, 1);
}

int tamis_packer_take(struct tamis_packer *p, struct tamis_builder *b,
                      struct tamis_diag *diag)
{
    const void *name = NULL;
    size_t name_bytes = 0, n;
    struct identity id;
    struct commit c;
    diag_clear(diag);
    if (!p || !b)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no packer, or no builder");
    builder_name(b, &name, &name_bytes);
    int rc = check_take(p, b, name, name_bytes, diag);
    if (rc)
        return rc;
    rc = builder_describe(b, &id, &c);
    if (rc)
        return diag_errno(diag, rc, p->edit->catalog->path, "an earlier add failed");
    rc = edit_check_built(p->edit, &id, diag);
    if (rc)
        return rc;
    if (id.kind != KIND_BLOOM)
        return diag_fail(diag, TAMIS_ERR_UNFIT, p->edit->catalog->path,
                         "a column is a Bloom filter, and the builder makes a ribbon");
    const uint64_t *hashes = builder_hashes(b, &n);
    if (hashes)
        return take(p, b, &id, &c, hashes, n, diag);
    rc = tamis_edit_put(p->edit, b, diag);
    p->n_loose += !rc;
    return rc;
}

/* ---- the pack ---- */

/* Decodes its own record, which has passed every check of a reader. */
static struct record record_at(const struct tamis_packer *p, size_t i)
{
    const struct edit_op *op = p->ops[i + 1];
    struct record r;
    record_decode(op->bytes + op->name_bytes, op->value_bytes, op->bytes,
                  op->name_bytes, &r);
    return r;
}

static void facts(void *ctx, uint32_t source, struct column *out)
{
    const struct tamis_packer *p = ctx;
    const struct edit_op *op = p->ops[source + 1];
    struct record r = record_at(p, source);
    column_of_record(&r, op->bytes, op->name_bytes, out);
    out->disk.table_digest = le64_of(pack_hashes_digest(p->hashes, source));
}

/* No column is given up: after a failure the whole pack is. */
static bool blocks(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                   uint64_t first, uint64_t n, uint8_t *out)
{
    struct tamis_packer *p = ctx;
    (void)thread;
    if (!p->failed)
        p->failed = pack_hashes_blocks(p->hashes, source, &p->sources[source], lane,
                                       first, n, out);
    if (p->failed)
        memset(out, 0xff, (size_t)n * BLOCK_BYTES);
    return true;
}

/* The first operation stands for the pack; the others list its columns. */
static void place_ops(struct tamis_packer *p, const struct pack_plan *plan,
                      const struct pack_place *place)
{
    struct edit_op *op = p->ops[0];
    memcpy(op->uuid, place->uuid, UUID_BYTES);
    op->placed->place = *place;
    op->placed->n_columns = plan->n_columns;
    for (size_t i = 0; i < p->n; i++) {
        const struct pack_source *s = &p->sources[i];
        op = p->ops[i + 1];
        op->place = *place;
        op->place.column = plan->bands[s->band].first_column + s->column;
    }
}

static int put_packed(struct tamis_packer *p, const struct pack_plan *plan,
                      struct pack_job *job, struct pack_place *place,
                      struct tamis_diag *diag)
{
    int rc = pack_write_files(p->edit, job, place, diag);
    if (rc)
        return rc;
    place_ops(p, plan, place);
    rc = p->failed ? diag_errno(diag, p->failed, p->edit->catalog->path,
                                "reading the hashes of a pack again")
                   : edit_append_all(p->edit, p->ops, p->n + 1, diag);
    if (rc)
        edit_unlink_op(p->edit, p->ops[0]);
    else
        p->n = 0, p->ops[0] = NULL; /* they are the edit's */
    return rc;
}

int tamis_edit_put_packed(struct tamis_edit *edit, struct tamis_packer *p,
                          struct tamis_pack_report *report, struct tamis_diag *diag)
{
    static const uint8_t none[UUID_BYTES];
    struct tamis_pack_report ours = {0};
    struct pack_place place = {.digest = 0};
    struct pack_plan plan = {0};
    if (report)
        *report = ours;
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    if (!p || p->edit != edit)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                         "no packer of this edit");
    if (p->is_put)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                         "the packer's pack is written: make another packer");
    struct pack_job job = {.plan = &plan,
                           .sources = p->sources,
                           .facts = facts,
                           .blocks = blocks,
                           .ctx = p,
                           .uuid = none,
                           .store_uuid = none};
    if (p->n)
        rc = pack_plan_bands(edit, p->sources, p->n, &plan, diag);
    if (p->n && !rc)
        rc = pack_room(edit, &job, false, &ours, diag);
    if (p->n && !rc)
        rc = put_packed(p, &plan, &job, &place, diag);
    pack_index_free(&job);
    pack_plan_free(&plan);
    if (rc)
        return rc;
    memcpy(ours.uuid, place.uuid, UUID_BYTES);
    ours.n_loose = p->n_loose;
    p->is_put = true;
    if (report)
        *report = ours;
    return 0;
}
