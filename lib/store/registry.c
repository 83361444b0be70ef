/* The registry: one LMDB environment per process and catalog file, however often the
 * store is opened. LMDB demands it: a second environment on the same file shares the
 * first one's reader slots and clears them when it closes. (Two copies of this library
 * in one process have two registries, and that hole.)
 *
 * A forked child inherits the list and must touch nothing on it (R14): it ignores
 * entries of an earlier fork epoch, which stay allocated for ever. */
#include "lib/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct catalog *registry;
static struct io_once fork_once = IO_ONCE_INIT;

/* The lock must not be held by a thread that does not exist in the child. */
static void before_fork(void)
{
    pthread_mutex_lock(&registry_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&registry_lock);
}

/* After fork.c's handlers, so that a fork takes this lock before theirs: the order in
 * which closing a catalog takes them. Not without them, for they would come later. */
static void install_fork_handlers(void)
{
    if (io_hold_forks() != 0)
        return;
    io_let_forks();
    if (pthread_atfork(before_fork, after_fork, after_fork) == 0)
        atomic_store(&fork_once.done, true);
}

static char *catalog_path(const char *store_path)
{
    size_t n = strlen(store_path);
    char *path = malloc(n + sizeof "/catalog.lmdb");
    if (path) {
        memcpy(path, store_path, n);
        memcpy(path + n, "/catalog.lmdb", sizeof "/catalog.lmdb");
    }
    return path;
}

/* ---- opening ---- */

int store_dir_open(const char *path, int *dir, struct tamis_diag *diag)
{
    *dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*dir >= 0)
        return 0;
    if (errno == ENOENT)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path, "no such directory");
    if (errno == ENOTDIR)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                         "not a directory, so not a store");
    return diag_errno(diag, errno, path, "opening the store");
}

static int open_catalog_file(int dir, const char *path, int *fd,
                             struct tamis_diag *diag)
{
    int rc = io_open_beneath(dir, "catalog.lmdb", O_RDONLY, fd);
    if (rc == ENOENT && dir_is_empty(dir, "filters") == 1)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "creating this store was cut short: create it again");
    if (rc == ENOENT && faccessat(dir, "filters", F_OK, 0) == 0)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "filters/ is there, but catalog.lmdb is missing");
    if (rc == ENOENT)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "no store in this directory (no catalog.lmdb)");
    if (rc == EISDIR || rc == EINVAL || rc == ELOOP || rc == ENXIO)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                         "catalog.lmdb is not a regular file");
    return rc ? diag_errno(diag, rc, path, "opening catalog.lmdb") : 0;
}

