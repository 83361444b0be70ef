/* Adding, seen from inside the writer: how threads spread over the shards, what they
 * announce, when a stage counts as full, and what a writer skips. */
#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

enum { N = 6000, N_THREADS = 3 * N_SHARDS };

static uint64_t keys[N];

static void expect_nobody_in_flight(const struct tamis_writer *w)
{
    for (size_t i = 0; i < N_SHARDS; i++)
        IS(w->in_flight[i].n % 2, 0); /* odd: taken */
}

static struct tamis_writer *shared_writer;

static void *add_one(void *hash)
{
    add_hashes(shared_writer, hash, 1);
    return NULL;
}

/* Threads take the shards in turn, all of them and no other. */
TEST_WITH_FAULTS(test_threads_take_shards_in_turn)
{
    WRITER w = fresh(100000);
    struct writer_stage *s = w->stages[0];
    shared_writer = w;
    for (size_t i = 0; i < N_THREADS; i++)
        run_in_thread(add_one, &keys[i]);
    uint64_t n_keys = 0, n_bits = 0;
    for (size_t i = 0; i < N_SHARDS; i++) {
        IS(s->shards[i].keys, N_THREADS / N_SHARDS);
        n_keys += s->shards[i].keys;
        n_bits += s->shards[i].bits;
    }
    IS(stage_keys_now(s), n_keys);
    IS(stage_bits_now(s), n_bits);
    uint64_t counted = 0;
    for (uint64_t page = 0; page < s->stage.n_pages; page++)
        counted += page_bits(kernel_get(), s->stage.bits + page * PAGE_BYTES);
    IS(counted, n_bits);
    expect_nobody_in_flight(w);
}

/* A thread whose shard is taken, perhaps for ever, by one that left its add by a jump:
 * it adds all the same, and its keys count. */
TEST_WITH_FAULTS(test_a_shard_that_is_taken)
{
    enum { N_KEYS = 100 };
    WRITER w = create_writer(path_of("taken"), 0.01, 2, 1000);
    uint64_t hashes[2 * N_KEYS];
    random_hashes(hashes, 2 * N_KEYS);
    add_hashes(w, hashes, N_KEYS);
    for (size_t i = 0; i < N_SHARDS; i++)
        atomic_store(&w->in_flight[i].n, 1);
    for (size_t i = N_KEYS; i < 2 * N_KEYS; i++)
        add_hashes(w, &hashes[i], 1);
    unsigned shared = SHARED_SHARD + 1; /* one stage, an odd number */
    IS(w->in_flight[shared].n, 0);
    assert_true(w->stages[0]->shards[shared].keys >= N_KEYS - 5);
    assert_in_range(stage_keys_now(w->stages[0]), 2 * N_KEYS - 10, 2 * N_KEYS);
    for (size_t i = 0; i < N_SHARDS; i++)
        atomic_store(&w->in_flight[i].n, 0);
    OK(tamis_writer_commit(w, 1, NULL));
    all_there(path_of("taken"), hashes, 2 * N_KEYS);
}

/* Keys that are there already are no adds; what is counted are keys that set a bit. */
TEST_WITH_FAULTS(test_what_counts_as_a_key)
{
    WRITER w = fresh(100000);
    add_hashes(w, keys, 1000);
    uint64_t n_keys = stage_keys_now(w->stages[0]),
             n_bits = stage_bits_now(w->stages[0]);
    assert_true(n_keys >= 990 && n_keys <= 1000);
    for (int i = 0; i < 3; i++)
        add_hashes(w, keys, 1000);
    IS(stage_keys_now(w->stages[0]), n_keys);
    IS(stage_bits_now(w->stages[0]), n_bits);
    OK(tamis_writer_commit(w, 1, NULL));
    IS(commit_of(path).keys, n_keys);
    IS(commit_of(path).stages[0].bits_set, n_bits);
}

/* Growth comes when the bits say that the capacity is reached, and not before; keys of
 * older stages are not added again. */
