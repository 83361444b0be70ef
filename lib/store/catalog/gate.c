/* Locks of ours before LMDB's mutexes.
 *
 * LMDB's mutexes lie in its lock file and know their owner by a thread id, which says
 * nothing across pid namespaces. If a process dies that waits for one, and the owner
 * has the same id in another namespace, the kernel takes the dead one for the owner and
 * gives the mutex away. Nor can anybody give up waiting for one, or say for whom. So
 * whoever begins a write transaction, and whoever takes or clears a slot of readers,
 * first takes an OFD lock: then nobody ever waits for LMDB.
 *
 * The descriptor of the lock file stays open until the environment is closed: closing
 * it would drop LMDB's own locks. */
#include "lib/store/catalog/lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* LMDB maps its lock file, and makes it with a hole for what it has not touched: on a
 * full disk a signal, not an error. So its space is asked for before. */
static int reserve_lock_file(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EINVAL;
    int rc = io_calls.fallocate(fd, 0, 0, LOCK_FILE_BYTES) == 0 ? 0 : errno;
    return rc == ENOSPC || rc == EDQUOT || rc == EIO ? rc : 0;
}

/* Others open it as soon as it has its name, if they know the catalog's. */
static int make_lock_file(int dir, const char *name, bool known)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, rc = io_create_temp(dir, "catalog.lmdb", temp, &fd);
    if (rc)
        return rc;
    io_adopt(dir, ".", fd);
    rc = reserve_lock_file(fd);
    if (!rc)
        rc = known ? io_rename(dir, temp, name) : io_replace(dir, temp, name);
    if (rc)
        io_discard(dir, temp, fd);
    else
        close(fd);
    return rc;
}

static int open_lock_file(struct catalog *c, int dir, const char *name)
{
    int rc = io_hold_forks();
    if (rc)
        return rc;
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    rc = fd < 0 ? errno : 0;
    if (!rc)
        io_guard_fd(&c->lock_file, fd);
    c->has_lock_file = !rc;
    io_let_forks();
    return rc;
}

int gate_open(struct catalog *c, const char *file)
{
    char name[IO_TEMP_NAME_BYTES];
    const char *base;
    int dir, rc = io_open_parent(file, &dir, &base);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s-lock", base);
    while ((rc = open_lock_file(c, dir, name)) == ENOENT) {
        rc = make_lock_file(dir, name, c->origin != NULL);
        if (rc && rc != EEXIST)
            break;
    }
    if (!rc)
        rc = reserve_lock_file(c->lock_file.fd);
    if (rc)
        gate_close(c);
    close(dir);
    return rc;
}

void gate_close(struct catalog *c)
{
    if (c->has_lock_file)
        io_unguard_fd(&c->lock_file);
    c->has_lock_file = false;
}

/* Tries once. *who: has it. A lock of a description says nothing between threads. */
static int gate_try(struct catalog *c, enum lock_name which, const char **who,
                    char text[HOLDER_TEXT_BYTES])
{
    pthread_mutex_t *threads = &c->gates[which == LOCK_SLOT];
    *who = "another thread of this process";
    if (pthread_mutex_trylock(threads) != 0)
        return TAMIS_ERR_BUSY;
    int rc = io_lock(c->lock_file.fd, which);
    if (rc) {
        *who = io_holder(c->lock_file.fd, which, text);
        pthread_mutex_unlock(threads);
    }
    return rc;
}

/* LMDB believes what its lock file says, and glibc ends a process that locks a mutex of
 * other bytes. */
static int check_head(const struct catalog *c)
{
    const uint32_t magic = 0xBEEFC0DE; /* MDB_MAGIC in LMDB's mdb.c */
    uint32_t found = magic;
    size_t n;
    int rc = c->env ? io_read(c->lock_file.fd, &found, sizeof found, 0, &n) : 0;
    return rc ? rc : found != magic ? MDB_INVALID : 0;
}

int gate_enter(struct catalog *c, enum lock_name which, struct io_wait *wait,
               struct tamis_diag *diag)
{
    struct io_wait forever = {.timeout_ms = 0};
    for (;;) {
        struct tamis_diag whom;
        char text[HOLDER_TEXT_BYTES];
        const char *who;
        int rc = gate_try(c, which, &who, text);
        if (!rc) {
            rc = check_head(c);
            if (!rc)
                return 0;
            gate_leave(c, which);
            c->lock_refused = rc == MDB_INVALID;
            return catalog_fail(diag, c->path, rc, "locking the catalog");
        }
        if (rc > 0)
            return diag_errno(diag, rc, c->path, "locking the catalog");
        diag_fail(&whom, rc, c->path, "%s is %s the catalog", who,
                  which == LOCK_SLOT ? "opening" : "changing");
        if (io_wait_more(wait ? wait : &forever, &whom))
            continue;
        if (diag)
            *diag = whom;
        return rc;
    }
}

void gate_leave(struct catalog *c, enum lock_name which)
{
    io_unlock(c->lock_file.fd, which);
    pthread_mutex_unlock(&c->gates[which == LOCK_SLOT]);
}
