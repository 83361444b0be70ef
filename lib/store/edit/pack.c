/* tamis_edit_pack(): sealed segments of a snapshot, written as columns of one pack.
 * Their filters are checked page by page before a bit is copied. What may not be packed
 * is left as it is, and counted. */
#include "lib/store/edit/inside.h"
#include "format/pack.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/pack/pack.h"
#include "lib/plan/plan.h"
#include "lib/store/base/base.h"
#include "lib/store/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct packing {
    struct tamis_edit *edit;
    struct tamis_snapshot *snapshot;
    struct tamis_pack_options opt;
    struct tamis_pack_report *report;
    size_t n; /* segments taken */
    struct tamis_filter **filters;
    struct plane *planes;
    struct pack_source *sources;
    struct column *columns;
    struct pack_plan plan;
};

/* ---- which segments ---- */

/* The record's facts, and where the blocks are. */
static void take(struct packing *p, const struct entry *e, struct tamis_filter *f,
                 const struct plane *plane, const struct tamis_stage_info *stage)
{
    const struct record_disk *r = entry_record(e);
    struct column *c = &p->columns[p->n];
    struct geometry g = {plane->n_blocks, plane->lanes, plane->words};
    uint64_t by_bits = plan_keys_of_bits(&g, stage->bits_set);
    p->sources[p->n] = (struct pack_source){
        .geometry = g,
        .keys = stage->keys > by_bits ? stage->keys : by_bits,
        .target_error = stage->target_error,
    };
    *c = (struct column){
        .table_digest = le64_get(r->table_digest),
        .generation = le64_get(r->generation),
        .watermark = le64_get(r->watermark),
        .keys = le64_get(r->keys),
        .target_error = le64_get_f64(r->target_error),
        .created = le64_get(r->created),
        .rank = e->rank,
        .name_bytes = (uint16_t)e->name_bytes,
        .binding_bytes = r->binding_bytes,
    };
    memcpy(c->uuid, r->uuid, UUID_BYTES);
    memcpy(c->name, e->bytes, e->name_bytes);
    memcpy(c->binding, r->binding, r->binding_bytes);
    p->filters[p->n] = f;
    p->planes[p->n] = *plane;
    p->n++;
}

/* Takes a sealed segment, or counts why not. An error that says nothing of the file, of
 * the disk perhaps, is the result. */
static int consider_filter(struct packing *p, struct entry *e, struct tamis_diag *diag)
{
    struct tamis_snapshot *s = p->snapshot;
    struct tamis_stage_info stage;
    struct tamis_filter_info info;
    struct tamis_verify pages;
    struct tamis_filter *f;
    struct plane plane;
    int rc = entry_filter(e, s->dir, &s->domain, &f, diag);
    if (!rc)
        rc = tamis_filter_info(f, &info);
    if (!rc)
        rc = tamis_filter_stage(f, 0, &stage);
    if (!rc && info.n_stages != 1) {
        p->report->n_stages++;
        return 0;
    }
    if (!rc)
        rc = tamis_filter_verify(f, &pages, diag);
    if (rc > 0 && rc != ENOENT)
        return diag && diag->code
                   ? rc
                   : diag_errno(diag, rc, p->edit->catalog->path, "reading a filter");
    diag_clear(diag);
    if (rc || !filter_plane(f, s->domain.tag, 0, &plane))
        p->report->n_unreadable++;
    else
        take(p, e, f, &plane, &stage);
    return 0;
}

static int consider(struct packing *p, size_t index, struct tamis_diag *diag)
{
    struct entry *e = p->snapshot->entries[index];
    if (e->packed)
        p->report->n_packed_before++;
    else if (e->state == RECORD_NO_FILTER)
        p->report->n_bare++;
    else if (e->state == RECORD_GROWING)
        p->report->n_growing++;
    else
        return consider_filter(p, e, diag);
    return 0;
}

static int packing_alloc(struct packing *p, size_t n)
{
    p->filters = calloc(n + 1, sizeof(struct tamis_filter *));
    p->planes = calloc(n + 1, sizeof *p->planes);
    p->sources = calloc(n + 1, sizeof *p->sources);
    p->columns = calloc(n + 1, sizeof *p->columns);
    return p->filters && p->planes && p->sources && p->columns ? 0 : ENOMEM;
}

static void packing_free(struct packing *p)
{
    free(p->filters);
    free(p->planes);
    free(p->sources);
    free(p->columns);
    pack_plan_free(&p->plan);
}

/* ---- the file ---- */

static int blocks(void *ctx, uint32_t source, uint32_t lane, uint64_t first, uint64_t n,
                  uint8_t *out)
{
    const struct packing *p = ctx;
    const struct plane *plane = &p->planes[source];
    memcpy(out, plane->bits + (lane * plane->n_blocks + first) * BLOCK_BYTES,
           (size_t)n * BLOCK_BYTES);
    return 0;
}

/* Were all pages good to the end? One that was found bad while it was copied may have
 * given fewer bits than it had. */
static int check_still_good(const struct packing *p, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    struct plane plane;
    for (size_t i = 0; i < p->n; i++)
        if (!filter_plane(p->filters[i], p->snapshot->domain.tag, 0, &plane))
            return diag_fail(
                diag, TAMIS_ERR_DAMAGED, filter_path(p->filters[i]),
                "segment %s: a page was lost while it was packed",
                name_text(text, p->columns[i].name, p->columns[i].name_bytes));
    return 0;
}

