/* The wrappers: of system calls that can fail in more ways than by doing nothing, of
 * the others and of memory, and of LMDB. */
#include "tests/faults/wrap/wrap.h"

#include <dirent.h>
#include <lmdb.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

static uint64_t random_state;

static struct refusal {
    ino_t inode;
    off_t at, n;
} refused;

void wrap_begin(uint64_t seed)
{
    random_state = seed;
    refused.n = 0;
}

int __real_fstat(int fd, struct stat *st);

WRAPPER(ssize_t, pread, (int fd, void *buf, size_t n, off_t at))
{
    const struct fault *f = due(CALL_pread);
    if (f && f->effect == NONE)
        return 0;
    if (f && f->effect == HALF)
        return plain_pread(fd, buf, n > 1 ? n / 2 : n, at);
    return f ? -1 : plain_pread(fd, buf, n, at);
}

WRAPPER(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at))
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

WRAPPER(int, fdatasync, (int fd))
{
    const struct fault *f = due(CALL_fdatasync);
    tally.syncs_failed += f != NULL;
    if (f && f->effect == DONE)
        return late(f, plain_fdatasync(fd));
    if (f)
        return errno = f->code, -1;
    return plain_fdatasync(fd);
}

WRAPPER(int, fsync, (int fd))
{
    const struct fault *f = due(CALL_fsync);
    if (f && f->effect == DONE)
        return late(f, __real_fsync(fd));
    if (f)
        return errno = f->code, -1;
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

WRAPPER(int, fallocate, (int fd, int mode, off_t at, off_t n))
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

WRAPPER(int, ftruncate, (int fd, off_t n))
{
    FAIL_AS(CALL_ftruncate, -1);
    return plain_ftruncate(fd, n);
}

/* The same bytes in every run, and never the same twice in one. */
WRAPPER(ssize_t, getrandom, (void *buf, size_t n, unsigned flags))
{
    const struct fault *f = due(CALL_getrandom);
    (void)flags;
    if (f && f->effect != HALF)
        return -1;
    n = f && n > 1 ? n / 2 : n;
    for (size_t i = 0; i < n; i++) {
        random_state =
            random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)buf)[i] = (uint8_t)(random_state >> 56);
    }
    return (ssize_t)n;
}

/* ---- mappings ---- */

WRAPPER(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset))
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

WRAPPER(int, munmap, (void *at, size_t n))
{
    const struct fault *f = due(CALL_munmap);
    tally.mappings -= in_lib;
    return late(f, __real_munmap(at, n));
}

WRAPPER(int, madvise, (void *at, size_t n, int advice))
{
    enum { POPULATE_READ = 22 };
    if (advice == POPULATE_READ)
        FAIL_AS(CALL_populate, -1);
    else
        FAIL_AS(CALL_madvise, -1);
    return __real_madvise(at, n, advice);
}

/* The library makes second mappings with it (old_n 0), and lets its own grow;
 * watch.c, which moves pages, does not call it by this name. */
WRAPPER(void *, mremap, (void *at, size_t old_n, size_t n, int flags, ...))
{
    FAIL_AS(CALL_mremap, MAP_FAILED);
    void *p = __real_mremap(at, old_n, n, flags, NULL);
    tally.mappings += in_lib && old_n == 0 && p != MAP_FAILED;
    return p;
}

/* ---- descriptors and names ---- */

#define MODE_ARGUMENT(flags)                                                           \
    va_list args;                                                                      \
    va_start(args, flags);                                                             \
    mode_t mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;          \
    va_end(args)

WRAPPER(int, open, (const char *path, int flags, ...))
{
    MODE_ARGUMENT(flags);
    FAIL_AS(CALL_open, -1);
    if (in_lib && faults_old_system() && (flags & O_TMPFILE) == O_TMPFILE)
        return errno = EOPNOTSUPP, -1;
    return plain_openat(AT_FDCWD, path, flags, mode);
}

WRAPPER(int, openat, (int dir, const char *path, int flags, ...))
{
    MODE_ARGUMENT(flags);
    FAIL_AS(CALL_openat, -1);
    return plain_openat(dir, path, flags, mode);
}

/* Takes six arguments, as libc's does, and its callers may give fewer. */
WRAPPER(__attribute__((no_sanitize_address)) long, syscall, (long number, ...))
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

WRAPPER(int, close, (int fd))
{
    const struct fault *f = due(CALL_close);
    return late(f, plain_close(fd));
}

WRAPPER(int, fcntl, (int fd, int cmd, ...))
{
    va_list args;
    va_start(args, cmd);
    long argument = va_arg(args, long);
    va_end(args);
    FAIL_AS(CALL_fcntl, -1);
    return plain_fcntl(fd, cmd, argument);
}

WRAPPER(int, flock, (int fd, int how))
{
    FAIL_AS(CALL_flock, -1);
    return plain_flock(fd, how);
}

