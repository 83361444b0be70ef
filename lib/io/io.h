/* System calls that write, opening, locks, forks. No other room calls pwrite(),
 * fdatasync() and their kind. */
#ifndef TAMIS_IO_IO_H
#define TAMIS_IO_IO_H

#include "lib/error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* ==== io.c: system calls that write =================================== */

/* The seam: tests replace entries to inject faults, to record and to be repeatable. */
struct io_calls {
    ssize_t (*pread)(int fd, void *buf, size_t n, off_t offset);
    ssize_t (*pwrite)(int fd, const void *buf, size_t n, off_t offset);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    int (*fallocate)(int fd, int mode, off_t offset, off_t n);
    int (*ftruncate)(int fd, off_t n);
    int (*renameat2)(int old_dir, const char *old_name, int new_dir,
                     const char *new_name, unsigned flags);
    int (*unlinkat)(int dir, const char *name, int flags);
    int (*linkat)(int old_dir, const char *old_name, int new_dir, const char *new_name,
                  int flags);
    void *(*mmap)(void *at, size_t n, int prot, int flags, int fd, off_t offset);
    int (*madvise)(void *at, size_t n, int advice);
    void (*random)(void *buf, size_t n);
    uint64_t (*now)(void); /* microseconds since 1970 */
};
extern struct io_calls io_calls;

/* All return 0 or a positive errno, unless said otherwise. */
int io_read(int fd, void *buf, size_t n, uint64_t offset, size_t *got); /* to EOF */
int io_write(int fd, const void *buf, size_t n, uint64_t offset);
int io_size(int fd, uint64_t *n_bytes);
/* Starts writing to the disk; a hint. */
void io_start_writing(int fd, uint64_t offset, uint64_t n);
/* Allocates [offset, offset + n), zeros where new; writes zeros if it must. A full disk
 * is ENOSPC here, and would be SIGBUS once mapped. */
int io_allocate(int fd, uint64_t offset, uint64_t n);
/* fallocate(); EOPNOTSUPP if the kernel or the file system lacks this mode. */
int io_fallocate(int fd, int mode, uint64_t offset, uint64_t n);
/* R13: io_create_temp() creates a temporary file for `name` in `dir`; `temp` gets its
 * name. io_publish() syncs it, renames it unless the name is taken (EEXIST), and syncs
 * the directory if `sync_dir`. Without, this is filters/ of a store, which syncs it,
 * and io_adopt() comes first. Or call io_discard(). */
enum { IO_TEMP_NAME_BYTES = 300 };
int io_create_temp(int dir, const char *name, char temp[IO_TEMP_NAME_BYTES], int *fd);
int io_publish(int dir, const char *temp, const char *name, int fd, bool sync_dir);
/* Renames a file unless the name is taken (EEXIST). */
int io_rename(int dir, const char *temp, const char *name);
/* The same, over a file that has the name. */
int io_replace(int dir, const char *temp, const char *name);
void io_discard(int dir, const char *temp, int fd);
/* Publishes the file if it was written (err 0), else discards it; closes it. Returns
 * the first error. */
int io_finish(int err, int dir, const char *temp, const char *name, int fd,
              bool sync_dir);
/* Gives a new file or directory of a store the group and the mode (a file: read and
 * write) of the store's directory, `store` in `dir`, and its owner if we are root: as
 * far as the system lets us. In another group the file is open as it is to others. */
void io_adopt(int dir, const char *store, int fd);
int io_make_dir(int store, const char *name); /* one of a store; EEXIST */
int io_sync_dir(int dir);
/* Opens a new file without a name in the directory `path`: it is gone however this
 * process ends. */
int io_open_nameless(const char *path, int *fd);

/* A huge page of most machines. */
enum { HUGE_PAGE_BYTES = 2 << 20 };

/* ==== open.c: opening safely ========================================== */

/* All return 0 or a positive errno, unless said otherwise. */
/* Opens a regular file; never a directory (EISDIR), FIFO or device (EINVAL). Looks at
 * the name before it opens anything. */
int io_open(const char *path, int flags, int *fd);
/* Does the error of one of these say that the name is a directory's, a link's or a
 * device's? */
bool io_not_regular(int err);
/* That the process has no more descriptors or memory? It says nothing of the file. */
static inline bool io_is_short(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOMEM;
}

