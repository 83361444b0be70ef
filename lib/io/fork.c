/* Descriptors and locks across a fork (R14): the child closes descriptors that would
 * keep a lock of its parent, and recognises inherited objects by their epoch. */
#include "lib/io/io.h"

static pthread_mutex_t guard_mutex = PTHREAD_MUTEX_INITIALIZER;
static int guard_cancel; /* was cancellation enabled in the thread that has it? */
static struct io_guarded_fd guarded = {-1, &guarded, &guarded};
atomic_uint io_fork_epoch_now;
static struct io_once fork_once = IO_ONCE_INIT;

/* Files are opened and closed with the mutex held. A thread that was cancelled there
 * would keep it for ever, and every later fork would wait. */
static void guard_lock(void)
{
    int before = io_hold_cancel();
    pthread_mutex_lock(&guard_mutex);
    guard_cancel = before;
}

void io_let_forks(void)
{
    int before = guard_cancel;
    pthread_mutex_unlock(&guard_mutex);
    io_let_cancel(before);
}

static void after_fork_child(void)
{
    for (struct io_guarded_fd *g = guarded.next; g != &guarded; g = g->next) {
        close(g->fd);
        g->fd = -1;
    }
    atomic_fetch_add(&io_fork_epoch_now, 1);
    io_let_forks();
}

/* pthread_once() with a second chance: it alone is safe against a fork at that very
 * moment, and it can be had as often as there are pthread_once_t's. */
int io_once(struct io_once *o, void (*install)(void))
{
    if (atomic_load_explicit(&o->done, memory_order_acquire))
        return 0;
    unsigned i = atomic_load(&o->n_tries);
    if (i == IO_ONCE_TRIES)
        return ENOMEM;
    pthread_once(&o->once[i], install);
    if (atomic_load(&o->done))
        return 0;
    atomic_compare_exchange_strong(&o->n_tries, &i, i + 1);
    return ENOMEM;
}

static void install_fork_handlers(void)
{
    if (pthread_atfork(guard_lock, io_let_forks, after_fork_child) == 0)
        atomic_store(&fork_once.done, true);
}

int io_hold_forks(void)
{
    int err = io_once(&fork_once, install_fork_handlers);
    if (!err)
        guard_lock();
    return err;
}

void io_guard_fd(struct io_guarded_fd *g, int fd)
{
    g->fd = fd;
    g->next = &guarded;
    g->previous = guarded.previous;
    guarded.previous->next = g;
    guarded.previous = g;
}

static void guard_unlink(struct io_guarded_fd *g)
{
    g->next->previous = g->previous;
    g->previous->next = g->next;
}

int io_open_guarded(int dir, const char *name, int flags, struct io_guarded_fd *g)
{
    int fd, err = io_hold_forks();
    if (err)
        return err;
    err = dir == AT_FDCWD ? io_open(name, flags, &fd)
                          : io_open_beneath(dir, name, flags, &fd);
    if (!err)
        io_guard_fd(g, fd);
    io_let_forks();
    return err;
}

void io_guard_move(struct io_guarded_fd *from, struct io_guarded_fd *to)
{
    guard_lock();
    guard_unlink(from);
    io_guard_fd(to, from->fd);
    io_let_forks();
}

void io_unguard_fd(struct io_guarded_fd *g)
{
    guard_lock();
    guard_unlink(g);
    if (g->fd >= 0)
        close(g->fd);
    g->fd = -1;
    io_let_forks();
}

unsigned io_fork_epoch(void)
{
    io_once(&fork_once, install_fork_handlers);
    return atomic_load_explicit(&io_fork_epoch_now, memory_order_relaxed);
}
