/* No probe waits for another thread (R6): whatever a thread that maps a growing filter
 * anew does in the middle of it. It stalls, is cancelled, leaves by siglongjmp(), is
 * interrupted by a signal handler that probes too, or is left behind by a fork. */
#include "tests/support/support.h"
#include "lib/filter/view.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

/* Of the keys FIRST are in the first stage; each growth begins another one. */
enum { N = 5000, FIRST = 300, SECONDS = 30 };

static uint64_t keys[N];
static const char *path;
static struct tamis_filter *reader;
static struct tamis_writer *writer;

static enum tamis_reason reason_of(uint64_t hash)
{
    enum tamis_reason why;
    enum tamis_answer a = ask(reader, hash, &why);
    assert_true((a == TAMIS_ABSENT) == (why == TAMIS_NO_REASON));
    return why;
}

/* A hash that the filter of all keys lacks. */
static uint64_t absent_key(void)
{
    uint64_t h = 1;
    while (ask(reader, h, NULL) != TAMIS_ABSENT)
        h = h * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return h;
}

static void add_up_to(size_t from, size_t to)
{
    add_hashes(writer, keys + from, to - from);
}

/* ---- the thread that is held up, or goes, in a system call of a refresh ---- */

static struct io_calls real;
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
    ssize_t r = real.pread(fd, buf, n, offset);
    call_once(&after_pread);
    return r;
}

/* Of the file, not of memory. */
static void *our_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fd >= 0)
        call_once(&in_mmap);
    return real.mmap(at, n, prot, flags, fd, offset);
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

static uint64_t key_held;
static enum tamis_reason reason_held;

/* By a header that is a commit or two old when it is used. */
static void *probe_late(void *ctx)
{
    after_pread = hold;
    reason_held = reason_of(key_held);
    return ctx;
}

static enum where place;

/* Up to so many keys there is one stage more each time. */
static const size_t ends[] = {1000, 2500, N};

static void grow_once(enum where where)
{
    size_t before = where ? ends[where - 1] : FIRST;
    uint32_t n_stages = commit_of(path).n_stages;
    add_up_to(before, ends[where]);
    assert_int_equal(commit_of(path).n_stages, n_stages + 1);
}

static pthread_t start_held(enum where where)
{
    pthread_t thread;
    place = where;
    assert_int_equal(pthread_create(&thread, NULL, probe_held, &place), 0);
    while (sem_wait(&is_there) != 0)
        ;
    return thread;
}

static void *end_held(pthread_t thread)
{
    void *result;
    sem_post(&may_go);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

static void *probe_all(void *n)
{
    return (void *)(uintptr_t)count_absent(reader, keys, *(size_t *)n);
}

/* ---- tests ---- */

static void test_a_cancelled_thread(void **state)
{
    (void)state;
    add_up_to(FIRST, N);
    pthread_t thread = start_held(IN_PREAD);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_ptr_equal(end_held(thread), PTHREAD_CANCELED); /* after its probe */
    assert_int_equal(count_absent(reader, keys, N), 0);
    assert_int_equal(reason_of(absent_key()), TAMIS_NO_REASON);
}

static void stalls_at(enum where where)
{
    size_t n = N;
    pthread_t other[4];
    add_up_to(FIRST, N);
    pthread_t thread = start_held(where);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&other[i], NULL, probe_all, &n), 0);
    for (int i = 0; i < 4; i++) {
        void *n_absent;
        assert_int_equal(pthread_join(other[i], &n_absent), 0);
        assert_null(n_absent);
    }
    assert_int_equal(reason_of(absent_key()), TAMIS_NO_REASON); /* and they know */
    assert_int_equal(tamis_writer_commit(writer, 1, NULL), 0);
    assert_int_equal(reason_of(absent_key()), TAMIS_NO_REASON);
    assert_null(end_held(thread));
    assert_int_equal(count_absent(reader, keys, N), 0);
}

static void test_a_stalled_thread(void **state)
{
    (void)state;
    stalls_at(IN_PREAD);
}

static void test_a_thread_that_stalls_with_the_header(void **state)
{
    (void)state;
    stalls_at(AFTER_PREAD);
}

static void test_a_thread_that_stalls_with_a_view(void **state)
{
    (void)state;
    stalls_at(IN_MMAP);
}

static size_t n_mappings(void)
{
    char line[4096];
    size_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, path) != NULL;
    fclose(f);
    return n;
}