/* Its name stays free if this fails. */
static int write_files(struct packing *p, struct pack_place *place,
                       struct tamis_diag *diag)
{
    const struct catalog *c = p->edit->catalog;
    char name[FILTER_NAME_BYTES];
    struct pack_job job = {
        .plan = &p->plan,
        .sources = p->sources,
        .columns = p->columns,
        .blocks = blocks,
        .ctx = p,
        .uuid = place->uuid,
        .store_uuid = c->meta.store_uuid,
        .domain = c->domain,
    };
    uuid_random(place->uuid);
    filter_file_name(place->uuid, name);
    int rc = pack_write(&job, p->edit->dir.fd, name, &place->digest,
                        &p->report->file_bytes, diag);
    if (rc)
        return edit_not_put(p->edit, rc, name, diag);
    rc = check_still_good(p, diag);
    if (!rc) {
        rc =
            dead_create(p->edit->dir.fd, place->uuid, place->digest, p->plan.n_columns);
        if (rc)
            diag_errno(diag, rc, c->filters->path, "writing the tombstones of a pack");
    }
    if (rc)
        filter_file_unlink(p->edit->dir.fd, place->uuid);
    return rc;
}

/* ---- the operation ---- */

static struct edit_op *make_op(const struct packing *p, const struct pack_place *place)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        n_bytes += p->columns[i].name_bytes;
    struct edit_op *op = calloc(1, sizeof *op + n_bytes);
    struct edit_pack *pack =
        calloc(1, sizeof *pack + p->n * sizeof pack->placements[0]);
    if (!op || !pack) {
        free(op);
        free(pack);
        return NULL;
    }
    *op = (struct edit_op){.kind = EDIT_PACK, .has_file = true, .pack = pack};
    memcpy(op->uuid, place->uuid, UUID_BYTES);
    pack->place = *place;
    pack->keep = p->opt.keep;
    pack->n = (uint32_t)p->n;
    n_bytes = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct column *c = &p->columns[i];
        const struct pack_source *s = &p->sources[i];
        struct placement *to = &pack->placements[i];
        memcpy(to->uuid, c->uuid, UUID_BYTES);
        to->table_digest = c->table_digest;
        to->band = s->band;
        to->column = p->plan.bands[s->band].first_column + s->column;
        to->name_at = (uint32_t)n_bytes;
        to->name_bytes = c->name_bytes;
        memcpy(op->bytes + n_bytes, c->name, c->name_bytes);
        n_bytes += c->name_bytes;
    }
    return op;
}

static int pack_taken(struct packing *p, struct tamis_diag *diag)
{
    struct pack_place place = {.digest = 0};
    const char *store = p->edit->catalog->path;
    int rc = bands_choose(p->sources, p->n, &p->plan);
    if (rc == TAMIS_ERR_RANGE)
        return diag_fail(
            diag, rc, store,
            "%zu segments are too many for one pack, or of too many sizes: "
            "pack fewer at a time",
            p->n);
    if (rc)
        return diag_errno(diag, rc, store, "packing");
    rc = write_files(p, &place, diag);
    if (rc)
        return rc;
    struct edit_op *op = make_op(p, &place);
    rc = op ? edit_append(p->edit, op, diag)
            : diag_errno(diag, ENOMEM, store, "noting the pack");
    if (rc) { /* edit_append() has freed the operation, not its files */
        struct edit_op written = {.kind = EDIT_PACK, .has_file = true};
        memcpy(written.uuid, place.uuid, UUID_BYTES);
        edit_unlink_op(p->edit, &written);
        return rc;
    }
    p->report->n_packed = p->n;
    p->report->n_bands = p->plan.n_bands;
    p->report->rows_bytes = p->plan.rows_bytes;
    memcpy(p->report->uuid, place.uuid, UUID_BYTES);
    return 0;
}

static int check_call(const struct packing *p, const uint32_t *segments, size_t n,
                      int options, struct tamis_diag *diag)
{
    const char *store = p->edit->catalog->path;
    const struct tamis_snapshot *s = p->snapshot;
    if (options)
        return diag_fail(diag, TAMIS_ERR_RANGE, store, "options are not valid");
    if (!s || !s->dir)
        return diag_fail(diag, TAMIS_ERR_RANGE, store, "no snapshot of a store");
    if (s->domain.tag != p->edit->catalog->domain.tag ||
        s->ledger != p->edit->catalog->ledger)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, store,
                         "the snapshot is of another store");
    for (size_t i = 0; segments && i < n; i++)
        if (segments[i] >= s->n)
            return diag_fail(diag, TAMIS_ERR_RANGE, store,
                             "the snapshot has no segment %lu",
                             (unsigned long)segments[i]);
    return 0;
}

int tamis_edit_pack(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                    const uint32_t *segments, size_t n,
                    const struct tamis_pack_options *opt,
                    struct tamis_pack_report *report, struct tamis_diag *diag)
{
    struct tamis_pack_report unasked;
    struct packing p = {
        .edit = edit, .snapshot = snapshot, .report = report ? report : &unasked};
    *p.report = (struct tamis_pack_report){0};
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    rc = check_call(&p, segments, n, options_copy(&p.opt, sizeof p.opt, opt), diag);
    if (rc)
        return rc;
    n = segments ? n : snapshot->n;
    rc = packing_alloc(&p, n);
    if (rc)
        diag_errno(diag, rc, edit->catalog->path, "packing");
    for (size_t i = 0; i < n && !rc; i++)
        rc = consider(&p, segments ? segments[i] : i, diag);
    if (!rc && p.n)
        rc = pack_taken(&p, diag);
    packing_free(&p);
    return rc;
}
