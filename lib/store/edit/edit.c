/* Edits: changes to the list of segments, all or nothing. Here: begin, abort, the sweep
 * of what earlier ones left, and the list of what was asked. An edit writes files at
 * once and remembers the rest; only its commit (commit.c) opens a transaction. */
#include "lib/store/edit/inside.h"

#include <sys/file.h>

/* ---- orphans ----
 *
 * Files in filters/ that the catalog does not name, left by a process that died between
 * writing a file and committing its name, or between dropping a name and unlinking the
 * file (R13); and tombstones that it has not set (R18). */

struct sweep {
    struct catalog *catalog;
    int dir;
    struct names live; /* UUIDs of files that it names */
    struct listings list;
    bool any_gone; /* of the orphans */
    bool alien;    /* one of them is not ours */
    size_t n_gone; /* no temporary files or tombstones */
    bool done;     /* nothing failed */
};

static bool is_orphan(const struct sweep *s, const char *name)
{
    uint8_t uuid[UUID_BYTES];
    const char *rest;
    bool dead;
    if (!filter_name_parse(name, uuid, &dead, &rest))
        return false; /* not a name of ours: not ours to remove */
    if (*rest)
        return filter_rest_temporary(rest);
    return !listings_unsure(&s->list) && !names_get(&s->live, uuid, UUID_BYTES);
}

/* A part of a kind that this version lacks keeps its file, too. */
static int note_parts(void *ctx, struct piece name, struct piece value)
{
    struct sweep *s = ctx;
    unsigned n;
    const struct part_disk *p = record_parts(value.at, value.n, name.at, name.n, &n);
    int rc = listings_count(&s->list, name, p, n);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = names_set(&s->live, p[i].uuid, UUID_BYTES, 1);
    return rc;
}

static void sweep_forget(struct sweep *s)
{
    listings_free(&s->list);
    names_clear(&s->live);
}

/* Files of the first draft are not ours to remove, nor anything beside them. Nor are
 * those of another store: the catalog may be the wrong one. Until the store is opened
 * again nothing is swept; verify names them, and repair sets them aside. */
static int refuse_alien(void *ctx, int dir, const char *name)
{
    const struct sweep *s = ctx;
    const uint8_t *store = s->catalog->meta.store_uuid;
    return is_orphan(s, name) && filter_file_is_alien(dir, name, store)
               ? TAMIS_ERR_VERSION
               : 0;
}

static int unlink_orphan(void *ctx, int dir, const char *name)
{
    struct sweep *s = ctx;
    if (!is_orphan(s, name))
        return 0;
    bool gone = io_calls.unlinkat(dir, name, 0) == 0;
    s->any_gone |= gone;
    s->n_gone += gone && strlen(name) == FILTER_NAME_BYTES - 1;
    s->done &= gone || errno == ENOENT || errno == EISDIR; /* no file of ours */
    return 0;
}

/* In a write transaction: no name can take effect meanwhile, of an edit or of another
 * tool that repairs the catalog. It writes nothing. */
static int sweep_in(struct catalog_txn *t, void *ctx)
{
    struct sweep *s = ctx;
    sweep_forget(s);
    int rc = listings_load(&s->list, t);
    for (size_t i = 0; i < s->list.n && !rc; i++)
        rc = names_set(&s->live, s->list.all[i].uuid, UUID_BYTES, 1);
    if (!rc)
        rc = catalog_each(t, note_parts, s);
    if (!rc)
        rc = listings_agree(&s->list);
    int found = rc ? rc : dir_each(s->dir, ".", refuse_alien, s);
    s->done = found == 0;
    s->alien = found == TAMIS_ERR_VERSION;
    if (s->done) {
        s->done &= listings_unsure(&s->list) || s->list.unknown ||
                   bury_unused(&s->list, s->dir);
        s->any_gone = false;
        s->done &= dir_each(s->dir, ".", unlink_orphan, s) == 0;
        if (s->any_gone)
            s->done &= io_sync_dir(s->dir) == 0;
    }
    sweep_forget(s);
    return rc;
}

bool sweep_orphans(struct catalog *c, int dir, size_t *n_gone)
{
    struct sweep s = {.catalog = c, .dir = dir};
    struct io_wait not_at_all = {.timeout_ms = -1}; /* it is not urgent */
    int rc = catalog_write(c, &not_at_all, 0, sweep_in, &s, NULL, NULL);
    *n_gone = s.n_gone;
    return rc == 0 && (s.done || s.alien);
}