WRAPPER(int, renameat2,
        (int from_dir, const char *from, int to_dir, const char *to, unsigned flags))
{
    const struct fault *f = due(CALL_renameat2);
    if (f && f->unseen && !flags)
        f = NULL; /* every system has a plain rename */
    if (f && f->effect != DONE)
        return -1;
    return late(f, __real_renameat2(from_dir, from, to_dir, to, flags));
}

WRAPPER(int, unlinkat, (int dir, const char *path, int flags))
{
    const struct fault *f = due(CALL_unlinkat);
    if (f && f->effect != DONE)
        return -1;
    return late(f, __real_unlinkat(dir, path, flags));
}

WRAPPER(int, closedir, (DIR * d))
{
    at_call(CALL_closedir);
    tally.dirs -= in_lib;
    return __real_closedir(d);
}

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

/* ---- LMDB ---- */

/* An environment whose last commit failed half-way lets no transaction begin. */
static const MDB_env *panicked;
static bool reading; /* the last transaction that began only reads */

WRAP_CODE(mdb_dbi_open, (MDB_txn * txn, const char *name, unsigned flags, MDB_dbi *dbi),
          txn, name, flags, dbi)
WRAP_CODE(mdb_del, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), txn, dbi,
          key, data)
WRAP_CODE(mdb_get, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), txn, dbi,
          key, data)
WRAP_CODE(mdb_put,
          (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags),
          txn, dbi, key, data, flags)
WRAP_CODE(mdb_cursor_get,
          (MDB_cursor * cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op), cursor,
          key, data, op)
WRAP_CODE(mdb_env_open,
          (MDB_env * env, const char *path, unsigned flags, mdb_mode_t mode), env, path,
          flags, mode)
WRAP_CODE(mdb_env_get_fd, (MDB_env * env, mdb_filehandle_t *fd), env, fd)
WRAP_CODE(mdb_env_set_mapsize, (MDB_env * env, size_t size), env, size)
WRAP_CODE(mdb_env_set_maxreaders, (MDB_env * env, unsigned n), env, n)
WRAP_CODE(mdb_env_set_maxdbs, (MDB_env * env, MDB_dbi n), env, n)
WRAP_CODE(mdb_env_sync, (MDB_env * env, int force), env, force)
WRAP_CODE(mdb_reader_check, (MDB_env * env, int *dead), env, dead)
WRAP_CODE(mdb_stat, (MDB_txn * txn, MDB_dbi dbi, MDB_stat *stat), txn, dbi, stat)

/* ---- what is taken and given back ---- */

WRAPPER(int, mdb_env_create, (MDB_env * *env))
{
    const struct fault *f = fault_at(CALL_mdb_env_create);
    int rc = f ? f->code : __real_mdb_env_create(env);
    tally.envs += rc == 0;
    return rc;
}

WRAPPER(void, mdb_env_close, (MDB_env * env))
{
    at_call(CALL_mdb_env_close);
    tally.envs -= env != NULL;
    if (env == panicked)
        panicked = NULL;
    __real_mdb_env_close(env);
}

WRAPPER(int, mdb_txn_begin,
        (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn))
{
    const struct fault *f = fault_at(CALL_mdb_txn_begin);
    if (f)
        return f->code;
    if (env == panicked)
        return MDB_PANIC;
    int rc = __real_mdb_txn_begin(env, parent, flags, txn);
    tally.txns += in_lib && rc == 0;
    reading = flags & MDB_RDONLY;
    return rc;
}

WRAPPER(void, mdb_txn_abort, (MDB_txn * txn))
{
    at_call(CALL_mdb_txn_abort);
    tally.txns -= in_lib && txn;
    __real_mdb_txn_abort(txn);
}

WRAPPER(int, mdb_txn_commit, (MDB_txn * txn))
{
    bool before = tally.no_map_full;
    tally.no_map_full |= reading;
    const struct fault *f = fault_at(CALL_mdb_txn_commit);
    tally.no_map_full = before;
    tally.txns -= in_lib;
    if (!f)
        return __real_mdb_txn_commit(txn);
    if (f->effect == PANIC || f->effect == DOUBT)
        panicked = mdb_txn_env(txn);
    if (f->effect != PANIC)
        __real_mdb_txn_abort(txn);
    else
        __real_mdb_txn_commit(txn);
    return f->code;
}

WRAPPER(int, mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor))
{
    const struct fault *f = fault_at(CALL_mdb_cursor_open);
    int rc = f ? f->code : __real_mdb_cursor_open(txn, dbi, cursor);
    tally.cursors += in_lib && rc == 0;
    return rc;
}

WRAPPER(void, mdb_cursor_close, (MDB_cursor * cursor))
{
    tally.cursors -= in_lib;
    __real_mdb_cursor_close(cursor);
}
