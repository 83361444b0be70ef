/* Edits: changes to the list of segments, all or nothing. Here: begin, abort, and the
 * list of what was asked. An edit writes files at once and remembers the rest; only
 * its commit (commit.c) opens a transaction. */
#include "lib/store/edit/inside.h"

#include <sys/file.h>

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
                  "%s%sfilters, lists and packs of no segment removed: %zu; after an "
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
    names_clear(&op->keep);
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

/* ---- the list of operations ---- */

struct edit_op *op_of_value(enum edit_kind kind, const void *name, size_t name_bytes,
                            const void *value, size_t n)
{
    struct edit_op *op = calloc(1, sizeof *op + name_bytes + n);
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
    bool present;
    const struct edit_op *op;
    uint32_t first, n; /* of its names; none: the name is given */
    bool looked;       /* the catalog was asked; the commit asks again */
};

/* Looks the name up after the operations so far: 0, or ERR_NO_SEGMENT. */
static int state_locked(struct expected *x, struct tamis_diag *diag)
{
    struct tamis_edit *e = x->edit;
    const void *name = x->name.at;
    size_t name_bytes = x->name.n;
    struct found f;
    uint32_t touched = names_get(&e->touched, name, name_bytes);
    bool puts;
    if (touched)
        return touched == EDIT_PUT + 1 ? 0 : TAMIS_ERR_NO_SEGMENT;
    int rc = edit_puts_placed(e, e->placed, x->name, &puts, diag);
    if (rc || puts)
        return rc;
    for (size_t i = 0; e->n_retains && i < e->n_ops; i++)
        if (e->ops[i]->kind == EDIT_RETAIN &&
            !names_get(&e->ops[i]->keep, name, name_bytes))
            return TAMIS_ERR_NO_SEGMENT;
    if (x->looked)
        return TAMIS_ERR_NO_SEGMENT;
    rc = listings_lookup(&x->list, x->name, &f, diag);
    if (rc == TAMIS_ERR_NO_SEGMENT && !x->n) {
        e->absent_at = x->list.number;
        memcpy(e->absent, name, name_bytes);
        e->absent[name_bytes] = 0;
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
    int rc = state_locked(x, diag);
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

static int expect_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct expected *x = ctx;
    uint8_t room[NAME_MAX_BYTES];
    int rc = listings_load(&x->list, t, diag);
    if (!rc && !x->n)
        rc = expect_locked(x, diag);
    for (uint32_t i = 0; i < x->n && !rc; i++) {
        rc = op_name(x->edit, x->op, x->first + i, room, &x->name, diag);
        if (!rc)
            rc = expect_locked(x, diag);
    }
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

/* A name that is put with others, by one file, is noted only if it was noted before. */
static void append_locked(struct tamis_edit *e, struct edit_op *op)
{
    uint32_t fate = (op->kind == EDIT_DROP ? EDIT_DROP : EDIT_PUT) + 1;
    uint8_t room[NAME_MAX_BYTES];
    struct piece name;
    for (uint32_t i = 0; i < op_n_names(op) && (!op->placed || e->touched.n); i++)
        if (op_name(e, op, i, room, &name, NULL) == 0 &&
            (!op->placed || names_get(&e->touched, name.at, name.n)))
            names_set(&e->touched, name.at, name.n, fate);
    if (op->placed && op_n_names(op)) {
        op->before = e->placed;
        e->placed = op;
    }
    e->ops[e->n_ops++] = op;
    e->n_retains += op->kind == EDIT_RETAIN;
    e->n_attached += op->how.attached;
}

int edit_append(struct tamis_edit *e, struct edit_op *op, struct tamis_diag *diag)
{
    enum { AT_ONCE = 1024 }; /* a transaction keeps pages from being used again */
    struct expected x = {
        .edit = e, .op = op, .present = op->kind == EDIT_DROP || op->how.only};
    uint32_t n = op->how.replaces && !op->how.only ? 0 : op_n_names(op);
    int rc = 0;
    pthread_mutex_lock(&e->mutex);
    if (op->kind == EDIT_PUT && !op->how.replaces) { /* edit_put_begin() found none */
        x.name = (struct piece){op->bytes, op->name_bytes};
        x.looked = true;
        op->absent_at = absent_at(e, x.name);
        rc = expect_locked(&x, diag);
    }
    for (; !x.looked && x.first < n && !rc; x.first += x.n) {
        x.n = n - x.first < AT_ONCE ? n - x.first : AT_ONCE;
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

int tamis_edit_drop(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    const struct tamis_drop_if *only_if, struct tamis_diag *diag)
{
    struct tamis_drop_if any = {.uuid = NULL};
    const struct tamis_drop_if *only = only_if ? only_if : &any;
    size_t n = only->is_bound ? only->binding_bytes : 0;
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    const char *store = edit->catalog->path;
    if (!segment_name_valid(name, name_bytes))
        return diag_fail(diag, TAMIS_ERR_RANGE, store,
                         "a segment's name is 1 to 255 bytes without NUL");
    if (n > TAMIS_BINDING_MAX || (n && !only->binding))
        return diag_fail(diag, TAMIS_ERR_RANGE, store, "a binding is 0 to 64 bytes");
    struct edit_op *op = op_of_value(EDIT_DROP, name, name_bytes, only->binding, n);
    if (!op)
        return diag_errno(diag, ENOMEM, store, "noting the drop");
    op->bound = only->is_bound;
    op->how.only = only->uuid != NULL;
    if (op->how.only)
        memcpy(op->how.old, only->uuid, UUID_BYTES);
    return edit_append(edit, op, diag);
}

static int keep_names(struct edit_op *op, const struct tamis_name *names, size_t n)
{
    uint8_t *at = op->bytes;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (!segment_name_valid(names[i].bytes, names[i].n_bytes))
            continue; /* no segment has it */
        memcpy(at, names[i].bytes, names[i].n_bytes);
        rc = names_set(&op->keep, at, names[i].n_bytes, 1);
        at += names[i].n_bytes;
    }
    return rc;
}

int tamis_edit_retain(struct tamis_edit *edit, const struct tamis_name *names, size_t n,
                      struct tamis_diag *diag)
{
    int rc = edit_usable(edit, diag);
    if (rc)
        return rc;
    if (n && !names)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path, "no names");
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (segment_name_valid(names[i].bytes, names[i].n_bytes))
            n_bytes += names[i].n_bytes;
    struct edit_op *op = calloc(1, sizeof *op + n_bytes);
    if (!op)
        return diag_errno(diag, ENOMEM, edit->catalog->path, "noting the names");
    op->kind = EDIT_RETAIN;
    rc = keep_names(op, names, n);
    if (rc) {
        edit_op_free(op);
        return diag_errno(diag, rc, edit->catalog->path, "noting the names");
    }
    return edit_append(edit, op, diag);
}
