/* The registry: one LMDB environment per process and catalog file, however often the
 * store is opened. LMDB demands it: a second environment on the same file shares the
 * first one's reader slots and clears them when it closes.
 *
 * A forked child inherits the list and must touch nothing on it (R14): it ignores
 * entries of an earlier fork epoch, which stay allocated for ever. */
#include "lib/store/catalog/file.h"
#include "lib/store/catalog/listing.h"

#include <sys/file.h>

/* ---- other copies of this library in the process ---- */

/* Two copies of this library in one process, of a plugin and of its host perhaps, must
 * not have one store open at once. Each has a registry and an LMDB environment of its
 * own, but LMDB's locks belong to the process: the copy that closes first drops those
 * of the other, and the copy that opens second resets the lock file under the first.
 *
 * The copies see nothing of each other's memory. So each one locks a byte of the
 * store's directory that stands for the process, with a lock that belongs to the open
 * file description, and asks whether another description has a lock there. A directory
 * can be locked for reading only, so the byte is first locked and then looked at: of
 * two copies that come at once at least one sees the other. */
#define COPIES_AT (UINT64_C(1) << 62)

/* `dir` is STORE, opened for this only. ERR_BUSY: another copy, or another catalog of
 * this one, has the store open. The lock is the caller's whatever the result. */
static int copies_enter(int dir)
{
    uint64_t at, found;
    int rc = io_process(&at);
    if (!rc)
        rc = io_byte_lock(dir, F_OFD_SETLK, F_RDLCK, COPIES_AT + at, 1, NULL);
    if (!rc)
        rc = io_byte_lock(dir, F_OFD_GETLK, F_WRLCK, COPIES_AT + at, 1, &found);
    return rc || found == NOT_LOCKED ? rc : TAMIS_ERR_BUSY;
}

/* ---- the files ---- */

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

/* On an overlay a file that is opened for reading stays that of the lower layer when
 * somebody who writes gets a copy of it: LMDB would never see the list change. Opened
 * for writing first it is copied now. The copy may have another device and inode, so
 * this comes before anybody asks for them. */
static int see_writers(int dir, const char *path, int *fd, struct tamis_diag *diag)
{
    bool overlay;
    int fresh, rc = io_is_overlay(*fd, &overlay);
    if (!rc && overlay) {
        rc = io_open_beneath(dir, "catalog.lmdb", O_RDWR, &fresh);
        if (!rc) {
            close(*fd);
            *fd = fresh;
        }
    }
    if (!rc)
        return 0;
    close(*fd);
    *fd = -1;
    return diag_errno(diag, rc, path,
                      "a catalog on an overlay, where a reader sees writers only if it "
                      "may write catalog.lmdb: let it, or use a volume");
}

int registry_open_file(int dir, const char *path, int *fd, struct tamis_diag *diag)
{
    int rc = io_open_beneath(dir, "catalog.lmdb", O_RDONLY, fd);
    if (rc == ENOENT && dir_is_empty(dir, "filters") == 1)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "catalog.lmdb is missing and filters/ is empty: creating "
                         "this store was cut short, or both were lost");
    if (rc == ENOENT && faccessat(dir, "filters", F_OK, 0) == 0)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "filters/ is there, but catalog.lmdb is missing");
    if (rc == ENOENT)
        return diag_fail(diag, TAMIS_ERR_NO_STORE, path,
                         "no store in this directory (no catalog.lmdb)");
    if (io_not_regular(rc))
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                         "catalog.lmdb is not a regular file");
    if (rc)
        return diag_errno(diag, rc, path, "opening catalog.lmdb");
    return see_writers(dir, path, fd, diag);
}

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

/* ---- the catalog ---- */

/* A catalog of this file, not open yet; NULL: no memory. */
static struct catalog *catalog_alloc(const char *store_path, const struct stat *st)
{
    size_t n = strlen(store_path);
    struct catalog *c = calloc(1, sizeof *c + n + 1);
    struct ledger *ledger = c ? ledger_new() : NULL;
    if (!ledger) {
        free(c);
        return NULL;
    }
    c->ledger = ledger;
    memcpy(c->path, store_path, n + 1);
    c->device = st->st_dev;
    c->inode = st->st_ino;
    c->refs = 1;
    c->fd = -1;
    pthread_mutex_init(&c->gates[0], NULL);
    pthread_mutex_init(&c->gates[1], NULL);
    c->fork_epoch = io_fork_epoch();
    pthread_mutex_init(&c->cache_lock, NULL);
    pthread_mutex_init(&c->opened_lock, NULL);
    /* Else threads that never stop reading could keep the map from growing. */
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&c->map_lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return c;
}

void catalog_free(struct catalog *c)
{
    open_packs_forget(c, NULL);
    catalog_env_close(c);
    map_drop(&c->metas);
    if (c->fd >= 0)
        close(c->fd);
    origin_release(c->origin);
    filters_dir_release(c->filters);
    ledger_release(c->ledger);
    if (c->has_turn) {
        /* Before the close: a child being forked may have the descriptor, too. */
        io_byte_lock(c->turn.fd, F_OFD_SETLK, F_UNLCK, 0, 0, NULL);
        dir_close_guarded(&c->turn);
    }
    pthread_mutex_destroy(&c->gates[0]);
    pthread_mutex_destroy(&c->gates[1]);
    pthread_rwlock_destroy(&c->map_lock);
    pthread_mutex_destroy(&c->cache_lock);
    pthread_mutex_destroy(&c->opened_lock);
    free(c);
}

