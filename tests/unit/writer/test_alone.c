/* A writer that one thread has to itself (lib/writer/alone.c): its adds are as durable
 * and as visible as those of many threads, and every other thread is refused. */
#include "tests/support/pair_support.h"
#include "lib/writer/inside.h"

static void take(void)
{
    writer_own(writer);
}

/* ---- who may add ---- */

enum { N_CALLS_TRIED = 5 };

/* Every call that changes something, and one that looks. */
static void *try_all(void *arg)
{
    int *rc = arg;
    uint64_t tag = writer->domain.tag;
    struct tamis_filter_info info;
    rc[0] = tamis_writer_add_key(writer, "x", 1);
    rc[1] = tamis_writer_add_hashes(writer, tag, keys, 10);
    rc[2] = tamis_writer_add_hashes(writer, tag, keys, 0);
    rc[3] = tamis_writer_commit(writer, 9, NULL);
    rc[4] = tamis_writer_seal(writer, 9, NULL, NULL);
    rc[N_CALLS_TRIED] = tamis_writer_info(writer, &info, NULL);
    return NULL;
}

/* Opened so, and created so. */
TEST_WITH_PAIR(other_threads_are_refused)
{
    const struct tamis_writer_options opt = {.size = sizeof opt, .one_thread = 1};
    for (int created = 0; created < 2; created++) {
        int rc[N_CALLS_TRIED + 1];
        OK(tamis_writer_close(writer, NULL));
        OK(created ? tamis_writer_create(path_of("own"), &opt, &writer, NULL)
                   : tamis_writer_open(path, &opt, &writer, NULL));
        struct tamis_filter_info before = writer_info(writer);
        run_in_thread(try_all, rc);
        for (size_t i = 0; i < N_CALLS_TRIED; i++)
            IS(rc[i], TAMIS_ERR_THREAD);
        IS(rc[N_CALLS_TRIED], 0);
        struct tamis_filter_info after = writer_info(writer);
        assert_memory_equal(&before, &after, sizeof before);
        IS(writer->watermark, 0);
        add_hashes(writer, keys, 1);
    }
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
    IS(add_one(FIRST), 0);
    IS(atomic_load(&writer->plain), writer->fork_epoch + 1);
    IS(add_one(FIRST + 1), 0);
    IS(ask(reader, keys[FIRST + 1], NULL), TAMIS_MAYBE);
}

/* A handler that interrupts an add of the owner's, between a load and its store. */
TEST_WITH_PAIR(a_handler_in_an_add_is_refused)
{
    take_and_add();
    IS(alone_enter(writer), 0);
    IS(add_one(FIRST + 2), TAMIS_ERR_THREAD);
    IS(tamis_writer_add_key(writer, "x", 1), TAMIS_ERR_THREAD);
    IS(tamis_writer_commit(writer, 9, NULL), TAMIS_ERR_THREAD);
    IS(tamis_writer_seal(writer, 9, NULL, NULL), TAMIS_ERR_THREAD);
    alone_leave(writer);
    IS(add_one(FIRST + 2), 0);
    OK(tamis_writer_commit(writer, 9, NULL));
}

TEST_WITH_PAIR(not_once_sealed)
{
    take_and_add();
    IS(tamis_writer_add_hashes(writer, writer->domain.tag + 1, keys, 1),
       TAMIS_ERR_MISMATCH);
    OK(tamis_writer_seal(writer, 1, NULL, NULL));
    IS(add_one(FIRST + 2), TAMIS_ERR_SEALED);
    IS(count_absent(reader, keys, FIRST + 2), 0);
}

TEST_WITH_PAIR(not_once_poisoned)
{
    take_and_add();
    fail_once(CALL_FDATASYNC, 1, EIO);
    IS(tamis_writer_commit(writer, 1, NULL), EIO);
    IS(add_one(FIRST + 2), TAMIS_ERR_POISONED);
}

/* The SIGBUS guard has replaced a page: the key may be in none. */
TEST_WITH_PAIR(not_with_a_lost_page)
{
    take_and_add();
    atomic_store(&writer->lost, true);
    IS(add_one(FIRST + 2), TAMIS_ERR_POISONED);
}

