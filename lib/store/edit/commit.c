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
    bool placed;           /* an operation has put segments by one file */
    struct names own;      /* OWN_PUT, or OWN_DROPPED, the latest; none that is only
                              put with others, by one file */
    struct buffer dropped; /* UUIDs */
    struct listings list;  /* of the transaction */
    struct found found;    /* the segment that an operation is about */
    struct record record;  /* of it */
    struct locked *locked; /* growing filters that are to go */
    uint64_t n_refused;    /* records that are gone, and named who knows what */
    bool doubtful;         /* who knows whose record has gone? */
    bool stays;            /* a segment that a reconcile may not drop unseen */
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
    a->placed = false;
    a->dropped.n = 0;
    listings_free(&a->list);
    a->n_refused = 0;
    a->doubtful = a->stays = false;
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
            rc = listings_unname(&a->list, name, &at);
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

/* Forgets a file that is to go: a copy was attached with the UUID of a lost file that
 * this edit dropped, or the new record of a segment has the same list. */
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

static int no_memory(const struct apply *a, int rc)
{
    /* Anything else has its words already. */
    return rc == ENOMEM
               ? diag_errno(a->diag, rc, a->edit->catalog->path, "applying the edit")
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
    if ((op->how.as && (!f->value.at || !entry_is(op->how.as, f->value))) ||
        (op->how.column && f->value.at))
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

static int check_meant(struct apply *a)
{
    const struct edit_op *op = a->op;
    char text[NAME_TEXT_BYTES];
    if (is_meant(a))
        return 0;
    return diag_fail(a->diag, TAMIS_ERR_MISMATCH, a->edit->catalog->path,
                     "segment '%s' has another %s than was meant: it was replaced",
                     name_text(text, op->bytes, op->name_bytes),
                     op->bound ? "binding or filter" : "filter");
}

/* Drops the segment that was found. */
static int drop_found(struct apply *a, struct piece name)
{
    const struct found *f = &a->found;
    int rc = f->value.at ? note_dropped(a, name, f->value)
                         : listed_set(&a->list, f->pack,
                                      le32_get(f->column.disk.column), false);
    if (!rc)
        rc = names_set(&a->own, name.at, name.n, OWN_DROPPED);
    if (rc || !f->value.at)
        return no_memory(a, rc);
    return catalog_delete(a->list.txn, name);
}

static int apply_drop(struct apply *a)
{
    const struct edit_op *op = a->op;
    struct piece name = {op->bytes, op->name_bytes};
    int rc = apply_look_up(&a->list, &a->own, name, &a->found);
    if (rc == TAMIS_ERR_NO_SEGMENT && op->how.replaces && !op->how.only) {
        diag_clear(a->diag);
        return 0;
    }
    if (!rc)
        rc = check_meant(a);
    return rc ? rc : drop_found(a, name);
}

static int put_value(struct apply *a, struct piece name, struct piece value)
{
    int rc = catalog_replace(a->list.txn, name, value);
    return rc ? rc : no_memory(a, names_set(&a->own, name.at, name.n, OWN_PUT));
}

static int put_record(struct apply *a, struct piece name, const struct record *r)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    size_t n = record_encode(r, name.at, name.n, bytes);
    return put_value(a, name, (struct piece){bytes, n});
}

static int apply_put(struct apply *a)
{
    const struct edit_op *op = a->op;
    struct piece name = {op->bytes, op->name_bytes};
    struct piece value = {name.at + name.n, op->value_bytes};
    /* Since the look-up nobody has committed, and this edit put no pack. */
    bool known = op->absent_at && op->absent_at + 1 == a->list.number && !a->placed;
    int rc = op->how.replaces ? apply_drop(a)
             : known          ? 0
                              : apply_expect_none(&a->list, &a->own, name);
    return rc ? rc : put_value(a, name, value);
}

/* The record changes, and where its filter is does not. A listed column is overridden
 * by a record from then on. */
static int apply_update(struct apply *a)
{
    const struct edit_op *op = a->op;
    const struct found *f = &a->found;
    struct piece name = {op->bytes, op->name_bytes};
    struct record r;
    int rc = apply_look_up(&a->list, &a->own, name, &a->found);
    if (!rc)
        rc = check_meant(a);
    if (rc)
        return rc;
    rc = found_record(f, name, &r);
    if (!rc && r.ro_compat)
        rc = TAMIS_ERR_VERSION;
    if (rc)
        return diag_fail(a->diag, rc, a->edit->catalog->path,
                         "the segment's record: %s", tamis_strerror(rc));
    r.compat = 0; /* SPEC.md §5.2 */
    r.rank = op->rank;
    if (op->binding.at)
        edit_record_binding(&r, op->binding);
    if (!f->value.at)
        rc = listed_set(&a->list, f->pack, r.place.column, false);
    if (!rc && !f->value.at)
        rc = listed_name(&a->list, f->pack, name, r.place.column, true);
    return rc ? rc : put_record(a, name, &r);
}

