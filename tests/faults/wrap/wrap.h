/* Calls that fail when told to. The library's objects are linked with --wrap for every
 * function of calls.txt: each call of theirs passes through a wrapper of this folder.
 * What LMDB calls itself passes through below.c. Only calls made inside IN_LIB() count.
 */
#ifndef TAMIS_FAULTS_WRAP_H
#define TAMIS_FAULTS_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls that may fail. Those of below.c stand for LMDB's own calls; "populate" is the
 * one madvise() that is more than advice. */
#define CALLS(X)                                                                       \
    X(aligned_alloc)                                                                   \
    X(calloc)                                                                          \
    X(close)                                                                           \
    X(faccessat)                                                                       \
    X(fallocate)                                                                       \
    X(fcntl)                                                                           \
    X(fdatasync)                                                                       \
    X(fdopendir)                                                                       \
    X(flock)                                                                           \
    X(fstat)                                                                           \
    X(fstatat)                                                                         \
    X(ioctl)                                                                           \
    X(fstatfs)                                                                         \
    X(fstatvfs)                                                                        \
    X(memfd_create)                                                                    \
    X(fsync)                                                                           \
    X(ftruncate)                                                                       \
    X(getrandom)                                                                       \
    X(linkat)                                                                          \
    X(madvise)                                                                         \
    X(malloc)                                                                          \
    X(mdb_cursor_get)                                                                  \
    X(mdb_cursor_open)                                                                 \
    X(mdb_dbi_open)                                                                    \
    X(mdb_del)                                                                         \
    X(mdb_env_create)                                                                  \
    X(mdb_env_get_fd)                                                                  \
    X(mdb_env_open)                                                                    \
    X(mdb_env_set_mapsize)                                                             \
    X(mdb_env_set_maxdbs)                                                              \
    X(mdb_env_set_maxreaders)                                                          \
    X(mdb_env_sync)                                                                    \
    X(mdb_get)                                                                         \
    X(mdb_put)                                                                         \
    X(mdb_reader_check)                                                                \
    X(mdb_stat)                                                                        \
    X(mdb_txn_begin)                                                                   \
    X(mdb_txn_commit)                                                                  \
    X(mincore)                                                                         \
    X(mkdir)                                                                           \
    X(mkdirat)                                                                         \
    X(mkostemp)                                                                        \
    X(mlock2)                                                                          \
    X(mmap)                                                                            \
    X(mremap)                                                                          \
    X(munlock)                                                                         \
    X(munmap)                                                                          \
    X(open)                                                                            \
    X(openat)                                                                          \
    X(opendir)                                                                         \
    X(posix_fadvise)                                                                   \
    X(sync_file_range)                                                                 \
    X(pread)                                                                           \
    X(pthread_atfork)                                                                  \
    X(pthread_create)                                                                  \
    X(pthread_key_create)                                                              \
    X(pthread_setspecific)                                                             \
    X(pwrite)                                                                          \
    X(readdir)                                                                         \
    X(realloc)                                                                         \
    X(realpath)                                                                        \
    X(renameat2)                                                                       \
    X(rmdir)                                                                           \
    X(sigaction)                                                                       \
    X(strdup)                                                                          \
    X(strndup)                                                                         \
    X(syscall)                                                                         \
    X(unlink)                                                                          \
    X(unlinkat)                                                                        \
    X(populate)                                                                        \
    X(lmdb_fdatasync)                                                                  \
    X(lmdb_ftruncate)                                                                  \
    X(lmdb_mmap)                                                                       \
    X(lmdb_open)                                                                       \
    X(lmdb_pread)                                                                      \
    X(lmdb_pwrite)                                                                     \
    X(lmdb_writev)                                                                     \
    X(space)

enum call {
#define X(name) CALL_##name,
    CALLS(X)
#undef X
        N_CALLS
};

enum effect {
    FAIL,  /* nothing is done, and the call fails */
    DONE,  /* it is done, and the call fails all the same */
    HALF,  /* half of the bytes */
    NONE,  /* no bytes, no error: the end of a file */
    LOSE,  /* a failed sync: what it should have saved is gone from the disk */
    PANIC, /* a commit whose last page is in doubt: done, but LMDB gives up */
    DOUBT, /* the same, not done */
};

