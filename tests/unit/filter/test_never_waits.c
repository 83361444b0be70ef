/* No probe waits for another thread (R6): whatever a thread that maps a growing filter
 * anew does in the middle of it. It stalls, is cancelled, is overtaken, leaves by
 * siglongjmp(), is interrupted by a handler that probes too, or is left behind by a
 * fork. */
#include "tests/support/pair_support.h"

#include <semaphore.h>

static void add_up_to(size_t from, size_t to)
{
    add_hashes(writer, keys + from, to - from);
}

static _Thread_local void (*in_pread)(void), (*after_pread)(void), (*in_mmap)(void);

static void call_once(void (**fn)(void))
{
    void (*f)(void) = *fn;
    *fn = NULL;
    if (f)
        f();
}

static ssize_t our_pread(int fd, void *buf, size_t n, off_t offset)
{
    call_once(&in_pread);
    ssize_t r = calls_before.pread(fd, buf, n, offset);
    call_once(&after_pread);
    return r;
}

/* Mappings of the file, not of memory. */
static void *our_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fd >= 0)
        call_once(&in_mmap);
    return calls_before.mmap(at, n, prot, flags, fd, offset);
}

static sem_t is_there, may_go;

static void hold(void)
{
    int cancel; /* sem_wait() is a cancellation point: pread() is to be the first */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    sem_post(&is_there);
    while (sem_wait(&may_go) != 0)
        ;
    pthread_setcancelstate(cancel, &cancel);
}

enum where { IN_PREAD, AFTER_PREAD, IN_MMAP };

/* A thread that is cancelled does not clear the marks that ASan has put on its stack:
 * its end would be an error to ASan. The marks are cleared as before a longjmp(). */
static void end_if_cancelled(void)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0) == 0)
        siglongjmp(here, 1);
    pthread_testcancel();
}

static void *probe_held(void *where)
{
    void (**points[])(void) = {&in_pread, &after_pread, &in_mmap};
    *points[*(enum where *)where] = hold;
    size_t n_absent = count_absent(reader, keys, FIRST);
    end_if_cancelled();
    return (void *)(uintptr_t)n_absent;
}

static enum where place;

/* Numbers of keys up to which there is one stage more each time. */
static const size_t ends[] = {1000, 2500, N};

static void grow_once(enum where where)
{
    size_t before = where ? ends[where - 1] : FIRST;
    uint32_t n_stages = commit_of(path).n_stages;
    add_up_to(before, ends[where]);
    IS(commit_of(path).n_stages, n_stages + 1);
}

static pthread_t start_held(enum where where)
{
    pthread_t thread;
    place = where;
    OK(pthread_create(&thread, NULL, probe_held, &place));
    while (sem_wait(&is_there) != 0)
        ;
    return thread;
}

static void *end_held(pthread_t thread)
{
    void *result;
    sem_post(&may_go);
    OK(pthread_join(thread, &result));
    return result;
}

static int stalls_open(void **state)
{
    sem_init(&is_there, 0, 0);
    sem_init(&may_go, 0, 0);
    if (pair_open(state) != 0)
        return -1;
    io_calls.pread = our_pread;
    io_calls.mmap = our_mmap;
    return 0;
}

static int stalls_close(void **state)
{
    pair_close(state);
    return count_mappings(path) == 0 ? 0 : -1;
}

#define TEST_WITH_STALLS(name) TEST_WITH(stalls_open, stalls_close, name)

static uint64_t key_held;
static enum tamis_reason reason_held;

/* By a header that is a commit or two old when it is used. */
static void *probe_late(void *ctx)
{
    after_pread = hold;
    reason_held = why_of(reader, key_held);
    return ctx;
}

static void *probe_all(void *n)
{
    return (void *)(uintptr_t)count_absent(reader, keys, *(size_t *)n);
}

TEST_WITH_STALLS(test_a_cancelled_thread)
{
    add_up_to(FIRST, N);
    pthread_t thread = start_held(IN_PREAD);
    OK(pthread_cancel(thread));
    assert_ptr_equal(end_held(thread), PTHREAD_CANCELED); /* after its probe */
    IS(count_absent(reader, keys, N), 0);
    IS(why_of(reader, absent_key(reader)), TAMIS_NO_REASON);
}

