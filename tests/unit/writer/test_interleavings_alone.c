/* Interleavings that chance would take years to find, forced: a thread takes a writer
 * to itself (lib/writer/owner.c) while another is in an add, a growth, a commit or a
 * seal. The taker waits or is refused, or the other is; and no key is lost. */
#include "tests/unit/writer/held_support.h"

static int try_to_add(uint64_t key)
{
    return tamis_writer_add_hashes(writer, writer->domain.tag, &key, 1);
}

static void take(void)
{
    OK(tamis_writer_one_thread(writer));
}

/* ---- for the thread that is held ---- */

static int result;

static void adds(void *key)
{
    result = try_to_add(*(uint64_t *)key);
}

static void adds_many(void *from)
{
    result = tamis_writer_add_hashes(writer, writer->domain.tag, from, 200);
}

static void commits(void *ctx)
{
    result = tamis_writer_commit(writer, 5, NULL);
}

static void seals(void *ctx)
{
    result = tamis_writer_seal(writer, 5, NULL, NULL);
}

static void grows(void *ctx)
{
    result = writer_grow(writer);
}

static void takes(void *ctx)
{
    result = tamis_writer_one_thread(writer);
}

/* ---- with the mutex: the taker waits ---- */

static atomic_bool is_taken;
static struct {
    int take, add, commit;
} owner;

static void *take_add_commit(void *ctx)
{
    owner.take = tamis_writer_one_thread(writer);
    atomic_store(&is_taken, true);
    owner.add = try_to_add(keys[N - 1]);
    owner.commit = tamis_writer_commit(writer, 9, NULL);
    return NULL;
}

/* A thread is held at a place with the mutex, and another takes the writer. */
static void take_amid(const char *place, void (*what)(void *))
{
    pthread_t taker;
    for (uint64_t page = 0; page < writer->stages[0]->stage.n_pages; page++)
        stage_set_dirty(writer->stages[0], page); /* there is something to take */
    remember_block(0, keys[N - 1]);
    atomic_store(&is_taken, false);
    start(&t, place, 1, what, NULL);
    OK(pthread_create(&taker, NULL, take_add_commit, NULL));
    bool too_soon = false;
    for (int i = 0; i < 50 && !too_soon; i++) {
        usleep(4000);
        too_soon = atomic_load(&is_taken);
    }
    end(&t);
    OK(pthread_join(taker, NULL));
    assert_false(too_soon);
    IS(result, 0);
    IS(owner.take, 0);
}

static void expect_the_owners_key(void)
{
    IS(owner.add, 0);
    IS(owner.commit, 0);
    IS(writer->watermark, 9);
    assert_false(is_absent(reader, keys[N - 1]));
    IS(count_absent(reader, keys, FIRST), 0);
}

TEST_WITH_PAIR(test_taken_amid_a_commit)
{
    static const char *const places[] = {"commit: marks taken", "commit: pages counted",
                                         "commit: slot A written"};
    for (size_t i = 0; i < N_OF(places); i++) {
        take_amid(places[i], commits);
        expect_the_owners_key();
        assert_false(loss_is_missed(0, keys[N - 1]));
        pair_close(state);
        IS(pair_open(state), 0);
    }
}

TEST_WITH_PAIR(test_taken_amid_a_growth)
{
    writer->stages[0]->n_full_bits = 0;
    take_amid("grow: record written", grows);
    expect_the_owners_key();
    IS(commit_of(path).n_stages, 2);
    IS(commit_of(path).n_settled, 1); /* it has no adds of others */
}

TEST_WITH_PAIR(test_taken_amid_a_seal)
{
    take_amid("seal: adds are told", seals);
    IS(owner.add, TAMIS_ERR_SEALED);
    IS(owner.commit, TAMIS_ERR_SEALED);
    IS(commit_of(path).state, STATE_SEALED);
    assert_true(is_absent(reader, keys[N - 1]));
    IS(count_absent(reader, keys, FIRST), 0);
}

/* ---- on the way to the mutex: the other is refused ---- */

