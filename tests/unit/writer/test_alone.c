/* A writer that one thread has to itself (lib/writer/alone.c): its adds are as durable
 * and as visible as those of many threads, and every other thread is refused. */
#include "tests/support/pair_support.h"
#include "lib/writer/inside.h"

#include <pthread.h>

static void take(void)
{
    assert_int_equal(tamis_writer_one_thread(writer), 0);
}

/* ---- who may add ---- */

struct results {
    int take, key, hashes, none, commit, seal, info;
};

static void *try_all(void *arg)
{
    struct results *r = arg;
    struct tamis_filter_info info;
    r->take = tamis_writer_one_thread(writer);
    r->key = tamis_writer_add_key(writer, "x", 1);
    r->hashes = tamis_writer_add_hashes(writer, writer->domain.tag, keys, 10);
    r->none = tamis_writer_add_hashes(writer, writer->domain.tag, keys, 0);
    r->commit = tamis_writer_commit(writer, 9, NULL);
    r->seal = tamis_writer_seal(writer, 9, NULL, NULL);
    r->info = tamis_writer_info(writer, &info);
    return NULL;
}

static void other_threads_are_refused(void **state)
{
    (void)state;
    struct results r;
    pthread_t thread;
    struct tamis_filter_info before, after;
    take();
    take(); /* it has it */
    assert_int_equal(tamis_writer_info(writer, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, try_all, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.take, TAMIS_ERR_THREAD);
    assert_int_equal(r.key, TAMIS_ERR_THREAD);
    assert_int_equal(r.hashes, TAMIS_ERR_THREAD);
    assert_int_equal(r.none, TAMIS_ERR_THREAD);
    assert_int_equal(r.commit, TAMIS_ERR_THREAD);
    assert_int_equal(r.seal, TAMIS_ERR_THREAD);
    assert_int_equal(r.info, 0);
    assert_int_equal(tamis_writer_info(writer, &after), 0);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(tamis_writer_watermark(writer), 0);
}

static void not_while_another_adds(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_STRIPES + N_SHARED; i += N_STRIPES) {
        atomic_fetch_add(&writer->in_flight[i].n, 1);
        assert_int_equal(tamis_writer_one_thread(writer), TAMIS_ERR_BUSY);
        atomic_fetch_add(&writer->in_flight[i].n, i < N_STRIPES ? 1 : UINT32_MAX);
    }
    add_hashes(writer, keys + FIRST, 1); /* it is still everybody's */
    assert_null(atomic_load(&writer->owner));
    take();
}

/* A handler that interrupts an add of the owner's, between a load and its store. */
static void a_handler_in_an_add_is_refused(void **state)
{
    (void)state;
    take();
    assert_int_equal(alone_enter(writer), 0);
    assert_int_equal(tamis_writer_add_key(writer, "x", 1), TAMIS_ERR_THREAD);
    assert_int_equal(tamis_writer_commit(writer, 9, NULL), TAMIS_ERR_THREAD);
    assert_int_equal(tamis_writer_seal(writer, 9, NULL, NULL), TAMIS_ERR_THREAD);
    alone_leave(writer);
    assert_int_equal(tamis_writer_commit(writer, 9, NULL), 0);
}

static void states_are_told(void **state)
{
    (void)state;
    take();
    assert_int_equal(tamis_writer_add_hashes(writer, writer->domain.tag + 1, keys, 1),
                     TAMIS_ERR_MISMATCH);
    assert_int_equal(tamis_writer_seal(writer, 1, NULL, NULL), 0);
    assert_int_equal(tamis_writer_add_hashes(writer, writer->domain.tag, keys, 1),
                     TAMIS_ERR_SEALED);
}

/* ---- the quick way of one key ends with whatever speaks against it ---- */

static int add_one(size_t i)
{
    return tamis_writer_add_hashes(writer, writer->domain.tag, &keys[i], 1);
}

/* The second key goes the quick way. */
static void take_and_add(void)
{
    take();
    assert_int_equal(add_one(FIRST), 0);
    assert_int_equal(atomic_load(&writer->plain), writer->fork_epoch + 1);
    assert_int_equal(add_one(FIRST + 1), 0);
    assert_int_equal(ask(reader, keys[FIRST + 1], NULL), TAMIS_MAYBE);
}

