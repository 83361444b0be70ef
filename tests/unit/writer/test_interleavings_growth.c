/* Interleavings that chance would take years to find, forced: growth, seals and readers
 * that look anew (SPEC.md R6, R10 and R11) while others add and probe. */
#include "tests/unit/writer/held_support.h"

/* ---- growth, and adds and probes in flight (R6, R10) ---- */

/* A reader has looked at slot A; then the filter grows, and the key comes into the new
 * stage. This probe may miss the key, which came later; no later probe may. */
TEST_WITH_PAIR(test_growth_after_the_look)
{
    start(&t, "probe: view chosen", 1, probe_key, &keys[0]);
    struct view *before = atomic_load(&reader->view);
    grow();
    add(&keys[N - 1]);
    commit(1);
    assert_false(is_absent(reader, keys[N - 1]));
    assert_ptr_not_equal(atomic_load(&reader->view), before);
    end(&t);
    assert_false(was_absent); /* by a view that others have left: it is still mapped */
    assert_false(is_absent(reader, keys[N - 1]));
}

static void grow_by_adding(void *ctx)
{
    grow();
}

/* The record names the new stage before any key goes there: keys that come meanwhile
 * go to the old one, and readers see both. */
TEST_WITH_PAIR(test_adds_before_a_stage_is_used)
{
    remember_block(0, keys[N - 1]);
    start(&t, "grow: record written", 1, grow_by_adding, NULL);
    IS(commit_of(path).n_stages, 2);
    writer->stages[0]->n_full_bits =
        UINT64_MAX; /* else it would wait to grow it, too */
    add(&keys[N - 1]);
    assert_false(is_absent(reader, keys[N - 1]));
    end(&t);
    commit(1);
    IS(count_absent(reader, keys, FIRST), 0);
    assert_false(is_absent(reader, keys[N - 1]));
    assert_false(loss_is_missed(0, keys[N - 1]));
}

static void take_shards(void)
{
    for (size_t i = 0; i < N_SHARDS; i++)
        atomic_fetch_add(&writer->in_flight[i].n, 1);
}

/* An add that chose its stage before growth sets its bits afterwards: in a shard of
 * its own, or in a shared one. */
static void grow_under_an_add(bool shared)
{
    remember_block(0, keys[N - 1]);
    if (shared)
        take_shards();
    start(&t, "add: stage chosen", 1, add, &keys[N - 1]);
    if (shared)
        take_shards(); /* and gives them back */
    grow();
    add(&keys[N - 2]);
    commit(1);
    grow(); /* which would settle the first stage, were the add not in flight */
    commit(2);
    IS(commit_of(path).n_settled, 0);
    end(&t);
    commit(3);
    commit(4);
    IS(commit_of(path).n_settled, 2);
    struct tamis_filter *f = open_filter(path);
    assert_false(is_absent(f, keys[N - 1]));
    assert_false(is_absent(f, keys[N - 2]));
    tamis_filter_close(f);
    assert_false(loss_is_missed(0, keys[N - 1]));
}

TEST_WITH_PAIR(test_growth_under_an_add)
{
    grow_under_an_add(false);
}

TEST_WITH_PAIR(test_growth_under_an_add_in_a_shared_shard)
{
    grow_under_an_add(true);
}

static void fill_stage(void *ctx)
{
    add_hashes(writer, keys + FIRST, 200);
}

/* Two threads find the stage full: it is followed by one. */
TEST_WITH_PAIR(test_two_growths)
{
    start(&t, "add: stage full", 1, fill_stage, NULL);
    IS(writer_grow(writer), 0);
    IS(atomic_load(&writer->n_stages), 2);
    end(&t);
    IS(atomic_load(&writer->n_stages), 2);
    commit(1);
    IS(count_absent(reader, keys, FIRST + 200), 0);
}

/* ---- seal (R11) ---- */

static void seal(void *ctx)
{
    OK(tamis_writer_seal(writer, 5, NULL, NULL));
}

/* The seal digests the bits of an add in flight; it waits: test_interleaved.c. */
TEST_WITH_PAIR(test_a_seal_under_an_add)
{
    struct held adds, seals;
    start(&adds, "add: page looked at", 1, add, &keys[N - 1]);
    start(&seals, "seal: adds are told", 1, seal, NULL);
    IS(tamis_writer_add_hashes(writer, writer->domain.tag, &keys[N - 2], 1),
       TAMIS_ERR_SEALED);
    let_go(&seals);
    end(&adds);
    OK(pthread_join(seals.thread, NULL));
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, FIRST), 0);
    assert_false(is_absent(f, keys[N - 1]));
    verified(f);
}

/* Slot A says sealed, slot B does not yet: a power cut may undo that, and a reader
 * watches on. */
TEST_WITH_PAIR(test_a_reader_amid_a_seal)
{
    start(&t, "commit: slot A written", 1, seal, NULL);
    IS(count_absent(reader, keys, FIRST), 0);
    assert_non_null(atomic_load(&reader->view)->live_sequence);
    end(&t);
    IS(count_absent(reader, keys, FIRST), 0);
}

/* ---- threads that bring one view up to the file (R6) ---- */

/* The header of a commit comes in parts after that of a later one. */
TEST_WITH_PAIR(test_two_refreshes)
{
    struct tamis_key key = {.tag = reader->tag, .hash = keys[0]};
    enum tamis_reason why;
    commit(5);
    start(&t, "refresh: header judged", 1, probe_key, &keys[0]);
    t.at = "refresh: watermark raised";
    commit(9);
    filter_probe_from(reader, 9, 0, &key, &why);
    IS(why, TAMIS_HIT);
    let_go(&t);
    while (sem_wait(&t.there) != 0)
        ;
    filter_probe_from(reader, 9, 0, &key, &why);
    IS(why, TAMIS_HIT);
    filter_probe_from(reader, 10, 0, &key, &why);
    IS(why, TAMIS_BEHIND);
    end(&t);
    filter_probe_from(reader, 9, 0, &key, &why);
    IS(why, TAMIS_HIT);
}

/* A view of two stages, made before the filter grew to three, is not published. */
TEST_WITH_PAIR(test_an_overtaken_refresh)
{
    grow();
    start(&t, "refresh: view made", 1, probe_key, &keys[0]);
    grow();
    add(&keys[N - 1]);
    assert_false(is_absent(reader, keys[N - 1]));
    struct view *v = atomic_load(&reader->view);
    end(&t);
    assert_ptr_equal(atomic_load(&reader->view), v);
    assert_false(was_absent);
    assert_false(is_absent(reader, keys[N - 1]));
}

/* A thread publishes a view by a header whose sequence or watermark is below one that
 * another thread saw in the old view meanwhile: of an older copy, which the new view
 * refuses, too. */
static void refreshes_by_an_older_copy(bool watermark)
{
    grow();
    start(&t, "refresh: view made", 1, probe_key, &keys[0]);
    struct view *v = atomic_load(&reader->view);
    atomic_fetch_add(watermark ? &v->watermark : &v->sequence, 9);
    end(&t);
    IS(why_of(reader, keys[N - 1]), TAMIS_UNREADABLE);
}

TEST_WITH_PAIR(test_a_refresh_by_an_older_sequence)
{
    refreshes_by_an_older_copy(false);
}

TEST_WITH_PAIR(test_a_refresh_by_an_older_watermark)
{
    refreshes_by_an_older_copy(true);
}

RUN_TESTS(pair_set_up, test_dir_remove)
