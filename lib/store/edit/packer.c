/* The files of packs, as an edit writes them. For tamis_edit_pack() see packing.c.
 *
 * tamis_edit_packer(): segments put straight into a pack, without a file for each.
 *
 *     tamis_packer_take()      a builder's hashes, and what a record would say, go to
 *          |                   a spool (lib/pack/hashes.c)
 *     tamis_edit_put_packed()  all sizes are known: the pack is written
 *          v
 *     one operation, which puts all segments that the pack names
 *
 * A segment takes some 64 bytes of memory until then, and none after.
 *
 * tamis_edit_unpack(): columns of packs, written as files of their own. */
#include "lib/store/edit/inside.h"
#include "lib/plan/plan.h"

#include <sys/statvfs.h>

/* ---- a pack is written ---- */

/* Tells of a lack of room before the first byte is written. */
static int edit_room(const struct tamis_edit *e, const char *what, uint64_t n_bytes,
                     uint64_t *free_bytes, struct tamis_diag *diag)
{
    struct statvfs fs;
    if (fstatvfs(e->dir.fd, &fs) != 0)
        return diag_errno(diag, errno, e->catalog->path, "looking for room");
    *free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (*free_bytes >= n_bytes)
        return 0;
    return diag_fail(diag, ENOSPC, e->catalog->path,
                     "%s needs %llu bytes, and the disk has %llu left", what,
                     (unsigned long long)n_bytes, (unsigned long long)*free_bytes);
}

int pack_plan_bands(const struct tamis_edit *e, struct pack_source *sources, size_t n,
                    struct pack_plan *plan, struct tamis_diag *diag)
{
    int rc = bands_choose(sources, n, plan);
    if (rc == TAMIS_ERR_RANGE)
        return diag_fail(
            diag, rc, e->catalog->path,
            "%zu segments are too many for one pack, or of too many sizes: "
            "pack fewer at a time",
            n);
    return rc ? diag_errno(diag, rc, e->catalog->path, "packing") : 0;
}

/* Columns of segments that were lost meanwhile are dead from the start. */
static int make_tombstones(const struct tamis_edit *e, const struct pack_job *job,
                           const struct pack_place *place)
{
    uint32_t n = job->plan->n_columns;
    uint8_t *gone = calloc(1, columns_bytes(n));
    if (!gone)
        return ENOMEM;
    for (uint32_t i = 0; job->gone && i < n; i++)
        if (job->gone[i])
            columns_set(gone, job->sources[i].column, true);
    int rc = dead_create(e->dir.fd, place->uuid, place->digest, n, gone, false);
    free(gone);
    return rc;
}

int pack_make(struct tamis_edit *e, struct pack_job *job, bool dry_run,
              struct tamis_pack_report *r, struct pack_place *place,
              struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES];
    edit_new_file(place->uuid, file);
    job->uuid = place->uuid;
    job->store_uuid = e->catalog->meta.store_uuid;
    job->domain = e->catalog->domain;
    r->n_packed = job->plan->n_columns;
    r->n_bands = job->plan->n_bands;
    r->rows_bytes = job->plan->rows_bytes;
    int rc = pack_file_bytes(job, &r->file_bytes);
    if (rc)
        return diag_errno(diag, rc, e->catalog->path, "packing");
    rc = edit_room(e, "the pack", dry_run ? 0 : r->file_bytes, &r->free_bytes, diag);
    if (rc || dry_run) {
        pack_index_free(job);
        return rc;
    }
    rc = pack_write(job, e->dir.fd, file, &place->digest, &r->file_bytes, diag);
    if (rc)
        return edit_not_put(e, rc, file, diag);
    rc = make_tombstones(e, job, place);
    if (!rc)
        return 0;
    filter_file_unlink(e->dir.fd, place->uuid);
    return diag_errno(diag, rc, e->catalog->filters->path,
                      "writing the tombstones of a pack");
}

/* ---- a packer ---- */