/* The view of a thread that was overtaken goes nowhere, and nothing of it stays. */
static void test_an_overtaken_thread(void **state)
{
    (void)state;
    add_up_to(FIRST, 1500);
    pthread_t thread = start_held(IN_MMAP);
    assert_int_equal(count_absent(reader, keys, 1500), 0);
    add_up_to(1500, N);
    assert_int_equal(count_absent(reader, keys, N), 0);
    struct view *v = atomic_load(&reader->view);
    size_t n = n_mappings();
    assert_null(end_held(thread));
    assert_ptr_equal(atomic_load(&reader->view), v);
    assert_int_equal(n_mappings(), n);
    for (size_t i = 0; i < MAX_MAKERS; i++)
        assert_null(atomic_load(&reader->making[i]));
    assert_int_equal(count_absent(reader, keys, N), 0);
}

/* Each time that the thread has mapped the table, another one has published it, and
 * the table changes: by growth, and by a stage that is settled. */
static void change_table(void)
{
    size_t from = commit_of(path).n_stages == 2 ? ends[0] : ends[1];
    assert_int_equal(count_absent(reader, keys, from), 0);
    struct view *v = atomic_load(&reader->view);
    if (v->n_settled + 1 < v->n_stages)
        assert_int_equal(tamis_writer_commit(writer, 0, NULL), 0);
    else
        add_up_to(from, from == ends[0] ? ends[1] : N);
    in_mmap = change_table;
}

/* Looks have an end. Who made none in time has the newest view, of which nothing is
 * proven, and the next one looks. */
static void test_a_thread_that_is_always_overtaken(void **state)
{
    struct standing now;
    (void)state;
    grow_once(IN_PREAD);
    in_mmap = change_table;
    struct view *v = filter_look(reader, &now);
    assert_ptr_equal(v, atomic_load(&reader->view));
    assert_int_equal(now.refusal, TAMIS_UNREADABLE);
    in_mmap = NULL;
    assert_int_equal(reason_of(absent_key()), TAMIS_NO_REASON);
    assert_int_equal(count_absent(reader, keys, N), 0);
}