/* ---- begin and end ---- */

/* An edit holds filters/ shared for as long as it may have files that nothing names.
 * A process that gets it exclusively knows that nobody else has it, and may sweep. */
static int enter_dir(struct tamis_edit *e, struct tamis_diag *diag)
{
    struct catalog *c = e->catalog;
    struct io_wait wait = e->wait;
    int fd = e->dir.fd;
    size_t n_gone = 0;
    if (!e->dry_run && !atomic_load(&c->swept) &&
        dir_lock(fd, LOCK_EX | LOCK_NB) == 0) {
        atomic_store(&c->swept, true); /* before: what fails meanwhile is swept again */
        if (!sweep_orphans(c, fd, &n_gone))
            atomic_store(&c->swept, false);
    }
    int rc = dir_wait(fd, LOCK_SH, &wait, c->filters->path,
                      "repairing the store or looking for unused files", diag);
    if (n_gone && diag) {
        struct tamis_diag before = *diag;
        diag_fail(diag, rc, c->filters->path,
                  "%s%sfiles of no segment removed: %zu; after an "
                  "older catalog is put back, repair first",
                  before.what, rc ? "; " : "", n_gone);
    }
    return rc;
}

static int open_dir(struct tamis_edit *e, bool locked, struct tamis_diag *diag)
{
    struct catalog *c = e->catalog;
    int rc = io_refuse_network(c->filters->fd);
    if (rc)
        return diag_fail(diag, rc, c->filters->path, "%s", tamis_strerror(rc));
    rc = dir_open_guarded(c->filters->fd, ".", &e->dir);
    if (rc)
        return diag_errno(diag, rc, c->filters->path, "opening filters/");
    rc = locked ? 0 : enter_dir(e, diag);
    if (rc)
        dir_close_guarded(&e->dir);
    return rc;
}

int tamis_edit_begin(struct tamis_store *store, const struct tamis_edit_options *opt,
                     struct tamis_edit **out, struct tamis_diag *diag)
{
    struct tamis_edit_options o;
    if (out)
        *out = NULL;
    int bad = options_copy(&o, sizeof o, opt);
    int rc = store_usable(store, bad || !o.dry_run, diag);
    if (rc)
        return rc;
    if (bad)
        return diag_fail(diag, bad, store->catalog->path, "size of the option struct");
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the edit");
    struct tamis_edit *e = calloc(1, sizeof *e);
    if (!e)
        return diag_errno(diag, ENOMEM, store->catalog->path, "beginning an edit");
    e->catalog = store->catalog;
    e->wait = store_wait(store, o.timeout_ms);
    e->dry_run = o.dry_run != 0;
    e->fork_epoch = io_fork_epoch();
    balance_begin(&e->balance);
    int before = io_hold_cancel(); /* a sweep holds filters/ exclusively */
    rc = open_dir(e, store->locked, diag);
    io_let_cancel(before);
    if (rc) {
        free(e);
        return rc;
    }
    pthread_mutex_init(&e->mutex, NULL);
    registry_hold(e->catalog);
    *out = e;
    return 0;
}

static void edit_op_free(struct edit_op *op)
{
    if (!op)
        return;
    if (op->live) {
        names_clear(&op->live->names);
        tamis_snapshot_release(op->live->snapshot);
        free(op->live);
    }
    if (op->how.as)
        entry_release(op->how.as);
    placed_free(op->placed);
    free(op);
}

void edit_free(struct tamis_edit *e)
{
    dir_close_guarded(&e->dir);
    for (size_t i = 0; i < e->n_ops; i++)
        edit_op_free(e->ops[i]);
    free(e->ops);
    names_clear(&e->touched);
    /* In a forked child the mutex may be held by a thread that is not there. */
    if (e->fork_epoch == io_fork_epoch())
        pthread_mutex_destroy(&e->mutex);
    registry_release(e->catalog);
    free(e);
}

void edit_unlink_pack(const struct tamis_edit *e, const struct pack_place *place)
{
    open_pack_forget(e->catalog, place->uuid, place->digest);
    pack_files_unlink(e->dir.fd, place->uuid);
}