static void not_in_a_handler(void **state)
{
    (void)state;
    take_and_add();
    assert_int_equal(alone_enter(writer), 0);
    assert_int_equal(add_one(FIRST + 2), TAMIS_ERR_THREAD);
    alone_leave(writer);
    assert_int_equal(add_one(FIRST + 2), 0);
}

static void not_once_sealed(void **state)
{
    (void)state;
    take_and_add();
    assert_int_equal(tamis_writer_seal(writer, 1, NULL, NULL), 0);
    assert_int_equal(add_one(FIRST + 2), TAMIS_ERR_SEALED);
    assert_int_equal(count_absent(reader, keys, FIRST + 2), 0);
}

static void not_once_poisoned(void **state)
{
    (void)state;
    take_and_add();
    fail_once(CALL_FDATASYNC, 1, EIO);
    assert_int_equal(tamis_writer_commit(writer, 1, NULL), EIO);
    assert_int_equal(add_one(FIRST + 2), TAMIS_ERR_POISONED);
}

/* The SIGBUS guard has replaced a page: the key may be in none. */
static void not_with_a_lost_page(void **state)
{
    (void)state;
    take_and_add();
    atomic_store(&writer->lost, true);
    assert_int_equal(add_one(FIRST + 2), TAMIS_ERR_POISONED);
}

/* A commit that finds room for the stage that an add could not have. */
static void not_after_a_growth(void **state)
{
    (void)state;
    take_and_add();
    writer->stages[0]->n_full_bits = 0;
    assert_int_equal(tamis_writer_commit(writer, 1, NULL), 0);
    assert_int_equal(atomic_load(&writer->n_stages), 2);
    assert_int_equal(add_one(FIRST + 2), 0);
    assert_int_equal(stage_keys_now(writer->stages[1]), 1);
}

/* A page of it is condemned by the add, and gets no bits that could mask its loss. */
static void add_to_a_bad_page(struct tamis_writer *w, uint64_t key)
{
    struct stage *s = &w->stages[0]->stage;
    uint64_t page = geometry_block_offset(&s->geometry, 0, key) / PAGE_BYTES;
    stage_mark_bad(s, page);
    add_hashes(w, &key, 1);
    for (uint64_t at = 0; at < PAGE_BYTES; at++)
        assert_int_equal(s->bits[page * PAGE_BYTES + at], 0xff);
}

static void not_with_a_bad_page(void **state)
{
    (void)state;
    struct tamis_writer *w = create_writer(path_of("pages"), 0.01, 2, 50000);
    assert_int_equal(tamis_writer_one_thread(w), 0);
    add_hashes(w, keys, N); /* to every page: they are good */
    assert_int_not_equal(atomic_load(&w->plain), 0);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0); /* it may have found one */
    add_to_a_bad_page(w, UINT64_MAX / 4);
    add_to_a_bad_page(w, UINT64_MAX / 2); /* though a call has looked since */
    assert_int_equal(tamis_writer_close(w), 0);
}

static int adds_in_child(void *ctx)
{
    (void)ctx;
    return add_one(FIRST + 2) == TAMIS_ERR_FORKED ? 0 : 1;
}

static void not_in_a_child(void **state)
{
    (void)state;
    take_and_add();
    in_child(adds_in_child, NULL);
    assert_int_equal(ask(reader, keys[FIRST + 2], NULL), TAMIS_ABSENT);
    assert_int_equal(add_one(FIRST + 2), 0);
}

/* ---- what is added ---- */

/* The bits of all stages, one behind the other. */
static uint8_t *all_bits(const struct tamis_writer *w, size_t *n)
{
    uint8_t *bits = NULL;
    *n = 0;
    for (uint32_t i = 0; i < w->n_stages; i++) {
        size_t some = w->stages[i]->stage.n_pages * PAGE_BYTES;
        bits = realloc(bits, *n + some);
        assert_non_null(bits);
        memcpy(bits + *n, w->stages[i]->stage.bits, some);
        *n += some;
    }
    return bits;
}

/* Adds the keys in calls of `at_once`, by one writer of each sort; both have the same
 * stages, bits and counts. */
