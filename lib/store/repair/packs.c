/* Repair: packs. With a catalog a pack is only looked at: for one bad page or column it
 * is not set aside, as the others answer on. Without one it needs its whole table: its
 * columns say which segments they are of, and its tombstones which of them are dropped.
 */
#include "lib/store/repair/inside.h"
#include "format/pack.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/filter/pack.h"
#include "lib/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- with a catalog ---- */

/* `error` 0: it is damage. */
static void note(struct repair_pack *p, int error, const char *before, const char *what)
{
    p->error = error;
    snprintf(p->what, sizeof p->what, "%s%s", before, what);
}

/* The tombstones of a good pack stay in *p. */
static int look_at_tombstones(struct repair *r, struct repair_pack *p,
                              const struct judgement *j, struct tamis_diag *diag)
{
    int rc = dead_load(r->filters.fd, p->place.uuid, p->place.digest, &p->dead,
                       &p->n_columns);
    if (rc == EMFILE || rc == ENFILE || rc == ENOMEM)
        return diag_errno(diag, rc, r->path, "opening tombstones");
    if (!rc && p->n_columns != j->h.commit.stages[PACK_ROWS].n_columns) {
        free(p->dead);
        p->dead = NULL;
        rc = TAMIS_ERR_DAMAGED;
    }
    if (rc > 0 && rc != ENOENT)
        note(p, rc, "its tombstones: left alone: ", tamis_strerror(rc));
    else if (rc)
        note(p, 0, "",
             "its tombstones are missing or damaged, so that no column counts");
    else
        note(p, 0, "", j->what);
    return 0;
}

static int look_at(struct repair *r, struct repair_pack *p, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    struct judgement j;
    filter_file_name(p->place.uuid, name);
    int rc = repair_judge(r, NULL, NULL, name, &j, diag);
    if (rc)
        return rc;
    if (j.state == FILE_UNREAD || j.state == FILE_STRANGE)
        note(p, j.code, "", j.what);
    else if (j.state != FILE_GOOD)
        note(p, 0, "", j.state == FILE_MISSING ? "its file is missing" : j.what);
    else if (j.h.identity.kind != KIND_PACK ||
             commit_table_digest(&j.h.commit) != p->place.digest)
        note(p, 0, "", "not the pack that the catalog means");
    else
        return look_at_tombstones(r, p, &j, diag);
    return 0;
}

/* The pack of a record, looked at if it is the first of this pack; NULL: *rc. */
static struct repair_pack *pack_of(struct repair *r, const struct record *record,
                                   int *rc, struct tamis_diag *diag)
{
    for (size_t i = 0; i < r->n_packs; i++)
        if (memcmp(&r->packs[i].place, &record->place, PLACE_KEY_BYTES) == 0)
            return &r->packs[i];
    struct repair_pack *more = realloc(r->packs, (r->n_packs + 1) * sizeof *more);
    if (!more) {
        *rc = diag_errno(diag, ENOMEM, r->path, "repairing");
        return NULL;
    }
    r->packs = more;
    struct repair_pack *p = &r->packs[r->n_packs++];
    *p = (struct repair_pack){.place = record->place};
    *rc = look_at(r, p, diag);
    return *rc ? NULL : p;
}

static bool is_dropped(const struct repair_pack *p, uint32_t column)
{
    return p->dead[DEAD_HEAD_BYTES + column / 8] >> column % 8 & 1;
}

bool repair_pack_has(const struct repair_pack *p, const struct record *record)
{
    uint32_t column = record->place.column;
    return p->dead && !p->what[0] && column < p->n_columns && !is_dropped(p, column);
}

