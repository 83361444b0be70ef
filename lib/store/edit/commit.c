/* Committing an edit: everything is checked once more and applied in order, inside one
 * transaction. The order on disk is R13's: files and their names, one sync of the
 * directory, the catalog, and only then the unlinking of what was dropped. */
#include "lib/store/edit/inside.h"

struct locked {
    struct io_guarded_fd guard;
    struct locked *next;
};

/* The state of applying an edit; begun anew when the transaction runs again. */
struct apply {
    struct tamis_edit *edit;
    const struct edit_op *op;
    const struct edit_op *placed; /* the latest that was applied, as in the edit */
    struct names own;      /* OWN_PUT, or OWN_DROPPED, the latest; none that is only
                              put with others, by one file */
    struct buffer dropped; /* UUIDs */
    struct buffer to_drop; /* of a retain: length bytes and names */
    struct listings list;  /* of the transaction */
    struct found found;    /* the segment that an operation is about */
    struct record record;  /* of it */
    struct locked *locked; /* growing filters that are to go */
    uint64_t n_refused;    /* records that are gone, and named who knows what */
    bool doubtful;         /* who knows whose record has gone? */
    struct tamis_diag *diag;
};

static void unlock_dropped(struct apply *a)
{
    for (struct locked *l; (l = a->locked); free(l)) {
        a->locked = l->next;
        io_unlock(l->guard.fd, LOCK_WRITER);
        io_unguard_fd(&l->guard);
    }
}

static void apply_reset(struct apply *a)
{
    unlock_dropped(a);
    names_clear(&a->own);
    a->placed = NULL;
    a->dropped.n = 0;
    listings_free(&a->list);
    a->to_drop.n = 0;
    a->n_refused = 0;
    a->doubtful = false;
}

static void apply_free(struct apply *a)
{
    apply_reset(a);
    free(a->dropped.bytes);
    free(a->to_drop.bytes);
}

/* A growing filter goes only while nobody is writing to it, or what the writer has
 * acknowledged would be lost without a word; the lock is held until the edit is
 * through. A lost file has no writer. */
static int lock_dropped(struct apply *a, const struct record *r, struct piece name)
{
    char file[FILTER_NAME_BYTES], text[NAME_TEXT_BYTES], who[HOLDER_TEXT_BYTES];
    const char *store = a->edit->catalog->path;
    struct locked *l = malloc(sizeof *l);
    if (!l)
        return ENOMEM;
    filter_file_name(r->uuid, file);
    int rc = io_open_guarded(a->edit->dir.fd, file, O_RDWR, &l->guard);
    if (rc)
        free(l);
    if (rc == ENOENT || io_not_regular(rc))
        return 0; /* no file of ours is there */
    if (rc)
        return diag_errno(a->diag, rc, store, "locking a growing filter");
    rc = io_lock(l->guard.fd, LOCK_WRITER);
    if (!rc) {
        l->next = a->locked;
        a->locked = l;
        return 0;
    }
    const char *holder = io_holder(l->guard.fd, LOCK_WRITER, who);
    io_unguard_fd(&l->guard);
    free(l);
    if (rc != TAMIS_ERR_BUSY)
        return diag_errno(a->diag, rc, store, "locking a growing filter");
    return diag_fail(a->diag, rc, store, "segment '%s': %s has it open for writing",
                     name_text(text, name.at, name.n), holder);
}

/* A record that can't be read names no file: its file is left to a later sweep. Its
 * name may be the damaged part: then another segment goes off the list with it. In a
 * record of a newer version the checksum, and so the name, was right. */
static int note_dropped(struct apply *a, struct piece name, struct piece value)
{
    struct record r;
    unsigned n;
    int rc = 0;
    const struct part_disk *part = record_parts(value.at, value.n, name.at, name.n, &n);
    a->n_refused += part == NULL;
    for (; n > 0 && !rc; n--, part++) {
        struct pack_place at = part_place(part);
        if (part->kind == PART_COLUMN)
            rc = listings_unname(&a->list, name, &at, a->diag);
    }
    struct verdict v = record_decode(value.at, value.n, name.at, name.n, &r);
    if (v.code != VERDICT_OK)
        a->doubtful |= verdict_error(v.code) != TAMIS_ERR_VERSION;
    if (rc || v.code != VERDICT_OK || r.state == RECORD_NO_FILTER)
        return rc;
    if ((!record_packed(&r) && buffer_add(&a->dropped, r.uuid, UUID_BYTES)) ||
        (record_listed(&r) && buffer_add(&a->dropped, r.list_uuid, UUID_BYTES)))
        return ENOMEM;
    return r.state == RECORD_GROWING ? lock_dropped(a, &r, name) : 0;
}

