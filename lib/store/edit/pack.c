/* tamis_edit_pack(): sealed segments of a snapshot, written as columns of one pack.
 * Segments that may not be packed are left as they are, and counted. */
#include "lib/store/edit/inside.h"
#include "format/pack.h"
#include "lib/error.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

int pack_room(const struct tamis_edit *e, struct pack_job *job, bool dry_run,
              struct tamis_pack_report *r, struct tamis_diag *diag)
{
    struct statvfs fs;
    r->n_packed = job->plan->n_columns;
    r->n_bands = job->plan->n_bands;
    r->rows_bytes = job->plan->rows_bytes;
    r->file_bytes = pack_file_bytes(job);
    if (!r->file_bytes)
        return diag_errno(diag, ENOMEM, e->catalog->path, "packing");
    if (fstatvfs(e->dir.fd, &fs) != 0)
        return diag_errno(diag, errno, e->catalog->path, "looking for room");
    r->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (dry_run || r->free_bytes >= r->file_bytes)
        return 0;
    return diag_fail(diag, ENOSPC, e->catalog->path,
                     "the pack needs %llu bytes, and the disk has %llu left",
                     (unsigned long long)r->file_bytes,
                     (unsigned long long)r->free_bytes);
}

static int too_many(const struct tamis_edit *e, size_t n, struct tamis_diag *diag)
{
    return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                     "%zu segments are too many for one pack, or of too many sizes: "
                     "pack fewer at a time",
                     n);
}

int pack_plan_bands(const struct tamis_edit *e, struct pack_source *sources, size_t n,
                    struct pack_plan *plan, struct tamis_diag *diag)
{
    int rc = bands_choose(sources, n, plan);
    if (rc == TAMIS_ERR_RANGE)
        return too_many(e, n, diag);
    return rc ? diag_errno(diag, rc, e->catalog->path, "packing") : 0;
}

/* The plan of what was taken, once filters that would grow are left out. With nothing
 * left there is no plan. */
static int plan_taken(struct packing *p, struct tamis_diag *diag)
{
    size_t n_left = 1;
    int rc = 0;
    while (!rc && n_left && p->n) {
        bool *leave = calloc(p->n, sizeof *leave);
        if (!leave)
            return diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
        pack_plan_free(&p->plan);
        rc = pack_plan_bands(p->edit, p->sources, p->n, &p->plan, diag);
        n_left = rc ? 0 : bands_leave(p->sources, &p->plan, leave);
        for (size_t i = 0; n_left && i < p->n; i++)
            if (leave[i])
                input_left(p, p->inputs[i].segment, TAMIS_LEFT_LARGER);
        if (n_left)
            inputs_leave(p, leave);
        free(leave);
    }
    return rc;
}

/* Columns of segments that were lost meanwhile are dead from the start. */
static int make_tombstones(const struct packing *p, const struct pack_place *place)
{
    int dir = p->edit->dir.fd;
    uint32_t *gone = malloc((p->n + 1) * sizeof *gone);
    size_t n = 0;
    bool all;
    if (!gone)
        return ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        if (p->gone[i])
            gone[n++] =
                p->plan.bands[p->sources[i].band].first_column + p->sources[i].column;
    int rc = dead_create(dir, place->uuid, place->digest, p->plan.n_columns);
    if (!rc && n)
        rc = dead_bury(dir, place->uuid, place->digest, gone, n, &all);
    free(gone);
    return rc;
}

int pack_write_file(struct tamis_edit *e, struct pack_job *job,
                    struct pack_place *place, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    uint64_t n_bytes;
    uuid_random(place->uuid);
    filter_file_name(place->uuid, name);
    job->uuid = place->uuid;
    job->store_uuid = e->catalog->meta.store_uuid;
    job->domain = e->catalog->domain;
    int rc = pack_write(job, e->dir.fd, name, &place->digest, &n_bytes, diag);
    return rc ? edit_not_put(e, rc, name, diag) : 0;
}

/* A pack that no operation has. */
static void unlink_files(const struct tamis_edit *e, const struct pack_place *place)
{
    struct edit_op written = {.kind = EDIT_PACK, .has_file = true};
    memcpy(written.uuid, place->uuid, UUID_BYTES);
    edit_unlink_op(e, &written);
}

/* If this fails, nothing is left of it. */
static int write_files(struct packing *p, struct pack_job *job,
                       struct pack_place *place, struct tamis_diag *diag)
{
    int rc = pack_write_file(p->edit, job, place, diag);
    if (rc)
        return rc;
    rc = make_tombstones(p, place);
    if (rc)
        diag_errno(diag, rc, p->edit->catalog->filters->path,
                   "writing the tombstones of a pack");
    if (rc)
        unlink_files(p->edit, place);
    return rc;
}