struct tamis_packer {
    struct tamis_edit *edit;
    struct pack_hashes *hashes;
    struct pack_source *sources;
    struct pack_plan plan;
    size_t n, max; /* sources */
    uint64_t n_loose;
    int failed; /* the pack is given up, for good */
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

static int refuse_written(const struct tamis_packer *p, struct tamis_diag *diag)
{
    return diag_fail(diag, TAMIS_ERR_RANGE, p->edit->catalog->path,
                     "the packer's pack is written: make another packer");
}

/* May the builder's segment be put? */
static int check_take(struct tamis_packer *p, const struct tamis_builder *b,
                      struct tamis_diag *diag)
{
    const struct catalog *c = p->edit->catalog;
    const struct builder_facts f = builder_facts(b);
    struct tamis_segment_options none;
    char text[NAME_TEXT_BYTES];
    bool have;
    int rc = edit_put_begin(p->edit, f.name, f.name_bytes, &none, NULL, diag);
    if (rc)
        return rc;
    if (p->is_put)
        return refuse_written(p, diag);
    if (f.list_bits)
        return diag_fail(diag, TAMIS_ERR_UNFIT, c->path,
                         "a column that is made of keys has no list: put the segment, "
                         "then pack it");
    if (f.replaces)
        return diag_fail(diag, TAMIS_ERR_UNFIT, c->path,
                         "a packer replaces no segment: drop it first");
    rc = pack_hashes_have(p->hashes, (struct piece){f.name, f.name_bytes}, &have);
    if (rc)
        return diag_errno(diag, rc, c->path, "looking for a name among the hashes");
    if (have)
        return diag_fail(diag, TAMIS_ERR_EXISTS, c->path, "segment '%s' exists already",
                         name_text(text, f.name, f.name_bytes));
    return 0;
}

/* Sets the column's entry, but for the number of different keys. */
static void describe_column(struct tamis_builder *b, const struct identity *id,
                            const struct commit *c, struct facts *out)
{
    struct builder_facts f = builder_facts(b);
    struct record r = record_of_commit(c, id->target_error, id->created, f.rank);
    r.table_digest = 0; /* there is no file */
    uuid_random(r.uuid);
    edit_record_range(&r, f.range);
    column_of_record(&r, (struct piece){id->name, id->name_bytes}, out);
    memcpy(out->disk.set_id, builder_set_id(b), UUID_BYTES);
}

static int take_hashes(struct tamis_packer *p, struct tamis_builder *b,
                       const struct identity *id, const struct commit *c,
                       const uint64_t *hashes, size_t n, struct tamis_diag *diag)
{
    const char *store = p->edit->catalog->path;
    struct geometry g;
    struct facts col;
    struct pack_source *sources =
        room_for(p->sources, p->n + 1, &p->max, sizeof *sources);
    if (sources)
        p->sources = sources;
    describe_column(b, id, c, &col);
    int rc = sources ? plan_packed_geometry(n, id->target_error, &g) : ENOMEM;
    if (!rc)
        rc = pack_hashes_add(p->hashes, &col, g.lanes, hashes, n);
    if (!rc) /* its hashes are spooled: a pack without their source would be wrong */
        rc = p->failed =
            plan_packed_geometry(le64_get(col.disk.keys), id->target_error, &g);
    if (rc)
        return rc < 0 ? diag_fail(diag, rc, store, "too many keys for one filter")
                      : diag_errno(diag, rc, store, "keeping the hashes");
    p->sources[p->n++] = (struct pack_source){.geometry = g};
    return 0;
}

int tamis_packer_take(struct tamis_packer *p, struct tamis_builder *b,
                      struct tamis_diag *diag)
{
    struct identity id;
    struct commit c;
    size_t n;
    diag_clear(diag);
    if (!p || !b)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no packer, or no builder");
    int rc = check_take(p, b, diag);
    if (rc)
        return rc;
    rc = edit_check_built(p->edit, b, &id, &c, diag);
    if (rc)
        return rc;
    if (id.kind != KIND_BLOOM)
        return diag_fail(diag, TAMIS_ERR_UNFIT, p->edit->catalog->path,
                         "a column is a Bloom filter, and the builder makes a ribbon");
    const uint64_t *hashes = builder_hashes(b, &n);
    if (hashes)
        return take_hashes(p, b, &id, &c, hashes, n, diag);
    rc = tamis_edit_put(p->edit, b, NULL, diag);
    p->n_loose += !rc;
    return rc;
}

/* ---- the pack ---- */

/* After a failure the whole pack is given up, never one column. Nothing more is read,
 * for later reads may be good, and not fit the reads before. */
static int facts(void *ctx, uint32_t source, struct facts *out)
{
    struct tamis_packer *p = ctx;
    if (!p->failed)
        p->failed = pack_hashes_facts(p->hashes, source, out);
    return p->failed;
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

static int put_packed(struct tamis_packer *p, struct tamis_pack_report *report,
                      struct tamis_diag *diag)
{
    struct pack_place place = {.digest = 0};
    struct pack_job job = {.plan = &p->plan,
                           .sources = p->sources,
                           .facts = facts,
                           .blocks = blocks,
                           .ctx = p};
    struct edit_op *op;
    pack_hashes_rest(p->hashes);
    int rc = p->failed;
    if (!rc)
        rc = pack_plan_bands(p->edit, p->sources, p->n, &p->plan, diag);
    if (!rc)
        rc = pack_make(p->edit, &job, false, report, &place, diag);
    if (p->failed)
        return diag_errno(diag, p->failed, p->edit->catalog->path,
                          "reading the hashes of a pack again");
    if (rc)
        return rc;
    rc = edit_op_of_pack(p->edit, &place, p->plan.n_columns, NULL, &op, diag);
    if (!rc)
        rc = edit_append(p->edit, op, diag);
    if (rc)
        edit_unlink_pack(p->edit, &place);
    memcpy(report->uuid, place.uuid, UUID_BYTES);
    return rc;
}

int tamis_edit_put_packed(struct tamis_edit *edit, struct tamis_packer *p,
                          struct tamis_pack_report *report, struct tamis_diag *diag)
{
    struct tamis_pack_report unasked;
    report = report ? report : &unasked;
    *report = (struct tamis_pack_report){0};
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    if (!p || p->edit != edit)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                         "no packer of this edit");
    if (p->is_put)
        return refuse_written(p, diag);
    rc = p->n ? put_packed(p, report, diag) : 0;
    pack_plan_free(&p->plan);
    if (rc) {
        *report = (struct tamis_pack_report){0};
        return rc;
    }
    free(p->sources);
    p->sources = NULL;
    p->is_put = true;
    report->n_loose = p->n_loose;
    return 0;
}

/* ---- unpacking ---- */

struct unpacking {
    struct tamis_edit *edit;
    struct tamis_snapshot *snapshot;
    struct tamis_diag *diag;
    bool *wanted;   /* by segment */
    uint64_t needs; /* bytes; files may be much larger than columns */
};

/* Damage is blamed on the pack, all else on the file that is made. */
static int not_unpacked(const struct unpacking *u, int rc, const struct seat *seat,
                        struct piece segment, const char *file)
{
    char path[STORE_PATH_BYTES], text[NAME_TEXT_BYTES];
    bool is_damage = rc == TAMIS_ERR_DAMAGED;
    filters_dir_path(u->edit->catalog->filters, file, path);
    diag_fail(u->diag, rc, is_damage ? filter_path(seat_filter(seat)) : path,
              is_damage ? "unpacking segment '%s': %s"
                        : "cannot write the file of segment '%s': %s",
              name_text(text, segment.at, segment.n), tamis_strerror(rc));
    if (u->diag && rc > 0)
        u->diag->os_errno = rc;
    return rc;
}

/* The new filter has another UUID, for its bytes may differ from those that were
 * packed. */
static int unpack_segment(struct unpacking *u, size_t index)
{
    struct tamis_edit *e = u->edit;
    struct seat seat = segment_seat(u->snapshot, index);
    struct facts col;
    struct record like;
    struct identity id;
    struct commit commit;
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    const struct tamis_identity who = {.store_uuid = e->catalog->meta.store_uuid};
    int rc = segment_facts(u->snapshot, index, &col, u->diag);
    if (rc || !seat.band) /* a page may be readable again: the seat is from before */
        return rc ? rc : seat_lost(u->snapshot, &seat, u->diag);
    struct piece name = column_name(&col);
    edit_new_file(uuid, file);
    header_begin(KIND_BLOOM, &e->catalog->domain, &who, uuid, &id, &commit);
    rc = pack_unpack(seat_filter(&seat), seat.band, seat_column(&seat), &col, &id,
                     &commit, e->dir.fd, file);
    if (rc)
        return not_unpacked(u, rc, &seat, name, file);
    struct record r =
        record_of_commit(&commit, id.target_error, id.created, le32_get(col.disk.rank));
    record_of_column(&col, uuid, 0, &like);
    segment_list(u->snapshot, index, like.list_uuid, &like.list_digest);
    edit_record_like(&r, &like);
    struct edit_put how = {.keeps_list = true, .replaces = true, .only = true};
    how.as = loose_entry(u->snapshot, index); /* no update is undone */
    how.column = !how.as;
    memcpy(how.old, col.disk.uuid, UUID_BYTES);
    return edit_put_append(e, name.at, name.n, &r, &how, u->diag);
}

/* A segment that is in a usable pack, but cannot be described, is damaged. */
static int check_segment(struct unpacking *u, size_t index)
{
    char text[NAME_TEXT_BYTES];
    struct facts col;
    const struct tamis_snapshot *s = u->snapshot;
    if (index >= s->n)
        return diag_fail(u->diag, TAMIS_ERR_RANGE, u->edit->catalog->path,
                         "the snapshot has no segment %zu", index);
    struct seat seat = segment_seat(s, index);
    if (!seat.band && (seat.why == TAMIS_DAMAGED || seat.why == TAMIS_MISMATCH))
        return seat_lost(s, &seat, u->diag);
    if (!seat.band)
        return diag_fail(u->diag, TAMIS_ERR_NO_SEGMENT, u->edit->catalog->path,
                         "segment '%s' is in no usable pack",
                         segment_text(text, s, index));
    int rc = segment_facts(s, index, &col, u->diag);
    if (!rc)
        rc = edit_may_remake(u->edit, s, index, u->diag);
    if (!rc && !u->wanted[index])
        u->needs += pack_unpacked_bytes(seat.band, le64_get(col.disk.own_blocks));
    u->wanted[index] = true;
    return rc;
}

int tamis_edit_unpack(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                      const uint32_t *segments, size_t n, struct tamis_diag *diag)
{
    struct unpacking u = {.edit = edit, .snapshot = snapshot, .diag = diag};
    uint64_t free_bytes;
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    if (!snapshot || !snapshot->dir || (n && !segments) ||
        snapshot->ledger != edit->catalog->ledger)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                         "no snapshot of this store, or no segments");
    u.wanted = calloc(snapshot->n + 1, sizeof *u.wanted);
    if (!u.wanted)
        return diag_errno(diag, ENOMEM, edit->catalog->path, "unpacking");
    for (size_t i = 0; i < n && !rc; i++)
        rc = check_segment(&u, segments[i]);
    if (!rc)
        rc = edit_room(edit, "unpacking", u.needs, &free_bytes, diag);
    for (size_t i = 0; i < n && !rc; i++)
        if (u.wanted[segments[i]]) {
            u.wanted[segments[i]] = false; /* it may be listed twice */
            rc = unpack_segment(&u, segments[i]);
        }
    free(u.wanted);
    return rc;
}
