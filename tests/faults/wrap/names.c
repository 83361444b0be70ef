/* The wrappers around descriptors, locks, names and directories. */
#include "tests/faults/wrap/wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

int __wrap_open(const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
long __wrap_syscall(long number, ...);
int __wrap_close(int fd);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_flock(int fd, int how);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags);
int __real_fstatat(int dir, const char *path, struct stat *st, int flags);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatvfs(int fd, struct statvfs *fs);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_faccessat(int dir, const char *path, int mode, int flags);
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                     unsigned flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to,
                  int flags);
int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_unlink(const char *path);
int __wrap_rmdir(const char *path);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdirat(int dir, const char *path, mode_t mode);
int __wrap_mkostemp(char *path, int flags);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_fdopendir(int fd);
struct dirent *__wrap_readdir(DIR *d);
int __wrap_closedir(DIR *d);
long __real_syscall(long number, ...);
int __real_close(int fd);
int __real_fcntl(int fd, int cmd, ...);
int __real_flock(int fd, int how);
int __real_fstat(int fd, struct stat *st);
int __real_fstatfs(int fd, struct statfs *fs);
int __real_fstatvfs(int fd, struct statvfs *fs);
int __real_memfd_create(const char *name, unsigned flags);
int __real_ioctl(int fd, unsigned long request, void *argument);
int __real_faccessat(int dir, const char *path, int mode, int flags);
int __real_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                     unsigned flags);
int __real_linkat(int from_dir, const char *from, int to_dir, const char *to,
                  int flags);
int __real_unlinkat(int dir, const char *path, int flags);
int __real_unlink(const char *path);
int __real_rmdir(const char *path);
int __real_mkdir(const char *path, mode_t mode);
int __real_mkdirat(int dir, const char *path, mode_t mode);
int __real_mkostemp(char *path, int flags);
DIR *__real_opendir(const char *path);
DIR *__real_fdopendir(int fd);
struct dirent *__real_readdir(DIR *d);
int __real_closedir(DIR *d);

#define MODE_ARGUMENT(flags)                                                           \
    va_list args;                                                                      \
    va_start(args, flags);                                                             \
    mode_t mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;          \
    va_end(args)

int __wrap_open(const char *path, int flags, ...)
{
    MODE_ARGUMENT(flags);
    FAIL_AS(CALL_open, -1);
    if (in_lib && faults_old_system() && (flags & O_TMPFILE) == O_TMPFILE)
        return errno = EOPNOTSUPP, -1;
    return plain_openat(AT_FDCWD, path, flags, mode);
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
    MODE_ARGUMENT(flags);
    FAIL_AS(CALL_openat, -1);
    return plain_openat(dir, path, flags, mode);
}

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    FAIL_AS(CALL_syscall, -1);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int __wrap_close(int fd)
{
    const struct fault *f = due(CALL_close);
    return late(f, __real_close(fd));
}

int __wrap_fcntl(int fd, int cmd, ...)
{
    va_list args;
    va_start(args, cmd);
    long argument = va_arg(args, long);
    va_end(args);
    FAIL_AS(CALL_fcntl, -1);
    return __real_fcntl(fd, cmd, argument);
}

int __wrap_flock(int fd, int how)
{
    FAIL_AS(CALL_flock, -1);
    return __real_flock(fd, how);
}

int __wrap_fstat(int fd, struct stat *st)
{
    FAIL_AS(CALL_fstat, -1);
    return __real_fstat(fd, st);
}

int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    FAIL_AS(CALL_fstatat, -1);
    return __real_fstatat(dir, path, st, flags);
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    FAIL_AS(CALL_ioctl, -1);
    return __real_ioctl(fd, request, argument);
}

int __wrap_fstatvfs(int fd, struct statvfs *fs)
{
    FAIL_AS(CALL_fstatvfs, -1);
    return __real_fstatvfs(fd, fs);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    FAIL_AS(CALL_memfd_create, -1);
    return __real_memfd_create(name, flags);
}

int __wrap_fstatfs(int fd, struct statfs *fs)
{
    FAIL_AS(CALL_fstatfs, -1);
    return __real_fstatfs(fd, fs);
}

int __wrap_faccessat(int dir, const char *path, int mode, int flags)
{
    FAIL_AS(CALL_faccessat, -1);
    return __real_faccessat(dir, path, mode, flags);
}

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                     unsigned flags)
{
    const struct fault *f = due(CALL_renameat2);
    if (f && f->unseen && !flags)
        f = NULL; /* every system has a plain rename */
    if (f && f->effect != DONE)
        return -1;
    return late(f, __real_renameat2(from_dir, from, to_dir, to, flags));
}

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    FAIL_AS(CALL_linkat, -1);
    return __real_linkat(from_dir, from, to_dir, to, flags);
}

int __wrap_unlinkat(int dir, const char *path, int flags)
{
    const struct fault *f = due(CALL_unlinkat);
    if (f && f->effect != DONE)
        return -1;
    return late(f, __real_unlinkat(dir, path, flags));
}

int __wrap_unlink(const char *path)
{
    FAIL_AS(CALL_unlink, -1);
    return __real_unlink(path);
}

int __wrap_rmdir(const char *path)
{
    FAIL_AS(CALL_rmdir, -1);
    return __real_rmdir(path);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    FAIL_AS(CALL_mkdir, -1);
    return __real_mkdir(path, mode);
}

int __wrap_mkdirat(int dir, const char *path, mode_t mode)
{
    FAIL_AS(CALL_mkdirat, -1);
    return __real_mkdirat(dir, path, mode);
}

int __wrap_mkostemp(char *path, int flags)
{
    FAIL_AS(CALL_mkostemp, -1);
    return __real_mkostemp(path, flags);
}

DIR *__wrap_opendir(const char *path)
{
    FAIL_AS(CALL_opendir, NULL);
    DIR *d = __real_opendir(path);
    tally.dirs += in_lib && d;
    return d;
}

DIR *__wrap_fdopendir(int fd)
{
    FAIL_AS(CALL_fdopendir, NULL);
    DIR *d = __real_fdopendir(fd);
    tally.dirs += in_lib && d;
    return d;
}

struct dirent *__wrap_readdir(DIR *d)
{
    FAIL_AS(CALL_readdir, NULL);
    return __real_readdir(d);
}

int __wrap_closedir(DIR *d)
{
    tally.dirs -= in_lib;
    return __real_closedir(d);
}
