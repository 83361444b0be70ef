/* tamis_edit_pack(): sealed segments of a snapshot, written as columns of one pack.
 * Segments that may not be packed are left as they are, and counted.
 * tamis_edit_unpack(): columns of packs, written as files of their own. */
#include "lib/store/edit/inside.h"
#include "format/pack.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

int edit_room(const struct tamis_edit *e, const char *what, uint64_t n_bytes,
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
                input_left(p, p->segments[i], TAMIS_LEFT_LARGER);
        if (n_left)
            inputs_leave(p, leave);
        free(leave);
    }
    return rc;
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

static int write_pack_files(struct tamis_edit *e, struct pack_job *job,
                            struct pack_place *place, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    uint64_t n_bytes;
    filter_file_name(place->uuid, name);
    int rc = pack_write(job, e->dir.fd, name, &place->digest, &n_bytes, diag);
    if (rc)
        return edit_not_put(e, rc, name, diag);
    rc = make_tombstones(e, job, place);
    if (!rc)
        return 0;
    filter_file_unlink(e->dir.fd, place->uuid);
    return diag_errno(diag, rc, e->catalog->filters->path,
                      "writing the tombstones of a pack");
}

int pack_make(struct tamis_edit *e, struct pack_job *job, bool dry_run,
              struct tamis_pack_report *r, struct pack_place *place,
              struct tamis_diag *diag)
{
    uuid_random(place->uuid);
    job->uuid = place->uuid;
    job->store_uuid = e->catalog->meta.store_uuid;
    job->domain = e->catalog->domain;
    r->n_packed = job->plan->n_columns;
    r->n_bands = job->plan->n_bands;
    r->rows_bytes = job->plan->rows_bytes;
    r->file_bytes = pack_file_bytes(job);
    if (!r->file_bytes)
        return diag_errno(diag, ENOMEM, e->catalog->path, "packing");
    int rc =
        edit_room(e, "the pack", dry_run ? 0 : r->file_bytes, &r->free_bytes, diag);
    if (!rc && !dry_run)
        return write_pack_files(e, job, place, diag);
    pack_index_free(job);
    return rc;
}

/* ---- the operation ---- */

int edit_op_of_pack(const struct tamis_edit *e, const struct pack_place *place,
                    uint32_t n_columns, struct tamis_snapshot *s, struct edit_op **out)
{
    size_t n = s ? n_columns : 0;
    struct edit_op *op = *out = calloc(1, sizeof *op);
    struct edit_pack *pack =
        op ? calloc(1, sizeof *pack + n * sizeof pack->segments[0]) : NULL;
    int rc = pack ? 0 : ENOMEM;
    if (!rc && !s)
        rc = open_pack_get(e->catalog, place->uuid, place->digest, n_columns, false,
                           &pack->open);
    if (rc) {
        free(pack);
        free(op);
        return rc;
    }
    *op = (struct edit_op){.kind = EDIT_PACK, .has_file = true, .placed = pack};
    memcpy(op->uuid, place->uuid, UUID_BYTES);
    pack->place = *place;
    pack->n_columns = n_columns;
    pack->snapshot = s ? snapshot_hold(s) : NULL;
    return 0;
}

/* Then the inputs are not needed any more. */
static int append_packed(struct packing *p, const struct pack_place *place,
                         struct tamis_diag *diag)
{
    struct edit_op *op;
    int rc = edit_op_of_pack(p->edit, place, p->plan.n_columns, p->snapshot, &op);
    if (rc)
        return diag_errno(diag, rc, p->edit->catalog->path, "noting the pack");
    for (size_t i = 0; i < p->n; i++)
        if (!p->gone[i])
            op->placed->segments[p->sources[i].column] = p->segments[i] + 1;
    return edit_append(p->edit, op, diag);
}

/* Segments with columns that are nobody's are left. */
static void count_packed(struct packing *p)
{
    p->report->n_packed = 0;
    for (size_t i = 0; i < p->n; i++) {
        p->report->n_packed += !p->gone[i];
        p->report->n_repacked += !p->gone[i] && !input_is_file(p, i);
        if (p->gone[i])
            input_lost(p, p->segments[i]);
    }
}