/* A copy that was attached with the UUID of a lost file that this edit dropped, or a
 * list that the new record of its segment has, too. */
static bool forget_dropped(struct apply *a, const uint8_t uuid[UUID_BYTES])
{
    uint8_t *b = a->dropped.bytes;
    size_t before = a->dropped.n;
    for (size_t at = 0; at < a->dropped.n;)
        if (memcmp(b + at, uuid, UUID_BYTES) != 0)
            at += UUID_BYTES;
        else
            memmove(b + at, b + (a->dropped.n -= UUID_BYTES), UUID_BYTES);
    return a->dropped.n < before;
}

static int no_memory(struct catalog_txn *t, int rc, struct tamis_diag *diag)
{
    /* Anything else has its words already. */
    return rc == ENOMEM ? diag_errno(diag, rc, t->catalog->path, "applying the edit")
                        : rc;
}

/* Is it where the snapshot had it, with the filter, or the binding, that was meant? */
static bool is_meant(struct apply *a)
{
    const struct edit_op *op = a->op;
    const struct found *f = &a->found;
    struct record *r = &a->record;
    if (!op->how.only && !op->bound)
        return true;
    if (op->how.as && (!f->value.at || !entry_is(op->how.as, f->value)))
        return false;
    if (found_record(f, (struct piece){op->bytes, op->name_bytes}, r) != 0)
        return false;
    if (op->bound &&
        (r->binding_bytes != op->value_bytes ||
         memcmp(r->binding, op->bytes + op->name_bytes, op->value_bytes) != 0))
        return false;
    return !op->how.only || (r->state != RECORD_NO_FILTER &&
                             memcmp(r->uuid, op->how.old, UUID_BYTES) == 0);
}

static int check_meant(struct apply *a, struct tamis_diag *diag)
{
    const struct edit_op *op = a->op;
    char text[NAME_TEXT_BYTES];
    if (is_meant(a))
        return 0;
    return diag_fail(diag, TAMIS_ERR_MISMATCH, a->edit->catalog->path,
                     "segment '%s' has another %s than was meant: it was replaced",
                     name_text(text, op->bytes, op->name_bytes),
                     op->bound ? "binding or filter" : "filter");
}

static int apply_drop(struct catalog_txn *t, struct apply *a, struct tamis_diag *diag)
{
    const struct edit_op *op = a->op;
    const struct found *f = &a->found;
    struct piece name = {op->bytes, op->name_bytes};
    int rc = apply_look_up(&a->list, &a->own, name, &a->found, diag);
    if (rc == TAMIS_ERR_NO_SEGMENT && op->how.replaces && !op->how.only) {
        diag_clear(diag);
        return 0;
    }
    if (!rc)
        rc = check_meant(a, diag);
    if (rc)
        return rc;
    rc = f->value.at ? note_dropped(a, name, f->value)
                     : listed_set(&a->list, f->pack, le32_get(f->column.disk.column),
                                  false, diag);
    if (!rc)
        rc = names_set(&a->own, name.at, name.n, OWN_DROPPED);
    if (rc || !f->value.at)
        return no_memory(t, rc, diag);
    return catalog_delete(t, name, diag);
}

static int apply_put(struct catalog_txn *t, struct apply *a, struct tamis_diag *diag)
{
    const struct edit_op *op = a->op;
    struct piece name = {op->bytes, op->name_bytes};
    struct piece value = {name.at + name.n, op->value_bytes};
    /* Since the look-up nobody has committed, and this edit put no pack. */
    bool known = op->absent_at && op->absent_at + 1 == a->list.number && !a->placed;
    int rc = op->how.replaces ? apply_drop(t, a, diag)
             : known          ? 0
                              : apply_expect_none(&a->list, &a->own, name, diag);
    if (!rc)
        rc = catalog_replace(t, name, value, diag);
    return rc ? rc : no_memory(t, names_set(&a->own, name.at, name.n, OWN_PUT), diag);
}