/* Unlinks nothing in a store that was replaced: the next sweep does it there. */
void edit_unlink_written(const struct tamis_edit *e)
{
    if (origin_check_files(e->catalog->origin, NULL) == TAMIS_ERR_REPLACED)
        return;
    for (size_t i = 0; i < e->n_ops; i++) {
        const struct edit_op *op = e->ops[i];
        if (op->kind == EDIT_PACK)
            edit_unlink_pack(e, &op->placed->place);
        else if (op->has_file)
            filter_file_unlink(e->dir.fd, op->uuid);
        if (op->has_list)
            filter_file_unlink(e->dir.fd, op->list_uuid);
    }
}

void tamis_edit_abort(struct tamis_edit *edit)
{
    if (!edit)
        return;
    int before = io_hold_cancel();
    if (edit->fork_epoch == io_fork_epoch())
        edit_unlink_written(edit);
    edit_free(edit);
    io_let_cancel(before);
}

int edit_alive(struct tamis_edit *e, struct tamis_diag *diag)
{
    diag_clear(diag);
    if (!e)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no edit");
    if (e->fork_epoch != io_fork_epoch())
        return diag_fail(diag, TAMIS_ERR_FORKED, e->catalog->path,
                         "the edit was begun before fork()");
    return 0;
}

int edit_usable(struct tamis_edit *e, struct tamis_diag *diag)
{
    int rc = edit_alive(e, diag);
    if (!rc && e->dry_run)
        rc = diag_fail(diag, TAMIS_ERR_READ_ONLY, e->catalog->path,
                       "the edit is for a dry run");
    return rc;
}

/* ---- arguments ---- */

static int edit_check_name(const struct tamis_edit *e, const void *name,
                           size_t name_bytes, struct tamis_diag *diag)
{
    if (segment_name_valid(name, name_bytes))
        return 0;
    return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                     "a segment's name is 1 to 255 bytes without NUL, not these %zu",
                     name_bytes);
}

/* edit_usable(), and checks the name and the options, which it copies to *opt. */
static int edit_check_put(struct tamis_edit *e, const void *name, size_t name_bytes,
                          struct tamis_segment_options *opt,
                          const struct tamis_segment_options *theirs,
                          struct tamis_diag *diag)
{
    int rc = edit_usable(e, diag);
    if (!rc)
        rc = edit_check_name(e, name, name_bytes, diag);
    if (rc)
        return rc;
    if ((rc = options_copy(opt, sizeof *opt, theirs)))
        return diag_fail(diag, rc, e->catalog->path, "size of the option struct");
    if (!opt->binding)
        opt->binding_bytes = 0;
    if (opt->binding_bytes <= BINDING_MAX_BYTES)
        return 0;
    return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                     "a binding is at most %d bytes, not %zu", BINDING_MAX_BYTES,
                     opt->binding_bytes);
}

/* ---- the list of operations ---- */

struct edit_op *op_of_value(enum edit_kind kind, const void *name, size_t name_bytes,
                            const void *value, size_t n, size_t n_more)
{
    struct edit_op *op = calloc(1, sizeof *op + name_bytes + n + n_more);
    if (!op)
        return NULL;
    op->kind = kind;
    op->name_bytes = name_bytes;
    op->value_bytes = n;
    memcpy(op->bytes, name, name_bytes);
    if (n)
        memcpy(op->bytes + name_bytes, value, n);
    return op;
}

/* A name that is expected to be there, or not, and the operation that says so. */
struct expected {
    struct tamis_edit *edit;
    struct listings list;
    struct piece name;
    bool present, looked; /* looked: the catalog was asked; the commit asks again */
};

/* Looks the name up after the operations so far: 0, or ERR_NO_SEGMENT. */
static int state_locked(struct expected *x)
{
    struct tamis_edit *e = x->edit;
    struct found f;
    uint32_t touched = names_get(&e->touched, x->name.at, x->name.n);
    if (e->unsure)
        return x->present ? 0 : TAMIS_ERR_NO_SEGMENT;
    if (touched)
        return touched == EDIT_PUT + 1 ? 0 : TAMIS_ERR_NO_SEGMENT;
    if (x->looked)
        return TAMIS_ERR_NO_SEGMENT;
    int rc = listings_lookup(&x->list, x->name, &f);
    if (rc == TAMIS_ERR_NO_SEGMENT) {
        e->absent_at = x->list.number;
        memcpy(e->absent, x->name.at, x->name.n);
        e->absent[x->name.n] = 0;
    }
    return rc;
}

/* When the name was absent, if it was looked up last; else 0. A name has no NUL. */
static uint64_t absent_at(const struct tamis_edit *e, struct piece name)
{
    bool same = memcmp(e->absent, name.at, name.n) == 0 && !e->absent[name.n];
    return same ? e->absent_at : 0;
}

