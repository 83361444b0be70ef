/* No probe waits for another thread (R6), though the one that maps a growing filter
 * anew leaves by siglongjmp(), is interrupted by a signal handler that probes too, or
 * is left behind by a fork. */
#include "tests/unit/filter/stall_support.h"

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

/* One more than may be: from then on no table that is new is followed, and the old one
 * is not believed. What is left behind has an end. */
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

/* ---- a signal handler ---- */

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

/* ---- a fork ---- */

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
