/* How each call can fail, and which failures nobody may notice. */
#include "tests/faults/wrap/wrap.h"

#include <errno.h>
#include <lmdb.h>

#define INTERRUPTED                                                                    \
    {                                                                                  \
        "EINTR", EINTR, FAIL, true, 3                                                  \
    }
#define MEMORY                                                                         \
    {                                                                                  \
        {                                                                              \
            "ENOMEM", ENOMEM, FAIL, false, 0                                           \
        }                                                                              \
    }
#define ERR(e)                                                                         \
    {                                                                                  \
#e, e, FAIL, false, 0                                                          \
    }
#define UNSEEN(e)                                                                      \
    {                                                                                  \
#e, e, FAIL, true, 0                                                           \
    }
#define LATE(e)                                                                        \
    {                                                                                  \
#e "-done", e, DONE, false, 0                                                  \
    }

const struct call_type call_types[N_CALLS] = {
    [CALL_aligned_alloc] = {"aligned_alloc", MEMORY},
    [CALL_calloc] = {"calloc", MEMORY},
    [CALL_malloc] = {"malloc", MEMORY},
    [CALL_realloc] = {"realloc", MEMORY},
    [CALL_strdup] = {"strdup", MEMORY},
    [CALL_strndup] = {"strndup", MEMORY},

    [CALL_close] = {"close", {LATE(EIO), LATE(EINTR)}},
    [CALL_faccessat] = {"faccessat", {ERR(EIO), ERR(EACCES)}},
    [CALL_fallocate] = {"fallocate",
                        {ERR(EIO), ERR(ENOSPC), ERR(EDQUOT), INTERRUPTED,
                         UNSEEN(EOPNOTSUPP), LATE(EIO)}},
    [CALL_fcntl] = {"fcntl", {ERR(EIO), ERR(ENOLCK), ERR(EMFILE)}},
    [CALL_fdatasync] = {"fdatasync",
                        {ERR(EIO),
                         ERR(ENOSPC),
                         ERR(EDQUOT),
                         ERR(EINTR),
                         LATE(EIO),
                         {"EIO-lost", EIO, LOSE, false, 0}}},
    [CALL_fdopendir] = {"fdopendir", {ERR(ENOMEM)}},
    [CALL_flock] = {"flock", {ERR(ENOLCK), INTERRUPTED}},
    [CALL_fstat] = {"fstat", {ERR(EIO), ERR(ENOMEM)}},
    [CALL_fstatat] = {"fstatat", {ERR(EIO), ERR(ENOMEM)}},
    [CALL_ioctl] = {"ioctl", {ERR(EOPNOTSUPP), ERR(EIO)}}, /* FIEMAP */
    [CALL_fstatfs] = {"fstatfs", {ERR(EIO), ERR(ENOSYS)}},
    [CALL_fstatvfs] = {"fstatvfs", {ERR(EIO), ERR(ENOSYS)}},
    [CALL_memfd_create] = {"memfd_create", {ERR(EMFILE), ERR(ENFILE), ERR(ENOMEM)}},
    [CALL_fsync] = {"fsync",
                    {ERR(EIO),
                     ERR(ENOSPC),
                     ERR(EINTR),
                     LATE(EIO),
                     {"EIO-lost", EIO, LOSE, false, 0}}},
    [CALL_ftruncate] = {"ftruncate", {ERR(EIO), ERR(ENOSPC), ERR(EINTR)}},
    [CALL_getrandom] = {"getrandom", {INTERRUPTED, {"short", 0, HALF, true, 0}}},
    [CALL_linkat] = {"linkat", {ERR(EIO), ERR(ENOSPC), ERR(EROFS), ERR(EPERM)}},
    [CALL_madvise] = {"madvise", {UNSEEN(ENOMEM)}},
    [CALL_mkdir] = {"mkdir", {ERR(EIO), ERR(ENOSPC), ERR(EROFS)}},
    [CALL_mkdirat] = {"mkdirat", {ERR(EIO), ERR(ENOSPC), ERR(EDQUOT)}},
    [CALL_mkostemp] = {"mkostemp", {ERR(EMFILE), ERR(ENOSPC)}},
    [CALL_mincore] = {"mincore", {ERR(EAGAIN)}},
    [CALL_mlock2] = {"mlock2", {ERR(EPERM), ERR(ENOMEM), ERR(EAGAIN), ERR(ENOSYS)}},
    [CALL_mmap] = {"mmap", {ERR(ENOMEM), ERR(ENODEV)}},
    [CALL_mremap] = {"mremap", {UNSEEN(ENOMEM)}},
    [CALL_munlock] = {"munlock", {ERR(ENOMEM)}},
    [CALL_munmap] = {"munmap", {{"ENOMEM-done", ENOMEM, DONE, true, 0}}},
    /* EISDIR and EINVAL: what kernels and file systems without O_TMPFILE say. */
    [CALL_open] = {"open",
                   {ERR(EMFILE), ERR(EIO), ERR(EINTR), ERR(EROFS), ERR(EISDIR),
                    ERR(EINVAL)}},
    [CALL_openat] = {"openat", {ERR(EMFILE), ERR(EIO), ERR(ENOSPC), ERR(EROFS)}},
    [CALL_opendir] = {"opendir", {ERR(EMFILE), ERR(ENOMEM), ERR(EIO)}},
    [CALL_posix_fadvise] = {"posix_fadvise", {UNSEEN(EINVAL)}},
    [CALL_sync_file_range] = {"sync_file_range", {UNSEEN(ENOSYS)}},
    [CALL_pread] = {"pread",
                    {ERR(EIO),
                     INTERRUPTED,
                     {"short", 0, HALF, true, 0},
                     {"end", 0, NONE, false, 0}}},
    [CALL_pthread_atfork] = {"pthread_atfork", MEMORY},
    [CALL_pthread_create] = {"pthread_create", {UNSEEN(EAGAIN)}},
    [CALL_pthread_key_create] = {"pthread_key_create", {UNSEEN(EAGAIN)}},
    [CALL_pthread_setspecific] = {"pthread_setspecific", {UNSEEN(ENOMEM)}},
    [CALL_pwrite] = {"pwrite",
                     {ERR(EIO),
                      ERR(ENOSPC),
                      ERR(EDQUOT),
                      ERR(EROFS),
                      INTERRUPTED,
                      {"short", 0, HALF, true, 0},
                      {"nothing", 0, NONE, false, 0},
                      LATE(EIO)}},
    [CALL_readdir] = {"readdir", {ERR(EIO)}},
    [CALL_realpath] = {"realpath", {ERR(ENOMEM), ERR(EACCES), ERR(ENAMETOOLONG)}},
    [CALL_renameat2] = {"renameat2",
                        {ERR(EIO), ERR(ENOSPC), ERR(EROFS), UNSEEN(EINVAL),
                         UNSEEN(ENOSYS), LATE(EIO)}},
    [CALL_rmdir] = {"rmdir", {ERR(EIO)}},
    [CALL_sigaction] = {"sigaction", {ERR(EINVAL)}},
    [CALL_syscall] = {"syscall",
                      {ERR(EMFILE), ERR(EIO), ERR(EINTR), UNSEEN(ENOSYS),
                       UNSEEN(EPERM)}},
    [CALL_unlink] = {"unlink", {ERR(EIO)}},
    [CALL_unlinkat] = {"unlinkat", {ERR(EIO), ERR(EROFS), LATE(EIO)}},
    [CALL_populate] = {"populate", {ERR(EFAULT), ERR(ENOMEM), UNSEEN(EINVAL)}},

    [CALL_mdb_cursor_get] = {"mdb_cursor_get",
                             {ERR(MDB_CORRUPTED), ERR(MDB_PAGE_NOTFOUND), ERR(EIO)}},
    [CALL_mdb_cursor_open] = {"mdb_cursor_open", MEMORY},
    [CALL_mdb_dbi_open] = {"mdb_dbi_open",
                           {ERR(ENOMEM), ERR(MDB_DBS_FULL), ERR(MDB_CORRUPTED)}},
    [CALL_mdb_del] = {"mdb_del",
                      {ERR(MDB_CORRUPTED),
                       ERR(ENOMEM),
                       ERR(MDB_TXN_FULL),
                       {"MDB_MAP_FULL", MDB_MAP_FULL, FAIL, true, 3}}},
    [CALL_mdb_env_create] = {"mdb_env_create", MEMORY},
    [CALL_mdb_env_get_fd] = {"mdb_env_get_fd", {ERR(EINVAL)}},
    [CALL_mdb_env_open] = {"mdb_env_open",
                           {ERR(EIO), ERR(EMFILE), ERR(ENOSPC), ERR(ENOMEM),
                            ERR(EACCES), ERR(EROFS), ERR(EAGAIN), ERR(MDB_INVALID),
                            ERR(MDB_VERSION_MISMATCH)}},
    [CALL_mdb_env_set_mapsize] = {"mdb_env_set_mapsize", {ERR(ENOMEM), ERR(EINVAL)}},
    [CALL_mdb_env_set_maxdbs] = {"mdb_env_set_maxdbs", {ERR(EINVAL)}},
    [CALL_mdb_env_set_maxreaders] = {"mdb_env_set_maxreaders", {ERR(EINVAL)}},
    [CALL_mdb_env_sync] = {"mdb_env_sync", {ERR(EIO), ERR(ENOSPC)}},
    [CALL_mdb_get] = {"mdb_get", {ERR(MDB_CORRUPTED), ERR(MDB_PAGE_NOTFOUND)}},
    [CALL_mdb_put] = {"mdb_put",
                      {ERR(ENOMEM),
                       ERR(MDB_CORRUPTED),
                       ERR(MDB_TXN_FULL),
                       {"MDB_MAP_FULL", MDB_MAP_FULL, FAIL, true, 3},
                       ERR(MDB_BAD_VALSIZE)}},
    [CALL_mdb_reader_check] = {"mdb_reader_check", {ERR(EIO)}},
    [CALL_mdb_stat] = {"mdb_stat", {ERR(EINVAL)}},
    [CALL_mdb_txn_begin] = {"mdb_txn_begin",
                            {ERR(ENOMEM),
                             ERR(MDB_PANIC),
                             ERR(EIO),
                             {"MDB_READERS_FULL", MDB_READERS_FULL, FAIL, false, 0},
                             {"MDB_MAP_RESIZED", MDB_MAP_RESIZED, FAIL, true, 1}}},
    [CALL_mdb_txn_commit] = {"mdb_txn_commit",
                             {ERR(EIO),
                              ERR(ENOSPC),
                              ERR(ENOMEM),
                              {"MDB_MAP_FULL", MDB_MAP_FULL, FAIL, true, 3},
                              {"panic", EIO, PANIC, false, 1},
                              {"doubt", EIO, DOUBT, false, 1}}},

    [CALL_lmdb_fdatasync] = {"lmdb_fdatasync", {ERR(EIO), ERR(ENOSPC)}},
    [CALL_lmdb_ftruncate] = {"lmdb_ftruncate", {ERR(EIO), ERR(ENOSPC)}},
    [CALL_lmdb_mmap] = {"lmdb_mmap", {ERR(ENOMEM)}},
    [CALL_lmdb_open] = {"lmdb_open", {ERR(EMFILE), ERR(EIO), ERR(EACCES)}},
    [CALL_lmdb_pread] = {"lmdb_pread", {ERR(EIO)}},
    [CALL_lmdb_pwrite] =
        {"lmdb_pwrite",
         {ERR(EIO), ERR(ENOSPC), ERR(EDQUOT), {"short", 0, HALF, false, 0}}},
    [CALL_lmdb_writev] = {"lmdb_writev", {ERR(EIO), ERR(ENOSPC)}},
    [CALL_space] = {"space", {ERR(ENOSPC)}},
};