static int pack_taken(struct packing *p, struct tamis_diag *diag)
{
    struct pack_place place = {.digest = 0};
    bool dry_run = p->opt.dry_run;
    int rc = plan_taken(p, diag);
    if (rc || !p->n)
        return rc;
    struct pack_job job = {.plan = &p->plan,
                           .sources = p->sources,
                           .facts = input_facts,
                           .blocks = input_blocks,
                           .ctx = p,
                           .gone = p->gone,
                           .threads = inputs_stay_open(p) ? p->threads : NULL};
    rc = pack_make(p->edit, &job, dry_run, p->report, &place, diag);
    if (rc)
        return rc;
    for (size_t i = 0; dry_run && i < p->n; i++)
        p->gone[i] = input_is_damaged(p, i);
    count_packed(p);
    if (dry_run)
        return 0;
    if (p->unread)
        rc = diag_fail(diag, TAMIS_ERR_DAMAGED, p->edit->catalog->filters->path,
                       "a table of columns has become unreadable while it was packed");
    else if (p->report->n_packed) /* else all were lost meanwhile */
        rc = append_packed(p, &place, diag);
    if (!rc && p->report->n_packed)
        memcpy(p->report->uuid, place.uuid, UUID_BYTES);
    else /* edit_append() has freed the operation, not its files */
        pack_files_unlink(p->edit->dir.fd, place.uuid);
    return rc;
}

/* ---- what is worth packing now ---- */

/* What is packed now: what is loose, packs that are half dead, and packs of
 * about the size of the new one.
 *
 * A pack's weight is the keys of its segments; tiers are powers of FAN_OUT. While there
 * are FAN_OUT - 1 packs of the new one's tier or below, they become part of it. So a
 * segment is rewritten once a tier, there are at most FAN_OUT - 1 packs a tier, and no
 * pack has more dead columns than living ones for long. It is size-tiered compaction,
 * as of LSM-trees (O'Neil et al. 1996). */
enum { FAN_OUT = 5, TIERS = 32 }; /* 5^32: the keys that 64 bits count */

/* A pack as it is now. */
struct weighed {
    uint64_t keys; /* of living segments */
    uint32_t n_living, n_columns;
    bool taken;
};

static unsigned tier_of(uint64_t keys)
{
    unsigned tier = 0;
    for (; keys >= FAN_OUT; keys /= FAN_OUT)
        tier++;
    return tier;
}

/* What the pack's header says of all its columns, for those that are left. */
static void weigh(const struct tamis_snapshot *s, struct weighed *w)
{
    for (size_t i = 0; i < s->packs.n; i++) {
        const struct pack_view *v = &s->packs.views[i];
        struct tamis_filter_info info;
        if (!v->dead || tamis_filter_info(v->pack->filter, &info) != 0)
            continue;
        w[i].n_columns = v->n_columns;
        w[i].n_living = v->n_listed + v->n_named;
        w[i].keys = info.keys / v->n_columns * w[i].n_living +
                    info.keys % v->n_columns * w[i].n_living / v->n_columns;
    }
}

/* Takes every pack of the tier or below; returns their keys. */
static uint64_t take_packs(struct weighed *w, size_t n, unsigned tier)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].taken && w[i].n_living && tier_of(w[i].keys) <= tier) {
            w[i].taken = true;
            keys += w[i].keys;
        }
    return keys;
}

static size_t count_packs(const struct weighed *w, size_t n, unsigned tier)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += !w[i].taken && w[i].n_living && tier_of(w[i].keys) <= tier;
    return sum;
}

/* A tier of FAN_OUT packs or more, or TIERS: packs that were made from keys, and packs
 * whose segments were dropped until their tier is a lower one. */
static unsigned crowded_tier(const struct weighed *w, size_t n)
{
    size_t count[TIERS] = {0};
    unsigned tier = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].taken && w[i].n_living)
            count[tier_of(w[i].keys)]++;
    while (tier < TIERS && count[tier] < FAN_OUT)
        tier++;
    return tier;
}

