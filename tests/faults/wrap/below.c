/* The calls that LMDB makes, as a shared library: the definitions here come before
 * libc's. The library's own calls go to the wrappers instead, which end in the plain_
 * functions. */
#include "tests/faults/wrap/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
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

int plain_openat(int dir, const char *path, int flags, mode_t mode)
{
    return (int)SYSTEM(openat, dir, path, flags, mode);
}

bool die_after_meta;

static bool fails(enum call call)
{
    const struct fault *f = in_lib ? fault_of(call) : NULL;
    if (!f)
        return false;
    errno = f->code;
    return true;
}

/* Seen by shared libraries from here on. */
#pragma GCC visibility push(default)

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    const struct fault *f = in_lib ? fault_of(CALL_lmdb_pread) : NULL;
    if (f && f->effect == NONE)
        return 0;
    if (f)
        return errno = f->code, -1;
    return plain_pread(fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    const struct fault *f = in_lib ? fault_of(CALL_lmdb_pwrite) : NULL;
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

#pragma GCC visibility pop