static void stalls_at(enum where where)
{
    size_t n = N;
    pthread_t other[4];
    add_up_to(FIRST, N);
    pthread_t thread = start_held(where);
    for (int i = 0; i < 4; i++)
        OK(pthread_create(&other[i], NULL, probe_all, &n));
    for (int i = 0; i < 4; i++) {
        void *n_absent;
        OK(pthread_join(other[i], &n_absent));
        assert_null(n_absent);
    }
    IS(why_of(reader, absent_key(reader)), TAMIS_NO_REASON); /* and they know */
    OK(tamis_writer_commit(writer, 1, NULL));
    IS(why_of(reader, absent_key(reader)), TAMIS_NO_REASON);
    assert_null(end_held(thread));
    IS(count_absent(reader, keys, N), 0);
}

/* Before it has the header, with the header, and with a view. */
TEST(test_a_stalled_thread)
{
    for (enum where where = IN_PREAD; where <= IN_MMAP; where++) {
        OK(stalls_open(state));
        stalls_at(where);
        OK(stalls_close(state));
    }
}

/* The view of a thread that was overtaken goes nowhere, and nothing of it stays. */
TEST_WITH_STALLS(test_an_overtaken_thread)
{
    add_up_to(FIRST, 1500);
    pthread_t thread = start_held(IN_MMAP);
    IS(count_absent(reader, keys, 1500), 0);
    add_up_to(1500, N);
    IS(count_absent(reader, keys, N), 0);
    struct view *v = atomic_load(&reader->view);
    size_t n = count_mappings(path);
    assert_null(end_held(thread));
    assert_ptr_equal(atomic_load(&reader->view), v);
    IS(count_mappings(path), n);
    for (size_t i = 0; i < MAX_MAKERS; i++)
        assert_null(atomic_load(&reader->making[i]));
    IS(count_absent(reader, keys, N), 0);
}

/* Each time that the thread has mapped the table, another one has published it, and
 * the table changes: by growth, and by a stage that is settled. */
static void change_table(void)
{
    size_t from = commit_of(path).n_stages == 2 ? ends[0] : ends[1];
    IS(count_absent(reader, keys, from), 0);
    struct commit c = commit_of(path);
    if (c.n_settled + 1 < c.n_stages)
        OK(tamis_writer_commit(writer, 0, NULL));
    else
        add_up_to(from, from == ends[0] ? ends[1] : N);
    in_mmap = change_table;
}

/* Looks have an end. A thread that made none in time has the newest view, which proves
 * nothing, and the next probe looks. */
TEST_WITH_STALLS(test_a_thread_that_is_always_overtaken)
{
    struct standing now;
    grow_once(IN_PREAD);
    in_mmap = change_table;
    struct view *v = filter_look(reader, &now);
    assert_ptr_equal(v, atomic_load(&reader->view));
    IS(now.refusal, TAMIS_UNREADABLE);
    in_mmap = NULL;
    IS(why_of(reader, absent_key(reader)), TAMIS_NO_REASON);
    IS(count_absent(reader, keys, N), 0);
}