int repair_look_at_pack(struct repair *r, const struct repair_segment *s,
                        const struct record *record, struct repair_pack **pack,
                        struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    int rc = 0;
    struct repair_pack *p = *pack = pack_of(r, record, &rc, diag);
    if (!p)
        return rc;
    p->n_segments++;
    if (!p->dead)
        return 0;
    filter_file_name(record->place.uuid, name);
    if (record->place.column >= p->n_columns)
        repair_tell(r, TAMIS_REPAIR_NOTED, s, name, "its pack has no such column");
    else if (is_dropped(p, record->place.column))
        repair_tell(r, TAMIS_REPAIR_NOTED, s, name,
                    "it was dropped from its pack: the catalog is older than that");
    return 0;
}

void repair_tell_packs(struct repair *r)
{
    char name[FILTER_NAME_BYTES];
    for (size_t i = 0; i < r->n_packs; i++) {
        filter_file_name(r->packs[i].place.uuid, name);
        if (r->packs[i].what[0])
            repair_tell_pack(r, name, &r->packs[i]);
    }
}

void repair_forget_packs(struct repair *r)
{
    for (size_t i = 0; i < r->n_packs; i++)
        free(r->packs[i].dead);
    free(r->packs);
}

/* ---- without ---- */

struct listing {
    struct repair *r;
    repair_column_fn *fn;
    void *ctx;
    const uint8_t *dead;
    struct pack_place place;
};

static int list_column(void *ctx, const struct column *col)
{
    struct listing *l = ctx;
    const struct column_disk *d = &col->disk;
    struct piece name = column_name(col), binding = column_binding(col);
    struct piece first = column_first(col), last = column_last(col);
    uint32_t i = le32_get(d->column);
    if (l->dead[DEAD_HEAD_BYTES + i / 8] >> i % 8 & 1)
        return 0;
    struct record record = {
        .state = RECORD_SEALED,
        .kind = KIND_BLOOM,
        .binding_bytes = (uint8_t)binding.n,
        .generation = le64_get(d->generation),
        .table_digest = le64_get(d->table_digest),
        .keys = le64_get(d->keys),
        .target_error = le64_get_f64(d->target_error),
        .watermark = le64_get(d->watermark),
        .min_stages = 1,
        .rank = le32_get(d->rank),
        .created = le64_get(d->created),
        .has_range = d->has_range,
        .first_bytes = (uint16_t)first.n,
        .last_bytes = (uint16_t)last.n,
        .place = l->place,
    };
    record.place.column = i;
    memcpy(record.uuid, d->uuid, UUID_BYTES);
    memcpy(record.binding, binding.at, binding.n);
    memcpy(record.first, first.at, first.n);
    memcpy(record.last, last.at, last.n);
    return l->fn(l->ctx, name.at, name.n, &record, d->set_id);
}

static int pass_column(void *ctx, const struct column *col)
{
    (void)ctx;
    (void)col;
    return 0;
}

int repair_list_columns(struct repair *r, const char *name, const struct header *h,
                        repair_column_fn *fn, void *ctx, struct tamis_diag *diag)
{
    struct tamis_filter *f = NULL;
    struct listing l = {.r = r,
                        .fn = fn,
                        .ctx = ctx,
                        .place = {.digest = commit_table_digest(&h->commit)}};
    uint8_t *dead = NULL;
    uint32_t n = 0;
    int fd, rc = io_open_beneath(r->filters.fd, name, O_RDONLY, &fd);
    memcpy(l.place.uuid, h->identity.uuid, UUID_BYTES);
    if (!rc) {
        rc = filter_open_fd(fd, name, NULL, NULL, &f, diag);
        close(fd);
    }
    if (!rc)
        rc = dead_load(r->filters.fd, l.place.uuid, l.place.digest, &dead, &n);
    if (!rc && n != h->commit.stages[PACK_ROWS].n_columns)
        rc = TAMIS_ERR_DAMAGED;
    l.dead = dead;
    if (!rc) /* all of the table is good before any of it counts */
        rc = pack_each_column(f, pass_column, NULL);
    if (!rc)
        rc = pack_each_column(f, list_column, &l);
    tamis_filter_close(f);
    free(dead);
    return rc;
}