/* ---- only what is live ---- */

static bool same_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a_bytes == b_bytes && (!a_bytes || memcmp(a, b, a_bytes) == 0);
}

/* Does the segment's binding begin with the scope? */
static bool in_scope(const struct edit_live *live, const struct record *r)
{
    return r->binding_bytes >= live->scope.n &&
           same_bytes(r->binding, live->scope.n, live->scope.at, live->scope.n);
}

/* Is what was found segment `index` of the snapshot, and may it go? It may have been
 * packed since. A segment without a filter is recognised by the time of its put. A
 * record that cannot be read must be the same, byte for byte. */
static bool may_go(struct apply *a, size_t index, const struct tamis_segment_info *info)
{
    const struct edit_live *live = a->op->live;
    const struct found *f = &a->found;
    struct record *r = &a->record;
    if (!info->state)
        return is_loose(live->snapshot, index) && f->value.at && !live->scope.n &&
               entry_is(live->snapshot->entries[index], f->value);
    return found_record(f, (struct piece){info->name, info->name_bytes}, r) == 0 &&
           in_scope(live, r) && memcmp(info->uuid, r->uuid, UUID_BYTES) == 0 &&
           same_bytes(info->binding, info->binding_bytes, r->binding,
                      r->binding_bytes) &&
           (r->state != RECORD_NO_FILTER || info->created == r->created);
}

/* Drops a segment of the snapshot whose file is not live. */
static int drop_dead(struct apply *a, size_t index)
{
    struct tamis_segment_info info;
    bool stays = false;
    int rc = TAMIS_ERR_DAMAGED; /* the name cannot be read */
    tamis_snapshot_segment(a->op->live->snapshot, index, &info);
    struct piece name = {info.name, info.name_bytes};
    if (name.at && (names_get(&a->op->live->names, name.at, name.n) ||
                    names_get(&a->own, name.at, name.n) == OWN_PUT))
        return 0;
    if (name.at) /* a name that was in two places may be in the other one still */
        rc = listings_lookup(&a->list, name, &a->found);
    if (rc > 0 || rc == TAMIS_ERR_CATALOG)
        return rc;
    diag_clear(a->diag);
    a->stays |= rc && rc != TAMIS_ERR_NO_SEGMENT;
    if (rc || !may_go(a, index, &info))
        return 0;
    rc = placed_stays(&a->list, name, &a->found, &stays);
    a->stays |= stays;
    return rc || stays ? rc : drop_found(a, name);
}

/* A file's segment stays, or is registered bare. A record that cannot be read stays: it
 * excludes no key. */
static int apply_file(struct apply *a, const struct edit_file *file, bool *is_new)
{
    char text[NAME_TEXT_BYTES];
    const struct edit_live *live = a->op->live;
    struct tamis_segment_info info;
    struct piece name = file->name;
    struct record r;
    enum tamis_reason why;
    uint32_t ordinal;
    int rc = apply_look_up(&a->list, &a->own, name, &a->found);
    *is_new = false;
    if (!rc &&
        (found_record(&a->found, name, &r) || !file->binding.at ||
         same_bytes(r.binding, r.binding_bytes, file->binding.at, file->binding.n)))
        return 0;
    if (rc == TAMIS_ERR_NO_SEGMENT)
        diag_clear(a->diag);
    else if (rc)
        return rc;
    else if (snapshot_ordinal(live->snapshot, name.at, name.n, NULL, &ordinal, &why) ||
             tamis_snapshot_segment(live->snapshot, ordinal - 1, &info) ||
             !may_go(a, ordinal - 1, &info))
        return diag_fail(a->diag, TAMIS_ERR_MISMATCH, a->edit->catalog->path,
                         "segment '%s' has another binding, since the snapshot, or "
                         "out of scope",
                         name_text(text, name.at, name.n));
    else if ((rc = drop_found(a, name)) != 0)
        return rc;
    *is_new = true;
    r = edit_bare_record(file->binding, 0);
    return put_record(a, name, &r);
}