/* A commit that finds room for the stage that an add could not have. */
TEST_WITH_PAIR(not_after_a_growth)
{
    take_and_add();
    writer->stages[0]->n_full_bits = 0;
    OK(tamis_writer_commit(writer, 1, NULL));
    IS(atomic_load(&writer->n_stages), 2);
    IS(add_one(FIRST + 2), 0);
    IS(stage_keys_now(writer->stages[1]), 1);
}

/* A page of it is condemned by the add, and gets no bits that could mask its loss. */
static void add_to_a_bad_page(struct tamis_writer *w, uint64_t key)
{
    struct stage *s = &w->stages[0]->stage;
    uint64_t page = geometry_block_offset(&s->geometry, 0, key) / PAGE_BYTES;
    stage_mark_bad(s, page);
    add_hashes(w, &key, 1);
    for (uint64_t at = 0; at < PAGE_BYTES; at++)
        IS(s->bits[page * PAGE_BYTES + at], 0xff);
}

TEST_WITH_PAIR(not_with_a_bad_page)
{
    WRITER w = create_writer(path_of("pages"), 0.01, 2, 50000);
    writer_own(w);
    add_hashes(w, keys, N); /* to every page: they are good */
    assert_int_not_equal(atomic_load(&w->plain), 0);
    OK(tamis_writer_commit(w, 1, NULL)); /* it may have found one */
    add_to_a_bad_page(w, UINT64_MAX / 4);
    add_to_a_bad_page(w, UINT64_MAX / 2); /* though a call has looked since */
}

static int adds_in_child(void *ctx)
{
    return add_one(FIRST + 2) == TAMIS_ERR_FORKED ? 0 : 1;
}

TEST_WITH_PAIR(not_in_a_child)
{
    take_and_add();
    in_child(adds_in_child, NULL);
    IS(ask(reader, keys[FIRST + 2], NULL), TAMIS_ABSENT);
    IS(add_one(FIRST + 2), 0);
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
TEST_WITH_PAIR(as_many_threads_do)
{
    static const size_t at_once[] = {1, 3, 64, 65, 1000};
    for (size_t k = 0; k < N_OF(at_once); k++) {
        struct tamis_writer *w[2];
        uint8_t *bits[2];
        size_t n_bits[2];
        struct tamis_filter_info info[2];
        for (int alone = 0; alone < 2; alone++) {
            const char *at = path_of(alone ? "alone" : "shared");
            unlink(at);
            w[alone] = create_writer(at, 0.001, 2, 500); /* stages of several lanes */
            if (alone)
                writer_own(w[alone]);
            for (size_t i = 0; i < N; i += at_once[k])
                add_hashes(w[alone], keys + i, N - i < at_once[k] ? N - i : at_once[k]);
            add_hashes(w[alone], keys, N); /* all of them are there */
            bits[alone] = all_bits(w[alone], &n_bits[alone]);
            OK(tamis_writer_info(w[alone], &info[alone], NULL));
        }
        assert_true(info[0].n_stages > 2);
        IS(info[0].n_stages, info[1].n_stages);
        IS(info[0].keys, info[1].keys);
        IS(n_bits[0], n_bits[1]);
        assert_memory_equal(bits[0], bits[1], n_bits[0]);
        for (int alone = 0; alone < 2; alone++) {
            free(bits[alone]);
            OK(tamis_writer_close(w[alone], NULL));
        }
    }
}

/* Pages that failed are added to with care: all ones, and in no way "there already". */
TEST_WITH_PAIR(bad_pages_are_condemned)
{
    add_hashes(writer, keys + FIRST, 1000);
    assert_true(writer->n_stages > 1);
    take();
    stage_mark_bad(&writer->stages[0]->stage, 0);
    stage_mark_bad(&writer->stages[writer->n_stages - 1]->stage, 0);
    add_hashes(writer, keys, N);
    OK(tamis_writer_commit(writer, 1, NULL));
    all_there(path, keys, N);
}

RUN_TESTS(pair_set_up, test_dir_remove)