static bool is_kept(void *ctx, struct piece name)
{
    struct apply *a = ctx;
    bool puts;
    return names_get(&a->op->keep, name.at, name.n) ||
           names_get(&a->own, name.at, name.n) == OWN_PUT ||
           edit_puts_placed(a->edit, a->placed, name, &puts, NULL) != 0 || puts;
}

/* Deleting moves what a cursor sees, so first the names are collected. */
static int note_unkept(void *ctx, struct piece name, struct piece value)
{
    struct apply *a = ctx;
    bool stays = is_kept(a, name);
    uint8_t length[2] = {(uint8_t)name.n, (uint8_t)(name.n >> 8)};
    int rc = stays ? 0 : placed_stays(&a->list, name, value, &stays, a->diag);
    if (rc || stays)
        return rc;
    rc = buffer_add(&a->to_drop, length, sizeof length);
    if (!rc)
        rc = buffer_add(&a->to_drop, name.at, name.n);
    return rc ? rc : note_dropped(a, name, value);
}

static int apply_retain(struct catalog_txn *t, struct apply *a, struct tamis_diag *diag)
{
    a->to_drop.n = 0;
    int rc = catalog_each(t, note_unkept, a, diag);
    for (size_t at = 0; !rc && at < a->to_drop.n;) {
        const uint8_t *b = a->to_drop.bytes + at;
        size_t n = (size_t)(b[0] | b[1] << 8);
        rc = catalog_delete(t, (struct piece){b + 2, n}, diag);
        at += 2 + n;
    }
    return rc ? rc : listings_retain(&a->list, is_kept, a, diag);
}

/* ---- attached files keep their UUIDs: no two segments may share one ---- */

struct twins {
    struct names attached; /* UUID -> how many records have it, plus 1 */
    bool found;
};

/* Looks at records alone. A segment without a record has the UUID that its filter had
 * in a file of its own, and no file of that name: the filter may be attached anew to
 * another segment, and dropping one of the two removes nothing of the other. */
static int count_twin(void *ctx, struct piece name, struct piece value)
{
    struct twins *tw = ctx;
    (void)name;
    if (value.n < RECORD_HEAD_BYTES)
        return 0;
    const uint8_t *uuid = value.at + offsetof(struct record_disk, uuid);
    uint32_t n = names_get(&tw->attached, uuid, UUID_BYTES);
    if (n > 1)
        tw->found = true;
    return n ? names_set(&tw->attached, uuid, UUID_BYTES, n + 1) : 0;
}

static int check_twins(struct catalog_txn *t, const struct tamis_edit *e,
                       struct tamis_diag *diag)
{
    struct twins tw = {.found = false};
    int rc = 0;
    for (size_t i = 0; i < e->n_ops && !rc; i++)
        if (e->ops[i]->how.attached)
            rc = names_set(&tw.attached, e->ops[i]->uuid, UUID_BYTES, 1);
    rc = rc ? no_memory(t, rc, diag) : catalog_each(t, count_twin, &tw, diag);
    names_clear(&tw.attached);
    if (!rc && tw.found)
        rc = diag_fail(diag, TAMIS_ERR_EXISTS, e->catalog->path,
                       "the attached filter belongs to another segment already");
    return rc;
}

/* Does the name that the operation attached its file to still have that file? */
static bool is_listed(struct catalog_txn *t, const struct edit_op *op)
{
    struct record r;
    struct piece name = {op->bytes, op->name_bytes}, value;
    return catalog_get(t, name, &value, NULL) == 0 &&
           record_decode(value.at, value.n, name.at, name.n, &r).code == VERDICT_OK &&
           memcmp(r.uuid, op->uuid, UUID_BYTES) == 0;
}

