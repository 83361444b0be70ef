/* The list is confirmed: the tombstones of packs are made anew, and what is lost goes,
 * if the caller insists. */
#include "format/pack.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/filter/pack.h"
#include "lib/store/repair/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct unlisting {
    struct repair *repair;
    struct listings *list;
    bool force;
    bool unsure;                /* a record may name any column */
    const struct listed *waits; /* does not agree, but its files are good */
};

static int find_astray(void *ctx, const void *name, size_t name_bytes,
                       const uint8_t *value, size_t value_bytes)
{
    const struct unlisting *u = ctx;
    struct repair_segment *s;
    struct record r;
    unsigned n;
    const struct part_disk *part =
        record_parts(value, value_bytes, name, name_bytes, &n);
    for (; n > 0; n--, part++) {
        struct pack_place at = part_place(part);
        if (part->kind != PART_COLUMN || !listings_lack(u->list, &at))
            continue;
        if (record_decode(value, value_bytes, name, name_bytes, &r).code || r.ro_compat)
            return TAMIS_ERR_VERSION;
        return repair_add_segment(u->repair, name, name_bytes, value, value_bytes, &s);
    }
    return 0;
}

/* Segments whose records name columns of no pack on the list stay there, without a
 * filter. */
static int drop_astray(struct unlisting *u, struct tamis_diag *diag)
{
    struct repair *r = u->repair;
    struct catalog_txn *t = u->list->txn;
    struct record record;
    int rc = catalog_each(t, find_astray, u, diag);
    if (rc == TAMIS_ERR_VERSION)
        diag_fail(diag, rc, t->catalog->path,
                  "a record of a newer tamis names a column of no pack on the list: "
                  "confirm with that");
    for (size_t i = 0; i < r->n_segments && !rc; i++) {
        struct repair_segment *s = &r->segments[i];
        record_decode(s->before, s->before_bytes, s->name, s->name_bytes, &record);
        repair_drop_filter(s, &record);
        rc = catalog_replace(t, s->name, s->name_bytes, s->value, s->value_bytes, diag);
    }
    repair_forget_segments(r);
    return rc;
}

/* What the list does not have is dead, for the caller vouches for it. */
static int remake_tombstones(struct listings *l, struct listed *p, bool unsure,
                             struct tamis_diag *diag)
{
    uint8_t *bits;
    const struct catalog *c = l->txn->catalog;
    if (unsure)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, c->path,
                         "the tombstones of a pack are lost, and a record is damaged "
                         "or of a newer tamis: repair the store first");
    int rc = listed_unused(l, p, &bits, diag);
    if (rc)
        return rc;
    rc = dead_create(c->filters->fd, p->uuid, p->now.table_digest, p->now.n_columns,
                     bits, true);
    if (!rc)
        rc = io_sync_dir(c->filters->fd);
    free(bits);
    return rc ? diag_errno(diag, rc, c->filters->path,
                           "writing the tombstones of a pack")
              : 0;
}

/* What the file of a pack says of it, if no pack record does. */
static int ask_file(const struct catalog *c, const char *file, uint64_t *digest,
                    uint32_t *n_columns)
{
    struct header h;
    int fd, rc = io_open_beneath(c->filters->fd, file, O_RDONLY, &fd);
    if (rc)
        return rc;
    rc = header_load(fd, true, 0, 0, file, &h, NULL);
    close(fd);
    if (!rc) {
        *digest = commit_table_digest(&h.commit);
        *n_columns = h.commit.stages[PACK_ROWS].n_columns;
    }
    return rc;
}

static int confirm_pack(struct unlisting *u, struct listed *p, struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES];
    struct open_pack *open = NULL;
    uint8_t *dead = NULL;
    uint64_t digest = p->now.table_digest;
    uint32_t n = p->now.n_columns;
    struct catalog *c = u->list->txn->catalog;
    filter_file_name(p->uuid, file);
    int rc = n ? 0 : ask_file(c, file, &digest, &n);
    if (!rc)
        rc = open_pack_get(c, p->uuid, digest, n, true, &open);
    bool lost = rc != 0;
    open_pack_release(open);
    if (!rc)
        rc = dead_load(c->filters->fd, p->uuid, digest, &dead, &n);
    free(dead);
    if (rc > 0 && rc != ENOENT && !io_not_regular(rc))
        return diag_errno(diag, rc, c->path,
                          lost ? "opening a pack" : "opening tombstones");
    if (rc == TAMIS_ERR_VERSION)
        return diag_fail(diag, rc, c->path,
                         "a newer tamis wrote pack %s, or its tombstones: confirm with "
                         "that",
                         file);
    if (!rc && !p->agrees)
        u->waits = p;
    if (!rc)
        return 0;
    lost |= !p->agrees; /* without tombstones nobody knows which columns are alive */
    if (!p->agrees && !u->force)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, c->path,
                         "the list of pack %s is damaged: so are its files: only force "
                         "takes it off the list",
                         file);
    repair_tell(u->repair, TAMIS_REPAIR_NOTED, NULL, file,
                !lost ? "its tombstones were lost: made anew from the list"
                : u->force
                    ? "the pack is lost, and its segments with it: it is listed no more"
                    : "the pack is lost: its segments are listed, and nobody can "
                      "tell their names");
    if (!lost)
        return remake_tombstones(u->list, p, u->unsure, diag);
    /* Nobody can tell which names go with it. */
    return u->force ? listings_put(u->list, p->uuid, 0, 0, NULL, diag) : 0;
}

int repair_confirm_packs(struct repair *r, struct listings *l, bool force,
                         size_t *n_lost, struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES];
    size_t n = l->n;
    int rc = listings_note_named(l, diag);
    struct unlisting u = {r, l, force, l->n_unread || l->unknown, NULL};
    if (!rc && (l->strange || (l->astray && !force)))
        rc = diag_fail(diag, TAMIS_ERR_MISMATCH, l->txn->catalog->path,
                       "the list of packs is damaged, or lacks one that records name: "
                       "repair the store first");
    for (size_t i = n; i-- > 0 && !rc;) /* one that goes is replaced by the last */
        rc = confirm_pack(&u, &l->all[i], diag);
    *n_lost = n - l->n + l->astray;
    /* What goes may have kept repair from it. */
    if (!rc && u.waits && !*n_lost) {
        filter_file_name(u.waits->uuid, file);
        return diag_fail(diag, TAMIS_ERR_MISMATCH, l->txn->catalog->path,
                         "the list of pack %s is damaged: repair the store first, or "
                         "confirm with force, if repair leaves it alone",
                         file);
    }
    if (!rc && *n_lost)
        rc = drop_astray(&u, diag);
    return rc ? rc : listings_write(l, diag);
}

void repair_each_column(struct listings *l,
                        void (*each)(void *ctx, const struct column *col), void *ctx)
{
    struct column col;
    bool has;
    for (size_t i = 0; i < l->n; i++) {
        struct listed *p = &l->all[i];
        uint32_t n = listed_open(l, p) == 0 ? p->now.n_columns : 0;
        for (uint32_t c = 0; c < n; c++)
            if (listed_has(l, p, c, &has, NULL) == 0 && has &&
                pack_describe(p->open->filter, c, true, &col) == 0)
                each(ctx, &col);
    }
}
