/* The calls that LMDB makes, as a shared library: the definitions here come before
 * libc's. The library's own calls go to the wrappers instead, which end in the plain_
 * functions. */
#include "tests/faults/wrap/stops.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

long __real_syscall(long number, ...);
#define SYSTEM(name, ...) __real_syscall(SYS_##name, __VA_ARGS__)

ssize_t plain_pread(int fd, void *buf, size_t n, off_t at)
{
    return SYSTEM(pread64, fd, buf, n, at);
}

ssize_t plain_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return SYSTEM(pwrite64, fd, buf, n, at);
}

int plain_fdatasync(int fd)
{
    return (int)SYSTEM(fdatasync, fd);
}

int plain_ftruncate(int fd, off_t n)
{
    return (int)SYSTEM(ftruncate, fd, n);
}

void *plain_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    union {
        long n;
        void *p;
    } r = {.n = SYSTEM(mmap, at, n, prot, flags, fd, offset)};
    return r.p;
}

int plain_close(int fd)
{
    return (int)SYSTEM(close, fd);
}

int plain_flock(int fd, int how)
{
    if (on_wait && SYSTEM(flock, fd, how | LOCK_NB) == 0)
        return 0;
    if (on_wait && errno == EWOULDBLOCK && !(how & LOCK_NB))
        on_wait(true);
    return (int)SYSTEM(flock, fd, how);
}

int plain_fcntl(int fd, int cmd, long argument)
{
    int try = cmd == F_SETLKW ? F_SETLK : cmd == F_OFD_SETLKW ? F_OFD_SETLK : cmd;
    int rc = (int)SYSTEM(fcntl, fd, on_wait ? try : cmd, argument);
    if (!on_wait || try == cmd || rc == 0)
        return rc;
    on_wait(true);
    return (int)SYSTEM(fcntl, fd, cmd, argument);
}

int plain_openat(int dir, const char *path, int flags, mode_t mode)
{
    return (int)SYSTEM(openat, dir, path, flags, mode);
}

bool die_after_meta;

static bool fails(enum call call)
{
    const struct fault *f = fault_at(call);
    if (!f)
        return false;
    errno = f->code;
    return true;
}

/* Seen by shared libraries from here on. */
#pragma GCC visibility push(default)

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    const struct fault *f = fault_at(CALL_lmdb_pread);
    if (f && f->effect == NONE)
        return 0;
    if (f)
        return errno = f->code, -1;
    return plain_pread(fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    const struct fault *f = fault_at(CALL_lmdb_pwrite);
    if (f && f->effect == HALF)
        return plain_pwrite(fd, buf, n / 2, at);
    if (f)
        return errno = f->code, -1;
    size_t room = space_for(n);
    if (n && !room)
        return errno = ENOSPC, -1;
    ssize_t written = plain_pwrite(fd, buf, room, at);
    if (die_after_meta && n % 512 != 0) /* a part of the meta page; all else is pages */
        _exit(0);
    return written;
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    size_t bytes = 0;
    if (fails(CALL_lmdb_writev))
        return -1;
    for (int i = 0; i < n; i++)
        bytes += v[i].iov_len;
    if (space_for(bytes) < bytes)
        return errno = ENOSPC, -1;
    return SYSTEM(writev, fd, v, n);
}

int fdatasync(int fd)
{
    return fails(CALL_lmdb_fdatasync) ? -1 : plain_fdatasync(fd);
}

int ftruncate(int fd, off_t n)
{
    return fails(CALL_lmdb_ftruncate) ? -1 : plain_ftruncate(fd, n);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fails(CALL_lmdb_mmap))
        return MAP_FAILED;
    return plain_mmap(at, n, prot, flags, fd, offset);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails(CALL_lmdb_open) ? -1 : plain_openat(AT_FDCWD, path, flags, mode);
}

int fcntl(int fd, int cmd, ...)
{
    va_list args;
    va_start(args, cmd);
    long argument = va_arg(args, long);
    va_end(args);
    at_call(CALL_lmdb_fcntl);
    return plain_fcntl(fd, cmd, argument);
}

int close(int fd)
{
    at_call(CALL_lmdb_close);
    return plain_close(fd);
}

/* LMDB's mutexes, which all processes share. */
int pthread_mutex_lock(pthread_mutex_t *m)
{
    at_call(CALL_lmdb_lock);
    return plain_lock(m);
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
    return plain_unlock(m);
}

#pragma GCC visibility pop