static int expect_locked(struct expected *x, struct tamis_diag *diag)
{
    const char *store = x->edit->catalog->path;
    char text[NAME_TEXT_BYTES];
    int rc = state_locked(x);
    if (rc && rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    diag_clear(diag);
    if (x->present == (rc == 0))
        return 0;
    name_text(text, x->name.at, x->name.n);
    if (x->present)
        return diag_fail(diag, rc, store, "no segment '%s'", text);
    return diag_fail(diag, TAMIS_ERR_EXISTS, store, "segment '%s' exists already",
                     text);
}

static int expect_in(struct catalog_txn *t, void *ctx)
{
    struct expected *x = ctx;
    int rc = listings_load(&x->list, t);
    if (!rc)
        rc = expect_locked(x, t->diag);
    listings_free(&x->list);
    return rc;
}

int edit_expect_none(struct tamis_edit *e, const void *name, size_t name_bytes,
                     struct tamis_diag *diag)
{
    struct expected x = {.edit = e, .name = {name, name_bytes}};
    pthread_mutex_lock(&e->mutex);
    x.looked = catalog_is_at(e->catalog, absent_at(e, x.name)); /* 0 never is */
    int rc = x.looked ? expect_locked(&x, diag)
                      : catalog_read(e->catalog, expect_in, &x, diag);
    pthread_mutex_unlock(&e->mutex);
    return rc;
}

int edit_put_begin(struct tamis_edit *e, const void *name, size_t name_bytes,
                   struct tamis_segment_options *opt,
                   const struct tamis_segment_options *theirs, struct tamis_diag *diag)
{
    int rc = edit_check_put(e, name, name_bytes, opt, theirs, diag);
    return rc || opt->replace ? rc : edit_expect_none(e, name, name_bytes, diag);
}

/* A name that is put with others, by one file, is noted only if it was noted before. */
static void append_locked(struct tamis_edit *e, struct edit_op *op)
{
    uint32_t fate = (op->kind == EDIT_DROP ? EDIT_DROP : EDIT_PUT) + 1;
    if (op->kind == EDIT_RECONCILE || op_puts_placed(op)) {
        e->unsure = true;
        e->absent_at = 0;
    } else if (op->kind != EDIT_PACK) {
        names_set(&e->touched, op->bytes, op->name_bytes, fate);
    }
    e->ops[e->n_ops++] = op;
    e->n_attached += op->how.attached;
}

int edit_append(struct tamis_edit *e, struct edit_op *op, struct tamis_diag *diag)
{
    bool puts = op->kind == EDIT_PUT && !op->how.only;
    struct expected x = {
        .edit = e, .name = {op->bytes, op->name_bytes}, .present = !puts};
    int rc = 0;
    pthread_mutex_lock(&e->mutex);
    if (puts && !op->how.replaces) { /* edit_put_begin() found none */
        x.looked = true;
        op->absent_at = absent_at(e, x.name);
        rc = expect_locked(&x, diag);
    } else if (!puts && !op->placed && !op->live) {
        rc = catalog_read(e->catalog, expect_in, &x, diag);
    }
    if (!rc) { /* then nothing below can fail */
        void *ops =
            room_for(e->ops, e->n_ops + 1, &e->max_ops, sizeof(struct edit_op *));
        e->ops = ops ? ops : e->ops;
        rc = ops ? names_reserve(&e->touched) : ENOMEM;
        if (rc)
            diag_errno(diag, rc, e->catalog->path, "noting the change");
    }
    if (!rc)
        append_locked(e, op);
    pthread_mutex_unlock(&e->mutex);
    if (rc)
        edit_op_free(op);
    return rc;
}

static struct piece copy_bytes(uint8_t **to, const void *from, size_t n)
{
    struct piece copy = {from ? *to : NULL, from ? n : 0};
    if (copy.n)
        memcpy(*to, from, n);
    *to += copy.n;
    return copy;
}

/* A drop, or an update. */
static int append_if(struct tamis_edit *e, enum edit_kind kind, const void *name,
                     size_t name_bytes, const struct tamis_drop_if *only_if,
                     const struct tamis_segment_options *options,
                     struct tamis_diag *diag)
{
    struct tamis_segment_options to;
    struct tamis_drop_if any = {.uuid = NULL};
    const struct tamis_drop_if *only = only_if ? only_if : &any;
    size_t n = only->is_bound ? only->binding_bytes : 0;
    int rc = edit_check_put(e, name, name_bytes, &to, options, diag);
    if (rc)
        return rc;
    if (n > TAMIS_BINDING_MAX || (n && !only->binding))
        return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                         "a binding is 0 to 64 bytes");
    struct edit_op *op =
        op_of_value(kind, name, name_bytes, only->binding, n, to.binding_bytes);
    if (!op)
        return diag_errno(diag, ENOMEM, e->catalog->path, "noting the change");
    op->bound = only->is_bound;
    op->how.only = only->uuid != NULL;
    if (op->how.only)
        memcpy(op->how.old, only->uuid, UUID_BYTES);
    uint8_t *more = op->bytes + name_bytes + n;
    op->binding = copy_bytes(&more, to.binding, to.binding_bytes);
    op->rank = to.rank;
    return edit_append(e, op, diag);
}

