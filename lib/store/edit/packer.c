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
    struct edit_op **puts; /* with records that have no place yet */
    size_t n, max;
    struct names names; /* of those puts */
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
    if (rc) {
        free(p);
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
    for (size_t i = 0; i < p->n; i++)
        edit_op_free(p->puts[i]);
    names_clear(&p->names);
    pack_hashes_free(p->hashes);
    free(p->sources);
    free(p->puts);
    free(p);
}

/* ---- taking ---- */

static int make_room(struct tamis_packer *p)
{
    size_t max = p->max ? p->max * 2 : 64;
    if (p->n < p->max)
        return names_reserve(&p->names, 1);
    struct pack_source *sources = realloc(p->sources, max * sizeof *sources);
    if (sources)
        p->sources = sources;
    struct edit_op **puts = realloc(p->puts, max * sizeof(struct edit_op *));
    if (puts)
        p->puts = puts;
    if (!sources || !puts)
        return ENOMEM;
    p->max = max;
    return names_reserve(&p->names, 1);
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
    struct edit_op *op = edit_op_new(EDIT_PUT, id->name, id->name_bytes, &r);
    if (!op) {
        pack_hashes_forget(p->hashes);
        return diag_errno(diag, ENOMEM, store, "noting the segment");
    }
    p->sources[p->n] = s;
    p->puts[p->n++] = op;
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
    const struct edit_op *op = p->puts[i];
    struct record r;
    record_decode(op->bytes + op->name_bytes, op->value_bytes, op->bytes,
                  op->name_bytes, &r);
    return r;
}

static void facts(void *ctx, uint32_t source, struct column *out)
{
    const struct tamis_packer *p = ctx;
    const struct edit_op *op = p->puts[source];
    column_of_record((const void *)(op->bytes + op->name_bytes), op->bytes,
                     op->name_bytes, out);
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

/* Writes pack and tombstones. Their names stay free if this fails. */
static int write_files(struct tamis_packer *p, struct pack_job *job,
                       struct pack_place *place, struct tamis_diag *diag)
{
    struct tamis_edit *e = p->edit;
    int rc = pack_write_file(e, job, place, diag);
    if (rc)
        return rc;
    rc = p->failed;
    if (rc)
        diag_errno(diag, rc, e->catalog->path, "reading the hashes of a pack again");
    else if ((rc = dead_create(e->dir.fd, place->uuid, place->digest,
                               job->plan->n_columns)) != 0)
        diag_errno(diag, rc, e->catalog->filters->path,
                   "writing the tombstones of a pack");
    if (rc)
        filter_file_unlink(e->dir.fd, place->uuid);
    return rc;
}

static void free_ops(struct edit_op **ops, size_t n)
{
    for (size_t i = 0; i < n && ops[i]; i++)
        edit_op_free(ops[i]);
    free(ops);
}

/* Operation 0 stands for the pack's files; the others put the segments. */
static struct edit_op **make_ops(const struct tamis_packer *p,
                                 const struct pack_plan *plan,
                                 const struct pack_place *pack)
{
    struct edit_op **ops = calloc(p->n + 1, sizeof(struct edit_op *));
    if (!ops)
        return NULL;
    ops[0] = calloc(1, sizeof *ops[0]);
    bool good = ops[0] != NULL;
    if (good) {
        *ops[0] = (struct edit_op){.kind = EDIT_PACK, .has_file = true};
        memcpy(ops[0]->uuid, pack->uuid, UUID_BYTES);
        ops[0]->pack = calloc(1, sizeof *ops[0]->pack);
        good = ops[0]->pack != NULL;
    }
    for (size_t i = 0; i < p->n && good; i++) {
        const struct pack_source *s = &p->sources[i];
        struct record r = record_at(p, i);
        r.table_digest = pack_hashes_digest(p->hashes, (uint32_t)i);
        r.place = *pack;
        r.place.column = plan->bands[s->band].first_column + s->column;
        ops[i + 1] =
            edit_op_new(EDIT_PUT, p->puts[i]->bytes, p->puts[i]->name_bytes, &r);
        good = ops[i + 1] != NULL;
    }
    if (good)
        return ops;
    free_ops(ops, p->n + 1);
    return NULL;
}

static int put_packed(struct tamis_packer *p, const struct pack_plan *plan,
                      struct pack_job *job, struct pack_place *place,
                      struct tamis_diag *diag)
{
    int rc = write_files(p, job, place, diag);
    if (rc)
        return rc;
    struct edit_op **ops = make_ops(p, plan, place);
    rc = ops ? edit_append_all(p->edit, ops, p->n + 1, diag)
             : diag_errno(diag, ENOMEM, p->edit->catalog->path, "noting the pack");
    if (rc) {
        struct edit_op written = {.kind = EDIT_PACK, .has_file = true};
        memcpy(written.uuid, place->uuid, UUID_BYTES);
        edit_unlink_op(p->edit, &written);
    }
    if (ops)
        free_ops(ops, rc ? p->n + 1 : 0);
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
