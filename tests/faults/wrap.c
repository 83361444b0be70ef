/* The plan of a run, and the wrappers around libc: each asks whether its call is to
 * fail, and keeps count of what is taken and given back. */
#include "tests/faults/wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

struct tally tally;
_Thread_local int in_lib;

static struct {
    struct plan plan, first;
    bool planned, preceded, old_system;
    uint64_t random;
} now;

static struct refusal {
    ino_t inode;
    off_t at, n;
} refused;

void faults_begin(const struct plan *plan, const struct plan *first, bool old_system)
{
    memset(tally.called, 0, sizeof tally.called);
    tally.fired = tally.planned = tally.bytes = tally.syncs_failed = tally.n_marks = 0;
    tally.excused = tally.no_map_full = tally.homeless = false;
    refused.n = 0;
    now.planned = plan != NULL;
    if (plan)
        now.plan = *plan;
    now.preceded = first != NULL;
    if (first)
        now.first = *first;
    now.old_system = old_system;
    now.random = 1;
    image_clear();
}

void faults_end(void)
{
    now.planned = now.preceded = false;
}

const struct plan *faults_plan(void)
{
    return now.planned ? &now.plan : NULL;
}

/* What a system without the newer calls answers. */
static const struct fault *old_answer(enum call call)
{
    static const struct fault no_call = {"ENOSYS", ENOSYS, FAIL, true, 0};
    static const struct fault no_flag = {"EINVAL", EINVAL, FAIL, true, 0};
    static const struct fault no_space = {"EOPNOTSUPP", EOPNOTSUPP, FAIL, true, 0};
    return !now.old_system          ? NULL
           : call == CALL_syscall   ? &no_call
           : call == CALL_renameat2 ? &no_flag
           : call == CALL_fallocate ? &no_space
                                    : NULL;
}

static bool strikes(const struct plan *p, enum call call, uint64_t n)
{
    if (p->call != call || n < p->nth)
        return false;
    if (p->ever)
        return !p->fault->at_most || n < p->nth + p->fault->at_most;
    return n == p->nth;
}

const struct fault *fault_of(enum call call)
{
    uint64_t n = ++tally.called[call];
    bool planned = now.planned && strikes(&now.plan, call, n);
    const struct plan *p = planned                                        ? &now.plan
                           : now.preceded && strikes(&now.first, call, n) ? &now.first
                                                                          : NULL;
    if (!p)
        return old_answer(call);
    tally.fired++;
    tally.planned += planned;
    tally.excused |= p->fault->code == MDB_MAP_FULL && tally.no_map_full;
    return p->fault;
}

/* For a fault that nobody may notice no call may fail, unless another struck too. */
bool faults_excuse(void)
{
    if (tally.fired == 0)
        return false;
    if (tally.excused || (now.preceded && !now.first.fault->unseen))
        return true;
    return now.planned ? !now.plan.fault->unseen : !now.preceded;
}

bool plan_parse(const char *text, struct plan *plan)
{
    char call[64], fault[64], times[8];
    unsigned long long nth;
    if (sscanf(text, "%63[^:]:%llu:%63[^:]:%7s", call, &nth, fault, times) != 4)
        return false;
    for (enum call c = 0; c < N_CALLS; c++)
        for (size_t i = 0; strcmp(call_types[c].name, call) == 0 && i < MAX_FAULTS; i++)
            if (call_types[c].faults[i].name &&
                strcmp(call_types[c].faults[i].name, fault) == 0) {
                *plan = (struct plan){c, nth, &call_types[c].faults[i],
                                      strcmp(times, "ever") == 0};
                return true;
            }
    return false;
}

size_t space_for(size_t n)
{
    if (!in_lib)
        return n;
    uint64_t before = tally.bytes;
    if (n && tally.n_marks < MAX_MARKS)
        tally.marks[tally.n_marks++] = before;
    tally.bytes += n;
    if (!now.planned || now.plan.call != CALL_space || tally.bytes < now.plan.nth)
        return n;
    tally.fired++;
    tally.planned++;
    return before < now.plan.nth - 1 ? (size_t)(now.plan.nth - 1 - before) : 0;
}

/* A failure that does nothing. Others are up to the wrapper. */
static const struct fault *due(enum call call)
{
    const struct fault *f = in_lib ? fault_of(call) : NULL;
    if (f)
        errno = f->code;
    return f;
}

#define FAIL_AS(call, value)                                                           \
    do {                                                                               \
        if (due(call))                                                                 \
            return value;                                                              \
    } while (0)

/* Does it, and then fails. */
static int late(const struct fault *f, int result)
{
    if (!f)
        return result;
    errno = f->code;
    return -1;
}

/* ---- memory ---- */

#define TAKEN(p) (tally.memory += in_lib && (p) != NULL, (p))

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
void __wrap_free(void *p);

void *__wrap_malloc(size_t n)
{
    FAIL_AS(CALL_malloc, NULL);
    void *p = __real_malloc(n);
    if (p && in_lib)
        memset(p, 0xa5, n); /* nobody may count on zeros */
    return TAKEN(p);
}

void *__wrap_calloc(size_t n, size_t size)
{
    FAIL_AS(CALL_calloc, NULL);
    void *p = __real_calloc(n, size);
    return TAKEN(p);
}

void *__wrap_realloc(void *p, size_t n)
{
    FAIL_AS(CALL_realloc, NULL);
    bool fresh = !p;
    void *q = __real_realloc(p, n);
    if (fresh)
        return TAKEN(q);
    return q;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    FAIL_AS(CALL_aligned_alloc, NULL);
    void *p = __real_aligned_alloc(align, n);
    return TAKEN(p);
}

