/* Traps: the program's own versions of the system calls that write, name and lock, for
 * the library and for LMDB alike. At the n-th one of a kind the process kills itself:
 * before the call, after it, or in the middle of a long write, as the kernel may when a
 * signal that kills arrives between two pages. It may fork there first: the child then
 * has whatever the call has just locked. */
#include "tests/kill/kill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct orders orders;
static _Atomic int64_t left;
static _Atomic bool child_allowed;

void trap_set(const struct orders *o)
{
    orders = *o;
    atomic_store(&left, (int64_t)o->nth);
}

/* Not while a store is opened or closed: fork() takes the registry's lock. */
void trap_allow_child(bool yes)
{
    atomic_store(&child_allowed, yes);
}

static bool springs(enum trap_kind kind)
{
    if (orders.trap == TRAP_NONE || (orders.trap != TRAP_ANY && orders.trap != kind))
        return false;
    if (orders.armed != PHASE_NONE && orders.armed != (enum phase)shared->phase)
        return false;
    if (orders.child == CHILD_OF_TRAP && !atomic_load(&child_allowed))
        return false;
    return atomic_fetch_sub(&left, 1) == 1;
}

/* A disk takes its time, and other threads go on meanwhile; the memory that the test
 * may run on takes none. */
static void dawdle(void)
{
    static _Thread_local uint64_t rng;
    if (!orders.slow)
        return;
    if (!rng)
        rng = mix64(orders.seed, (uint64_t)gettid());
    struct timespec t = {0, (long)rng_below(&rng, 300000)};
    nanosleep(&t, NULL);
}

static void die(void)
{
    dawdle();
    if (orders.child == CHILD_OF_TRAP)
        child_leave(&orders, true);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* The call's result, if it is to be survived. */
#define TRAPPED(kind, call)                                                            \
    do {                                                                               \
        bool now = springs(kind);                                                      \
        if (now && orders.when == TRAP_BEFORE)                                         \
            die();                                                                     \
        __typeof__(call) result = (call);                                              \
        if (now)                                                                       \
            die();                                                                     \
        return (result);                                                               \
    } while (0)

static ssize_t trapped_write(int fd, const void *buf, size_t n, off_t offset)
{
    bool now = springs(TRAP_WRITE);
    size_t n_pages = n / PAGE_BYTES;
    dawdle();
    if (now && orders.when == TRAP_BEFORE)
        die();
    if (now && orders.when == TRAP_HALF && n_pages > 1)
        n = orders.seed % n_pages * PAGE_BYTES;
    ssize_t done = n ? syscall(SYS_pwrite64, fd, buf, n, offset) : 0;
    if (now)
        die();
    return done;
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    return trapped_write(fd, buf, n, offset);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset)
{
    return trapped_write(fd, buf, n, offset);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset)
{
    TRAPPED(TRAP_WRITE, syscall(SYS_pwritev, fd, v, n, offset, 0));
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t offset)
{
    TRAPPED(TRAP_WRITE, syscall(SYS_pwritev, fd, v, n, offset, 0));
}

int fdatasync(int fd)
{
    dawdle();
    TRAPPED(TRAP_SYNC, (int)syscall(SYS_fdatasync, fd));
}

int fsync(int fd)
{
    dawdle();
    TRAPPED(TRAP_SYNC, (int)syscall(SYS_fsync, fd));
}

int fallocate(int fd, int mode, off_t offset, off_t n)
{
    TRAPPED(TRAP_SPACE, (int)syscall(SYS_fallocate, fd, mode, offset, n));
}

int ftruncate(int fd, off_t n)
{
    TRAPPED(TRAP_SPACE, (int)syscall(SYS_ftruncate, fd, n));
}

int ftruncate64(int fd, off64_t n)
{
    TRAPPED(TRAP_SPACE, (int)syscall(SYS_ftruncate, fd, n));
}

int renameat2(int old_dir, const char *old_name, int new_dir, const char *new_name,
              unsigned flags)
{
    TRAPPED(TRAP_NAME,
            (int)syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, flags));
}

int unlinkat(int dir, const char *name, int flags)
{
    TRAPPED(TRAP_NAME, (int)syscall(SYS_unlinkat, dir, name, flags));
}

int flock(int fd, int how)
{
    TRAPPED(TRAP_LOCK, (int)syscall(SYS_flock, fd, how));
}

static int trapped_fcntl(int fd, int command, void *arg)
{
    if (command != F_OFD_SETLK && command != F_SETLK && command != F_SETLKW)
        return (int)syscall(SYS_fcntl, fd, command, arg);
    TRAPPED(TRAP_LOCK, (int)syscall(SYS_fcntl, fd, command, arg));
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return trapped_fcntl(fd, command, arg);
}

int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return trapped_fcntl(fd, command, arg);
}
