/* Which columns are alive: packs published, and columns that are dropped (SPEC.md
 * §17.4, R18). */
#include "lib/store/edit/inside.h"

int buffer_add(struct buffer *b, const void *bytes, size_t n)
{
    uint8_t *more = room_for(b->bytes, b->n + n, &b->max, 1);
    if (!more)
        return ENOMEM;
    b->bytes = more;
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return 0;
}

/* ---- tombstones ---- */

void edit_note_stays(struct tamis_diag *diag, int rc, const char *file,
                     const char *doing)
{
    if (!diag || diag->what[0])
        return;
    if (rc)
        diag_errno(diag, rc, file, doing);
    else
        diag_fail(diag, 0, file, "%s", doing);
    diag->code = 0; /* the edit is done */
}

/* An errno: it cannot be told now whether the pack's columns can get tombstones. */
static int pack_stays(struct listings *l, struct listed *p, bool *stays)
{
    int rc = p->failure ? p->failure : listed_buries(l, p);
    *stays |= rc != 0;
    return rc > 0 && rc != ENOENT ? diag_errno(l->txn->diag, rc, l->txn->catalog->path,
                                               "opening tombstones")
                                  : 0;
}

int placed_stays(struct listings *l, struct piece name, const struct found *f,
                 bool *stays)
{
    unsigned n;
    int rc = 0;
    *stays = false;
    if (!f->value.at)
        return pack_stays(l, f->pack, stays);
    const struct part_disk *part =
        record_parts(f->value.at, f->value.n, name.at, name.n, &n);
    for (size_t i = 0; !part && i < l->n && !rc; i++)
        if (l->all[i].failure || l->all[i].now.n_overridden)
            rc = pack_stays(l, &l->all[i], stays);
    for (; n > 0 && !rc; n--, part++) {
        struct pack_place at = part_place(part);
        if (part->kind != PART_COLUMN)
            continue;
        if (listings_lack(l, &at))
            *stays = true;
        else
            rc = pack_stays(l, listings_find(l, at.uuid), stays);
    }
    return rc;
}

struct burial {
    int dir;
    const struct listings *list;
    bool done;
};

/* A part of an unknown kind keeps its file, and so does a record that is refused. */
static int names_pack(void *ctx, struct piece name, struct piece value)
{
    unsigned n;
    const struct part_disk *part = record_parts(value.at, value.n, name.at, name.n, &n);
    bool refused = !part;
    while (n > 0 && memcmp(part->uuid, ctx, UUID_BYTES) != 0)
        n--, part++;
    return n || refused ? EEXIST : 0;
}

static int bury(struct catalog_txn *t, void *ctx)
{
    struct burial *b = ctx;
    b->done = true;
    for (size_t i = 0; i < b->list->n; i++) {
        struct listed *p = &b->list->all[i];
        if (!p->changed)
            continue;
        if (listed_is_gone(p)) {
            int rc = catalog_each(t, names_pack, p->uuid);
            b->done &= !rc || rc == EEXIST;
            if (rc)
                continue;
            b->done &= pack_files_unlink(b->dir, p->uuid) == 0;
        } else if (p->freed)
            b->done &= dead_bury(b->dir, p->uuid, p->now.table_digest, p->freed,
                                 p->now.n_columns) == 0;
    }
    b->done &= io_sync_dir(b->dir) == 0;
    return 0;
}

bool placed_settle(struct tamis_edit *e, struct listings *l, struct tamis_diag *diag)
{
    struct burial b = {e->dir.fd, l, false};
    bool any = false;
    uint64_t last = l->number;
    for (size_t i = 0; i < l->n; i++) {
        bool gone = l->all[i].changed && listed_is_gone(&l->all[i]);
        any |= gone || (l->all[i].changed && l->all[i].freed);
        last = gone ? 0 : last; /* records will be read */
    }
    open_packs_forget(e->catalog, l);
    if (!any || (catalog_write(e->catalog, &e->wait, last, bury, &b, NULL, NULL) == 0 &&
                 b.done))
        return true;
    edit_note_stays(diag, 0, e->catalog->filters->path,
                    "the tombstones of dropped segments cannot be written");
    return false;
}

