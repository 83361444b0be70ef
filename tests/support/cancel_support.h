/* Calls of a thread that is cancelled: from the first cancellation point on it is gone,
 * unless the call holds cancellation off. */
#ifndef TAMIS_TESTS_CANCEL_SUPPORT_H
#define TAMIS_TESTS_CANCEL_SUPPORT_H

#include "tests/support/support.h"

#include <pthread.h>

/* The thread's system calls until it is cancelled. */
static _Thread_local unsigned long calls_left;
static struct io_calls calls_uncancelled;

static void count_call(void)
{
    if (calls_left && --calls_left == 0)
        pthread_cancel(pthread_self());
}

static ssize_t counting_pread(int fd, void *buf, size_t n, off_t offset)
{
    count_call();
    return calls_uncancelled.pread(fd, buf, n, offset);
}

static ssize_t counting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    count_call();
    return calls_uncancelled.pwrite(fd, buf, n, offset);
}

static int counting_fdatasync(int fd)
{
    count_call();
    return calls_uncancelled.fdatasync(fd);
}

static int counting_fsync(int fd)
{
    count_call();
    return calls_uncancelled.fsync(fd);
}

/* AddressSanitizer takes the frames of a cancelled thread for live ones, and reports
 * whoever uses the stack after them, the thread's own end for one. */
void __asan_unpoison_memory_region(const volatile void *address, size_t n_bytes)
    __attribute__((weak));

static void forget_frames(void *frame)
{
    pthread_attr_t attr;
    void *stack;
    size_t n_bytes;
    if (!__asan_unpoison_memory_region || pthread_getattr_np(pthread_self(), &attr))
        return;
    if (pthread_attr_getstack(&attr, &stack, &n_bytes) == 0)
        __asan_unpoison_memory_region(stack, (size_t)((char *)frame - (char *)stack));
    pthread_attr_destroy(&attr);
}

struct cancelled_call {
    void (*call)(void);
    unsigned long nth;
};

static void *run_cancelled(void *ctx)
{
    struct cancelled_call *c = ctx;
    calls_left = c->nth;
    pthread_cleanup_push(forget_frames, __builtin_frame_address(0));
    if (!c->nth)
        pthread_cancel(pthread_self());
    c->call();
    calls_left = 0;
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

/* Makes the call in a thread that is cancelled before it (nth 0), or just before its
 * nth read, write or sync, and waits until the thread has ended. Did it come so far? */
static UNUSED bool cancelled_at(void (*call)(void), unsigned long nth)
{
    struct cancelled_call c = {call, nth};
    pthread_t thread;
    void *end;
    calls_uncancelled = io_calls;
    io_calls.pread = counting_pread;
    io_calls.pwrite = counting_pwrite;
    io_calls.fdatasync = counting_fdatasync;
    io_calls.fsync = counting_fsync;
    assert_int_equal(pthread_create(&thread, NULL, run_cancelled, &c), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    io_calls = calls_uncancelled;
    return end == PTHREAD_CANCELED;
}

static UNUSED void cancelled(void (*call)(void))
{
    assert_true(cancelled_at(call, 0));
}

/* A lock that such a thread has kept is waited for without end. */
static UNUSED int set_alarm(void **state)
{
    (void)state;
    alarm(60);
    return 0;
}

#endif