/* LMDB opens its lock file by path and writes to it: through a link, to any file. */
int registry_check_lock_file(int dir, const char *path, struct tamis_diag *diag)
{
    struct stat st;
    if (fstatat(dir, "catalog.lmdb-lock", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT
                   ? 0
                   : diag_errno(diag, errno, path, "looking at catalog.lmdb-lock");
    if (S_ISREG(st.st_mode))
        return 0;
    return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                     "catalog.lmdb-lock is not a regular file");
}

static void catalog_free(struct catalog *c)
{
    catalog_env_close(c);
    filters_dir_release(c->filters);
    if (c->has_turn)
        dir_close_guarded(&c->turn);
    pthread_rwlock_destroy(&c->map_lock);
    pthread_mutex_destroy(&c->cache_lock);
    free(c);
}

static struct catalog *catalog_alloc(const char *store_path, const struct stat *st)
{
    size_t n = strlen(store_path);
    struct catalog *c = calloc(1, sizeof *c + n + 1);
    if (!c)
        return NULL;
    memcpy(c->path, store_path, n + 1);
    c->device = st->st_dev;
    c->inode = st->st_ino;
    c->refs = 1;
    c->fork_epoch = io_fork_epoch();
    pthread_mutex_init(&c->cache_lock, NULL);
    /* Else threads that never stop reading could keep the map from growing. */
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&c->map_lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return c;
}

/* ---- creating ---- */

/* LMDB makes the file in several steps. Done under another name, so that whoever finds
 * catalog.lmdb finds it whole, however the process that makes it ends. */
static int make_catalog(const char *store_path, int dir, const struct meta *m,
                        catalog_fn *fill, void *ctx, bool replace,
                        struct tamis_diag *diag)
{
    char temp[CATALOG_TEMP_BYTES], file[STORE_PATH_BYTES];
    uint32_t tag;
    io_calls.random(&tag, sizeof tag);
    snprintf(temp, sizeof temp, CATALOG_TEMP "%08x.tmp", tag);
    if (snprintf(file, sizeof file, "%s/%s", store_path, temp) >= (int)sizeof file)
        return diag_errno(diag, ENAMETOOLONG, store_path, "creating the catalog");
    struct catalog *c = catalog_alloc(store_path, &(struct stat){0});
    if (!c)
        return diag_errno(diag, ENOMEM, store_path, "creating the catalog");
    int rc = catalog_env_create(c, file, m, fill, ctx, diag);
    catalog_free(c);
    if (!rc) {
        rc = replace ? io_replace(dir, temp, "catalog.lmdb")
                     : io_rename(dir, temp, "catalog.lmdb");
        if (rc == EEXIST)
            diag_fail(diag, rc = TAMIS_ERR_EXISTS, store_path,
                      "a store is here already");
        else if (rc)
            diag_errno(diag, rc, store_path, "naming the catalog");
    }
    if (rc)
        io_calls.unlinkat(dir, temp, 0);
    strcat(temp, "-lock");
    io_calls.unlinkat(dir, temp, 0);
    return rc;
}

int registry_create(const char *store_path, int dir, const struct meta *m,
                    catalog_fn *fill, void *ctx, struct tamis_diag *diag)
{
    return make_catalog(store_path, dir, m, fill, ctx, false, diag);
}

int registry_replace(const char *store_path, int dir, const struct meta *m,
                     catalog_fn *fill, void *ctx, struct tamis_diag *diag)
{
    int rc = make_catalog(store_path, dir, m, fill, ctx, true, diag);
    if (rc)
        return rc;
    rc = io_sync_dir(dir);
    return rc ? diag_errno(diag, rc, store_path, "syncing the store") : 0;
}

static int read_meta(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    return catalog_meta(t, ctx, diag);
}

static int catalog_load(struct catalog *c, int dir, struct tamis_diag *diag)
{
    char *file = catalog_path(c->path);
    if (!file)
        return diag_errno(diag, ENOMEM, c->path, "opening the store");
    c->read_only = io_refuse_network(dir) == TAMIS_ERR_NETWORK;
    int rc = registry_check_lock_file(dir, c->path, diag);
    if (!rc)
        rc = catalog_env_open(c, file, diag);
    free(file);
    if (!rc)
        rc = catalog_read(c, read_meta, &c->meta, diag);
    if (rc)
        return rc;
    if (c->meta.ro_compat & ~META_RO_COMPAT_KNOWN)
        c->read_only = true;
    rc = tamis_domain_init(&c->domain, c->meta.hash_id, c->meta.hash_seed);
    if (rc)
        return diag_fail(diag, rc, c->path, "hash function of the store");
    rc = filters_dir_open(dir, c->path, &c->filters);
    if (rc == ENOENT)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, c->path, "filters/ is missing");
    if (rc == ENOTDIR || rc == ELOOP)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, c->path, "filters/ is no directory");
    return rc ? diag_errno(diag, rc, c->path, "opening filters/") : 0;
}

static struct catalog *registry_find(const struct stat *st)
{
    for (struct catalog *c = registry; c; c = c->next)
        if (c->device == st->st_dev && c->inode == st->st_ino &&
            c->fork_epoch == io_fork_epoch())
            return c;
    return NULL;
}

/* Whoever replaces a catalog file locks STORE exclusively; who has a store open holds
 * it shared. (LMDB's own lock would not do: it goes away with its file.) Where a file
 * system knows no such locks, nobody repairs either. EAGAIN: not now. */
static int take_turn(struct catalog *c, int dir, const struct stat *st)
{
    struct stat now;
    int rc = dir_open_guarded(dir, ".", &c->turn);
    if (rc)
        return rc;
    c->has_turn = true;
    if (flock(c->turn.fd, LOCK_SH | LOCK_NB) != 0 &&
        (errno == EWOULDBLOCK || errno == EINTR))
        return EAGAIN;
    /* Replaced between being opened and being locked? */
    if (fstatat(dir, "catalog.lmdb", &now, AT_SYMLINK_NOFOLLOW) != 0 ||
        now.st_dev != st->st_dev || now.st_ino != st->st_ino)
        return EAGAIN;
    return 0;
}