TEST_WITH_FAULTS(test_when_a_stage_is_full)
{
    WRITER w = fresh(2000);
    size_t n = 0;
    while (w->n_stages == 1)
        add_hashes(w, &keys[n++], 1);
    assert_in_range(n, 1900, 2100);
    assert_true(stage_bits_now(w->stages[0]) >= w->stages[0]->n_full_bits);
    assert_true(stage_bits_now(w->stages[0]) < w->stages[0]->n_full_bits + 500);
    uint64_t n_first = stage_keys_now(w->stages[0]);
    add_hashes(w, keys, n); /* all there */
    IS(stage_keys_now(w->stages[0]), n_first);
    IS(stage_keys_now(w->stages[1]), 0);
    add_hashes(w, keys + n, 1000);
    IS(stage_keys_now(w->stages[0]), n_first);
    assert_in_range(stage_keys_now(w->stages[1]), 950, 1000);
    IS(w->n_stages, 2);
    add_hashes(w, keys, n + 1000); /* in one stage or the other */
    assert_in_range(stage_keys_now(w->stages[1]), 950, 1000);
    expect_nobody_in_flight(w);
}

/* A thread looks at the fill once in check_interval keys, be they added one by one or
 * all at once: no earlier, or counting costs more than adding, and no later. */
TEST_WITH_FAULTS(test_when_the_fill_is_looked_at)
{
    enum { INTERVAL = 16, FULL = 500 };
    WRITER w = fresh(100000);
    struct writer_stage *s = w->stages[0];
    s->check_interval = INTERVAL;
    s->n_full_bits = FULL;
    for (size_t i = 0; w->n_stages == 1; i++) {
        add_hashes(w, &keys[i], 1);
        bool due = stage_keys_now(s) % INTERVAL == 0 && stage_bits_now(s) >= FULL;
        IS(w->n_stages, due ? 2 : 1);
    }
    OK(tamis_writer_close(w, NULL));
    w = fresh(100000);
    s = w->stages[0];
    s->check_interval = INTERVAL;
    s->n_full_bits = 1;
    add_hashes(w, keys, 1000);
    IS(w->n_stages, 2);
    IS(stage_keys_now(s), INTERVAL);
}

/* More keys in one call than a thread takes at once: all of them, and none behind. */
TEST_WITH_FAULTS(test_a_batch_is_added_whole)
{
    enum { INTERVAL = 16, BATCH = 3 * INTERVAL / 2 };
    WRITER w = fresh(100000);
    w->stages[0]->check_interval = INTERVAL;
    add_hashes(w, keys, BATCH);
    IS(stage_keys_now(w->stages[0]), BATCH);
}

/* A stage that could not grow takes the keys all the same, and is tried again at the
 * next commit, not at every add; what was tried is given back. */
TEST_WITH_FAULTS(test_growth_that_failed)
{
    WRITER w = fresh(1000);
    struct stat before = stat_of(path);
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    add_hashes(w, keys, 4000);
    IS(w->n_stages, 1);
    IS(writer_info(w).over_target, 1);
    assert_true(w->grow_failed);
    IS(faults[CALL_FALLOCATE].n, 1); /* once is enough */
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, 4000), 0);
    OK(tamis_writer_commit(w, 1, NULL)); /* tries, and fails */
    IS(w->watermark, 1);
    IS(faults[CALL_FALLOCATE].n, 2);
    IS(w->n_stages, 1);
    IS(before.st_size, stat_of(path).st_size);
    fail_never();
    OK(tamis_writer_commit(w, 2, NULL));
    IS(w->n_stages, 2);
    IS(writer_info(w).over_target, 0);
    assert_false(w->grow_failed);
    add_hashes(w, keys + 4000, 500);
    assert_true(stage_keys_now(w->stages[1]) > 400);
    IS(count_absent(f, keys, 4500), 0);
}

/* A refused add leaves nothing announced: a sealer would wait for it for ever. */
TEST_WITH_FAULTS(test_refused_adds_leave_no_trace)
{
    WRITER w = fresh(1000);
    uint64_t tag = w->domain.tag;
    IS(tamis_writer_add_hashes(w, tag ^ 1, keys, 1), TAMIS_ERR_MISMATCH);
    IS(tamis_writer_add_hashes(w, 0, keys, 1), TAMIS_ERR_MISMATCH);
    IS(stage_bits_now(w->stages[0]), 0);
    expect_nobody_in_flight(w);
    static const struct {
        enum writer_state state;
        int error;
    } states[] = {{WRITER_SEALING, TAMIS_ERR_SEALED},
                  {WRITER_SEALED, TAMIS_ERR_SEALED},
                  {WRITER_POISONED, TAMIS_ERR_POISONED},
                  {WRITER_OPEN, 0}};
    for (size_t i = 0; i < 4; i++) {
        atomic_store(&w->state, states[i].state);
        IS(tamis_writer_add_hashes(w, tag, keys, 0), states[i].error);
        IS(tamis_writer_add_hashes(w, tag, keys, 1), states[i].error);
        IS(tamis_writer_add_key(w, "key", 3), states[i].error);
        expect_nobody_in_flight(w);
        assert_true((stage_bits_now(w->stages[0]) > 0) == !states[i].error);
    }
    OK(tamis_writer_seal(w, 1, NULL, NULL));
}