/* ---- the operation ---- */

/* Says where a segment is from the commit on. */
static void add_placement(const struct packing *p, size_t i, struct edit_op *op,
                          size_t *n_bytes)
{
    const struct pack_input *o = &p->inputs[i];
    const struct entry *e = p->snapshot->entries[o->segment];
    const struct pack_source *s = &p->sources[i];
    struct placement *to = &op->pack->placements[op->pack->n++];
    memcpy(to->uuid, entry_record(e)->uuid, UUID_BYTES);
    to->table_digest = le64_get(entry_record(e)->table_digest);
    to->column = p->plan.bands[s->band].first_column + s->column;
    to->name_at = (uint32_t)*n_bytes;
    to->name_bytes = e->name_bytes;
    memcpy(op->bytes + *n_bytes, e->bytes, e->name_bytes);
    *n_bytes += e->name_bytes;
}

static struct edit_op *make_op(const struct packing *p, const struct pack_place *place)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        n_bytes += p->snapshot->entries[p->inputs[i].segment]->name_bytes;
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
    n_bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        if (!p->gone[i])
            add_placement(p, i, op, &n_bytes);
    return op;
}

/* Segments with columns that are nobody's are left. */
static void count_packed(struct packing *p)
{
    p->report->n_packed = 0;
    for (size_t i = 0; i < p->n; i++) {
        p->report->n_packed += !p->gone[i];
        p->report->n_repacked += !p->gone[i] && p->inputs[i].seat != NULL;
        if (p->gone[i])
            input_lost(p, p->inputs[i].segment);
    }
}

static int pack_taken(struct packing *p, struct tamis_diag *diag)
{
    static const uint8_t none[UUID_BYTES];
    struct pack_place place = {.digest = 0};
    const char *store = p->edit->catalog->path;
    struct pack_job job = {.plan = &p->plan,
                           .sources = p->sources,
                           .facts = input_facts,
                           .blocks = input_blocks,
                           .ctx = p,
                           .gone = p->gone,
                           .uuid = none,
                           .store_uuid = none};
    int rc = plan_taken(p, diag);
    if (!rc && !p->n)
        return 0;
    if (!rc)
        rc = pack_room(p->edit, &job, p->opt.dry_run, p->report, diag);
    for (size_t i = 0; !rc && p->opt.dry_run && i < p->n; i++)
        p->gone[i] = input_is_damaged(p, i);
    if (!rc && p->opt.dry_run)
        count_packed(p);
    if (rc || p->opt.dry_run)
        return rc;
    job.threads = inputs_stay_open(p) ? p->threads : NULL;
    rc = write_files(p, &job, &place, diag);
    if (rc)
        return rc;
    count_packed(p);
    if (!p->report->n_packed) { /* all were lost meanwhile */
        unlink_files(p->edit, &place);
        return 0;
    }
    struct edit_op *op = make_op(p, &place);
    rc = op ? edit_append(p->edit, op, diag)
            : diag_errno(diag, ENOMEM, store, "noting the pack");
    if (rc) { /* edit_append() has freed the operation, not its files */
        unlink_files(p->edit, &place);
        return rc;
    }
    memcpy(p->report->uuid, place.uuid, UUID_BYTES);
    return 0;
}

static int check_call(const struct packing *p, const uint32_t *segments, size_t n,
                      int options, struct tamis_diag *diag)
{
    const char *store = p->edit->catalog->path;
    const struct tamis_snapshot *s = p->snapshot;
    if (options || p->opt.repack > TAMIS_REPACK_AUTO ||
        (segments && p->opt.repack == TAMIS_REPACK_AUTO))
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

/* Takes what is loose, without what stays so, and chooses packs to go with it. */
static int choose(struct packing *p, struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    uint32_t *loose = malloc((s->n + 1) * sizeof *loose);
    size_t n = 0;
    if (!loose)
        return diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t i = 0; i < s->n; i++)
        if (!packs_seat(&s->packs, i))
            loose[n++] = (uint32_t)i;
    int rc = inputs_consider(p, loose, n, diag);
    free(loose);
    if (!rc)
        rc = plan_taken(p, diag);
    if (!rc && tiers_choose(p) != 0)
        rc = diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
    return rc;
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
    rc = inputs_alloc(&p, n);
    if (rc)
        diag_errno(diag, rc, edit->catalog->path, "packing");
    if (!rc && p.opt.repack == TAMIS_REPACK_AUTO)
        rc = choose(&p, diag);
    if (!rc)
        rc = inputs_consider(&p, segments, n, diag);
    if (!rc && p.n)
        rc = pack_taken(&p, diag);
    inputs_free(&p);
    if (rc)
        *p.report = (struct tamis_pack_report){0};
    return rc;
}
