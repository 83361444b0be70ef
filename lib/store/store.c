/* A store as a whole: create, open, describe, close. It is created in a new directory
 * or an empty one, or over the remains of a creation that was cut short. Processes that
 * create at once take turns. */
#include "lib/plan/plan.h"
#include "lib/store/catalog/catalog.h"

#include <sys/file.h>

/* ---- what the first record says ---- */

static int meta_of(const struct tamis_open_options *opt, struct meta *m,
                   struct tamis_diag *diag)
{
    struct tamis_growth growth = opt->growth;
    struct tamis_domain domain;
    int rc = growth_complete(&growth);
    if (rc)
        return diag_fail(diag, rc, NULL,
                         "growth: error, factor, tightening or first capacity out of "
                         "range");
    if (opt->domain)
        rc = tamis_domain_init(&domain, opt->domain->hash_id, opt->domain->seed);
    else
        rc = tamis_domain_random(&domain);
    if (!rc && opt->domain && opt->domain->tag != domain.tag)
        rc = TAMIS_ERR_RANGE;
    if (rc)
        return diag_fail(diag, rc, NULL,
                         "hash domain: not one from tamis_domain_init()");
    *m = (struct meta){
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .hash_id = (uint16_t)domain.hash_id,
        .complete = opt->create == TAMIS_CREATE_NEW,
        .hash_seed = domain.seed,
        .target_error = growth.error,
        .growth_factor = growth.factor,
        .tightening_ratio = growth.tightening,
        .first_capacity = growth.first_capacity,
        .created = io_calls.now(),
    };
    uuid_random(m->store_uuid);
    return 0;
}

/* ---- what is there ---- */

/* Is it left from a creation that was cut short? Without a catalog these are an empty
 * filters/, catalogs that never got their name, a lock file. */
static bool is_remains(int dir, const char *name)
{
    if (strcmp(name, "filters") == 0)
        return dir_is_empty(dir, name) == 1;
    return strcmp(name, "catalog.lmdb-lock") == 0 || store_catalog_temporary(name);
}

static int refuse_other(void *ctx, int dir, const char *name)
{
    const char **what = ctx;
    if (is_remains(dir, name))
        return 0;
    *what = strcmp(name, "catalog.lmdb") == 0 ? "a store is here already"
                                              : "the directory is not empty";
    return TAMIS_ERR_EXISTS;
}

/* Is there nothing, or nothing but remains? */
static int check_empty(const char *path, int dir, struct tamis_diag *diag)
{
    const char *what = "";
    int rc = dir_each(dir, ".", refuse_other, &what);
    if (rc < 0)
        return diag_fail(diag, rc, path, "%s", what);
    return rc ? diag_errno(diag, rc, path, "reading the directory") : 0;
}

/* Once a store is there, nobody looks for them again: remains that cannot be removed
 * now would stay. */
static int remove_remains(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return store_catalog_temporary(name) && io_calls.unlinkat(dir, name, 0) != 0 &&
                   errno != ENOENT
               ? errno
               : 0;
}

/* ---- steps ---- */

/* Makes the directory's own name durable. A directory that was there may be just as
 * new, by a creation that was cut short, or by the caller. If we may not read its
 * parent, the directory's maker has to sync its name. */
static int sync_parent(int dir, bool fresh)
{
    int parent = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return errno == EACCES && !fresh ? 0 : errno;
    int rc = io_sync_dir(parent);
    close(parent);
    return rc;
}

/* Call it with the directory locked: two processes take turns, and files found here are
 * remains. The catalog gets its name last, whole; before that, open finds no store. */