/* Opens the catalog, and reads what never changes. `dir` is STORE, fd its catalog. A
 * reader does without LMDB if it must. A commit is no reason to wait here. */
static int catalog_load(struct catalog *c, int dir, int fd, struct tamis_diag *diag)
{
    struct io_wait briefly = {.timeout_ms = 100};
    c->read_only = io_refuse_network(dir) == TAMIS_ERR_NETWORK;
    int rc = registry_check_lock_file(dir, c->path, diag);
    if (rc)
        return rc;
    c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    rc = c->fd < 0 ? errno
                   : map_file(c->fd, 0, 2 * catalog_page_bytes(c->fd), false, NULL,
                              &c->metas);
    if (rc)
        return diag_errno(diag, rc, c->path, "opening the catalog");
    rc = catalog_env_open(c, c->origin->catalog.path, &briefly, diag);
    if (rc == TAMIS_ERR_BUSY || rc == EACCES || rc == EPERM || rc == EROFS ||
        rc == ENOSPC || rc == EDQUOT) {
        diag_clear(diag);
        rc = 0;
    }
    if (!rc)
        rc = catalog_read(c, catalog_meta, &c->meta, diag);
    if (rc)
        return rc;
    if (c->meta.ro_compat)
        c->read_only = true;
    rc = tamis_domain_init(&c->domain, c->meta.hash_id, c->meta.hash_seed);
    if (rc)
        return diag_fail(diag, rc, c->path, "hash function of the store");
    rc = filters_dir_open(dir, c->path, c->origin->at, c->origin->filters.path,
                          &c->filters);
    if (!rc)
        rc = origin_take_filters(c->origin, c->filters->fd);
    if (rc == ENOENT)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, c->path, "filters/ is missing");
    if (rc == ENOTDIR || rc == ELOOP)
        return diag_fail(diag, TAMIS_ERR_DAMAGED, c->path, "filters/ is no directory");
    return rc ? diag_errno(diag, rc, c->path, "opening filters/") : 0;
}

/* ---- for repair ---- */

int registry_open_alone(const char *store_path, int dir, struct catalog **out,
                        struct tamis_diag *diag)
{
    struct stat st;
    int fd, rc = registry_open_file(dir, store_path, &fd, diag);
    if (rc)
        return rc;
    *out = fstat(fd, &st) == 0 ? catalog_alloc(store_path, &st) : NULL;
    if (!*out) {
        close(fd);
        return diag_errno(diag, ENOMEM, store_path, "opening the catalog");
    }
    (*out)->read_only = true;
    (*out)->fd = fd;
    return 0;
}

/* ---- a new one ---- */

/* LMDB makes the file in several steps. They are done under another name, so that
 * catalog.lmdb is whole, even if the process ends at any moment. */
int registry_create(const char *store_path, int dir, const struct meta *m,
                    catalog_fn *fill, void *ctx, bool replace, struct tamis_diag *diag)
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
    int rc = catalog_env_create(c, file, m, diag);
    if (!rc && fill)
        rc = catalog_write(c, NULL, 0, fill, ctx, NULL, diag);
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

bool store_catalog_temporary(const char *name)
{
    size_t n = sizeof CATALOG_TEMP - 1;
    if (strncmp(name, CATALOG_TEMP, n) != 0 ||
        strspn(name + n, "0123456789abcdef") != 8)
        return false;
    return strcmp(name + n + 8, ".tmp") == 0 || strcmp(name + n + 8, ".tmp-lock") == 0;
}

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
static void registry_watch_forks(void)
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
            (io_is_file(file, c->device, c->inode) ||
             io_is_file(dir, c->dir_device, c->dir_inode)))
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
    if (!io_is_file(file, c->device, c->inode) ||
        !io_is_file(dir, c->dir_device, c->dir_inode))
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
static int enter_turn(struct catalog *c, int dir, const struct stat *st)
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
        !io_is_file(&now, st->st_dev, st->st_ino))
        return EAGAIN;
    return 0;
}

/* Checks the files before LMDB opens them. */
static int load(struct catalog *c, int dir, int fd, const struct stat *file,
                struct tamis_diag *diag)
{
    int rc = enter_turn(c, dir, file);
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
    rc = io_once(&fork_once, registry_watch_forks);
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
        if (rc == TAMIS_ERR_BUSY) { /* two copies may both find the other */
            dir_step_back(dir);
        } else { /* until nobody creates or repairs the store */
            rc = dir_wait(dir, LOCK_SH, wait, store_path,
                          "creating or repairing the store", diag);
            dir_unlock(dir);
            if (rc)
                break;
        }
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
    /* A reader looks as seldom as probes do; a writer looks now. */
    if (origin_now(s->catalog->origin) == TAMIS_MISMATCH)
        return origin_fail(s->catalog->origin, diag);
    return writing ? origin_check(s->catalog->origin, 0, UINT64_MAX, diag) : 0;
}
