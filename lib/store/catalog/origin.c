/* Is the store that the path names still the one that is open?
 *
 * LMDB finds its two files by name when it opens them and never looks again. If
 * somebody replaces one of them, two processes work with two locks, or with two
 * catalogs, and each overwrites what the other has acknowledged. So the files are
 * compared by device and inode, and the newest transaction of the file is compared with
 * the one that LMDB believes in. Writers compare before and after everything they do;
 * readers compare when a coarse clock says that the last look is old (look.c). Filters/
 * is compared, too: users of a new one do not find filters in the old.
 *
 * The catalog is opened once more for the lock that tells others which lock file is in
 * use: a forked child closes that descriptor, and not the one that its snapshots read.
 *
 * Both files are kept open here, so that the kernel gives their inode numbers to no
 * other file. The lock file is opened with O_PATH: LMDB has locks on it that belong to
 * the process, and closing any other descriptor of it would drop them. */
#include "lib/store/catalog/file.h"

/* ---- made and freed ---- */

static char *path_beneath(const char *store, const char *name)
{
    size_t n = strlen(store) + strlen(name) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", store, name);
    return path;
}

/* The working directory may change, so the path is made absolute. A process that may
 * not search the directories above keeps the path and the working directory. */
static int set_paths(struct origin *o, const char *store_path)
{
    char *full = realpath(store_path, NULL);
    if (!full && errno != EACCES)
        return errno;
    if (!full && (o->at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return errno;
    o->catalog.path = path_beneath(full ? full : store_path, "catalog.lmdb");
    o->lock.path = path_beneath(full ? full : store_path, "catalog.lmdb-lock");
    o->filters.path = path_beneath(full ? full : store_path, "filters");
    free(full);
    return o->catalog.path && o->lock.path && o->filters.path ? 0 : ENOMEM;
}

static int note_file(struct origin_file *f)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return errno;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    return 0;
}

int origin_new(const char *store_path, int catalog_fd, struct origin **out)
{
    struct origin *o = calloc(1, sizeof *o);
    if (!o)
        return ENOMEM;
    atomic_init(&o->refs, 1);
    o->at = AT_FDCWD; /* the paths are absolute */
    o->lock.fd = o->filters.fd = -1;
    o->catalog.fd = fcntl(catalog_fd, F_DUPFD_CLOEXEC, 0);
    int rc = o->catalog.fd < 0 ? errno : note_file(&o->catalog);
    if (!rc)
        rc = set_paths(o, store_path);
    if (rc)
        origin_release(o);
    else
        *out = o;
    return rc;
}

void origin_release(struct origin *o)
{
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    origin_leave(o);
    if (o->catalog.fd >= 0)
        close(o->catalog.fd);
    if (o->lock.fd >= 0)
        close(o->lock.fd);
    if (o->at >= 0)
        close(o->at);
    free(o->catalog.path);
    free(o->lock.path);
    free(o->filters.path);
    free(o);
}

/* ---- the lock file: one for all who have the catalog open ---- */

/* The byte of the catalog file on which its users say which lock file they have: its
 * inode number. */
#define USERS_AT (UINT64_C(1) << 62)
#define N_USERS  (UINT64_C(1) << 61)

/* Has somebody the catalog open with another lock file than this? */
static int other_lock_in_use(int fd, uint64_t mine, bool *used)
{
    uint64_t found = NOT_LOCKED, after = mine + 1;
    int rc = mine ? io_byte_lock(fd, F_OFD_GETLK, F_WRLCK, USERS_AT, mine, &found) : 0;
    if (!rc && found == NOT_LOCKED && after < N_USERS)
        rc = io_byte_lock(fd, F_OFD_GETLK, F_WRLCK, USERS_AT + after, N_USERS - after,
                          &found);
    *used = found != NOT_LOCKED;
    return rc;
}

/* A lock of a descriptor that a child keeps would outlive a process that is killed. */
static int open_users(struct origin *o)
{
    struct stat st;
    int rc = o->has_users ? 0 : io_hold_forks();
    if (o->has_users || rc)
        return rc;
    int fd =
        openat(o->at, o->catalog.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    rc = fd < 0 || fstat(fd, &st) != 0 ? errno : 0;
    if (!rc && !io_is_file(&st, o->catalog.device, o->catalog.inode))
        rc = TAMIS_ERR_REPLACED;
    if (!rc)
        io_guard_fd(&o->users, fd);
    else if (fd >= 0)
        close(fd);
    o->has_users = !rc;
    io_let_forks();
    return rc;
}

static int open_lock(struct origin *o)
{
    struct stat st;
    int fd = openat(o->at, o->lock.path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 || fstat(fd, &st) != 0 ? errno : 0;
    if (!rc) {
        o->lock.device = st.st_dev;
        o->lock.inode = st.st_ino;
        o->lock.fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    return rc;
}

int origin_take_lock_file(struct origin *o, struct tamis_diag *diag)
{
    bool used = false;
    int rc = o->lock.fd < 0 ? open_lock(o) : 0; /* or by an earlier try */
    if (rc)
        return rc == ENOENT
                   ? 0
                   : diag_errno(diag, rc, o->lock.path, "opening LMDB's lock file");
    rc = open_users(o);
    if (rc == TAMIS_ERR_REPLACED)
        return diag_fail(diag, rc, o->catalog.path,
                         "replaced while it was being opened");
    uint64_t mine = o->lock.inode & (N_USERS - 1);
    if (!rc)
        rc = io_byte_lock(o->users.fd, F_OFD_SETLK, F_RDLCK, USERS_AT + mine, 1, NULL);
    if (!rc)
        rc = other_lock_in_use(o->users.fd, mine, &used);
    if (rc)
        return diag_errno(diag, rc, o->catalog.path, "saying which lock file is used");
    if (!used)
        return 0;
    return diag_fail(diag, TAMIS_ERR_REPLACED, o->lock.path,
                     "removed or replaced while a process has the store open");
}

int origin_take_filters(struct origin *o, int fd)
{
    o->filters.fd = fd;
    return note_file(&o->filters);
}

void origin_leave(struct origin *o)
{
    if (!o || !o->has_users)
        return;
    /* Explicitly: a child may not have closed its copy yet. */
    io_byte_lock(o->users.fd, F_OFD_SETLK, F_UNLCK, USERS_AT, N_USERS, NULL);
    io_unguard_fd(&o->users);
    o->has_users = false;
}

/* ---- comparing ---- */

int origin_fail(const struct origin *o, struct tamis_diag *diag)
{
    return diag_fail(diag, TAMIS_ERR_REPLACED, o->catalog.path,
                     "replaced while this process has the store open");
}

/* 0, ERR_REPLACED, or an errno that says nothing of the file. */
static int compare_file(int at, const struct origin_file *f)
{
    struct stat st;
    if (f->fd < 0)
        return 0;
    if (fstatat(at, f->path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || errno == ENOTDIR ? TAMIS_ERR_REPLACED : errno;
    return io_is_file(&st, f->device, f->inode) ? 0 : TAMIS_ERR_REPLACED;
}

/* For good, and in all threads from their next probe on. */
static void note_replaced(struct origin *o)
{
    look_replaced(&o->looks);
    quick_end();
}

int origin_check_files(struct origin *o, struct tamis_diag *diag)
{
    if (!o)
        return 0;
    const struct origin_file *const files[] = {&o->catalog, &o->lock, &o->filters};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int rc = compare_file(o->at, files[i]);
        if (rc && rc != TAMIS_ERR_REPLACED)
            return diag_errno(diag, rc, files[i]->path,
                              "looking whether it was replaced");
        if (!rc)
            continue;
        note_replaced(o);
        return diag_fail(diag, rc, files[i]->path,
                         "moved, removed or replaced while this process has the store "
                         "open");
    }
    return 0;
}

int origin_fail_newest(struct origin *o, uint64_t newest, uint64_t known,
                       struct tamis_diag *diag)
{
    note_replaced(o);
    return diag_fail(
        diag, TAMIS_ERR_REPLACED, o->catalog.path,
        "its newest transaction is %llu, not %llu: overwritten, or written "
        "with another lock file, while it is in use",
        (unsigned long long)newest, (unsigned long long)known);
}

/* The file itself may have been overwritten by an older one. LMDB's lock file counts
 * on. One that cannot be read is not believed for good: its transactions will tell. */
int origin_check(struct origin *o, uint64_t low, uint64_t high, struct tamis_diag *diag)
{
    uint64_t newest;
    int rc = origin_check_files(o, diag);
    if (rc || !o)
        return rc;
    rc = catalog_file_newest(o->catalog.fd, low, &newest);
    if (rc > 0)
        return diag_errno(diag, rc, o->catalog.path, "reading its newest transaction");
    if (rc)
        return diag_fail(
            diag, TAMIS_ERR_REPLACED, o->catalog.path,
            "overwritten or cut off while it is in use: it is no catalog now");
    if (newest >= low && newest <= high)
        return 0;
    return origin_fail_newest(o, newest, newest < low ? low : high, diag);
}

/* ---- looks of readers ---- */

void origin_note(struct origin *o, uint64_t number)
{
    uint64_t seen = o ? atomic_load(&o->newest) : number;
    while (seen < number && !atomic_compare_exchange_weak(&o->newest, &seen, number))
        ;
}

void origin_look(struct origin *o, uint64_t now)
{
    if (!look_is_mine(&o->looks, now))
        return;
    /* A probe may run in a signal handler, and is no cancellation point. */
    int saved = errno, cancel = io_hold_cancel();
    uint64_t known = atomic_load(&o->newest);
    int rc = origin_check(o, known, UINT64_MAX, NULL);
    /* A reason that is to stay is noted already. */
    look_note(&o->looks, now, rc ? TAMIS_UNREADABLE : TAMIS_NO_REASON);
    if (rc)
        quick_end();
    io_let_cancel(cancel);
    errno = saved;
}
