/* Interleavings that chance would take years to find, forced: a signal handler of the
 * thread that has the writer to itself adds in the middle of its commit; two threads
 * add a key, and ask whether it is new. */
#include "tests/unit/writer/held_support.h"

static int result;

static int try_to_add(uint64_t key)
{
    return tamis_writer_add_hashes(writer, writer->domain.tag, &key, 1);
}

static atomic_int handlers_result;

static void handler(int sig)
{
    if (atomic_load(&handlers_result) == -1)
        atomic_store(&handlers_result, try_to_add(keys[N - 1]));
}

/* Once is not enough: a thread sanitizer keeps a signal that comes just before the
 * thread waits, until it has waited. */
static void until_handled(void)
{
    enum { AGAIN_MS = 500 };
    for (int ms = 0; atomic_load(&handlers_result) == -1; ms++) {
        if (ms % AGAIN_MS == 0)
            OK(pthread_kill(t.thread, SIGUSR1));
        usleep(1000);
    }
}

/* The commit poisons the writer: the handler's add may not let later ones skip their
 * looks. */
static int after_commit;

static void take_add_commit_add(void *ctx)
{
    writer_own(writer);
    IS(try_to_add(keys[N - 2]), 0);
    IS(atomic_load(&writer->plain), writer->fork_epoch + 1);
    result = tamis_writer_commit(writer, 5, NULL);
    after_commit = try_to_add(keys[N - 3]);
}

TEST_WITH_PAIR(test_a_handler_amid_a_commit)
{
    struct sigaction new = {.sa_handler = handler}, old;
    OK(sigaction(SIGUSR1, &new, &old));
    atomic_store(&handlers_result, -1);
    start(&t, "commit: marks taken", 1, take_add_commit_add, NULL);
    until_handled();
    unsigned plain = atomic_load(&writer->plain);
    fail_from_now(CALL_FDATASYNC, EIO);
    end(&t);
    fail_never();
    OK(sigaction(SIGUSR1, &old, NULL));
    IS(atomic_load(&handlers_result), 0);
    IS(plain, NOT_PLAIN);
    IS(result, EIO);
    IS(after_commit, TAMIS_ERR_POISONED);
}

static uint64_t is_new;

static void add_new(void *key)
{
    result = tamis_writer_add_new(writer, writer->domain.tag, key, 1, &is_new);
}

/* No other thread may look at the key before its bits are set. */
TEST_WITH_PAIR(test_two_add_a_new_key)
{
    static const char *const places[] = {"add: page looked at", "add: bits set"};
    for (size_t i = 0; i < N_OF(places); i++) {
        start(&t, places[i], 1, add_new, &keys[N - 1 - i]);
        IS(pthread_mutex_trylock(&writer->turns[keys[N - 1 - i] % N_TURNS]), EBUSY);
        end(&t);
        IS(result, 0);
        IS(is_new, 1);
        add_new(&keys[N - 1 - i]);
        IS(is_new, 0);
    }
}

RUN_TESTS(pair_set_up, test_dir_remove)
