/* The wrappers of calls that do nothing when they fail, and of memory. */
#include "tests/faults/wrap/wrap.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

/* ---- memory ---- */

WRAP_TAKER(void *, calloc, memory, (size_t n, size_t size), n, size)
WRAP_TAKER(void *, aligned_alloc, memory, (size_t align, size_t n), align, n)
WRAP_TAKER(char *, strdup, memory, (const char *s), s)
WRAP_TAKER(char *, strndup, memory, (const char *s, size_t n), s, n)
WRAP_TAKER(char *, realpath, memory, (const char *path, char *to), path, to)

WRAPPER(void *, malloc, (size_t n))
{
    FAIL_AS(CALL_malloc, NULL);
    void *p = __real_malloc(n);
    if (p && in_lib)
        memset(p, 0xa5, n); /* nobody may count on zeros */
    tally.memory += in_lib && p;
    return p;
}

WRAPPER(void *, realloc, (void *p, size_t n))
{
    FAIL_AS(CALL_realloc, NULL);
    bool fresh = !p;
    void *q = __real_realloc(p, n);
    tally.memory += in_lib && fresh && q;
    return q;
}

WRAPPER(void, free, (void *p))
{
    tally.memory -= in_lib && p;
    __real_free(p);
}

WRAP(int, mincore, -1, (void *at, size_t n, unsigned char *in), at, n, in)
WRAP(int, mlock2, -1, (const void *at, size_t n, unsigned flags), at, n, flags)
WRAP(int, munlock, -1, (const void *at, size_t n), at, n)

/* ---- files and names ---- */

WRAP(int, sync_file_range, -1, (int fd, off_t at, off_t n, unsigned flags), fd, at, n,
     flags)
WRAP(int, fstat, -1, (int fd, struct stat *st), fd, st)
WRAP(int, fstatat, -1, (int dir, const char *path, struct stat *st, int flags), dir,
     path, st, flags)
WRAP(int, fstatfs, -1, (int fd, struct statfs *fs), fd, fs)
WRAP(int, fstatvfs, -1, (int fd, struct statvfs *fs), fd, fs)
WRAP(int, ioctl, -1, (int fd, unsigned long request, void *argument), fd, request,
     argument)
WRAP(int, memfd_create, -1, (const char *name, unsigned flags), name, flags)
WRAP(int, faccessat, -1, (int dir, const char *path, int mode, int flags), dir, path,
     mode, flags)
WRAP(int, linkat, -1,
     (int from_dir, const char *from, int to_dir, const char *to, int flags), from_dir,
     from, to_dir, to, flags)
WRAP(int, unlink, -1, (const char *path), path)
WRAP(int, rmdir, -1, (const char *path), path)
WRAP(int, mkdir, -1, (const char *path, mode_t mode), path, mode)
WRAP(int, mkdirat, -1, (int dir, const char *path, mode_t mode), dir, path, mode)
WRAP(int, mkostemp, -1, (char *path, int flags), path, flags)
WRAP(struct dirent *, readdir, NULL, (DIR * d), d)
WRAP_TAKER(DIR *, opendir, dirs, (const char *path), path)
WRAP_TAKER(DIR *, fdopendir, dirs, (int fd), fd)
WRAP_CODE(posix_fadvise, (int fd, off_t at, off_t n, int advice), fd, at, n, advice)

/* ---- threads and handlers ---- */

WRAP_CODE(pthread_atfork,
          (void (*before)(void), void (*parent)(void), void (*child)(void)), before,
          parent, child)
WRAP_CODE(pthread_create,
          (pthread_t * thread, const pthread_attr_t *how, void *(*fn)(void *),
           void *arg),
          thread, how, fn, arg)
WRAP_CODE(pthread_key_create, (pthread_key_t * key, void (*end)(void *)), key, end)
WRAP_CODE(pthread_setspecific, (pthread_key_t key, const void *value), key, value)
WRAP(int, sigaction, -1, (int n, const struct sigaction *now, struct sigaction *before),
     n, now, before)