static int apply_reconcile(struct apply *a)
{
    const struct edit_live *live = a->op->live;
    bool is_new;
    int rc = 0;
    if (live->snapshot->number >= a->list.number)
        return diag_fail(a->diag, TAMIS_ERR_MISMATCH, a->edit->catalog->path,
                         "an older catalog was put back since the snapshot");
    for (size_t i = 0; i < live->n && !rc; i++) {
        rc = apply_file(a, &live->files[i], &is_new);
        if (live->is_new)
            live->is_new[i] = is_new;
    }
    for (size_t i = 0; !rc && tamis_snapshot_next(live->snapshot, &i); i++)
        rc = drop_dead(a, i);
    for (size_t i = 0; i < a->list.n; i++)
        a->stays |= a->list.all[i].failure != 0;
    for (size_t i = 0; i < live->snapshot->shared.n; i++) /* nobody knew its segments */
        a->stays |= !live->snapshot->shared.views[i].n_columns;
    return rc;
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

static int check_twins(struct apply *a)
{
    const struct tamis_edit *e = a->edit;
    struct twins tw = {.found = false};
    int rc = 0;
    for (size_t i = 0; i < e->n_ops && !rc; i++)
        if (e->ops[i]->how.attached)
            rc = names_set(&tw.attached, e->ops[i]->uuid, UUID_BYTES, 1);
    rc = rc ? no_memory(a, rc) : catalog_each(a->list.txn, count_twin, &tw);
    names_clear(&tw.attached);
    if (!rc && tw.found)
        rc = diag_fail(a->diag, TAMIS_ERR_EXISTS, e->catalog->path,
                       "the attached filter belongs to another segment already");
    return rc;
}

/* Does the name that the operation attached its file to still have that file? */
static bool is_listed(struct apply *a, const struct edit_op *op)
{
    struct record r;
    struct piece name = {op->bytes, op->name_bytes}, value;
    return catalog_get(a->list.txn, name, &value) == 0 &&
           record_decode(value.at, value.n, name.at, name.n, &r).code == VERDICT_OK &&
           memcmp(r.uuid, op->uuid, UUID_BYTES) == 0;
}

/* A snapshot numbers records and columns, dropped ones, too; here up to 126 more are
 * counted, and columns of packs on which the catalog does not agree. */
static int check_numbers(struct apply *a)
{
    const struct listings *l = &a->list;
    uint64_t n;
    int rc = catalog_count_records(a->list.txn, &n);
    n += 63; /* the columns of a pack begin at a multiple of 64 */
    for (size_t i = 0; i < l->n; i++)
        if (!listed_is_gone(&l->all[i]))
            n += bit_words(l->all[i].now.n_columns) * 64;
    if (rc || n >> NUMBER_BITS == 0)
        return rc;
    return diag_fail(a->diag, TAMIS_ERR_TOO_LARGE, a->edit->catalog->path,
                     "segments and columns of packs, dropped ones, too, would be more "
                     "than the %u that a snapshot can number",
                     (1U << NUMBER_BITS) - 1);
}

static int apply(struct catalog_txn *t, void *ctx)
{
    struct apply *a = ctx;
    const struct tamis_edit *e = a->edit;
    bool forgiven = false;
    int rc = 0;
    a->diag = t->diag;
    apply_reset(a);
    rc = listings_load(&a->list, t);
    for (size_t i = 0; i < e->n_ops && !rc; i++) {
        a->op = e->ops[i];
        if (a->op->kind == EDIT_PUT)
            rc = apply_put(a);
        else if (a->op->kind == EDIT_DROP)
            rc = apply_drop(a);
        else if (a->op->kind == EDIT_PACK)
            rc = place_columns(&a->list, a->op, &a->own, &a->dropped);
        else if (a->op->kind == EDIT_UPDATE)
            rc = apply_update(a);
        else
            rc = apply_reconcile(a);
        a->placed |= op_puts_placed(a->op);
    }
    if (!rc && a->n_refused && !(rc = listings_note_named(&a->list)))
        rc = listings_forgive(&a->list, a->n_refused, &forgiven);
    if (!rc)
        rc = listings_write(&a->list);
    if (!rc)
        rc = check_numbers(a);
    if (!rc && (a->doubtful || forgiven))
        rc = catalog_set_complete(t, false);
    /* A copy may have been attached before, as well as after, its UUID was dropped. */
    for (size_t i = 0; i < e->n_ops && !rc; i++) {
        const struct edit_op *op = e->ops[i];
        bool keeps_list = op->listed && !op->has_list;
        if ((!op->how.attached && !keeps_list) || !is_listed(a, op))
            continue;
        if (!forget_dropped(a, op->how.attached ? op->uuid : op->list_uuid) &&
            keeps_list)
            rc = diag_fail(t->diag, TAMIS_ERR_MISMATCH, e->catalog->path,
                           "the segment has lost its list meanwhile");
    }
    return rc || !e->n_attached ? rc : check_twins(a);
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
    if (a->stays)
        edit_note_stays(a->diag, 0, a->edit->catalog->path,
                        "segments stay listed whose packs cannot be read, or cannot be "
                        "given tombstones: repair the store");
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
    apply_reset(&a);
    free(a.dropped.bytes);
    if (rc != TAMIS_ERR_BUSY)
        edit_free(edit);
    io_let_cancel(before);
    return rc;
}