/* Until tombstones are made anew (tamis_store_confirm()) the next sweep could do no
 * more. */
static bool bury_unused_in(struct listings *l, struct listed *p, int dir, bool *any)
{
    uint8_t *bits;
    int rc = listed_unused(l, p, &bits);
    if (rc)
        return rc < 0;
    if (!all_zero(bits, columns_bytes(p->now.n_columns))) {
        *any = true;
        rc = dead_bury(dir, p->uuid, p->now.table_digest, bits, p->now.n_columns);
    }
    free(bits);
    return rc <= 0 || rc == ENOENT;
}

bool bury_unused(struct listings *l, int dir)
{
    bool done = true, any = false;
    for (size_t i = 0; i < l->n; i++)
        done &= bury_unused_in(l, &l->all[i], dir, &any);
    return (!any || io_sync_dir(dir) == 0) && done;
}

/* ---- an operation whose names its file has ---- */

static int not_read(const struct catalog *c, int rc, struct tamis_diag *diag)
{
    return rc > 0 ? diag_errno(diag, rc, c->path, "opening the new pack")
                  : diag_fail(diag, rc, c->path, "the new pack cannot be read");
}

int edit_op_of_pack(const struct tamis_edit *e, const struct pack_place *place,
                    uint32_t n_columns, struct tamis_snapshot *s, struct edit_op **out,
                    struct tamis_diag *diag)
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
        return not_read(e->catalog, rc, diag);
    }
    *op = (struct edit_op){.kind = EDIT_PACK, .has_file = true, .placed = pack};
    memcpy(op->uuid, place->uuid, UUID_BYTES);
    pack->place = *place;
    pack->n_columns = n_columns;
    pack->snapshot = s ? snapshot_hold(s) : NULL;
    return 0;
}

void placed_free(struct edit_pack *p)
{
    if (p) {
        open_pack_release(p->open);
        tamis_snapshot_release(p->snapshot);
    }
    free(p);
}

bool op_puts_placed(const struct edit_op *op)
{
    return op->placed && op->placed->open;
}

/* ---- names, while the edit is applied ---- */

int apply_look_up(struct listings *l, const struct names *own, struct piece name,
                  struct found *f)
{
    return names_get(own, name.at, name.n) == OWN_DROPPED ? TAMIS_ERR_NO_SEGMENT
                                                          : listings_lookup(l, name, f);
}

int apply_expect_none(struct listings *l, const struct names *own, struct piece name)
{
    char text[NAME_TEXT_BYTES];
    struct found f;
    int rc = apply_look_up(l, own, name, &f);
    if (!rc)
        return diag_fail(l->txn->diag, TAMIS_ERR_EXISTS, l->txn->catalog->path,
                         "segment '%s' exists already",
                         name_text(text, name.at, name.n));
    if (rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    diag_clear(l->txn->diag);
    return 0;
}

/* ---- a pack published ---- */

struct placing {
    struct listings *list;
    const struct edit_pack *pack;
    struct names *own;
    struct listed *to; /* the new pack */
    uint32_t column;
    struct buffer *files;
};

/* The name that the new pack has for the column. */
static int name_in(const struct placing *p, uint8_t room[NAME_MAX_BYTES],
                   struct piece *name)
{
    struct facts col;
    int rc = pack_describe(p->to->open->filter, p->column, false, &col);
    if (rc)
        return not_read(p->list->txn->catalog, rc, p->list->txn->diag);
    *name = (struct piece){room, col.disk.name_bytes};
    memcpy(room, column_name(&col).at, name->n);
    return 0;
}

/* The segment's old filter is not its own any more: a column, or a file. */
static int leave_old(struct placing *p, struct piece name, const struct record *r)
{
    if (record_packed(r))
        return listings_unname(p->list, name, &r->place);
    int rc = buffer_add(p->files, r->uuid, UUID_BYTES);
    return rc ? diag_errno(p->list->txn->diag, rc, p->list->txn->catalog->path,
                           "packing")
              : 0;
}

/* The record goes on, and names the new column. */
static int name_new(struct placing *p, struct piece name, struct record *r)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    int rc = leave_old(p, name, r);
    if (rc)
        return rc;
    r->compat = 0; /* SPEC.md §5.2 */
    r->place = p->pack->place;
    r->place.column = p->column;
    size_t n = record_encode(r, name.at, name.n, bytes);
    rc = catalog_replace(p->list->txn, name, (struct piece){bytes, n});
    return rc ? rc : listed_name(p->list, p->to, name, p->column, true);
}

