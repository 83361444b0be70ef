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

/* ---- opening ---- */

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
        rc = registry_check_file(c, fd, catalog_file_check, diag);
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

/* ---- holding and closing ---- */

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
