/* The only system calls that write, and the seam at which tests inject faults and
 * record what was written. Also what belongs to descriptors: opening safely,
 * locks (R14), and what a fork does to them. */
#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static void random_bytes(void *buf, size_t n)
{
    uint8_t *p = buf;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno != EINTR)
            abort(); /* no entropy source: no unique names, no safe seed */
        if (got > 0)
            p += got, n -= (size_t)got;
    }
}

static uint64_t now_microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct io_calls io_calls = {
    .pread = pread,
    .pwrite = pwrite,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .fallocate = fallocate,
    .ftruncate = ftruncate,
    .renameat2 = renameat2,
    .unlinkat = unlinkat,
    .linkat = linkat,
    .mmap = mmap,
    .random = random_bytes,
    .now = now_microseconds,
};

/* ---- reading and writing ---- */

int io_read(int fd, void *buf, size_t n, uint64_t offset, size_t *got)
{
    *got = 0;
    while (*got < n) {
        ssize_t r =
            io_calls.pread(fd, (uint8_t *)buf + *got, n - *got, (off_t)(offset + *got));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return errno;
        if (r == 0)
            return 0;
        *got += (size_t)r;
    }
    return 0;
}

int io_write(int fd, const void *buf, size_t n, uint64_t offset)
{
    const uint8_t *p = buf;
    while (n > 0) {
        ssize_t w = io_calls.pwrite(fd, p, n, (off_t)offset);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return errno;
        if (w == 0)
            return EIO;
        p += w, offset += (uint64_t)w, n -= (size_t)w;
    }
    return 0;
}

int io_size(int fd, uint64_t *n_bytes)
{
    struct stat st;
    *n_bytes = 0;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    *n_bytes = (uint64_t)st.st_size;
    return 0;
}

static int write_zeros(int fd, uint64_t offset, uint64_t n)
{
    static const uint8_t zeros[65536];
    while (n > 0) {
        size_t step = n < sizeof zeros ? (size_t)n : sizeof zeros;
        int err = io_write(fd, zeros, step, offset);
        if (err)
            return err;
        offset += step, n -= step;
    }
    return 0;
}

int io_allocate(int fd, uint64_t offset, uint64_t n)
{
    int r;
    do
        r = io_calls.fallocate(fd, 0, (off_t)offset, (off_t)n);
    while (r != 0 && errno == EINTR);
    if (r == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return errno;
    return write_zeros(fd, offset, n);
}

/* ---- opening ---- */

/* Takes a fresh descriptor (or -1 and errno) and keeps it if it is a regular file.
 * O_NONBLOCK, which kept open() from waiting on a FIFO, means nothing to it. */
static int keep_regular(int opened, int *fd)
{
    uint64_t n_bytes;
    *fd = -1;
    if (opened < 0)
        return errno;
    int err = io_size(opened, &n_bytes);
    if (err)
        close(opened);
    else
        *fd = opened;
    return err;
}

int io_open(const char *path, int flags, int *fd)
{
    return keep_regular(open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), fd);
}

int io_open_raw(int dir, const char *name, int flags, int *fd)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long opened = syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (opened < 0 && (errno == ENOSYS || errno == EPERM)) {
        /* Before Linux 5.6, or under a filter of system calls: names are ours, one
         * component each, so O_NOFOLLOW gives the same. */
        if (strchr(name, '/'))
            return *fd = -1, EINVAL;
        opened =
            openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    *fd = (int)opened;
    return opened < 0 ? errno : 0;
}

int io_open_beneath(int dir, const char *name, int flags, int *fd)
{
    int opened, err = io_open_raw(dir, name, flags, &opened);
    *fd = -1;
    return err ? err : keep_regular(opened, fd);
}

int io_open_parent(const char *path, int *dir, const char **base)
{
    const char *slash = strrchr(path, '/');
    *dir = -1;
    *base = slash ? slash + 1 : path;
    if (!**base || strlen(*base) > NAME_MAX_BYTES)
        return **base ? ENAMETOOLONG : EISDIR;
    char *parent = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!parent)
        return ENOMEM;
    *dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = *dir < 0 ? errno : 0;
    free(parent);
    return err;
}

int io_refuse_network(int fd)
{
    /* Magic numbers from linux/magic.h and fs/: NFS, SMB, CIFS, SMB2, Coda, AFS,
     * Ceph, 9p, Lustre, GFS2, OCFS2. Their mappings and locks are not coherent
     * between machines, and bits could vanish. */
    static const uint32_t network[] = {
        0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x73757245, 0x5346414F,
        0x00C36400, 0x01021997, 0x0BD00BD0, 0x01161970, 0x7461636F,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return errno;
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++)
        if ((uint32_t)fs.f_type == network[i])
            return TAMIS_ERR_NETWORK;
    return 0;
}

/* ---- R13: create under a temporary name, then publish ---- */