/* The segment has a record, which may have changed. If the record still names the old
 * column, it gets the new one, and keeps its other fields. e: the record that was
 * packed; NULL: it was listed. */
static int place_record(struct placing *p, struct piece name, const struct entry *e,
                        const struct pack_place *old)
{
    struct piece value;
    struct record r;
    int rc = catalog_get(p->list->txn, name, &value);
    if (rc == TAMIS_ERR_NO_SEGMENT) {
        diag_clear(p->list->txn->diag);
        return 0;
    }
    if (rc || record_decode(value.at, value.n, name.at, name.n, &r).code != VERDICT_OK)
        return rc;
    bool same = e && entry_is(e, value);
    if (same && !record_listed(&r)) {
        rc = leave_old(p, name, &r);
        if (!rc)
            rc = catalog_delete(p->list->txn, name);
        return rc ? rc : listed_set(p->list, p->to, p->column, true);
    }
    bool follows = record_packed(&r) && r.place.column == old->column && !r.ro_compat &&
                   memcmp(r.place.uuid, old->uuid, UUID_BYTES) == 0;
    return same || follows ? name_new(p, name, &r) : 0;
}

static int place_segment(struct placing *p, const struct tamis_snapshot *s, size_t i)
{
    const struct entry *e = loose_entry(s, i);
    struct seat from = segment_seat(s, i);
    struct pack_place old = {.digest = 0};
    uint8_t room[NAME_MAX_BYTES];
    struct piece name;
    bool has = false;
    if (e) {
        old = e->elsewhere ? entry_place(e) : old;
        return place_record(p, (struct piece){e->bytes, e->name_bytes}, e, &old);
    }
    old = seat_place(&from);
    struct listed *pack = listings_find(p->list, old.uuid);
    int rc = pack ? listed_has(p->list, pack, old.column, &has) : 0;
    if (!rc && has) {
        rc = listed_set(p->list, pack, old.column, false);
        return rc ? rc : listed_set(p->list, p->to, p->column, true);
    }
    if (!rc)
        rc = name_in(p, room, &name);
    return rc ? rc : place_record(p, name, NULL, &old);
}

/* Puts a segment by listing its column, which is not listed yet. */
static int put_column(struct placing *p)
{
    uint8_t room[NAME_MAX_BYTES];
    struct piece name;
    int rc = name_in(p, room, &name);
    if (rc)
        return rc;
    p->list->passed = p->to;
    rc = apply_expect_none(p->list, p->own, name);
    p->list->passed = NULL;
    if (!rc && names_get(p->own, name.at, name.n) &&
        names_set(p->own, name.at, name.n, OWN_PUT))
        rc = diag_errno(p->list->txn->diag, ENOMEM, p->list->txn->catalog->path,
                        "packing");
    return rc ? rc : listed_set(p->list, p->to, p->column, true);
}

int place_columns(struct listings *l, const struct edit_op *op, struct names *own,
                  struct buffer *files)
{
    const struct edit_pack *pack = op->placed;
    const struct tamis_snapshot *s = pack->snapshot;
    struct placing p = {.list = l, .pack = pack, .own = own, .files = files};
    int rc =
        listings_add(l, pack->place.uuid, pack->place.digest, pack->n_columns, &p.to);
    if (!rc && (rc = listed_open(l, p.to)) != 0)
        rc = not_read(l->txn->catalog, rc < 0 ? TAMIS_ERR_DAMAGED : rc, l->txn->diag);
    for (p.column = 0; !rc && p.column < pack->n_columns; p.column++) {
        if (!s)
            rc = put_column(&p);
        else if (pack->segments[p.column])
            rc = place_segment(&p, s, pack->segments[p.column] - 1);
    }
    return rc;
}