int tamis_edit_drop(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    const struct tamis_drop_if *only_if, struct tamis_diag *diag)
{
    return append_if(edit, EDIT_DROP, name, name_bytes, only_if, NULL, diag);
}

int tamis_edit_update(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const struct tamis_segment_options *to,
                      const struct tamis_drop_if *only_if, struct tamis_diag *diag)
{
    return append_if(edit, EDIT_UPDATE, name, name_bytes, only_if, to, diag);
}

/* ---- the files that are live ---- */

static int check_live(const struct tamis_edit *e, const struct tamis_snapshot *snapshot,
                      const struct tamis_identity *files, size_t n, size_t *n_bytes,
                      struct tamis_diag *diag)
{
    const char *store = e->catalog->path;
    int rc = 0;
    if (!snapshot || snapshot->dir != e->catalog->filters)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, store,
                         "the snapshot is of another store");
    if (n && !files)
        return diag_fail(diag, TAMIS_ERR_RANGE, store, "no files");
    for (size_t i = 0; i < n && !rc; i++) {
        size_t bound = files[i].binding ? files[i].binding_bytes : 0;
        rc = edit_check_name(e, files[i].name, files[i].name_bytes, diag);
        if (!rc && bound > TAMIS_BINDING_MAX)
            rc = diag_fail(diag, TAMIS_ERR_RANGE, store, "a binding is 0 to 64 bytes");
        *n_bytes += files[i].name_bytes + bound;
    }
    return rc;
}

static int copy_live(struct edit_op *op, const struct tamis_identity *files, size_t n,
                     const struct tamis_reconcile_options *o)
{
    uint8_t *to = op->bytes;
    struct edit_live *live = op->live =
        calloc(1, sizeof *live + n * sizeof live->files[0]);
    int rc = live ? 0 : ENOMEM;
    for (size_t i = 0; i < n && !rc; i++) {
        struct edit_file *f = &live->files[i];
        f->name = copy_bytes(&to, files[i].name, files[i].name_bytes);
        f->binding = copy_bytes(&to, files[i].binding, files[i].binding_bytes);
        rc = names_set(&live->names, f->name.at, f->name.n, 1);
    }
    if (rc)
        return rc;
    live->n = n;
    live->scope = copy_bytes(&to, o->scope, o->scope_bytes);
    live->is_new = o->is_new;
    return 0;
}

int tamis_edit_reconcile(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                         const struct tamis_identity *files, size_t n,
                         const struct tamis_reconcile_options *opt,
                         struct tamis_diag *diag)
{
    struct tamis_reconcile_options o;
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    const char *store = edit->catalog->path;
    if ((rc = options_copy(&o, sizeof o, opt)) != 0)
        return diag_fail(diag, rc, store, "size of the option struct");
    size_t n_bytes = o.scope ? o.scope_bytes : 0;
    if (n_bytes > BINDING_MAX_BYTES)
        return diag_fail(diag, TAMIS_ERR_RANGE, store, "a scope is at most %d bytes",
                         BINDING_MAX_BYTES);
    rc = check_live(edit, snapshot, files, n, &n_bytes, diag);
    if (rc)
        return rc;
    struct edit_op *op = op_of_value(EDIT_RECONCILE, "", 0, NULL, 0, n_bytes);
    rc = op ? copy_live(op, files, n, &o) : ENOMEM;
    if (rc) {
        edit_op_free(op);
        return diag_errno(diag, rc, store, "noting the files");
    }
    op->live->snapshot = snapshot_hold(snapshot);
    return edit_append(edit, op, diag);
}
