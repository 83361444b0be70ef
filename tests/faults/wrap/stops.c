/* The places of stops.h, and the wrappers of calls that fail in no run. */
#include "tests/faults/wrap/stops.h"

#include <dlfcn.h>
#include <time.h>

struct watch watch;
_Thread_local struct spot spot;
void (*on_wait)(bool certain);

unsigned file_locks(void)
{
    enum { MAX_FD = 100 };
    unsigned n = 0;
    char text[4096], name[32];
    for (int i = 0; i < MAX_FD; i++) {
        snprintf(name, sizeof name, "/proc/self/fdinfo/%d", i);
        int fd = plain_openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
        ssize_t got = fd < 0 ? 0 : plain_pread(fd, text, sizeof text - 1, 0);
        text[got < 0 ? 0 : got] = 0;
        for (const char *at = text; (at = strstr(at, "\nlock:")); at++)
            n++;
        if (fd >= 0)
            plain_close(fd);
    }
    return n;
}

int public_enter(int function)
{
    if (spot.depth == 0) {
        spot.function = function;
        const struct halts *s = watch.steps;
        /* The call at which it happens is this function's, or one's after it. */
        if (spot.watched && watch.act == WATCH_CANCEL &&
            watch.n_entered >= s->of[watch.nth - 1].entry - 1u)
            watch.locks_before = file_locks();
        watch.n_entered += spot.watched;
        watch.n_at_entry = watch.n;
    }
    if (spot.watched && watch.act == WATCH_COUNT)
        watch.steps->called[function] = true;
    spot.depth++;
    return function;
}

void public_leave(int *entered)
{
    (void)entered;
    if (--spot.depth || !spot.watched)
        return;
    if (watch.act == WATCH_COUNT && watch.n > watch.n_at_entry &&
        watch.n_entered <= MAX_ENTRIES)
        watch.steps->locks_after[watch.n_entered - 1] = (uint16_t)file_locks();
    if (watch.act == WATCH_CANCEL && watch.n >= watch.nth)
        pthread_testcancel();
}

void at_call(enum call call)
{
    spot.call = (int)call;
    if (!spot.watched || !spot.depth || call < CALL_close)
        return;
    int saved = errno;
    int old, locks = spot.locks < N_STATES / 2 ? spot.locks : N_STATES / 2 - 1;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_setcancelstate(old, NULL);
    struct halt step = {(uint16_t)spot.function, (uint16_t)call,
                        (uint16_t)watch.n_entered,
                        (uint16_t)(2 * locks + (old == PTHREAD_CANCEL_ENABLE))};
    uint64_t n = watch.n++;
    if (watch.act == WATCH_COUNT && n < MAX_HALTS)
        watch.steps->of[n] = step;
    if (watch.n == watch.nth) {
        *watch.at = step;
        if (watch.act == WATCH_CANCEL)
            pthread_cancel(pthread_self());
        if (watch.act == WATCH_STOP) {
            raise(SIGSTOP);
            watch.went_on = true;
        }
    }
    /* Whether libc makes it a cancellation point or not: POSIX lets it. */
    if (watch.act == WATCH_CANCEL && watch.n >= watch.nth)
        pthread_testcancel();
    errno = saved;
}

/* ---- locks in memory, and waiting ---- */

#define NEXT(name)                                                                     \
    static __typeof__(name) *next;                                                     \
    if (!next)                                                                         \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

int plain_lock(pthread_mutex_t *m)
{
    NEXT(pthread_mutex_lock);
    int rc = on_wait ? pthread_mutex_trylock(m) : EBUSY;
    spot.locks++;
    if (rc != EBUSY)
        return rc; /* it has it, be it from a process that died */
    if (on_wait)
        on_wait(true);
    return next(m);
}

int plain_unlock(pthread_mutex_t *m)
{
    NEXT(pthread_mutex_unlock);
    spot.locks--;
    return next(m);
}

/* Another that does something before the call. */
#define WRAP_AFTER(before, name, parameters, ...)                                      \
    WRAPPER(int, name, parameters)                                                     \
    {                                                                                  \
        before;                                                                        \
        return __real_##name(__VA_ARGS__);                                             \
    }
WRAP_AFTER(spot.locks++, pthread_rwlock_rdlock, (pthread_rwlock_t * l), l)
WRAP_AFTER(spot.locks++, pthread_rwlock_wrlock, (pthread_rwlock_t * l), l)
WRAP_AFTER(spot.locks--, pthread_rwlock_unlock, (pthread_rwlock_t * l), l)
WRAP_AFTER(at_call(CALL_pthread_cond_wait), pthread_cond_wait,
           (pthread_cond_t * c, pthread_mutex_t *m), c, m)
WRAP_AFTER(at_call(CALL_pthread_join), pthread_join, (pthread_t thread, void **end),
           thread, end)
WRAP_AFTER(at_call(CALL_nanosleep); if (on_wait) on_wait(false), nanosleep,
                                    (const struct timespec *t, struct timespec *rest),
                                    t, rest)

WRAPPER(int, pthread_mutex_lock, (pthread_mutex_t * m))
{
    return plain_lock(m);
}

WRAPPER(int, pthread_mutex_unlock, (pthread_mutex_t * m))
{
    return plain_unlock(m);
}

WRAPPER(int, pthread_mutex_trylock, (pthread_mutex_t * m))
{
    int rc = __real_pthread_mutex_trylock(m);
    spot.locks += rc == 0;
    return rc;
}

/* While it is watched, each look takes two seconds: all is due, no pause repeats. */
WRAPPER(int, clock_gettime, (clockid_t clock, struct timespec *t))
{
    static _Thread_local time_t gone;
    int rc = __real_clock_gettime(clock, t);
    if (spot.watched)
        t->tv_sec += gone += 2;
    return rc;
}