struct fault {
    const char *name; /* "EIO", ... */
    int code;
    enum effect effect;
    bool unseen;      /* the library must get around it */
    uint64_t at_most; /* times in a row; 0: any number */
};
enum { MAX_FAULTS = 9 };
struct call_type {
    const char *name;
    struct fault faults[MAX_FAULTS];
};
extern const struct call_type call_types[N_CALLS];

/* The call that fails: number `nth` (from 1) and, if `ever`, all that follow. For
 * CALL_space: all writes once `nth` - 1 bytes are written. */
struct plan {
    enum call call;
    uint64_t nth;
    const struct fault *fault;
    bool ever;
};

/* The marks of one run, from faults_begin(). */
enum { MAX_MARKS = 1024 };
struct tally {
    uint64_t called[N_CALLS];
    uint64_t before[N_CALLS];           /* the same, when the first fault struck */
    uint64_t fired;                     /* times that a fault struck */
    uint64_t planned;                   /* and of these the planned one */
    uint64_t bytes;                     /* written */
    uint64_t marks[MAX_MARKS], n_marks; /* how many, before each write */
    uint64_t n_marks_before;
    uint64_t syncs_failed; /* fdatasync of the library */
    bool no_map_full;      /* in a new catalog, for one, the map cannot be full */
    bool excused;          /* the fault struck where it never does: it may be noticed */
    bool homeless;         /* space that could not be had was mapped for writing (R1) */
    long memory, dirs, mappings, envs, txns, cursors; /* taken and not given back */
};
extern struct tally tally;

/* plan NULL: count only. `first` (may be NULL): a fault that strikes in every run, so
 * that the ways out of it are seen to fail as well. */
void faults_begin(const struct plan *plan, const struct plan *first, bool old_system);
/* "CALL:NTH:FAULT:once|ever"; false if there is none such. */
bool plan_parse(const char *text, struct plan *plan);
void faults_end(void);                /* from now on nothing fails */
const struct plan *faults_plan(void); /* NULL: none */
bool faults_excuse(void);             /* may a call fail? */
/* The fault that strikes this call, or NULL. */
const struct fault *fault_of(enum call call);
/* This process ends once LMDB has written a meta page, before it tells its readers. */
extern bool die_after_meta;
/* How many of n bytes there is space for. */
size_t space_for(size_t n);

extern _Thread_local int in_lib;
#define IN_LIB(call)                                                                   \
    __extension__({                                                                    \
        in_lib++;                                                                      \
        __typeof__(call) result_ = (call);                                             \
        in_lib--;                                                                      \
        result_;                                                                       \
    })
#define IN_LIB_VOID(call) (in_lib++, (call), (void)in_lib--)

/* For the wrappers: a failure that does nothing, errno set; what else a fault does is
 * the wrapper's. */
const struct fault *due(enum call call);
#define FAIL_AS(call, value)                                                           \
    do {                                                                               \
        if (due(call))                                                                 \
            return value;                                                              \
    } while (0)
int late(const struct fault *f, int result); /* it is done; now it fails */
void wrap_begin(uint64_t seed); /* of random numbers */
bool faults_old_system(void);

/* The system calls themselves, past everything (below.c). */
ssize_t plain_pread(int fd, void *buf, size_t n, off_t at);
ssize_t plain_pwrite(int fd, const void *buf, size_t n, off_t at);
int plain_fdatasync(int fd);
int plain_ftruncate(int fd, off_t n);
void *plain_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int plain_openat(int dir, const char *path, int flags, mode_t mode);

/* A disk that loses what a failed sync did not save (image.c). Only while a fault with
 * LOSE is planned. */
void image_seed(int fd); /* before the run: the disk has all of it */
void image_written(int fd, off_t at, size_t n);
void image_mapped(int fd, void *at, size_t n, off_t offset); /* for writing */
void image_unmapped(const void *at);
void image_synced(int fd);
void image_sync_failed(int fd);
/* Puts what the disk has into the files below `dir`, if any lost something. */
void image_lose(const char *dir);
void image_clear(void);

#endif