static inline bool io_is_file(const struct stat *st, uint64_t device, uint64_t inode)
{
    return st->st_dev == device && st->st_ino == inode;
}

/* The same for a name in a directory. Follows no link. */
int io_open_beneath(int dir, const char *name, int flags, int *fd);
/* The same for callers that check the descriptor themselves. */
int io_open_raw(int dir, const char *name, int flags, int *fd);
/* Opens the directory of a path; *base is the name in it. */
int io_open_parent(const char *path, int *dir, const char **base);
/* The same for a file that is to be made there; says in *diag why not. ERR_EXISTS. */
int io_open_new(const char *path, int *dir, const char **base, struct tamis_diag *diag);
/* ERR_NETWORK if the file lies on a network file system. */
int io_refuse_network(int fd);
int io_is_overlay(int fd, bool *yes);
/* For readers of a file that another process writes. ERR_NETWORK where pages may be
 * stale. On an overlay *fresh is the file opened for writing, which makes the copy that
 * writers use; the caller closes it. Else *fresh is -1. */
int io_open_shared(int fd, int *fresh);

/* ==== look.c: is an open file still the one that its name names? =========== */

/* The result of the last looks, and the time of the next, by look_clock(). */
struct looks {
    /* Lowest byte: a tamis_reason. Above it: when the look began, in steps of 256
     * nanoseconds. TAMIS_MISMATCH stays for ever. */
    _Atomic uint64_t told;
    _Atomic uint64_t look_after, valid_until;
};
uint64_t look_clock(void);              /* coarse, no system call */
#define LOOK_VALID UINT64_C(1000000000) /* a second */
/* True also if `look_after` is too far ahead: the clock was set back. */
static inline bool look_is_due_at(uint64_t look_after, uint64_t now)
{
    return look_after - now - 1 >= LOOK_VALID; /* wraps around: one comparison */
}
static inline bool look_is_due(const struct looks *l, uint64_t now)
{
    return look_is_due_at(atomic_load_explicit(&l->look_after, memory_order_acquire),
                          now);
}
/* Is the last look still valid at this time, and told it nothing? */
static inline bool looks_last(const struct looks *l, uint64_t until)
{
    uint64_t valid = atomic_load_explicit(&l->valid_until, memory_order_acquire);
    return !(atomic_load_explicit(&l->told, memory_order_acquire) & 0xff) &&
           valid - until <= LOOK_VALID;
}
/* Is it this thread's turn to look? */
bool look_is_mine(struct looks *l, uint64_t now);
/* Notes the result of the look that began at `now`. It clears no failure of a later
 * look. */
void look_note(struct looks *l, uint64_t now, enum tamis_reason why);
void look_replaced(struct looks *l); /* for good */

/* The last look's reason against ABSENT: TAMIS_NO_REASON, TAMIS_MISMATCH (replaced) or
 * TAMIS_UNREADABLE (unknown). */
static inline enum tamis_reason looks_known(const struct looks *l)
{
    return (enum tamis_reason)(atomic_load_explicit(&l->told, memory_order_relaxed) &
                               0xff);
}

/* The name by which a file was opened. */
struct named {
    struct looks looks;
    int at;            /* where the path begins; AT_FDCWD: it is absolute */
    bool in_directory; /* the directory that had it when opened must have it still */
    char path[];
};
/* The file fd was opened by this path. */
int named_path(const char *path, int fd, struct named **out);
/* DIR/NAME (dir may be NULL) from the directory `at`, or absolute (AT_FDCWD). */
int named_in(int at, const char *dir, const char *name, struct named **out);
void named_free(struct named *n);
/* 0: the name leads to the file fd, or to nothing. ERR_REPLACED: to another file. An
 * errno: unknown. ESTALE: no directory has the file any more. */
int named_check(const struct named *n, int fd);
/* The same for readers; notes the result: TAMIS_NO_REASON, MISMATCH, UNREADABLE. */
enum tamis_reason named_look(struct named *n, int fd, uint64_t now);
/* The same if due. Waits for no thread, keeps errno. */
void named_look_if_due(struct named *n, int fd, uint64_t now);

/* ==== lock.c: locks between processes ================================== */