static int apply(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct apply *a = ctx;
    const struct tamis_edit *e = a->edit;
    bool forgiven = false;
    int rc = 0;
    a->diag = diag;
    apply_reset(a);
    rc = listings_load(&a->list, t, diag);
    for (size_t i = 0; i < e->n_ops && !rc; i++) {
        a->op = e->ops[i];
        if (a->op->kind == EDIT_PUT)
            rc = apply_put(t, a, diag);
        else if (a->op->kind == EDIT_DROP)
            rc = apply_drop(t, a, diag);
        else if (a->op->kind == EDIT_PACK)
            rc = place_columns(&a->list, a->op, &a->own, &a->dropped, diag);
        else
            rc = apply_retain(t, a, diag);
        if (op_n_names(a->op) && a->op->placed)
            a->placed = a->op;
    }
    if (!rc && a->n_refused && !(rc = listings_note_named(&a->list, diag)))
        rc = listings_forgive(&a->list, a->n_refused, &forgiven, diag);
    if (!rc)
        rc = listings_write(&a->list, diag);
    if (!rc && (a->doubtful || forgiven))
        rc = catalog_set_complete(t, false, diag);
    /* A copy may have been attached before, as well as after, its UUID was dropped. */
    for (size_t i = 0; i < e->n_ops && !rc; i++) {
        const struct edit_op *op = e->ops[i];
        bool keeps_list = op->listed && !op->has_list;
        if ((!op->how.attached && !keeps_list) || !is_listed(t, op))
            continue;
        if (!forget_dropped(a, op->how.attached ? op->uuid : op->list_uuid) &&
            keeps_list)
            rc = diag_fail(diag, TAMIS_ERR_MISMATCH, e->catalog->path,
                           "the segment has lost its list meanwhile");
    }
    return rc || !e->n_attached ? rc : check_twins(t, e, diag);
}

/* ---- commit ---- */

static bool unlink_one(struct apply *a, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    int rc = filter_file_unlink(a->edit->dir.fd, uuid);
    filter_file_name(uuid, name);
    filters_dir_path(a->edit->catalog->filters, name, path);
    if (rc && rc != EISDIR) /* a directory is no file of ours */
        edit_note_stays(a->diag, rc, path, "removing a dropped file");
    return !rc;
}

/* The catalog no longer names them. */
static bool unlink_dropped(struct apply *a)
{
    bool done = true;
    for (size_t at = 0; at < a->dropped.n; at += UUID_BYTES)
        done &= unlink_one(a, a->dropped.bytes + at);
    int rc = a->dropped.n ? io_sync_dir(a->edit->dir.fd) : 0;
    if (rc)
        edit_note_stays(a->diag, rc, a->edit->catalog->filters->path,
                        "syncing filters/ without the dropped files");
    return !rc && done;
}

/* Removes files that no record names any more, and gives up places that are not used
 * (R18). If that fails, the next edit sweeps. */
static void remove_rest(struct apply *a)
{
    diag_clear(a->diag);
    bool done = placed_settle(a->edit, &a->list, a->diag);
    if (!(unlink_dropped(a) && done) || a->n_refused) /* it may keep a file */
        atomic_store(&a->edit->catalog->swept, false);
}

static int sync_files(const struct tamis_edit *e, struct tamis_diag *diag)
{
    bool any = false;
    for (size_t i = 0; i < e->n_ops; i++)
        any = any || e->ops[i]->has_file;
    int rc = any ? io_sync_dir(e->dir.fd) : 0;
    return rc ? diag_errno(diag, rc, e->catalog->filters->path, "syncing filters/") : 0;
}

int tamis_edit_commit(struct tamis_edit *edit, struct tamis_diag *diag)
{
    int rc = edit_usable(edit, diag);
    if (rc) {
        tamis_edit_abort(edit);
        return rc;
    }
    struct apply a = {.edit = edit, .diag = diag};
    bool unsure = false;
    int before = io_hold_cancel(); /* the edit ends here, and so do its locks */
    rc = sync_files(edit, diag);
    if (!rc && edit->n_ops)
        rc = catalog_write(edit->catalog, &edit->wait, 0, apply, &a, &unsure, diag);
    if (!rc)
        remove_rest(&a);
    else if (!unsure && rc != TAMIS_ERR_BUSY)
        edit_unlink_written(edit);
    /* Unsure: the names may be on the disk, so their files stay. If they are not,
     * the next sweep removes the files. */
    apply_free(&a);
    if (rc != TAMIS_ERR_BUSY)
        edit_free(edit);
    io_let_cancel(before);
    return rc;
}