/* A header that was read before the last commits takes nothing back. */
static void test_an_older_header_comes_late(void **state)
{
    struct tamis_key key = tamis_key_of_hash(reader->tag, absent_key());
    enum tamis_reason why;
    (void)state;
    assert_int_equal(tamis_writer_commit(writer, 5, NULL), 0);
    pthread_t thread = start_held(AFTER_PREAD);
    assert_int_equal(tamis_writer_commit(writer, 9, NULL), 0);
    assert_int_equal(filter_probe_from(reader, 9, 0, &key, &why), TAMIS_ABSENT);
    assert_null(end_held(thread));
    assert_int_equal(filter_probe_from(reader, 9, 0, &key, &why), TAMIS_ABSENT);
    assert_int_equal(filter_probe_from(reader, 10, 0, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_BEHIND);
    assert_int_equal(atomic_load(&atomic_load(&reader->view)->watermark), 9);
}

/* And it is right for the probe that read it: others have seen later ones since, and
 * that makes this one no older copy. */
static void test_an_older_header_is_believed(void **state)
{
    pthread_t thread;
    (void)state;
    key_held = absent_key();
    assert_int_equal(tamis_writer_commit(writer, 5, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, probe_late, NULL), 0);
    while (sem_wait(&is_there) != 0)
        ;
    assert_int_equal(tamis_writer_commit(writer, 9, NULL), 0);
    assert_int_equal(reason_of(key_held), TAMIS_NO_REASON);
    end_held(thread);
    assert_int_equal(reason_held, TAMIS_NO_REASON);
    assert_int_equal(reason_of(key_held), TAMIS_NO_REASON);
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

static void test_a_jump_out_of_reading(void **state)
{
    (void)state;
    add_up_to(FIRST, N);
    for (int i = 0; i < 100; i++) {
        probe_and_jump(IN_PREAD);
        assert_true(has_jumped);
    }
    assert_int_equal(count_absent(reader, keys, N), 0);
    assert_int_equal(reason_of(absent_key()), TAMIS_NO_REASON);
}

/* Each leaves a view behind, which close() frees. */
static void test_a_jump_out_of_mapping(void **state)
{
    (void)state;
    add_up_to(FIRST, N);
    for (int i = 0; i + 1 < MAX_MAKERS; i++) {
        probe_and_jump(IN_MMAP);
        assert_true(has_jumped);
    }
    assert_int_equal(count_absent(reader, keys, N), 0);
    assert_int_equal(reason_of(absent_key()), TAMIS_NO_REASON);
}

/* One more than may be: from then on no table that is new is followed, and the old one
 * is not believed. What is left behind has an end. */
static void test_too_many_jumps(void **state)
{
    (void)state;
    uint64_t absent = absent_key();
    add_up_to(FIRST, N);
    for (int i = 0; i < MAX_MAKERS; i++)
        probe_and_jump(IN_MMAP);
    probe_and_jump(IN_MMAP);
    assert_false(has_jumped);
    assert_int_equal(reason_of(absent), TAMIS_UNREADABLE);
    assert_int_equal(count_absent(reader, keys, N), 0);
    struct tamis_filter *again = open_filter(path);
    assert_int_equal(ask(again, absent, NULL), TAMIS_ABSENT);
    tamis_filter_close(again);
}

/* ---- a signal handler ---- */

static volatile size_t n_absent_in_handler;
static uint64_t absent_in_handler[N / 64 + 1];
static volatile enum tamis_reason reason_in_handler;
static uint64_t key_of_handler;

static void on_signal(int sig)
{
    (void)sig;
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

static void test_a_handler_that_probes(void **state)
{
    (void)state;
    key_of_handler = absent_key();
    signal(SIGUSR1, on_signal);
    for (enum where where = IN_PREAD; where <= IN_MMAP; where++) {
        void (**points[])(void) = {&in_pread, &after_pread, &in_mmap};
        grow_once(where);
        *points[where] = interrupt;
        n_absent_in_handler = N + 1;
        errno = 0;
        assert_int_equal(count_absent(reader, keys, ends[where]), 0);
        assert_int_equal(errno, 0);
        assert_null(*points[where]);
        assert_true(n_absent_in_handler <= N - ends[where]);
        assert_int_not_equal(reason_in_handler, TAMIS_UNREADABLE);
    }
    assert_int_equal(count_absent(reader, keys, N), 0);
    signal(SIGUSR1, SIG_DFL);
}

/* ---- a fork ---- */

static size_t n_in_child;

static int probe_in_child(void *ctx)
{
    enum tamis_reason why;
    (void)ctx;
    alarm(SECONDS); /* a child inherits none */
    if (count_absent(reader, keys, n_in_child) != 0)
        return 1;
    ask(reader, key_of_handler, &why);
    return why == TAMIS_NO_REASON || why == TAMIS_HIT ? 0 : 2;
}

static void test_a_fork_while_a_thread_refreshes(void **state)
{
    (void)state;
    key_of_handler = absent_key();
    for (enum where where = IN_PREAD; where <= IN_MMAP; where++) {
        grow_once(where);
        pthread_t thread = start_held(where);
        n_in_child = ends[where];
        in_child(probe_in_child, NULL);
        assert_null(end_held(thread));
    }
    assert_int_equal(count_absent(reader, keys, N), 0);
}

/* ---- one writer and one reader a test ---- */

static int set_up(void **state)
{
    random_hashes(keys, N);
    return test_dir_create(state);
}

static int open_both(void **state)
{
    static char name[1024];
    if (faults_on(state)) /* no test waits for a disk */
        return -1;
    snprintf(name, sizeof name, "%s", path_of("filter"));
    path = name;
    unlink(path);
    sem_init(&is_there, 0, 0);
    sem_init(&may_go, 0, 0);
    writer = create_writer(path, 0.01, 2, 500);
    add_up_to(0, FIRST);
    if (tamis_writer_commit(writer, 0, NULL) != 0)
        return -1;
    reader = open_filter(path);
    if (count_absent(reader, keys, FIRST) != 0)
        return -1;
    real = io_calls;
    io_calls.pread = our_pread;
    io_calls.mmap = our_mmap;
    alarm(SECONDS); /* a probe that waits for ever ends here */
    return 0;
}

static int close_both(void **state)
{
    alarm(0);
    io_calls = real;
    tamis_filter_close(reader);
    tamis_writer_close(writer);
    faults_off(state);
    return n_mappings() == 0 ? 0 : -1;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_cancelled_thread),
        TEST(test_a_stalled_thread),
        TEST(test_a_thread_that_stalls_with_the_header),
        TEST(test_a_thread_that_stalls_with_a_view),
        TEST(test_an_overtaken_thread),
        TEST(test_a_thread_that_is_always_overtaken),
        TEST(test_an_older_header_comes_late),
        TEST(test_an_older_header_is_believed),
        TEST(test_a_jump_out_of_reading),
        TEST(test_a_jump_out_of_mapping),
        TEST(test_too_many_jumps),
        TEST(test_a_handler_that_probes),
        TEST(test_a_fork_while_a_thread_refreshes),
    };
    return cmocka_run_group_tests_name("never_waits", tests, set_up, test_dir_remove);
}
