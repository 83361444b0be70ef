/* Probes that look at the bits alone, though the filter grows or has several stages
 * (lib/page/quick.h): what makes a view quick, and that whatever speaks against it ends
 * that before the next answer. */
#include "tests/support/still_clock.h"
#include "tests/support/pair_support.h"

static bool quick(struct tamis_filter *f)
{
    if (quick_left < 0)
        quick_tick();
    return view_was_offered(view_of(f), f->tag);
}

/* Checks every page, and a probe finds nothing. Returns a hash that is absent. */
static uint64_t make_quick(struct tamis_filter *f)
{
    OK(tamis_filter_verify(f, &(struct tamis_verify){0}, NULL));
    IS(ask(f, keys[0], NULL), TAMIS_MAYBE);
    assert_true(quick(f));
    return absent_key(f);
}

static void commit(uint64_t watermark)
{
    OK(tamis_writer_commit(writer, watermark, NULL));
}

TEST_WITH_PAIR(all_pages_must_be_checked)
{
    add_hashes(writer, keys + FIRST, N - FIRST); /* more than a page */
    commit(1);
    FILTER f = open_filter(path);
    IS(ask(f, keys[0], NULL), TAMIS_MAYBE);
    assert_false(quick(f));
    make_quick(f);
    IS(count_absent(f, keys, N), 0);
    assert_true(quick(f));
}

TEST_WITH_PAIR(strict_filters_never_are)
{
    FILTER f = OPEN_AS(path, .check = TAMIS_CHECK_STRICT);
    IS(count_absent(f, keys, FIRST), 0);
    tamis_filter_verify(f, &(struct tamis_verify){0}, NULL);
    IS(ask(f, keys[0], NULL), TAMIS_MAYBE);
    assert_false(quick(f));
}

/* A batch makes it quick, too, and answers by it. */
TEST_WITH_PAIR(batches_are)
{
    uint64_t absent[1];
    OK(tamis_filter_verify(reader, &(struct tamis_verify){0}, NULL));
    for (int i = 0; i < 2; i++) {
        enum tamis_reason why;
        IS(tamis_filter_probe_batch(reader, reader->tag, keys, 64, absent, &why), 0);
        IS(why, TAMIS_NO_REASON);
        assert_true(quick(reader));
    }
}

/* By all kinds of calls the answers are those with all looks: of one stage, of many,
 * and sealed. */
TEST_WITH_PAIR(answers_are_the_same)
{
    enum { ASKED = 4000 };
    static uint64_t asked[ASKED];
    random_hashes(asked, ASKED);
    for (int step = 0; step < 3; step++) {
        if (step == 1)
            add_hashes(writer, keys + FIRST, N - FIRST);
        if (step < 2)
            commit(1);
        else
            OK(tamis_writer_seal(writer, 1, NULL, NULL));
        IS(count_absent(reader, keys, step ? N : FIRST), 0);
        make_quick(reader);
        FILTER slow = OPEN_AS(path, .check = TAMIS_CHECK_STRICT);
        for (size_t i = 0; i < ASKED; i++) {
            uint64_t word[1];
            enum tamis_answer expected = ask(slow, asked[i], NULL);
            IS(ask(reader, asked[i], NULL), expected);
            tamis_filter_probe_batch(reader, reader->tag, &asked[i], 1, word, NULL);
            IS(word[0], expected == TAMIS_ABSENT);
        }
        assert_true(step == 0 ? view_of(reader)->n_stages == 1
                              : view_of(reader)->n_stages > 1);
    }
}