/* Segments that stay loose have no weight: they would call for a merge each time. */
static void choose_packs(const struct packing *loose, struct weighed *w)
{
    const struct tamis_snapshot *s = loose->snapshot;
    size_t n = s->packs.n;
    uint64_t keys = 0;
    bool any = loose->n > 0;
    for (size_t i = 0; i < loose->n; i++)
        keys += le64_get(entry_record(s->entries[loose->segments[i]])->keys);
    for (size_t i = 0; i < n; i++)
        if (w[i].n_living && w[i].n_living <= w[i].n_columns / 2) {
            w[i].taken = any = true;
            keys += w[i].keys;
        }
    for (;;) {
        bool joins = any && count_packs(w, n, tier_of(keys)) >= FAN_OUT - 1;
        unsigned tier = joins ? tier_of(keys) : crowded_tier(w, n);
        if (tier == TIERS)
            return;
        keys += take_packs(w, n, tier);
        any = true;
    }
}

/* Those of a band that stay where they are. */
static void leave_stripe(struct packing *p, const struct stripe *t)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->n_words; i++) {
        if (!n && t->living[i])
            input_left(p, t->first + 64 * i + (size_t)__builtin_ctzll(t->living[i]),
                       TAMIS_LEFT_PACKED);
        n += (uint64_t)__builtin_popcountll(t->living[i]);
    }
    p->report->n_left[TAMIS_LEFT_PACKED] += n ? n - 1 : 0;
}

/* The columns of the packs that are chosen; no other one is looked at. */
static int take_columns(struct packing *p, const struct weighed *w,
                        struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    size_t n = 0, most = 1;
    for (size_t i = 0; i < s->packs.n; i++)
        most += w[i].taken ? w[i].n_living : 0;
    uint32_t *columns = malloc(most * sizeof *columns);
    if (!columns)
        return diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t i = 0; i < s->n_loose; i++) {
        struct seat seat = packs_seat(s, i);
        if (seat.band && w[seat.view - s->packs.views].taken)
            columns[n++] = (uint32_t)i;
        else if (seat.band)
            input_left(p, i, TAMIS_LEFT_PACKED);
    }
    for (size_t i = 0; i < s->packs.n_stripes; i++) {
        const struct stripe *t = &s->packs.stripes[i];
        if (!w[t->view - s->packs.views].taken)
            leave_stripe(p, t);
        for (uint32_t c = 0; w[t->view - s->packs.views].taken && c < t->n_words * 64;
             c++)
            if (t->living[c / 64] >> c % 64 & 1)
                columns[n++] = (uint32_t)(t->first + c);
    }
    int rc = inputs_consider(p, columns, n, diag);
    free(columns);
    return rc;
}

/* Takes what is loose, without what stays so, and chooses packs to go with it. It costs
 * nothing for a column that stays, so that it may follow each edit. */
static int pack_auto(struct packing *p, struct tamis_diag *diag)
{
    const struct tamis_snapshot *s = p->snapshot;
    size_t n = 0, n_looked_at = s->packs.n_mute ? s->n : s->n_loose;
    uint32_t *loose = malloc((n_looked_at + 1) * sizeof *loose);
    struct weighed *w = calloc(s->packs.n + 1, sizeof *w);
    int rc =
        loose && w ? 0 : diag_errno(diag, ENOMEM, p->edit->catalog->path, "packing");
    for (size_t i = 0; !rc && i < n_looked_at; i++)
        if (i < s->n_loose ? !packs_seat(s, i).band
                           : packs_have(s, i) && !packs_seat(s, i).band)
            loose[n++] = (uint32_t)i;
    if (!rc)
        rc = inputs_consider(p, loose, n, diag);
    if (!rc)
        rc = plan_taken(p, diag);
    if (!rc) {
        weigh(s, w);
        choose_packs(p, w);
        rc = take_columns(p, w, diag);
    }
    free(loose);
    free(w);
    return rc;
}

/* ---- the call ---- */

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
    if (!rc)
        rc = p.opt.repack == TAMIS_REPACK_AUTO ? pack_auto(&p, diag)
                                               : inputs_consider(&p, segments, n, diag);
    if (!rc && p.n)
        rc = pack_taken(&p, diag);
    inputs_free(&p);
    if (rc)
        *p.report = (struct tamis_pack_report){0};
    return rc;
}

/* ---- unpacking ---- */

/* The new filter has another UUID, for its bytes may differ from those that were
 * packed. */
