/* The registry: one LMDB environment per process and catalog file, however often the
 * store is opened. LMDB demands it: a second environment on the same file shares the
 * first one's reader slots and clears them when it closes. (Two copies of this library
 * in one process have two registries: copies.c keeps the second one out.)
 *
 * A forked child inherits the list and must touch nothing on it (R14): it ignores
 * entries of an earlier fork epoch, which stay allocated for ever. */
#include "lib/store/catalog/file.h"

#include <sys/file.h>

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

/* ---- opening ---- */

/* The catalog that this process has open of this file, or of this directory. */
static struct catalog *registry_find(const struct stat *file, const struct stat *dir)
{
    for (struct catalog *c = registry; c; c = c->next)
        if (c->fork_epoch == io_fork_epoch() &&
            ((c->device == file->st_dev && c->inode == file->st_ino) ||
             (c->dir_device == dir->st_dev && c->dir_inode == dir->st_ino)))
            return c;
    return NULL;
}

/* One of the two alone: the file was replaced, or has a name in two directories. The
 * lock file may be the same, and LMDB must not open that twice. */
static int share(struct catalog *c, const struct stat *file, const struct stat *dir,
                 struct tamis_diag *diag)
{
    int rc = origin_check_files(c->origin, diag);
    if (!rc && origin_known(c->origin) == TAMIS_MISMATCH)
        rc = TAMIS_ERR_REPLACED;
    if (c->device != file->st_dev || c->inode != file->st_ino ||
        c->dir_device != dir->st_dev || c->dir_inode != dir->st_ino)
        rc = TAMIS_ERR_REPLACED;
    if (rc == TAMIS_ERR_REPLACED)
        return diag_fail(diag, rc, c->path,
                         "this process has the store open still, whose files were "
                         "replaced meanwhile: close every handle of it first");
    if (!rc)
        c->refs++;
    return rc;
}

/* A process that replaces a catalog file locks STORE exclusively; one that has a store
 * open holds it shared. (LMDB's own lock would not do: it goes away with its file.)
 * Where a file system knows no such locks, nobody repairs either. EAGAIN: not now.
 * ERR_BUSY: another copy of this library is in the way. */
static int take_turn(struct catalog *c, int dir, const struct stat *st)
{
    struct stat now;
    int rc = dir_open_guarded(dir, ".", &c->turn);
    if (rc)
        return rc;
    c->has_turn = true;
    rc = copies_enter(c->turn.fd);
    if (rc)
        return rc;
    if (dir_lock(c->turn.fd, LOCK_SH | LOCK_NB) == EWOULDBLOCK)
        return EAGAIN;
    /* Replaced between being opened and being locked? */
    if (fstatat(dir, "catalog.lmdb", &now, AT_SYMLINK_NOFOLLOW) != 0 ||
        now.st_dev != st->st_dev || now.st_ino != st->st_ino)
        return EAGAIN;
    return 0;
}

/* Checks the files before LMDB opens them. */
static int load(struct catalog *c, int dir, int fd, const struct stat *file,
                struct tamis_diag *diag)
{
    int rc = take_turn(c, dir, file);
    if (rc == TAMIS_ERR_BUSY)
        return diag_fail(diag, rc, c->path,
                         "another copy of libtamis in this process has the store open: "
                         "let both use one copy, or close it there first");
    if (rc)
        return diag_errno(diag, rc, c->path, "locking the store");
    rc = origin_new(c->path, fd, &c->origin);
    if (rc)
        return diag_errno(diag, rc, c->path, "opening the store");
    rc = catalog_file_check(fd, c->origin->catalog.path, diag);
    return rc ? rc : catalog_load(c, dir, fd, diag);
}

/* With the registry locked; fd is the catalog file. */
static int find_or_load(const char *path, int dir, int fd, struct catalog **out,
                        struct tamis_diag *diag)
{
    struct stat file, directory;
    if (fstat(fd, &file) != 0 || fstat(dir, &directory) != 0)
        return diag_errno(diag, errno, path, "opening catalog.lmdb");
    struct catalog *c = registry_find(&file, &directory);
    if (c) {
        int rc = share(c, &file, &directory, diag);
        *out = rc ? NULL : c;
        return rc;
    }
    c = catalog_alloc(path, &file);
    if (!c)
        return diag_errno(diag, ENOMEM, path, "opening the store");
    c->dir_device = directory.st_dev;
    c->dir_inode = directory.st_ino;
    int rc = load(c, dir, fd, &file, diag);
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
    int fd, rc = registry_open_file(dir, store_path, &fd, diag);
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
static int await_turn(int dir, const char *path, struct io_wait *wait,
                      struct tamis_diag *diag)
{
    int rc =
        dir_wait(dir, LOCK_SH, wait, path, "creating or repairing the store", diag);
    dir_unlock(dir);
    return rc;
}

int registry_open(const char *store_path, struct io_wait *wait, struct catalog **out,
                  struct tamis_diag *diag)
{
    enum { TRIES = 100, TRIES_BUSY = 8 };
    int dir, rc = store_dir_open(store_path, &dir, diag);
    if (rc)
        return rc;
    rc = open_once(store_path, dir, out, diag);
    for (int i = 0;
         i < TRIES && (rc == EAGAIN || (rc == TAMIS_ERR_BUSY && i < TRIES_BUSY)); i++) {
        bool taken = rc == EAGAIN;
        if (!taken) /* two copies that open at once may both find the other */
            dir_step_back(dir);
        rc = taken ? await_turn(dir, store_path, wait, diag) : 0;
        if (rc)
            break;
        diag_clear(diag);
        rc = open_once(store_path, dir, out, diag);
    }
    close(dir);
    return rc;
}

/* ---- holding and closing ---- */

struct catalog *registry_hold(struct catalog *c)
{
    pthread_mutex_lock(&registry_lock);
    c->refs++;
    pthread_mutex_unlock(&registry_lock);
    return c;
}

void registry_release(struct catalog *c)
{
    if (c->fork_epoch != io_fork_epoch())
        return; /* the parent's */
    /* Files are closed with the lock held. */
    int before = io_hold_cancel();
    pthread_mutex_lock(&registry_lock);
    bool last = --c->refs == 0;
    if (last) {
        /* Closed before anyone can open the file anew. */
        struct catalog **at = &registry;
        while (*at != c)
            at = &(*at)->next;
        *at = c->next;
        if (c->cached)
            c->release_cached(c->cached);
        catalog_free(c);
    }
    pthread_mutex_unlock(&registry_lock);
    io_let_cancel(before);
}

/* A reader looks as seldom as probes do; a writer looks now. */
static int still_there(struct origin *o, bool writing, struct tamis_diag *diag)
{
    if (origin_now(o) == TAMIS_MISMATCH)
        return origin_fail(o, diag);
    return writing ? origin_check(o, 0, UINT64_MAX, diag) : 0;
}

int store_usable(const struct tamis_store *s, bool writing, struct tamis_diag *diag)
{
    diag_clear(diag);
    if (!s)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no store");
    if (s->catalog->fork_epoch != io_fork_epoch())
        return diag_fail(diag, TAMIS_ERR_FORKED, s->catalog->path,
                         "the store was opened before fork()");
    if (writing && s->catalog->read_only)
        return diag_fail(diag, TAMIS_ERR_READ_ONLY, s->catalog->path,
                         "the store could be opened for reading only");
    return still_there(s->catalog->origin, writing, diag);
}