SET_UP(one_file_create, random_hashes(keys, N))

/* ---- added if new ---- */

enum { N_NEW = 20000, N_NEW_THREADS = 4 };
static uint64_t new_hashes[N_NEW];
static _Atomic unsigned told_new[N_NEW];

static size_t add_all_new(struct tamis_writer *w, size_t at_once)
{
    uint64_t is_new[N_NEW / 64 + 1];
    size_t n_new = 0;
    for (size_t done = 0; done < N_NEW; done += at_once) {
        size_t n = N_NEW - done < at_once ? N_NEW - done : at_once;
        if (tamis_writer_add_new(w, w->domain.tag, new_hashes + done, n, is_new) != 0)
            abort();
        for (size_t i = 0; i < n; i++) {
            bool is = is_new[i / 64] >> (i % 64) & 1;
            atomic_fetch_add(&told_new[done + i], is);
            n_new += is;
        }
    }
    return n_new;
}

static void *adds_new(void *ctx)
{
    return (void *)add_all_new(shared_writer, *(size_t *)ctx);
}

/* The first key is new: the filter is empty. Few of the others are false positives. */
static void expect_told(size_t n_new)
{
    assert_in_range(n_new, N_NEW / 2, N_NEW);
    IS(told_new[0], 1);
    for (size_t i = 0; i < N_NEW; i++)
        assert_true(atomic_exchange(&told_new[i], 0) <= 1);
}

TEST(each_key_is_new_once)
{
    random_hashes(new_hashes, N_NEW);
    for (int way = 0; way < 3; way++) {
        size_t at_once[] = {1, 1000, N_NEW, 77}, n_new = 0;
        const char *at = path_of(way == 0 ? "new" : way == 1 ? "own" : "shared");
        WRITER w = create_writer(at, 0.01, 2, 3000); /* it grows */
        shared_writer = w;
        if (way == 1)
            writer_own(w);
        pthread_t threads[N_NEW_THREADS];
        void *some = NULL;
        for (size_t i = 0; i < N_NEW_THREADS; i++)
            if (way < 2)
                n_new += add_all_new(w, at_once[i]);
            else
                OK(pthread_create(&threads[i], NULL, adds_new, &at_once[i]));
        for (size_t i = 0; i < N_NEW_THREADS && way == 2; i++) {
            OK(pthread_join(threads[i], &some));
            n_new += (size_t)some;
        }
        expect_told(n_new);
        OK(tamis_writer_commit(w, 1, NULL));
        all_there(at, new_hashes, N_NEW);
    }
}

TEST(a_key_behind_damage_is_not_new)
{
    uint64_t twice[2] = {7, 7}, is_new = 0;
    WRITER w = create_writer(path_of("hurt"), 0.01, 2, 3000);
    OK(tamis_writer_add_new(w, w->domain.tag, twice, 2, &is_new));
    IS(is_new, 1);
    IS(tamis_writer_add_new(w, w->domain.tag, NULL, 2, &is_new), TAMIS_ERR_RANGE);
    IS(is_new, 0);
    random_hashes(new_hashes, N_NEW);
    add_hashes(w, new_hashes, 4000);
    assert_true(w->n_stages > 1);
    for (uint64_t page = 0; page < w->stages[0]->stage.n_pages; page++)
        stage_mark_bad(&w->stages[0]->stage, page);
    twice[1] = 8;
    OK(tamis_writer_add_new(w, w->domain.tag, twice, 2, &is_new));
    IS(is_new, 0);
    IS(tamis_writer_add_new(w, w->domain.tag + 1, twice, 2, &is_new),
       TAMIS_ERR_MISMATCH);
    IS(tamis_writer_add_new(w, w->domain.tag, twice, 2, NULL), TAMIS_ERR_RANGE);
}

RUN_TESTS(set_up, test_dir_remove)
