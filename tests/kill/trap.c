/* Traps: the program's own versions of the system calls that change files and locks,
 * for the library and for LMDB alike. At the n-th one the process kills itself: before
 * the call, after it, or in the middle of a long write, as the kernel may when a signal
 * that kills arrives between two pages. It may fork there first: the child then has
 * whatever the call has just locked. */
#include "tests/kill/kill.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static struct {
    const struct life *life;
    struct death death;
    _Atomic bool armed, forking, dying;
} trap;

/* ---- children that outlive it ---- */

/* Its descriptors that keep locks are closed before fork() returns there (R14), and the
 * parent does not die before. Other threads' locks stay locked in it, those of `make
 * coverage`, too: it counts nothing, so this is not the macro _exit(). */
static void leave_child(void)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        abort();
    if (fork() == 0) {
        close(trap.life->hold[1]);
        (void)!write(ready[1], "", 1);
        while (read(trap.life->hold[0], &byte, 1) > 0)
            ;
        (_exit)(0);
    }
    (void)!read(ready[0], &byte, 1);
    close(ready[0]);
    close(ready[1]);
    shared->n_forked++;
}

/* Forks at any moment of the other threads. */
static void *fork_at_tick(void *unused)
{
    (void)unused;
    while (shared->n_ticks < trap.death.forks_at_tick)
        sched_yield();
    atomic_store(&trap.forking, true);
    if (!atomic_load(&trap.dying))
        leave_child();
    atomic_store(&trap.forking, false);
    return NULL;
}

void trap_set(const struct life *l, const struct death *d)
{
    pthread_t thread;
    trap.life = l;
    trap.death = *d;
    atomic_store(&trap.armed, true);
    if (d->forks_at_tick && pthread_create(&thread, NULL, fork_at_tick, NULL) != 0)
        abort();
    if (d->forks_at_tick)
        pthread_detach(thread);
}

void trap_off(void)
{
    atomic_store(&trap.armed, false);
}

/* ---- calls ---- */

void tick(void)
{
    shared->n_ticks++;
}

static bool springs(void)
{
    if (!atomic_load(&trap.armed))
        return false;
    tick();
    await_adders(2, 10); /* a disk takes its time, memory takes none */
    return atomic_fetch_add(&shared->n_calls, 1) + 1 == trap.death.at_call;
}

/* A store that is being opened or closed has a lock that fork() takes. */
static bool may_fork(void)
{
    return shared->promises.store == NOT_THERE || shared->player.store;
}

static void die(void)
{
    atomic_store(&trap.dying, true);
    while (atomic_load(&trap.forking))
        sched_yield();
    if (trap.death.forks && may_fork())
        leave_child();
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

#define DIE_AROUND(now, call)                                                          \
    __extension__({                                                                    \
        if ((now) && trap.death.when != AFTER)                                         \
            die();                                                                     \
        __typeof__(call) result_ = (call);                                             \
        if (now)                                                                       \
            die();                                                                     \
        result_;                                                                       \
    })
#define TRAPPED(type, name, number, parameters, ...)                                   \
    type name parameters                                                               \
    {                                                                                  \
        bool now = springs();                                                          \
        return DIE_AROUND(now, (type)syscall(number, __VA_ARGS__));                    \
    }

TRAPPED(int, fdatasync, SYS_fdatasync, (int fd), fd)
TRAPPED(int, fsync, SYS_fsync, (int fd), fd)
TRAPPED(int, fallocate, SYS_fallocate, (int fd, int mode, off_t at, off_t n), fd, mode,
        at, n)
TRAPPED(int, ftruncate, SYS_ftruncate, (int fd, off_t n), fd, n)
TRAPPED(int, renameat2, SYS_renameat2,
        (int from_dir, const char *from, int to_dir, const char *to, unsigned flags),
        from_dir, from, to_dir, to, flags)
TRAPPED(int, linkat, SYS_linkat,
        (int from_dir, const char *from, int to_dir, const char *to, int flags),
        from_dir, from, to_dir, to, flags)
TRAPPED(int, unlinkat, SYS_unlinkat, (int dir, const char *name, int flags), dir, name,
        flags)
TRAPPED(int, mkdirat, SYS_mkdirat, (int dir, const char *name, mode_t mode), dir, name,
        mode)
TRAPPED(int, flock, SYS_flock, (int fd, int how), fd, how)
TRAPPED(ssize_t, pwritev, SYS_pwritev, (int fd, const struct iovec *v, int n, off_t at),
        fd, v, n, at, 0)

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    bool now = springs();
    if (now && trap.death.when == WITHIN && n > PAGE_BYTES)
        syscall(SYS_pwrite64, fd, buf,
                (1 + trap.death.at_call % (n / PAGE_BYTES)) * PAGE_BYTES, at);
    return DIE_AROUND(now, syscall(SYS_pwrite64, fd, buf, n, at));
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    bool locks = command == F_OFD_SETLK || command == F_SETLK || command == F_SETLKW;
    bool now = locks && springs();
    return DIE_AROUND(now, (int)syscall(SYS_fcntl, fd, command, arg));
}

int ftruncate64(int fd, off64_t n) __attribute__((alias("ftruncate")));
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at)
    __attribute__((alias("pwritev")));
ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
    __attribute__((alias("pwrite")));
int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));
