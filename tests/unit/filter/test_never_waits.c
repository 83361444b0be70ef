/* No probe waits for another thread (R6): whatever a thread that maps a growing filter
 * anew does in the middle of it. It stalls, is cancelled, or is overtaken. */
#include "tests/unit/filter/stall_support.h"

/* ---- the thread that is held up, or goes, in a system call of a refresh ---- */

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

/* ---- tests ---- */

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

TEST_WITH_STALLS(test_a_stalled_thread)
{
    stalls_at(IN_PREAD);
}

TEST_WITH_STALLS(test_a_thread_that_stalls_with_the_header)
{
    stalls_at(AFTER_PREAD);
}

TEST_WITH_STALLS(test_a_thread_that_stalls_with_a_view)
{
    stalls_at(IN_MMAP);
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
    size_t n = n_mappings();
    assert_null(end_held(thread));
    assert_ptr_equal(atomic_load(&reader->view), v);
    IS(n_mappings(), n);
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

/* Looks have an end. Who made none in time has the newest view, of which nothing is
 * proven, and the next one looks. */
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
    struct tamis_key key = tamis_key_of_hash(reader->tag, absent_key(reader));
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

RUN_TESTS(pair_set_up, test_dir_remove)
