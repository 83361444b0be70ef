/* Every call that may fail, and how; then those that only wait. Those of below.c stand
 * for LMDB's own calls. "populate" is the one madvise() that is more than advice;
 * "space" is what writes run out of. */
#ifndef TAMIS_FAULTS_CALLS_H
#define TAMIS_FAULTS_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define FAULT(name, code, effect, unseen, at_most)                                     \
    {                                                                                  \
        name, code, effect, unseen, at_most                                            \
    }
#define ERR(e)      FAULT(#e, e, FAIL, false, 0)
#define UNSEEN(e)   FAULT(#e, e, FAIL, true, 0) /* nobody may notice */
#define LATE(e)     FAULT(#e "-done", e, DONE, false, 0)
#define SHORT       FAULT("short", 0, HALF, true, 0)
#define INTERRUPTED FAULT("EINTR", EINTR, FAIL, true, 3)
#define FULL        FAULT("MDB_MAP_FULL", MDB_MAP_FULL, FAIL, true, 3)
#define MEMORY      ERR(ENOMEM)

#define CALLS(X)                                                                       \
    X(aligned_alloc, MEMORY)                                                           \
    X(calloc, MEMORY)                                                                  \
    X(memfd_create, ERR(EMFILE), ERR(ENFILE), ERR(ENOMEM))                             \
    X(madvise, UNSEEN(ENOMEM))                                                         \
    X(malloc, MEMORY)                                                                  \
    X(mdb_cursor_get, ERR(MDB_CORRUPTED), ERR(MDB_PAGE_NOTFOUND), ERR(EIO))            \
    X(mdb_cursor_open, MEMORY)                                                         \
    X(mdb_dbi_open, ERR(ENOMEM), ERR(MDB_DBS_FULL), ERR(MDB_CORRUPTED))                \
    X(mdb_del, ERR(MDB_CORRUPTED), ERR(ENOMEM), ERR(MDB_TXN_FULL), FULL)               \
    X(mdb_env_create, MEMORY)                                                          \
    X(mdb_env_get_fd, ERR(EINVAL))                                                     \
    X(mdb_env_set_mapsize, ERR(ENOMEM), ERR(EINVAL))                                   \
    X(mdb_env_set_maxdbs, ERR(EINVAL))                                                 \
    X(mdb_env_set_maxreaders, ERR(EINVAL))                                             \
    X(mdb_get, ERR(MDB_CORRUPTED), ERR(MDB_PAGE_NOTFOUND))                             \
    X(mdb_put, ERR(ENOMEM), ERR(MDB_CORRUPTED), ERR(MDB_TXN_FULL), FULL,               \
      ERR(MDB_BAD_VALSIZE))                                                            \
    X(mdb_stat, ERR(EINVAL))                                                           \
    X(mincore, ERR(EAGAIN))                                                            \
    X(mlock2, ERR(EPERM), ERR(ENOMEM), ERR(EAGAIN), ERR(ENOSYS))                       \
    X(mmap, ERR(ENOMEM), ERR(ENODEV))                                                  \
    X(mremap, UNSEEN(ENOMEM))                                                          \
    X(munlock, ERR(ENOMEM))                                                            \
    X(munmap, FAULT("ENOMEM-done", ENOMEM, DONE, true, 0))                             \
    X(pthread_atfork, MEMORY)                                                          \
    X(pthread_create, UNSEEN(EAGAIN))                                                  \
    X(pthread_key_create, UNSEEN(EAGAIN))                                              \
    X(pthread_setspecific, UNSEEN(ENOMEM))                                             \
    X(realloc, MEMORY)                                                                 \
    X(sigaction, ERR(EINVAL))                                                          \
    X(strdup, MEMORY)                                                                  \
    X(strndup, MEMORY)                                                                 \
    X(populate, ERR(EFAULT), ERR(ENOMEM), UNSEEN(EINVAL))                              \
    X(lmdb_mmap, ERR(ENOMEM))                                                          \
    /* Calls before wait for nothing: memory, mappings, LMDB's reads in them. */       \
    X(close, LATE(EIO), LATE(EINTR))                                                   \
    X(faccessat, ERR(EIO), ERR(EACCES))                                                \
    X(fallocate, ERR(EIO), ERR(ENOSPC), ERR(EDQUOT), INTERRUPTED, UNSEEN(EOPNOTSUPP),  \
      LATE(EIO))                                                                       \
    X(fcntl, ERR(EIO), ERR(ENOLCK), ERR(EMFILE))                                       \
    X(fdatasync, ERR(EIO), ERR(ENOSPC), ERR(EDQUOT), ERR(EINTR), LATE(EIO))            \
    X(fdopendir, ERR(ENOMEM))                                                          \
    X(flock, ERR(ENOLCK), INTERRUPTED)                                                 \
    X(fstat, ERR(EIO), ERR(ENOMEM))                                                    \
    X(fstatat, ERR(EIO), ERR(ENOMEM))                                                  \
    X(ioctl, ERR(EOPNOTSUPP), ERR(EIO))                                                \
    X(fstatfs, ERR(EIO), ERR(ENOSYS))                                                  \
    X(fstatvfs, ERR(EIO), ERR(ENOSYS))                                                 \
    X(fsync, ERR(EIO), ERR(ENOSPC), ERR(EINTR), LATE(EIO))                             \
    X(ftruncate, ERR(EIO), ERR(ENOSPC), ERR(EINTR))                                    \
    X(getrandom, INTERRUPTED, SHORT)                                                   \
    X(linkat, ERR(EIO), ERR(ENOSPC), ERR(EROFS), ERR(EPERM))                           \
    X(mdb_env_open, ERR(EIO), ERR(EMFILE), ERR(ENOSPC), ERR(ENOMEM), ERR(EACCES),      \
      ERR(EROFS), ERR(EAGAIN), ERR(MDB_INVALID), ERR(MDB_VERSION_MISMATCH))            \
    X(mdb_env_sync, ERR(EIO), ERR(ENOSPC))                                             \
    X(mdb_reader_check, ERR(EIO))                                                      \
    X(mdb_txn_begin, ERR(ENOMEM), ERR(MDB_PANIC), ERR(EIO),                            \
      {"MDB_READERS_FULL", MDB_READERS_FULL, FAIL, false, 0},                          \
      {"MDB_MAP_RESIZED", MDB_MAP_RESIZED, FAIL, true, 1})                             \
    X(mdb_txn_commit, ERR(EIO), ERR(ENOSPC), ERR(ENOMEM), FULL,                        \
      {"panic", EIO, PANIC, false, 1}, FAULT("doubt", EIO, DOUBT, false, 1))           \
    X(mkdir, ERR(EIO), ERR(ENOSPC), ERR(EROFS))                                        \
    X(mkdirat, ERR(EIO), ERR(ENOSPC), ERR(EDQUOT))                                     \
    X(mkostemp, ERR(EMFILE), ERR(ENOSPC))                                              \
    X(open, ERR(EMFILE), ERR(EIO), ERR(EINTR), ERR(EROFS), ERR(EISDIR), ERR(EINVAL))   \
    X(openat, ERR(EMFILE), ERR(EIO), ERR(ENOSPC), ERR(EROFS))                          \
    X(posix_fadvise, UNSEEN(EINVAL))                                                   \
    X(sync_file_range, UNSEEN(ENOSYS))                                                 \
    X(pread, ERR(EIO), INTERRUPTED, SHORT, FAULT("end", 0, NONE, false, 0))            \
    X(pwrite, ERR(EIO), ERR(ENOSPC), ERR(EDQUOT), ERR(EROFS), INTERRUPTED, SHORT,      \
      FAULT("nothing", 0, NONE, false, 0), LATE(EIO))                                  \
    X(readdir, ERR(EIO))                                                               \
    X(realpath, ERR(ENOMEM), ERR(EACCES), ERR(ENAMETOOLONG))                           \
    X(renameat2, ERR(EIO), ERR(ENOSPC), ERR(EROFS), UNSEEN(EINVAL), UNSEEN(ENOSYS),    \
      LATE(EIO))                                                                       \
    X(rmdir, ERR(EIO))                                                                 \
    X(syscall, ERR(EMFILE), ERR(EIO), ERR(EINTR), UNSEEN(ENOSYS), UNSEEN(EPERM))       \
    X(unlink, ERR(EIO))                                                                \
    X(unlinkat, ERR(EIO), ERR(EROFS), LATE(EIO))                                       \
    X(lmdb_fdatasync, ERR(EIO), ERR(ENOSPC))                                           \
    X(lmdb_ftruncate, ERR(EIO), ERR(ENOSPC))                                           \
    X(lmdb_open, ERR(EMFILE), ERR(EIO), ERR(EACCES))                                   \
    X(lmdb_pread, ERR(EIO))                                                            \
    X(lmdb_pwrite, ERR(EIO), ERR(ENOSPC), ERR(EDQUOT),                                 \
      FAULT("short", 0, HALF, false, 0))                                               \
    X(lmdb_writev, ERR(EIO), ERR(ENOSPC))                                              \
    X(space, ERR(ENOSPC))                                                              \
    /* These never fail, but they may wait, or end what others wait for. */            \
    X(closedir, {0})                                                                   \
    X(mdb_env_close, {0})                                                              \
    X(mdb_txn_abort, {0})                                                              \
    X(nanosleep, {0})                                                                  \
    X(pthread_cond_wait, {0})                                                          \
    X(pthread_join, {0})                                                               \
    X(lmdb_close, {0})                                                                 \
    X(lmdb_fcntl, {0})                                                                 \
    X(lmdb_lock, {0})

#endif