static void as_many_threads_do(void **state)
{
    static const size_t at_once[] = {1, 3, 64, 65, 1000};
    (void)state;
    for (size_t k = 0; k < sizeof at_once / sizeof at_once[0]; k++) {
        struct tamis_writer *w[2];
        uint8_t *bits[2];
        size_t n_bits[2];
        struct tamis_filter_info info[2];
        for (int alone = 0; alone < 2; alone++) {
            const char *at = path_of(alone ? "alone" : "shared");
            unlink(at);
            w[alone] = create_writer(at, 0.001, 2, 500); /* stages of several lanes */
            if (alone)
                assert_int_equal(tamis_writer_one_thread(w[alone]), 0);
            for (size_t i = 0; i < N; i += at_once[k])
                add_hashes(w[alone], keys + i, N - i < at_once[k] ? N - i : at_once[k]);
            add_hashes(w[alone], keys, N); /* all of them are there */
            bits[alone] = all_bits(w[alone], &n_bits[alone]);
            assert_int_equal(tamis_writer_info(w[alone], &info[alone]), 0);
        }
        assert_true(info[0].n_stages > 2);
        assert_int_equal(info[0].n_stages, info[1].n_stages);
        assert_int_equal(info[0].keys, info[1].keys);
        assert_int_equal(n_bits[0], n_bits[1]);
        assert_memory_equal(bits[0], bits[1], n_bits[0]);
        for (int alone = 0; alone < 2; alone++) {
            free(bits[alone]);
            assert_int_equal(tamis_writer_close(w[alone]), 0);
        }
    }
}

/* Each key is there when its add has returned, in this process and through the file. */
static void each_add_is_seen(void **state)
{
    (void)state;
    take();
    for (size_t i = FIRST; i < N; i++) {
        add_hashes(writer, &keys[i], 1);
        assert_int_equal(ask(reader, keys[i], NULL), TAMIS_MAYBE);
    }
    assert_int_equal(tamis_writer_commit(writer, N, NULL), 0);
    assert_int_equal(count_absent(reader, keys, N), 0);
    assert_int_equal(tamis_writer_seal(writer, N, NULL, NULL), 0);
    assert_int_equal(count_absent(reader, keys, N), 0);
}

/* After a commit the floors have every bit: a page that loses one fails (R8). */
static void a_commit_counts_every_bit(void **state)
{
    (void)state;
    take();
    for (size_t i = FIRST; i < N; i += 50) {
        add_hashes(writer, keys + i, N - i < 50 ? N - i : 50);
        assert_int_equal(tamis_writer_commit(writer, i, NULL), 0);
        for (uint32_t k = 0; k < writer->n_stages; k++) {
            struct writer_stage *s = writer->stages[k];
            for (uint64_t page = 0; page < s->stage.n_pages; page++) {
                uint16_t counts[SECTORS_PER_PAGE];
                writer->kernel->count_page(s->stage.bits + page * PAGE_BYTES, counts);
                for (size_t c = 0; c < SECTORS_PER_PAGE; c++)
                    assert_int_equal(
                        atomic_load(&s->floors[page * SECTORS_PER_PAGE + c]),
                        counts[c]);
            }
        }
    }
}

/* Pages that failed are added to with care: all ones, and in no way "there already". */
static void bad_pages_are_condemned(void **state)
{
    (void)state;
    add_hashes(writer, keys + FIRST, 1000);
    assert_true(writer->n_stages > 1);
    take();
    stage_mark_bad(&writer->stages[0]->stage, 0);
    stage_mark_bad(&writer->stages[writer->n_stages - 1]->stage, 0);
    add_hashes(writer, keys, N);
    assert_int_equal(tamis_writer_commit(writer, 1, NULL), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST_WITH_PAIR(other_threads_are_refused),
        TEST_WITH_PAIR(not_while_another_adds),
        TEST_WITH_PAIR(a_handler_in_an_add_is_refused),
        TEST_WITH_PAIR(states_are_told),
        TEST_WITH_PAIR(not_in_a_handler),
        TEST_WITH_PAIR(not_once_sealed),
        TEST_WITH_PAIR(not_once_poisoned),
        TEST_WITH_PAIR(not_with_a_lost_page),
        TEST_WITH_PAIR(not_after_a_growth),
        TEST_WITH_PAIR(not_with_a_bad_page),
        TEST_WITH_PAIR(not_in_a_child),
        TEST_WITH_PAIR(as_many_threads_do),
        TEST_WITH_PAIR(each_add_is_seen),
        TEST_WITH_PAIR(a_commit_counts_every_bit),
        TEST_WITH_PAIR(bad_pages_are_condemned),
    };
    return cmocka_run_group_tests_name("alone", tests, pair_set_up, test_dir_remove);
}