struct unpacking {
    struct tamis_edit *edit;
    struct tamis_snapshot *snapshot;
    struct tamis_diag *diag;
    bool *wanted;   /* by segment */
    uint64_t needs; /* bytes; files may be much larger than columns */
};

/* A segment, its column, and the record that it gets. */
struct taken {
    size_t index;
    struct seat seat;
    struct column column;
    struct record record;
};

/* Damage is the pack's. All else is the fault of the file that is made. */
static int not_unpacked(const struct unpacking *u, int rc, const struct taken *t,
                        const char *name)
{
    char path[STORE_PATH_BYTES], text[NAME_TEXT_BYTES];
    bool is_damage = rc == TAMIS_ERR_DAMAGED;
    filters_dir_path(u->edit->catalog->filters, name, path);
    name_text(text, column_name(&t->column).at, column_name(&t->column).n);
    diag_fail(u->diag, rc, is_damage ? filter_path(t->seat.view->pack->filter) : path,
              is_damage ? "unpacking segment '%s': %s"
                        : "cannot write the file of segment '%s': %s",
              text, tamis_strerror(rc));
    if (u->diag && rc > 0)
        u->diag->os_errno = rc;
    return rc;
}

static int write_filter(struct unpacking *u, struct taken *t)
{
    const struct band *band = t->seat.band;
    const struct column *col = &t->column;
    struct piece first = column_first(col), last = column_last(col);
    struct record *r = &t->record;
    const struct catalog *c = u->edit->catalog;
    char name[FILTER_NAME_BYTES];
    struct identity id = {
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .hash_id = (uint16_t)c->domain.hash_id,
        .hash_seed = c->domain.seed,
        .created = io_calls.now(),
    };
    struct commit commit;
    uuid_random(id.uuid);
    memcpy(id.store_uuid, c->meta.store_uuid, UUID_BYTES);
    filter_file_name(id.uuid, name);
    int rc = pack_unpack(t->seat.view->pack->filter, band,
                         t->seat.column - band->first_column, col, &id, &commit,
                         u->edit->dir.fd, name);
    if (rc)
        return not_unpacked(u, rc, t, name);
    *r = record_of_commit(&commit, id.target_error, id.created,
                          le32_get(col->disk.rank));
    r->has_range = col->disk.has_range;
    r->first_bytes = (uint16_t)first.n;
    r->last_bytes = (uint16_t)last.n;
    memcpy(r->first, first.at, first.n);
    memcpy(r->last, last.at, last.n);
    segment_list(u->snapshot, t->index, r->list_uuid, &r->list_digest);
    return 0;
}

static int unpack_segment(struct unpacking *u, size_t index)
{
    struct taken t = {.index = index, .seat = packs_seat(u->snapshot, index)};
    int rc = segment_facts(u->snapshot, index, &t.column, u->diag);
    if (!rc)
        rc = write_filter(u, &t);
    if (rc)
        return rc;
    struct piece name = column_name(&t.column);
    rc = tamis_edit_drop_filter(u->edit, name.at, name.n, t.column.disk.uuid, u->diag);
    if (rc) {
        filter_file_unlink(u->edit->dir.fd, t.record.uuid);
        return rc;
    }
    return edit_put_append(u->edit, name.at, name.n, &t.record, PUT_KEEPS_LIST,
                           u->diag);
}

/* A segment that is in a usable pack, but cannot be described, is damaged. */
static int check_segment(struct unpacking *u, size_t index)
{
    char text[NAME_TEXT_BYTES];
    struct column col;
    struct tamis_segment_info info;
    const struct tamis_snapshot *s = u->snapshot;
    if (index >= s->n)
        return diag_fail(u->diag, TAMIS_ERR_RANGE, u->edit->catalog->path,
                         "the snapshot has no segment %zu", index);
    struct seat seat = packs_seat(s, index);
    if (!seat.band && (seat.why == TAMIS_DAMAGED || seat.why == TAMIS_MISMATCH))
        return packs_lost(s, &seat, u->diag);
    tamis_snapshot_segment(s, index, &info);
    if (!seat.band)
        return diag_fail(u->diag, TAMIS_ERR_NO_SEGMENT, u->edit->catalog->path,
                         "segment '%s' is in no usable pack",
                         name_text(text, info.name, info.name_bytes));
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