static int check_file(const struct catalog *c, int fd,
                      int (*check)(int, const char *, struct tamis_diag *),
                      struct tamis_diag *diag)
{
    char *file = catalog_path(c->path);
    if (!file)
        return diag_errno(diag, ENOMEM, c->path, "opening the store");
    int rc = check(fd, file, diag);
    free(file);
    return rc;
}

/* With the registry locked; fd is the catalog file. */
static int find_or_load(const char *path, int dir, int fd, struct catalog **out,
                        struct tamis_diag *diag)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return diag_errno(diag, errno, path, "opening catalog.lmdb");
    struct catalog *c = registry_find(&st);
    if (c) {
        c->refs++;
        *out = c;
        return 0;
    }
    c = catalog_alloc(path, &st);
    if (!c)
        return diag_errno(diag, ENOMEM, path, "opening the store");
    int rc = take_turn(c, dir, &st);
    if (rc)
        diag_errno(diag, rc, path, "locking the store");
    if (!rc)
        rc = check_file(c, fd, catalog_file_check, diag);
    if (!rc)
        rc = catalog_load(c, dir, diag);
    if (rc) {
        catalog_free(c);
        return rc;
    }
    c->next = registry;
    *out = registry = c;
    return 0;
}

static int open_once(const char *store_path, int dir, struct catalog **out,
                     struct tamis_diag *diag)
{
    int fd, rc = open_catalog_file(dir, store_path, &fd, diag);
    if (rc)
        return rc;
    rc = io_once(&fork_once, install_fork_handlers);
    if (rc) {
        diag_errno(diag, rc, store_path, "preparing for fork");
    } else {
        pthread_mutex_lock(&registry_lock);
        rc = find_or_load(store_path, dir, fd, out, diag);
        pthread_mutex_unlock(&registry_lock);
    }
    close(fd);
    return rc;
}

/* Waits, without the registry, until nobody creates or repairs the store. */
static void await_turn(int dir)
{
    while (flock(dir, LOCK_SH) != 0 && errno == EINTR)
        ;
    flock(dir, LOCK_UN);
}

int registry_open(const char *store_path, struct catalog **out, struct tamis_diag *diag)
{
    enum { TRIES = 100 };
    int dir, rc = store_dir_open(store_path, &dir, diag);
    if (rc)
        return rc;
    rc = open_once(store_path, dir, out, diag);
    for (int i = 0; i < TRIES && rc == EAGAIN; i++) {
        await_turn(dir);
        diag_clear(diag);
        rc = open_once(store_path, dir, out, diag);
    }
    close(dir);
    return rc;
}

/* ---- for repair ---- */

int registry_open_alone(const char *store_path, int dir, struct catalog **out,
                        struct tamis_diag *diag)
{
    struct stat st;
    struct catalog *c = NULL;
    int fd, rc = open_catalog_file(dir, store_path, &fd, diag);
    if (rc)
        return rc;
    if (fstat(fd, &st) == 0)
        c = catalog_alloc(store_path, &st);
    char *file = c ? catalog_path(store_path) : NULL;
    if (!file)
        rc = diag_errno(diag, ENOMEM, store_path, "opening the catalog");
    if (!rc)
        rc = check_file(c, fd, catalog_file_scrub, diag);
    if (!rc)
        rc = registry_check_lock_file(dir, store_path, diag);
    if (!rc) {
        c->read_only = true;
        rc = catalog_env_open(c, file, diag);
    }
    free(file);
    close(fd);
    if (rc && c)
        catalog_free(c);
    else
        *out = c;
    return rc;
}

void registry_close_alone(struct catalog *c)
{
    if (c)
        catalog_free(c);
}

struct catalog *registry_hold(struct catalog *c)
{
    pthread_mutex_lock(&registry_lock);
    c->refs++;
    pthread_mutex_unlock(&registry_lock);
    return c;
}

static void registry_unlink(struct catalog *c)
{
    struct catalog **at = &registry;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

void registry_release(struct catalog *c)
{
    if (c->fork_epoch != io_fork_epoch())
        return; /* the parent's */
    pthread_mutex_lock(&registry_lock);
    bool last = --c->refs == 0;
    if (last) {
        /* Closed before anyone can open the file anew. */
        registry_unlink(c);
        tamis_snapshot_release(c->cached);
        catalog_free(c);
    }
    pthread_mutex_unlock(&registry_lock);
}
