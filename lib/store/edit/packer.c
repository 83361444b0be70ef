/* tamis_edit_packer(): segments put straight into a pack, without a file for each.
 *
 *     tamis_packer_take()       a builder's hashes, and what a record would say, go to
 * a |                    spool (lib/pack/hashes.c) tamis_edit_put_packed()   all sizes
 * are known: the pack is written
 *          v
 *     one operation, which puts all segments that the pack names
 *
 * A segment takes some 64 bytes of memory until then, and none after. */
#include "lib/store/edit/inside.h"
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
    struct pack_plan plan;
    size_t n, max; /* sources */
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
    pack_hashes_free(p->hashes);
    free(p->sources);
    free(p);
}

/* ---- taking ---- */

/* May the builder's segment be put? */
static int check_take(struct tamis_packer *p, const struct tamis_builder *b,
                      const void *name, size_t name_bytes, struct tamis_diag *diag)
{
    const struct catalog *c = p->edit->catalog;
    struct tamis_segment_options none;
    char text[NAME_TEXT_BYTES];
    bool have;
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
    rc = pack_hashes_have(p->hashes, (struct piece){name, name_bytes}, &have);
    if (rc)
        return diag_errno(diag, rc, c->path, "looking for a name among the hashes");
    if (have)
        return diag_fail(diag, TAMIS_ERR_EXISTS, c->path, "segment '%s' exists already",
                         name_text(text, name, name_bytes));
    return 0;
}

/* Its entry, but for the number of keys that differ. */
static void describe_column(struct tamis_builder *b, const struct identity *id,
                            const struct commit *c, struct column *out)
{
    struct record r =
        record_of_commit(c, id->target_error, id->created, builder_rank(b));
    r.table_digest = 0; /* there is no file */
    uuid_random(r.uuid);
    edit_record_range(&r, builder_range(b));
    column_of_record(&r, id->name, id->name_bytes, out);
    memcpy(out->disk.set_id, builder_set_id(b), UUID_BYTES);
}

static int take(struct tamis_packer *p, struct tamis_builder *b,
                const struct identity *id, const struct commit *c,
                const uint64_t *hashes, size_t n, struct tamis_diag *diag)
{
    const char *store = p->edit->catalog->path;
    struct geometry g;
    struct column col;
    struct pack_source *sources =
        room_for(p->sources, p->n + 1, &p->max, sizeof *sources);
    if (sources)
        p->sources = sources;
    describe_column(b, id, c, &col);
    int rc = sources ? plan_packed_geometry(n, id->target_error, &g) : ENOMEM;
    if (!rc)
        rc = pack_hashes_add(p->hashes, &col, g.lanes, hashes, n);
    if (!rc)
        rc = plan_packed_geometry(le64_get(col.disk.keys), id->target_error, &g);
    if (rc)
        return rc < 0 ? diag_fail(diag, rc, store, "too many keys for one filter")
                      : diag_errno(diag, rc, store, "keeping the hashes");
    p->sources[p->n++] = (struct pack_source){.geometry = g};
    return 0;
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

/* No column is given up: after a failure the whole pack is. */
static void facts(void *ctx, uint32_t source, struct column *out)
{
    struct tamis_packer *p = ctx;
    int rc = pack_hashes_facts(p->hashes, source, out);
    if (rc)
        column_of_record(&(struct record){0}, "?", 1, out);
    p->failed = p->failed ? p->failed : rc;
}

static bool blocks(void *ctx, unsigned thread, uint32_t source, uint32_t lane,
                   uint64_t first, uint64_t n, uint8_t *out)
{
    struct tamis_packer *p = ctx;
    uint32_t column = p->sources[source].column;
    const struct band *b =
        &p->plan.bands[band_of_column(p->plan.bands, p->plan.n_bands, column)];
    (void)thread;
    if (!p->failed)
        p->failed = pack_hashes_blocks(p->hashes, source, b, column - b->first_column,
                                       lane, first, n, out);
    if (p->failed)
        memset(out, 0xff, (size_t)n * BLOCK_BYTES);
    return true;
}

static int append_put(struct tamis_packer *p, const struct pack_place *place,
                      struct tamis_diag *diag)
{
    struct edit_op *op;
    const char *store = p->edit->catalog->path;
    if (p->failed)
        return diag_errno(diag, p->failed, store, "reading the hashes of a pack again");
    int rc = edit_op_of_pack(p->edit, place, p->plan.n_columns, NULL, &op);
    if (rc > 0)
        return diag_errno(diag, rc, store, "opening the new pack");
    if (rc)
        return diag_fail(diag, rc, store, "the new pack cannot be read");
    return edit_append(p->edit, op, diag);
}

static int put_packed(struct tamis_packer *p, struct tamis_pack_report *report,
                      struct tamis_diag *diag)
{
    struct pack_place place = {.digest = 0};
    struct pack_job job = {.plan = &p->plan,
                           .sources = p->sources,
                           .facts = facts,
                           .blocks = blocks,
                           .ctx = p};
    pack_hashes_rest(p->hashes);
    int rc = pack_plan_bands(p->edit, p->sources, p->n, &p->plan, diag);
    if (!rc)
        rc = pack_make(p->edit, &job, false, report, &place, diag);
    if (rc)
        return rc;
    rc = append_put(p, &place, diag);
    if (rc)
        pack_files_unlink(p->edit->dir.fd, place.uuid);
    memcpy(report->uuid, place.uuid, UUID_BYTES);
    return rc;
}

int tamis_edit_put_packed(struct tamis_edit *edit, struct tamis_packer *p,
                          struct tamis_pack_report *report, struct tamis_diag *diag)
{
    struct tamis_pack_report ours = {0};
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
    rc = p->n ? put_packed(p, &ours, diag) : 0;
    pack_plan_free(&p->plan);
    if (rc)
        return rc;
    free(p->sources);
    p->sources = NULL;
    ours.n_loose = p->n_loose;
    p->is_put = true;
    if (report)
        *report = ours;
    return 0;
}