int io_create_temp(int dir, const char *name, char temp[IO_TEMP_NAME_BYTES], int *fd)
{
    for (int tries = 0; tries < 16; tries++) {
        uint32_t tag;
        io_calls.random(&tag, sizeof tag);
        snprintf(temp, IO_TEMP_NAME_BYTES, "%.240s.%08x.tmp", name, tag);
        *fd =
            openat(dir, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*fd >= 0)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

int io_rename(int dir, const char *temp, const char *name)
{
    if (io_calls.renameat2(dir, temp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* A file system without RENAME_NOREPLACE: link() refuses an existing name too. */
    if (io_calls.linkat(dir, temp, dir, name, 0) != 0)
        return errno;
    io_calls.unlinkat(dir, temp, 0);
    return 0;
}

int io_replace(int dir, const char *temp, const char *name)
{
    return io_calls.renameat2(dir, temp, dir, name, 0) == 0 ? 0 : errno;
}

int io_sync_dir(int dir)
{
    return io_calls.fsync(dir) == 0 ? 0 : errno;
}

int io_publish(int dir, const char *temp, const char *name, int fd, bool sync_dir)
{
    if (io_calls.fsync(fd) != 0)
        return errno;
    int err = io_rename(dir, temp, name);
    if (err || !sync_dir)
        return err;
    err = io_sync_dir(dir);
    if (err)
        io_calls.unlinkat(dir, name, 0);
    return err;
}

void io_discard(int dir, const char *temp, int fd)
{
    if (fd >= 0)
        close(fd);
    io_calls.unlinkat(dir, temp, 0);
}

/* ---- R14: locks ---- */

/* An open-file-description lock has no owner that F_OFD_GETLK could report. So a
 * writer locks two bytes: LOCK_AT, which excludes, and the byte after it numbered
 * by its pid, whose place tells a contender who is there. The kernel frees both
 * however the holder ends. */
#define LOCK_AT  ((off_t)1 << 62)
#define LOCK_PID (LOCK_AT + 1)

static int lock_byte(int fd, off_t at)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

static pid_t lock_holder(int fd)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = LOCK_PID,
                         .l_len = (off_t)1 << 32};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return (pid_t)(lock.l_start - LOCK_PID);
}

int io_byte_is_locked(int fd, uint64_t at, bool *locked)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
        return errno;
    *locked = lock.l_type != F_UNLCK;
    return 0;
}

int io_is_locked(int fd, bool *locked)
{
    return io_byte_is_locked(fd, LOCK_AT, locked);
}

int io_lock(int fd, pid_t *holder)
{
    *holder = 0;
    int err = lock_byte(fd, LOCK_AT);
    if (err == EAGAIN || err == EACCES) {
        *holder = lock_holder(fd);
        return TAMIS_ERR_BUSY;
    }
    if (err)
        return err;
    return lock_byte(fd, LOCK_PID + getpid());
}

/* Explicitly, not by closing: a copy of the descriptor that a fork made while it was
 * being opened would keep the lock. */
void io_unlock(int fd)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_OFD_SETLK, &lock);
}

/* ---- R14: fork ---- */

static pthread_mutex_t guard_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct io_guarded_fd guarded = {-1, &guarded, &guarded};
static atomic_uint fork_epoch;
static struct io_once fork_once = IO_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&guard_mutex);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&guard_mutex);
}

static void after_fork_child(void)
{
    for (struct io_guarded_fd *g = guarded.next; g != &guarded; g = g->next) {
        close(g->fd);
        g->fd = -1;
    }
    atomic_fetch_add(&fork_epoch, 1);
    pthread_mutex_unlock(&guard_mutex);
}

/* pthread_once() with a second chance: it alone is safe against a fork at that very
 * moment, and it can be had as often as there are pthread_once_t's. */
int io_once(struct io_once *o, void (*install)(void))
{
    if (atomic_load_explicit(&o->done, memory_order_acquire))
        return 0;
    unsigned i = atomic_load(&o->n_tries);
    if (i == IO_ONCE_TRIES)
        return ENOMEM;
    pthread_once(&o->once[i], install);
    if (atomic_load(&o->done))
        return 0;
    atomic_compare_exchange_strong(&o->n_tries, &i, i + 1);
    return ENOMEM;
}

static void install_fork_handlers(void)
{
    if (pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0)
        atomic_store(&fork_once.done, true);
}

int io_hold_forks(void)
{
    int err = io_once(&fork_once, install_fork_handlers);
    if (!err)
        pthread_mutex_lock(&guard_mutex);
    return err;
}

void io_let_forks(void)
{
    pthread_mutex_unlock(&guard_mutex);
}

void io_guard_fd(struct io_guarded_fd *g, int fd)
{
    g->fd = fd;
    g->next = &guarded;
    g->previous = guarded.previous;
    guarded.previous->next = g;
    guarded.previous = g;
}

static void guard_unlink(struct io_guarded_fd *g)
{
    g->next->previous = g->previous;
    g->previous->next = g->next;
}

int io_open_guarded(int dir, const char *name, int flags, struct io_guarded_fd *g)
{
    int fd, err = io_hold_forks();
    if (err)
        return err;
    err = dir == AT_FDCWD ? io_open(name, flags, &fd)
                          : io_open_beneath(dir, name, flags, &fd);
    if (!err)
        io_guard_fd(g, fd);
    io_let_forks();
    return err;
}

void io_guard_move(struct io_guarded_fd *from, struct io_guarded_fd *to)
{
    pthread_mutex_lock(&guard_mutex);
    guard_unlink(from);
    io_guard_fd(to, from->fd);
    pthread_mutex_unlock(&guard_mutex);
}

void io_unguard_fd(struct io_guarded_fd *g)
{
    pthread_mutex_lock(&guard_mutex);
    guard_unlink(g);
    if (g->fd >= 0)
        close(g->fd);
    g->fd = -1;
    pthread_mutex_unlock(&guard_mutex);
}

unsigned io_fork_epoch(void)
{
    io_once(&fork_once, install_fork_handlers);
    return atomic_load_explicit(&fork_epoch, memory_order_relaxed);
}