/* Open-file-description locks (R14). A file or a directory may have several. */
enum lock_name {
    LOCK_WRITER,   /* of a filter's file: one writer */
    LOCK_COMMIT,   /* of LMDB's lock file: one write transaction */
    LOCK_SLOT,     /* the same: one process takes or clears slots of readers */
    LOCK_DIRECTORY /* only to tell who holds the flock of a directory */
};
/* Tries once. ERR_BUSY: io_holder() says who has it. */
int io_lock(int fd, enum lock_name which);
void io_unlock(int fd, enum lock_name which);
/* Does somebody have it now? Takes no lock; any descriptor will do. */
int io_is_locked(int fd, enum lock_name which, bool *locked);
/* "process 123", "a process of another pid namespace", "another process": who has the
 * lock, seen from a descriptor that has not. */
enum { HOLDER_TEXT_BYTES = 24 };
const char *io_holder(int fd, enum lock_name which, char text[HOLDER_TEXT_BYTES]);
/* Tells others by the lock's own bytes that this process has it. */
int io_tell_process(int fd, enum lock_name which);
/* A number for this process that no process of another pid namespace has. */
int io_process(uint64_t *number);
/* fcntl() with an F_OFD_ command. F_OFD_GETLK: *found is the first byte that another
 * description has locked. */
#define NOT_LOCKED UINT64_MAX
int io_byte_lock(int fd, int how, short type, uint64_t at, uint64_t n, uint64_t *found);

/* How long a call waits for another process; zeros: without limit. */
struct io_wait {
    int64_t timeout_ms; /* 0: no limit; below 0: not at all */
    int (*waiting)(void *ctx, uint64_t waited_ms, const struct tamis_diag *whom);
    void *ctx;
    uint64_t begun; /* by io_wait_more() */
};
/* After a failed try, which *whom describes: pauses. False: the wait is over. */
bool io_wait_more(struct io_wait *w, const struct tamis_diag *whom);

/* ==== fork.c: what a fork does to descriptors and locks =============== */

/* A descriptor that forked children close and set to -1: there it would keep the lock.
 * On a stack only while cancellation is held off: it is linked into a list. */
struct io_guarded_fd {
    int fd;
    struct io_guarded_fd *next, *previous;
};
/* No fork happens between the two. One thread at a time is there. */
int io_hold_forks(void); /* ENOMEM if there can be no handlers */
void io_let_forks(void);
/* With forks held since the descriptor was opened. A child that gets it unguarded keeps
 * its later locks. */
void io_guard_fd(struct io_guarded_fd *g, int fd);
void io_unguard_fd(struct io_guarded_fd *g); /* and closes it */
void io_guard_move(struct io_guarded_fd *from, struct io_guarded_fd *to);
/* io_open_beneath() and io_guard_fd() in one; dir AT_FDCWD: io_open(). */
int io_open_guarded(int dir, const char *name, int flags, struct io_guarded_fd *g);
/* Grows in every forked child. Objects compare it to know that they are copies. */
unsigned io_fork_epoch(void);
/* The same for an object that asked io_fork_epoch() when it was made: from then on the
 * handlers are there. */
extern atomic_uint io_fork_epoch_now __attribute__((visibility("hidden")));
static inline unsigned io_fork_epoch_again(void)
{
    return atomic_load_explicit(&io_fork_epoch_now, memory_order_relaxed);
}
/* Calls `install`, which installs fork handlers and sets `done`: once, and again after
 * ENOMEM, IO_ONCE_TRIES times at most. */
enum { IO_ONCE_TRIES = 64 };
struct io_once {
    pthread_once_t once[IO_ONCE_TRIES];
    atomic_uint n_tries;
    atomic_bool done;
};
#define IO_ONCE_INIT                                                                   \
    {                                                                                  \
        .once = { [0 ... IO_ONCE_TRIES - 1] = PTHREAD_ONCE_INIT }                      \
    }
int io_once(struct io_once *o, void (*install)(void));

/* ==== cancellation ===================================================== */

/* Around work that a cancelled thread must not leave half done: with a lock held, with
 * helpers at work on its stack, with a temporary file. Calls may nest. */
static inline int io_hold_cancel(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}
static inline void io_let_cancel(int before)
{
    pthread_setcancelstate(before, NULL);
}

/* ==== reserve.c ========================================================== */

/* Allocates [offset, offset + n) where it is a hole or shared with a copy; contents
 * stay. 0 or an errno. Does nothing where the file system cannot reserve space
 * (EOPNOTSUPP) or allocates for each write. */
int io_reserve(int fd, uint64_t offset, uint64_t n);

#endif