TEST_WITH_PAIR(a_foreign_key_is_a_mismatch)
{
    enum tamis_reason why;
    struct tamis_key key = {.tag = reader->tag + 1, .hash = make_quick(reader)};
    IS(tamis_filter_probe(reader, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_MISMATCH);
    assert_true(quick(reader));
}

/* A key in a new stage is found by the first probe after its add. */
TEST_WITH_PAIR(growth)
{
    make_quick(reader);
    for (size_t i = FIRST; i < N; i++) {
        add_hashes(writer, &keys[i], 1);
        IS(ask(reader, keys[i], NULL), TAMIS_MAYBE);
    }
    assert_true(view_of(reader)->n_stages > 1);
    make_quick(reader);
    IS(count_absent(reader, keys, N), 0);
}

TEST_WITH_PAIR(a_commit)
{
    make_quick(reader);
    commit(7);
    assert_false(quick(reader));
    IS(ask(reader, keys[0], NULL), TAMIS_MAYBE);
    assert_true(quick(reader));
}

TEST_WITH_PAIR(a_watermark_that_is_missing)
{
    commit(7);
    FILTER f = OPEN_AS(path, .min_watermark = 7);
    uint64_t absent = make_quick(f);
    struct tamis_key key = {.tag = f->tag, .hash = absent};
    enum tamis_reason why;
    IS(filter_probe_from(f, 8, 0, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_BEHIND);
    IS(filter_probe_from(f, 7, 0, &key, &why), TAMIS_ABSENT);
}

/* An older file, put back over the one that is mapped, after a newer one was seen. */
TEST_WITH_PAIR(an_older_copy)
{
    size_t n;
    FREED uint8_t *older = file_read(path, &n);
    uint64_t absent = make_quick(reader);
    add_hashes(writer, keys + FIRST, 10);
    commit(7);
    IS(why_of(reader, absent), TAMIS_NO_REASON);
    file_poke(path, 0, older, n);
    assert_false(quick(reader));
    assert_int_not_equal(why_of(reader, absent), TAMIS_NO_REASON);
    assert_false(quick(reader));
}

/* Half of slot A alone. */
TEST_WITH_PAIR(either_end_of_the_slot)
{
    for (int end = 0; end < 2; end++) {
        uint64_t absent = make_quick(reader),
                 at = commit_slot_offset(SLOT_A) +
                      (end ? SLOT_CHECKSUM_AT : SLOT_SEQUENCE_AT);
        flip(path, at);
        assert_false(quick(reader));
        why_of(reader, absent); /* by slot B, which is as good */
        flip(path, at);
        commit(7 + (uint64_t)end);
    }
}

TEST_WITH_PAIR(a_bad_page)
{
    uint64_t absent = make_quick(reader);
    struct view *v = view_of(reader);
    uint64_t page =
        geometry_block_offset(&v->stages[0].geometry, 0, absent) / PAGE_BYTES;
    for (uint64_t i = 0; i < v->stages[0].n_pages; i++)
        stage_mark_bad(&v->stages[0], i); /* as a scrub does */
    assert_true(page < v->stages[0].n_pages);
    assert_false(quick(reader));
    IS(why_of(reader, absent), TAMIS_DAMAGED);
    assert_false(quick(reader));
}

static void replace_file(void)
{
    file_copy(path, path_of("copy"));
    OK(rename(path_of("copy"), path));
}

/* Within a second, by a clock that is not read at every probe. */
TEST_WITH_PAIR(a_copy_that_takes_the_name)
{
    uint64_t absent = make_quick(reader);
    replace_file();
    for (int i = 0; i < 16; i++) {
        nanoseconds += 62000000;
        for (int k = 0; k <= QUICK_PROBES; k++)
            ask(reader, absent, NULL);
    }
    IS(why_of(reader, absent), TAMIS_MISMATCH);
    assert_false(quick(reader));
}

/* One look that finds it ends what is quick: other threads, which will not read the
 * clock soon, have it from their next probe on, and so do other filters of the file. */
TEST_WITH_PAIR(a_look_that_finds_a_copy)
{
    FILTER other = open_filter(path);
    make_quick(other);
    uint64_t absent = make_quick(reader), words[2];
    enum tamis_reason why;
    replace_file();
    nanoseconds += 600000000; /* a look is due */
    quick_left = QUICK_PROBES;
    IS(why_of(reader, absent), TAMIS_NO_REASON);
    IS(why_of(other, absent), TAMIS_NO_REASON);
    tamis_filter_probe_batch(reader, reader->tag, keys, 65, words, &why); /* it looks */
    IS(why, TAMIS_MISMATCH);
    IS(why_of(other, absent), TAMIS_MISMATCH);
    IS(why_of(reader, absent), TAMIS_MISMATCH);
    assert_true(quick_left > 0);
}

/* The thread whose turn it was to look has not come back. */
TEST_WITH_PAIR(a_look_that_is_old)
{
    uint64_t absent = make_quick(reader);
    nanoseconds += 900000000;
    atomic_store(&reader->named->looks.look_after, look_clock() + LOOK_VALID / 2);
    quick_end();
    IS(why_of(reader, absent), TAMIS_NO_REASON); /* it is valid */
    assert_false(quick(reader));
}

/* Keys of another domain count. If they did not, a thread could ask two billion of them
 * without reading the clock, and more would make its count a high one. */
TEST_WITH_PAIR(foreign_keys_count)
{
    make_quick(reader);
    struct tamis_key key = {.tag = reader->tag + 1, .hash = keys[0]};
    uint64_t word[1];
    for (int batch = 0; batch < 2; batch++) {
        quick_left = QUICK_PROBES;
        unsigned before = n_clocks;
        for (int i = 0; i < 10 * (QUICK_PROBES + 1); i++) {
            if (batch)
                tamis_filter_probe_batch(reader, key.tag, &key.hash, 1, word, NULL);
            else
                tamis_filter_probe(reader, &key, NULL);
            assert_true(quick_left >= 0);
        }
        IS(n_clocks - before, 10);
    }
    make_quick(reader);
    nanoseconds += QUICK_PERIOD;
    for (int i = 0; i <= QUICK_PROBES; i++)
        tamis_filter_probe(reader, &key, NULL);
    assert_false(view_was_offered(view_of(reader), reader->tag));
}

/* Calls with all looks do not count: they read the clock themselves. */
TEST_WITH_PAIR(calls_with_all_looks_do_not)
{
    commit(7);
    struct tamis_key key = {.tag = reader->tag, .hash = make_quick(reader)};
    uint64_t words[2];
    enum tamis_reason why;
    quick_left = QUICK_PROBES;
    unsigned before = n_clocks;
    for (int i = 0; i < 100; i++) {
        IS(filter_probe_from(reader, 7, 0, &key, NULL), TAMIS_ABSENT);
        tamis_filter_probe_batch(reader, key.tag, keys, 65, words, NULL);
    }
    IS(quick_left, QUICK_PROBES);
    assert_true(n_clocks - before >= 200);
    replace_file();
    nanoseconds += 600000000;
    filter_probe_from(reader, 7, 0, &key, &why);
    IS(why, TAMIS_MISMATCH);
}

/* A thread that asks seldom reads the clock each time. */
TEST_WITH_PAIR(the_clock_of_a_slow_thread)
{
    uint64_t absent = make_quick(reader);
    for (int i = 0; i <= QUICK_PROBES; i++)
        ask(reader, absent, NULL);
    for (int i = 0; i <= QUICK_PROBES; i++) {
        nanoseconds += 100000000;
        ask(reader, absent, NULL);
    }
    unsigned before = n_clocks;
    for (int i = 0; i < 10; i++) {
        nanoseconds += 100000000;
        ask(reader, absent, NULL);
    }
    assert_true(n_clocks - before >= 10);
    before = n_clocks;
    for (int i = 0; i < 10 * QUICK_PROBES; i++)
        ask(reader, absent, NULL);
    assert_true(n_clocks - before <= 11);
}

RUN_TESTS(pair_set_up, test_dir_remove)