/* A header that was read before the last commits takes nothing back. */
TEST_WITH_STALLS(test_an_older_header_comes_late)
{
    struct tamis_key key = {.tag = reader->tag, .hash = absent_key(reader)};
    enum tamis_reason why;
    OK(tamis_writer_commit(writer, 5, NULL));
    pthread_t thread = start_held(AFTER_PREAD);
    OK(tamis_writer_commit(writer, 9, NULL));
    IS(filter_probe_from(reader, 9, 0, &key, &why), TAMIS_ABSENT);
    assert_null(end_held(thread));
    IS(filter_probe_from(reader, 9, 0, &key, &why), TAMIS_ABSENT);
    IS(filter_probe_from(reader, 10, 0, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_BEHIND);
    IS(atomic_load(&atomic_load(&reader->view)->watermark), 9);
}

/* And it is right for the probe that read it: others have seen later ones since, and
 * that makes this one no older copy. */
TEST_WITH_STALLS(test_an_older_header_is_believed)
{
    pthread_t thread;
    key_held = absent_key(reader);
    OK(tamis_writer_commit(writer, 5, NULL));
    OK(pthread_create(&thread, NULL, probe_late, NULL));
    while (sem_wait(&is_there) != 0)
        ;
    OK(tamis_writer_commit(writer, 9, NULL));
    IS(why_of(reader, key_held), TAMIS_NO_REASON);
    end_held(thread);
    IS(reason_held, TAMIS_NO_REASON);
    IS(why_of(reader, key_held), TAMIS_NO_REASON);
}

/* ---- out of a probe by siglongjmp() ---- */

static sigjmp_buf out;

static void jump(void)
{
    siglongjmp(out, 1);
}

static volatile bool has_jumped;

static void probe_and_jump(enum where where)
{
    int cancel;
    has_jumped = false;
    if (sigsetjmp(out, 1) == 0) {
        if (where == IN_PREAD)
            in_pread = jump;
        else
            in_mmap = jump;
        ask(reader, keys[0], NULL);
    } else {
        has_jumped = true;
    }
    in_pread = in_mmap = NULL;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
}

TEST_WITH_STALLS(test_a_jump_out_of_reading)
{
    add_up_to(FIRST, N);
    for (int i = 0; i < 100; i++) {
        probe_and_jump(IN_PREAD);
        assert_true(has_jumped);
    }
    IS(count_absent(reader, keys, N), 0);
    IS(why_of(reader, absent_key(reader)), TAMIS_NO_REASON);
}

/* Each leaves a view behind, which close() frees. */
TEST_WITH_STALLS(test_a_jump_out_of_mapping)
{
    add_up_to(FIRST, N);
    for (int i = 0; i + 1 < MAX_MAKERS; i++) {
        probe_and_jump(IN_MMAP);
        assert_true(has_jumped);
    }
    IS(count_absent(reader, keys, N), 0);
    IS(why_of(reader, absent_key(reader)), TAMIS_NO_REASON);
}

/* One jump more than may be: now no new table is followed, and the old one is not
 * believed. So the memory that jumps leave has a limit. */
TEST_WITH_STALLS(test_too_many_jumps)
{
    uint64_t absent = absent_key(reader);
    add_up_to(FIRST, N);
    for (int i = 0; i < MAX_MAKERS; i++)
        probe_and_jump(IN_MMAP);
    probe_and_jump(IN_MMAP);
    assert_false(has_jumped);
    IS(why_of(reader, absent), TAMIS_UNREADABLE);
    IS(count_absent(reader, keys, N), 0);
    FILTER again = open_filter(path);
    IS(ask(again, absent, NULL), TAMIS_ABSENT);
}

static volatile size_t n_absent_in_handler;
static uint64_t absent_in_handler[N / 64 + 1];
static volatile enum tamis_reason reason_in_handler;
static uint64_t key_of_handler;

static void on_signal(int sig)
{
    /* No malloc(), which the handler may have interrupted; TSan says so if there is. */
    n_absent_in_handler =
        tamis_filter_probe_batch(reader, reader->tag, keys, N, absent_in_handler, NULL);
    enum tamis_reason why;
    ask(reader, key_of_handler, &why);
    reason_in_handler = why;
}

static void interrupt(void)
{
    raise(SIGUSR1);
}

TEST_WITH_STALLS(test_a_handler_that_probes)
{
    key_of_handler = absent_key(reader);
    signal(SIGUSR1, on_signal);
    for (enum where where = IN_PREAD; where <= IN_MMAP; where++) {
        void (**points[])(void) = {&in_pread, &after_pread, &in_mmap};
        grow_once(where);
        *points[where] = interrupt;
        n_absent_in_handler = N + 1;
        errno = 0;
        IS(count_absent(reader, keys, ends[where]), 0);
        IS(errno, 0);
        assert_null(*points[where]);
        assert_true(n_absent_in_handler <= N - ends[where]);
        assert_int_not_equal(reason_in_handler, TAMIS_UNREADABLE);
    }
    IS(count_absent(reader, keys, N), 0);
    signal(SIGUSR1, SIG_DFL);
}

static size_t n_in_child;

static int probe_in_child(void *ctx)
{
    enum tamis_reason why;
    alarm(SECONDS); /* a child inherits none */
    if (count_absent(reader, keys, n_in_child) != 0)
        return 1;
    ask(reader, key_of_handler, &why);
    return why == TAMIS_NO_REASON || why == TAMIS_HIT ? 0 : 2;
}

TEST_WITH_STALLS(test_a_fork_while_a_thread_refreshes)
{
    key_of_handler = absent_key(reader);
    for (enum where where = IN_PREAD; where <= IN_MMAP; where++) {
        grow_once(where);
        pthread_t thread = start_held(where);
        n_in_child = ends[where];
        in_child(probe_in_child, NULL);
        assert_null(end_held(thread));
    }
    IS(count_absent(reader, keys, N), 0);
}

RUN_TESTS(pair_set_up, test_dir_remove)
