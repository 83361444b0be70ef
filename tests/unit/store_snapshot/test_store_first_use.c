/* The first probe of a segment opens its file. No other probe waits for that (R6): not
 * when the thread stalls there, is cancelled, leaves by siglongjmp(), or is interrupted
 * by a signal handler that probes. Each case is a process of its own, in which nothing
 * has been opened before: what a process does once is done then, too. */
#include "tests/support/store_packs.h"

#include <semaphore.h>

enum { N = 100, SECONDS = 30 };

static struct tamis_store *store;
static struct tamis_snapshot *snapshot;
static struct tamis_key present, absent;
static struct tamis_target listed[4];

/* Probes for a key that the segment has, and for one that it lacks. */
static int answers_are_right(void)
{
    struct tamis_target t;
    enum tamis_reason why;
    if (tamis_snapshot_find(snapshot, "seg", 3, NULL, 0, 0, &t) != 0)
        return 8;
    if (tamis_snapshot_probe(snapshot, &t, &present, &why) == TAMIS_ABSENT)
        return 1;
    if (tamis_snapshot_probe(snapshot, &t, &absent, &why) != TAMIS_ABSENT)
        return 2;
    return 0;
}

static ssize_t (*real_pread)(int, void *, size_t, off_t);
static _Thread_local void (*in_pread)(void);
static int nth_pread;

static ssize_t our_pread(int fd, void *buf, size_t n, off_t offset)
{
    if (in_pread && --nth_pread == 0) {
        void (*f)(void) = in_pread;
        in_pread = NULL;
        f();
    }
    return real_pread(fd, buf, n, offset);
}

static void *no_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    errno = ENOMEM;
    return fd < 0 ? mmap(at, n, prot, flags, fd, offset) : MAP_FAILED;
}

/* ---- by siglongjmp() ---- */

static sigjmp_buf out;

static void jump(void)
{
    siglongjmp(out, 1);
}

static int after_a_jump(void *ctx)
{
    alarm(SECONDS);
    if (sigsetjmp(out, 1) == 0) {
        in_pread = jump;
        answers_are_right();
        return 3; /* no such call */
    }
    return answers_are_right();
}

/* ---- a signal handler ---- */

static volatile int in_handler = 4;

static void on_signal(int sig)
{
    in_handler = answers_are_right();
}

static void interrupt(void)
{
    raise(SIGUSR1);
}

static int in_a_handler(void *ctx)
{
    alarm(SECONDS);
    signal(SIGUSR1, on_signal);
    in_pread = interrupt;
    int rc = answers_are_right();
    return rc ? rc : in_handler;
}

/* ---- a handler on a stack of its own ---- */

enum { STACK_BYTES = 80 << 10 }; /* as tamis.h says */
static uint8_t stack[4 * STACK_BYTES];

/* The list opens the segment, which stands before columns of a pack. */
static void ask_all(int sig)
{
    uint64_t bits[1];
    ASK(snapshot, LIST(listed, 4), KEYS(&absent, 1), .absent = bits);
    ASK(snapshot, ALL, KEYS(&absent, 1), .absent = bits);
    in_handler = answers_are_right();
}

static int takes_that_much_stack(void *ctx)
{
    struct sigaction action = {.sa_handler = ctx ? ask_all : on_signal,
                               .sa_flags = SA_ONSTACK};
    size_t unused = 0;
    memset(stack, 0xa5, sizeof stack);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    while (stack[unused] == 0xa5)
        unused++;
    return in_handler ? in_handler : sizeof stack - unused > STACK_BYTES ? 9 : 0;
}

/* ---- another thread ---- */

static sem_t is_there, may_go;

static void hold(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    sem_post(&is_there);
    while (sem_wait(&may_go) != 0)
        ;
    pthread_setcancelstate(cancel, &cancel);
}

static void *probe_held(void *ctx)
{
    in_pread = hold;
    int rc = answers_are_right();
    pthread_testcancel();
    return rc ? ctx : NULL;
}

static int n_descriptors(void)
{
    return (int)count_files("/proc/self/fd");
}

static int beside_a_thread(void *cancelled)
{
    pthread_t thread;
    void *result;
    int before = n_descriptors();
    alarm(SECONDS);
    sem_init(&is_there, 0, 0);
    sem_init(&may_go, 0, 0);
    if (pthread_create(&thread, NULL, probe_held, store) != 0)
        return 5;
    while (sem_wait(&is_there) != 0)
        ;
    int rc = answers_are_right();
    if (cancelled)
        pthread_cancel(thread);
    sem_post(&may_go);
    pthread_join(thread, &result);
    if (result != (cancelled ? PTHREAD_CANCELED : NULL))
        return 6;
    if (n_descriptors() != before) /* each file that was opened is closed */
        return 7;
    return rc ? rc : answers_are_right();
}

/* ---- what is read on the way, one after the other ---- */

/* The limit of mappings, the header; and of a filter that cannot be mapped the header
 * twice more, and a page. */
TEST(test_first_uses)
{
    int (*cases[])(void *) = {after_a_jump, in_a_handler, beside_a_thread,
                              beside_a_thread};
    for (size_t i = 0; i < 8; i++) {
        io_calls.mmap = i < 4 ? mmap : no_mmap;
        for (int nth = 1; nth <= (i < 4 ? 2 : 5); nth++) {
            nth_pread = nth;
            in_child(cases[i % 4], i % 4 == 3 ? &store : NULL);
        }
    }
    io_calls.mmap = mmap;
    IS(answers_are_right(), 0);
}

/* Before the segment's first use. */
TEST(test_stack)
{
    static const char *const names[] = {"seg", "c", "a", "b"};
#if SANITIZED || !defined(__OPTIMIZE__)
    skip(); /* frames are larger */
#endif
    drop_segment(store, "seg");
    for (size_t i = 1; i < 4; i++)
        put_segment(store, names[i], 1000 * i, N);
    pack_all(store);
    put_segment(store, "seg", 0, N);
    tamis_snapshot_release(snapshot);
    snapshot = snapshot_of(store);
    for (size_t i = 0; i < 4; i++)
        listed[i] = found_in(snapshot, names[i]);
    in_child(takes_that_much_stack, NULL);
    in_child(takes_that_much_stack, &store);
    io_calls.mmap = no_mmap;
    in_child(takes_that_much_stack, &store);
    io_calls.mmap = mmap;
}

static int set_up(void **state)
{
    if (test_dir_create(state) != 0)
        return -1;
    store = store_new("store");
    put_segment(store, "seg", 0, N);
    snapshot = snapshot_of(store);
    present = key_in(store, 1);
    absent = key_in(store, 0);
    absent.bytes = NULL; /* by its bits, not by the range of keys */
    absent.hash = 1;
    real_pread = io_calls.pread;
    io_calls.pread = our_pread;
    return 0;
}

static int tear_down(void **state)
{
    io_calls.pread = real_pread;
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return test_dir_remove(state);
}

RUN_TESTS(set_up, tear_down)