/* It changes nothing: it neither writes a record, nor grows a stage that is full. */
static void refused_before(const char *place, void (*what)(void *))
{
    uint64_t sequence = commit_of(path).sequence;
    start(&t, place, 1, what, NULL);
    take();
    writer->stages[0]->n_full_bits = 0;
    end(&t);
    IS(result, TAMIS_ERR_THREAD);
    IS(commit_of(path).sequence, sequence);
    IS(atomic_load(&writer->n_stages), 1);
    add(&keys[N - 1]); /* the owner grows it */
    IS(atomic_load(&writer->n_stages), 2);
    commit(9);
    assert_false(is_absent(reader, keys[N - 1]));
}

TEST_WITH_PAIR(test_a_commit_that_has_begun)
{
    refused_before("commit: begun", commits);
}

TEST_WITH_PAIR(test_a_seal_that_has_begun)
{
    refused_before("seal: begun", seals);
}

/* An add that filled the stage: the keys that are left are refused, too. */
TEST_WITH_PAIR(test_an_add_about_to_grow)
{
    start(&t, "add: stage full", 1, adds_many, keys + FIRST);
    take();
    end(&t);
    IS(result, TAMIS_ERR_THREAD);
    IS(atomic_load(&writer->n_stages), 1);
    add(&keys[N - 1]);
    IS(atomic_load(&writer->n_stages), 2);
}

/* ---- adds of others: one of the two sees the other ---- */

TEST_WITH_PAIR(test_an_add_not_announced_yet)
{
    start(&t, "add: begun", 1, adds, &keys[N - 1]);
    take();
    end(&t);
    IS(result, TAMIS_ERR_THREAD);
    assert_true(is_absent(reader, keys[N - 1]));
}

TEST_WITH_PAIR(test_an_add_in_flight)
{
    static const char *const places[] = {"add: stage chosen", "add: page looked at",
                                         "add: bits set"};
    for (size_t i = 0; i < N_OF(places); i++) {
        start(&t, places[i], 1, adds, &keys[N - 1 - i]);
        int err = tamis_writer_one_thread(writer);
        end(&t);
        IS(err, TAMIS_ERR_BUSY);
        IS(result, 0);
        assert_null(atomic_load(&writer->owner)); /* it is still everybody's */
        assert_false(is_absent(reader, keys[N - 1 - i]));
    }
    take();
}

TEST_WITH_PAIR(test_while_it_is_taken)
{
    start(&t, "alone: owner is there", 1, takes, NULL);
    IS(tamis_writer_one_thread(writer), TAMIS_ERR_THREAD);
    IS(try_to_add(keys[N - 1]), TAMIS_ERR_THREAD);
    IS(tamis_writer_commit(writer, 9, NULL), TAMIS_ERR_THREAD);
    IS(tamis_writer_seal(writer, 9, NULL, NULL), TAMIS_ERR_THREAD);
    assert_true(is_absent(reader, keys[N - 1]));
    end(&t);
    IS(result, 0);
    IS(try_to_add(keys[N - 1]), TAMIS_ERR_THREAD);
}

/* A signal handler of the taker's, before the taker is certain that no other thread
 * adds: and one does. */
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

TEST_WITH_PAIR(test_a_handler_while_it_is_taken)
{
    struct sigaction new = {.sa_handler = handler}, old;
    OK(sigaction(SIGUSR1, &new, &old));
    atomic_store(&handlers_result, -1);
    atomic_fetch_add(&writer->in_flight[0].n, 1);
    start(&t, "alone: owner is there", 1, takes, NULL);
    until_handled();
    end(&t);
    atomic_fetch_add(&writer->in_flight[0].n, 1);
    OK(sigaction(SIGUSR1, &old, NULL));
    IS(atomic_load(&handlers_result), TAMIS_ERR_THREAD);
    IS(result, TAMIS_ERR_BUSY);
    assert_true(is_absent(reader, keys[N - 1]));
    take();
}

/* A signal handler of the owner's amid a commit that poisons the writer: its add may
 * not let later ones skip their looks. */
static int after_commit;

static void take_add_commit_add(void *ctx)
{
    take();
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

RUN_TESTS(pair_set_up, test_dir_remove)