char *__wrap_strdup(const char *s)
{
    FAIL_AS(CALL_strdup, NULL);
    char *p = __real_strdup(s);
    return TAKEN(p);
}

char *__wrap_strndup(const char *s, size_t n)
{
    FAIL_AS(CALL_strndup, NULL);
    char *p = __real_strndup(s, n);
    return TAKEN(p);
}

void __wrap_free(void *p)
{
    tally.memory -= in_lib && p;
    __real_free(p);
}

/* ---- reading and writing ---- */

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_ftruncate(int fd, off_t n);
ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags);
int __real_fstat(int fd, struct stat *st);
int __real_fsync(int fd);
int __real_fallocate(int fd, int mode, off_t at, off_t n);

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
    const struct fault *f = due(CALL_pread);
    if (f && f->effect == NONE)
        return 0;
    if (f && f->effect == HALF)
        return plain_pread(fd, buf, n > 1 ? n / 2 : n, at);
    return f ? -1 : plain_pread(fd, buf, n, at);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    const struct fault *f = due(CALL_pwrite);
    if (f && f->effect == NONE)
        return 0;
    if (f && f->effect == HALF)
        return plain_pwrite(fd, buf, n > 1 ? n / 2 : n, at);
    if (f && f->effect == DONE)
        return late(f, (int)plain_pwrite(fd, buf, n, at));
    if (f)
        return -1;
    size_t room = space_for(n);
    if (n && !room)
        return errno = ENOSPC, -1;
    return plain_pwrite(fd, buf, room, at);
}

int __wrap_fdatasync(int fd)
{
    const struct fault *f = due(CALL_fdatasync);
    tally.syncs_failed += f != NULL;
    if (f && f->effect == LOSE)
        image_sync_failed(fd);
    if (f && f->effect == DONE)
        return late(f, plain_fdatasync(fd));
    if (f)
        return errno = f->code, -1;
    if (in_lib)
        image_synced(fd);
    return plain_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
    const struct fault *f = due(CALL_fsync);
    if (f && f->effect == LOSE)
        image_sync_failed(fd);
    if (f && f->effect == DONE)
        return late(f, __real_fsync(fd));
    if (f)
        return errno = f->code, -1;
    if (in_lib)
        image_synced(fd);
    return __real_fsync(fd);
}

/* Space that was asked for last, and refused. To store into a mapping of it is SIGBUS
 * on a disk that is full; here it is noted. */
static int refuse_space(int fd, off_t at, off_t n, int error)
{
    struct stat st;
    __real_fstat(fd, &st);
    refused = (struct refusal){st.st_ino, at, n};
    errno = error;
    return -1;
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t n)
{
    const struct fault *f = due(CALL_fallocate);
    if (f && f->effect == DONE)
        return late(f, __real_fallocate(fd, mode, at, n));
    if (f && f->code == EOPNOTSUPP)
        refused.n = 0; /* zeros will be written */
    if (f)
        return f->unseen ? -1 : refuse_space(fd, at, n, f->code);
    if (space_for((size_t)n) < (size_t)n)
        return refuse_space(fd, at, n, ENOSPC);
    refused.n = 0;
    return __real_fallocate(fd, mode, at, n);
}

int __wrap_ftruncate(int fd, off_t n)
{
    FAIL_AS(CALL_ftruncate, -1);
    return plain_ftruncate(fd, n);
}

/* The same bytes in every run, and never the same twice in one. */
ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags)
{
    const struct fault *f = due(CALL_getrandom);
    (void)flags;
    if (f && f->effect != HALF)
        return -1;
    n = f && n > 1 ? n / 2 : n;
    for (size_t i = 0; i < n; i++) {
        now.random = now.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)buf)[i] = (uint8_t)(now.random >> 56);
    }
    return (ssize_t)n;
}

/* ---- descriptors and names ---- */

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
int __real_fstatfs(int fd, struct statfs *fs);
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
    if (in_lib && now.old_system && (flags & O_TMPFILE) == O_TMPFILE)
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

/* ---- mappings, and what is left ---- */

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t n);
int __wrap_madvise(void *at, size_t n, int advice);
int __wrap_posix_fadvise(int fd, off_t at, off_t n, int advice);
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void),
                          void (*child)(void));
int __real_munmap(void *at, size_t n);
int __real_madvise(void *at, size_t n, int advice);
int __real_posix_fadvise(int fd, off_t at, off_t n, int advice);
int __real_pthread_atfork(void (*before)(void), void (*parent)(void),
                          void (*child)(void));

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    FAIL_AS(CALL_mmap, MAP_FAILED);
    struct stat st;
    if (in_lib && refused.n && prot & PROT_WRITE && flags & MAP_SHARED &&
        __real_fstat(fd, &st) == 0 && st.st_ino == refused.inode &&
        offset < refused.at + refused.n && refused.at < offset + (off_t)n)
        tally.homeless = true;
    void *p = plain_mmap(at, n, prot, flags, fd, offset);
    tally.mappings += in_lib && p != MAP_FAILED;
    return p;
}

int __wrap_munmap(void *at, size_t n)
{
    const struct fault *f = due(CALL_munmap);
    tally.mappings -= in_lib;
    return late(f, __real_munmap(at, n));
}

int __wrap_madvise(void *at, size_t n, int advice)
{
    FAIL_AS(CALL_madvise, -1);
    return __real_madvise(at, n, advice);
}

int __wrap_posix_fadvise(int fd, off_t at, off_t n, int advice)
{
    const struct fault *f = due(CALL_posix_fadvise);
    return f ? f->code : __real_posix_fadvise(fd, at, n, advice);
}

int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void),
                          void (*child)(void))
{
    const struct fault *f = due(CALL_pthread_atfork);
    return f ? f->code : __real_pthread_atfork(before, parent, child);
}