static int create_locked(const char *path, int dir, bool fresh, const struct meta *m,
                         struct tamis_diag *diag)
{
    int rc = check_empty(path, dir, diag);
    if (rc)
        return rc;
    rc = sync_parent(dir, fresh);
    if (rc)
        return diag_errno(diag, rc, path, "syncing the parent directory");
    rc = io_make_dir(dir, "filters");
    bool made = !rc;
    if (!made && rc != EEXIST)
        return diag_errno(diag, rc, path, "creating filters/");
    rc = dir_each(dir, ".", remove_remains, NULL);
    if (rc)
        diag_errno(diag, rc, path, "removing what an earlier try has left");
    /* First filters/, then the catalog's name: a catalog alone would be no store, and
     * in the way of one. */
    if (!rc && (rc = io_sync_dir(dir)) != 0)
        diag_errno(diag, rc, path, "syncing the directory");
    if (!rc)
        rc = registry_create(path, dir, m, NULL, NULL, false, diag);
    if (!rc) {
        rc = io_sync_dir(dir);
        if (rc) {
            io_calls.unlinkat(dir, "catalog.lmdb", 0);
            diag_errno(diag, rc, path, "syncing the directory");
        }
    }
    /* Remove only our own: a store may be here after all, though a call failed. */
    if (rc && made && faccessat(dir, "catalog.lmdb", F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno == ENOENT)
        io_calls.unlinkat(dir, "filters", AT_REMOVEDIR);
    return rc;
}

/* Processes that create or repair take turns: each holds the directory exclusively, and
 * the others wait. A process that has a store open holds it shared, for as long as it
 * likes. Others wait for it for half a second, since it may be waiting itself. The
 * first to turn a shared lock into an exclusive one goes on. */
static int take_turn(const char *path, int dir, struct io_wait *wait,
                     struct tamis_diag *diag)
{
    enum { TRIES = 100 };
    char text[HOLDER_TEXT_BYTES];
    int rc = dir_lock(dir, LOCK_EX | LOCK_NB);
    for (int i = 0; i < TRIES && rc == EWOULDBLOCK; i++) {
        if (faccessat(dir, "catalog.lmdb", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return diag_fail(diag, TAMIS_ERR_EXISTS, path, "a store is here already");
        rc = dir_wait(dir, LOCK_SH, wait, path, "creating or repairing a store here",
                      diag);
        if (rc)
            return rc;
        rc = dir_lock(dir, LOCK_EX | LOCK_NB);
        if (rc == EWOULDBLOCK) /* others that wait hold it shared for a moment, too */
            dir_step_back(dir);
    }
    if (rc == EWOULDBLOCK)
        return diag_fail(diag, TAMIS_ERR_BUSY, path,
                         "%s has a store open here, whose catalog is gone",
                         io_holder(dir, LOCK_DIRECTORY, text));
    return rc ? diag_errno(diag, rc, path, "locking the directory") : 0;
}

static int store_create_in(const char *path, int dir, bool fresh, const struct meta *m,
                           struct io_wait *wait, struct tamis_diag *diag)
{
    int rc = io_refuse_network(dir);
    if (rc)
        return diag_fail(diag, rc, path, "%s", tamis_strerror(rc));
    rc = take_turn(path, dir, wait, diag);
    if (rc)
        return rc;
    rc = create_locked(path, dir, fresh, m, diag);
    dir_unlock(dir);
    return rc;
}

/* Durable on return; `path` has no slash at its end. */
static int store_create(const char *path, const struct tamis_open_options *opt,
                        struct io_wait *wait, struct tamis_diag *diag)
{
    struct meta m;
    int rc = meta_of(opt, &m, diag);
    if (rc)
        return rc;
    bool fresh = mkdir(path, 0777) == 0;
    if (!fresh && errno != EEXIST)
        return diag_errno(diag, errno, path, "creating the directory");
    struct io_guarded_fd dir;
    rc = dir_open_guarded(AT_FDCWD, path, &dir);
    if (rc == ENOTDIR)
        rc = diag_fail(diag, TAMIS_ERR_EXISTS, path, "a file is in the way");
    else if (rc)
        diag_errno(diag, rc, path, "opening the directory");
    else {
        rc = store_create_in(path, dir.fd, fresh, &m, wait, diag);
        io_unguard_fd(&dir);
    }
    if (rc && fresh)
        rmdir(path);
    return rc;
}

/* ---- open, describe, close ---- */

/* Another process may create the store meanwhile. */
static int open_or_create(struct tamis_store *s, const char *path,
                          const struct tamis_open_options *opt, struct tamis_diag *diag)
{
    struct io_wait wait = {opt->timeout_ms, opt->waiting, opt->ctx, 0};
    bool must_create = opt->create == TAMIS_CREATE_NEW;
    int rc = must_create ? TAMIS_ERR_NO_STORE
                         : registry_open(path, &wait, &s->catalog, diag);
    if (rc != TAMIS_ERR_NO_STORE || opt->create == TAMIS_OPEN_ONLY)
        return rc;
    rc = store_create(path, opt, &wait, diag);
    s->is_new = !rc;
    if (rc && (rc != TAMIS_ERR_EXISTS || must_create))
        return rc;
    diag_clear(diag);
    return registry_open(path, &wait, &s->catalog, diag);
}

int tamis_store_open(const char *path, const struct tamis_open_options *opt,
                     struct tamis_store **out, struct tamis_diag *diag)
{
    struct tamis_open_options o;
    diag_clear(diag);
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "nowhere to put the store");
    *out = NULL;
    if (!path || !*path)
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "no path");
    if (options_copy(&o, sizeof o, opt) || o.create > TAMIS_CREATE_NEW)
        return diag_fail(diag, TAMIS_ERR_RANGE, path,
                         "the option struct: its size, or what to create");
    int before = io_hold_cancel(); /* or the lock of the registry would be held */
    char *plain = plain_path(path);
    struct tamis_store *s = calloc(1, sizeof *s);
    int rc = plain && s ? open_or_create(s, plain, &o, diag)
                        : diag_errno(diag, ENOMEM, path, "opening the store");
    free(plain);
    io_let_cancel(before);
    if (rc) {
        free(s);
        return rc;
    }
    s->waiting = o.waiting;
    s->ctx = o.ctx;
    *out = s;
    return 0;
}

void tamis_store_close(struct tamis_store *store)
{
    if (!store)
        return;
    registry_release(store->catalog);
    free(store);
}

/* The fields that change while the store is open. */
struct store_now {
    struct meta meta;
    uint64_t n_segments;
};

static int read_store_now(struct catalog_txn *t, void *ctx)
{
    struct store_now *now = ctx;
    int rc = catalog_meta(t, &now->meta);
    return rc ? rc : catalog_count(t, &now->n_segments);
}

int tamis_store_info(struct tamis_store *store, struct tamis_store_info *info,
                     struct tamis_diag *diag)
{
    int rc = store_usable(store, false, diag);
    if (!rc && !info)
        rc = diag_fail(diag, TAMIS_ERR_RANGE, store->catalog->path, "no info");
    if (info)
        memset(info, 0, sizeof *info);
    if (rc)
        return rc;
    struct catalog *c = store->catalog;
    const struct meta *m = &c->meta;
    struct store_now now;
    uint64_t n_bytes = 0;
    rc = catalog_read(c, read_store_now, &now, diag);
    if (!rc && (rc = io_size(c->fd, &n_bytes)) != 0)
        diag_errno(diag, rc, c->path, "the catalog's size");
    if (rc)
        return rc;
    memcpy(info->uuid, m->store_uuid, sizeof info->uuid);
    info->domain = c->domain;
    info->growth = (struct tamis_growth){
        .error = m->target_error,
        .factor = m->growth_factor,
        .tightening = m->tightening_ratio,
        .first_capacity = m->first_capacity,
    };
    info->created = m->created;
    info->read_only = c->read_only;
    info->is_new = store->is_new;
    info->catalog_bytes = n_bytes;
    info->n_segments = now.n_segments;
    info->complete = now.meta.complete;
    return 0;
}

struct tamis_domain tamis_store_domain(const struct tamis_store *store)
{
    return store ? store->catalog->domain : (struct tamis_domain){0};
}
