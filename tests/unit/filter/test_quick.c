/* Probes that look at the bits alone, though the filter grows or has several stages
 * (lib/page/quick.h): what makes a view quick, and that whatever speaks against it ends
 * that before the next answer. */
#include "tests/support/still_clock.h"
#include "tests/support/pair_support.h"
#include "tests/support/reason.h"
#include "lib/filter/view.h"

static struct view *view_of(const struct tamis_filter *f)
{
    return atomic_load(&f->view);
}

static bool quick(const struct tamis_filter *f)
{
    if (quick_left < 0)
        quick_tick();
    return view_was_offered(view_of(f), f->tag);
}

/* Every page is checked, and a probe has found nothing. */
static void make_quick(struct tamis_filter *f)
{
    assert_int_equal(tamis_filter_verify(f, &(struct tamis_verify){0}, NULL), 0);
    assert_int_equal(ask(f, keys[0], NULL), TAMIS_MAYBE);
    assert_true(quick(f));
}

static void commit(uint64_t watermark)
{
    assert_int_equal(tamis_writer_commit(writer, watermark, NULL), 0);
}

/* ---- what makes it quick ---- */

static void all_pages_must_be_checked(void **state)
{
    (void)state;
    add_hashes(writer, keys + FIRST, N - FIRST); /* more than a page */
    commit(1);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(ask(f, keys[0], NULL), TAMIS_MAYBE);
    assert_false(quick(f));
    make_quick(f);
    assert_int_equal(count_absent(f, keys, N), 0);
    assert_true(quick(f));
    tamis_filter_close(f);
}

static void strict_filters_never_are(void **state)
{
    (void)state;
    struct tamis_filter_options o = {.size = sizeof o, .check = TAMIS_CHECK_STRICT};
    struct tamis_filter *f;
    assert_int_equal(tamis_filter_open(path, &o, &f, NULL), 0);
    assert_int_equal(count_absent(f, keys, FIRST), 0);
    tamis_filter_verify(f, &(struct tamis_verify){0}, NULL);
    assert_int_equal(ask(f, keys[0], NULL), TAMIS_MAYBE);
    assert_false(quick(f));
    tamis_filter_close(f);
}

/* A batch makes it quick, too, and answers by it. */
static void batches_are(void **state)
{
    (void)state;
    uint64_t absent[1];
    assert_int_equal(tamis_filter_verify(reader, &(struct tamis_verify){0}, NULL), 0);
    for (int i = 0; i < 2; i++) {
        enum tamis_reason why;
        assert_int_equal(
            tamis_filter_probe_batch(reader, reader->tag, keys, 64, absent, &why), 0);
        assert_int_equal(why, TAMIS_NO_REASON);
        assert_true(quick(reader));
    }
}

/* By all kinds of calls the answers are those with all looks: of one stage, of many,
 * and sealed. */
static void answers_are_the_same(void **state)
{
    enum { ASKED = 4000 };
    static uint64_t asked[ASKED];
    (void)state;
    struct tamis_filter_options o = {.size = sizeof o, .check = TAMIS_CHECK_STRICT};
    random_hashes(asked, ASKED);
    for (int step = 0; step < 3; step++) {
        struct tamis_filter *slow;
        if (step == 1)
            add_hashes(writer, keys + FIRST, N - FIRST);
        if (step < 2)
            commit(1);
        else
            assert_int_equal(tamis_writer_seal(writer, 1, NULL, NULL), 0);
        assert_int_equal(count_absent(reader, keys, step ? N : FIRST), 0);
        make_quick(reader);
        assert_int_equal(tamis_filter_open(path, &o, &slow, NULL), 0);
        for (size_t i = 0; i < ASKED; i++) {
            uint64_t word[1];
            enum tamis_answer expected = ask(slow, asked[i], NULL);
            assert_int_equal(ask(reader, asked[i], NULL), expected);
            tamis_filter_probe_batch(reader, reader->tag, &asked[i], 1, word, NULL);
            assert_int_equal(word[0], expected == TAMIS_ABSENT);
        }
        assert_true(step == 0 ? view_of(reader)->n_stages == 1
                              : view_of(reader)->n_stages > 1);
        tamis_filter_close(slow);
    }
}

static void a_foreign_key_is_a_mismatch(void **state)
{
    (void)state;
    make_quick(reader);
    enum tamis_reason why;
    struct tamis_key key = tamis_key_of_hash(reader->tag + 1, absent_key(reader));
    assert_int_equal(tamis_filter_probe(reader, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_true(quick(reader));
}

/* ---- what ends it ---- */

/* A key in a new stage is found by the first probe after its add. */
static void growth(void **state)
{
    (void)state;
    make_quick(reader);
    for (size_t i = FIRST; i < N; i++) {
        add_hashes(writer, &keys[i], 1);
        assert_int_equal(ask(reader, keys[i], NULL), TAMIS_MAYBE);
    }
    assert_true(view_of(reader)->n_stages > 1);
    make_quick(reader);
    assert_int_equal(count_absent(reader, keys, N), 0);
}

static void a_commit(void **state)
{
    (void)state;
    make_quick(reader);
    commit(7);
    assert_false(quick(reader));
    assert_int_equal(ask(reader, keys[0], NULL), TAMIS_MAYBE);
    assert_true(quick(reader));
}

static void a_watermark_that_is_missing(void **state)
{
    (void)state;
    struct tamis_filter_options o = {.size = sizeof o, .min_watermark = 7};
    struct tamis_filter *f;
    commit(7);
    assert_int_equal(tamis_filter_open(path, &o, &f, NULL), 0);
    make_quick(f);
    uint64_t absent = absent_key(f);
    struct tamis_key key = tamis_key_of_hash(f->tag, absent);
    enum tamis_reason why;
    assert_int_equal(filter_probe_from(f, 8, 0, &key, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_BEHIND);
    assert_int_equal(filter_probe_from(f, 7, 0, &key, &why), TAMIS_ABSENT);
    tamis_filter_close(f);
}

/* An older file, put back over the one that is mapped, after a newer one was seen. */
static void an_older_copy(void **state)
{
    (void)state;
    size_t n;
    uint8_t *older = file_read(path, &n);
    make_quick(reader);
    uint64_t absent = absent_key(reader);
    add_hashes(writer, keys + FIRST, 10);
    commit(7);
    assert_int_equal(reason_of(reader, absent), TAMIS_NO_REASON);
    file_poke(path, 0, older, n);
    free(older);
    assert_false(quick(reader));
    assert_int_not_equal(reason_of(reader, absent), TAMIS_NO_REASON);
    assert_false(quick(reader));
}

/* Half of slot A alone. */
static void either_end_of_the_slot(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        uint8_t byte;
        make_quick(reader);
        uint64_t absent = absent_key(reader),
                 at = commit_slot_offset(SLOT_A) +
                      (end ? SLOT_CHECKSUM_AT : SLOT_SEQUENCE_AT);
        size_t n;
        uint8_t *bytes = file_read(path, &n);
        byte = bytes[at] ^ 1;
        file_poke(path, at, &byte, 1);
        assert_false(quick(reader));
        reason_of(reader, absent); /* by slot B, which is as good */
        file_poke(path, at, &bytes[at], 1);
        free(bytes);
        commit(7 + (uint64_t)end);
    }
}

static void a_bad_page(void **state)
{
    (void)state;
    make_quick(reader);
    uint64_t absent = absent_key(reader);
    struct view *v = view_of(reader);
    uint64_t page =
        geometry_block_offset(&v->stages[0].geometry, 0, absent) / PAGE_BYTES;
    for (uint64_t i = 0; i < v->stages[0].n_pages; i++)
        stage_mark_bad(&v->stages[0], i); /* as a scrub does */
    assert_true(page < v->stages[0].n_pages);
    assert_false(quick(reader));
    assert_int_equal(reason_of(reader, absent), TAMIS_DAMAGED);
    assert_false(quick(reader));
}

static void replace_file(void)
{
    file_copy(path, path_of("copy"));
    assert_int_equal(rename(path_of("copy"), path), 0);
}

/* Within a second, by a clock that is not read at every probe. */
static void a_copy_that_takes_the_name(void **state)
{
    (void)state;
    make_quick(reader);
    uint64_t absent = absent_key(reader);
    replace_file();
    for (int i = 0; i < 16; i++) {
        nanoseconds += 62000000;
        for (int k = 0; k <= QUICK_PROBES; k++)
            ask(reader, absent, NULL);
    }
    assert_int_equal(reason_of(reader, absent), TAMIS_MISMATCH);
    assert_false(quick(reader));
}

/* One look that finds it ends what is quick: other threads, which will not read the
 * clock soon, have it from their next probe on, and so do other filters of the file. */
static void a_look_that_finds_a_copy(void **state)
{
    (void)state;
    struct tamis_filter *other = open_filter(path);
    make_quick(reader);
    make_quick(other);
    uint64_t absent = absent_key(reader), words[2];
    enum tamis_reason why;
    replace_file();
    nanoseconds += 600000000; /* a look is due */
    quick_left = QUICK_PROBES;
    assert_int_equal(reason_of(reader, absent), TAMIS_NO_REASON);
    assert_int_equal(reason_of(other, absent), TAMIS_NO_REASON);
    tamis_filter_probe_batch(reader, reader->tag, keys, 65, words, &why); /* it looks */
    assert_int_equal(why, TAMIS_MISMATCH);
    assert_int_equal(reason_of(other, absent), TAMIS_MISMATCH);
    assert_int_equal(reason_of(reader, absent), TAMIS_MISMATCH);
    assert_true(quick_left > 0);
    tamis_filter_close(other);
}

/* The thread whose turn it was to look has not come back. */
static void a_look_that_is_old(void **state)
{
    (void)state;
    make_quick(reader);
    uint64_t absent = absent_key(reader);
    nanoseconds += 900000000;
    atomic_store(&reader->named->looks.look_after, look_clock() + LOOK_VALID / 2);
    quick_end();
    assert_int_equal(reason_of(reader, absent), TAMIS_NO_REASON); /* it is valid */
    assert_false(quick(reader));
}

/* ---- the clock ---- */

/* Keys of another domain count. If they did not, a thread could ask two billion of them
 * without reading the clock, and more would make its count a high one. */
static void foreign_keys_count(void **state)
{
    (void)state;
    make_quick(reader);
    struct tamis_key key = tamis_key_of_hash(reader->tag + 1, keys[0]);
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
        assert_int_equal(n_clocks - before, 10);
    }
    make_quick(reader);
    nanoseconds += QUICK_PERIOD;
    for (int i = 0; i <= QUICK_PROBES; i++)
        tamis_filter_probe(reader, &key, NULL);
    assert_false(view_was_offered(view_of(reader), reader->tag));
}

/* Calls with all looks do not count: they read the clock themselves. */
static void calls_with_all_looks_do_not(void **state)
{
    (void)state;
    commit(7);
    make_quick(reader);
    struct tamis_key key = tamis_key_of_hash(reader->tag, absent_key(reader));
    uint64_t words[2];
    enum tamis_reason why;
    quick_left = QUICK_PROBES;
    unsigned before = n_clocks;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(filter_probe_from(reader, 7, 0, &key, NULL), TAMIS_ABSENT);
        tamis_filter_probe_batch(reader, key.tag, keys, 65, words, NULL);
    }
    assert_int_equal(quick_left, QUICK_PROBES);
    assert_true(n_clocks - before >= 200);
    replace_file();
    nanoseconds += 600000000;
    filter_probe_from(reader, 7, 0, &key, &why);
    assert_int_equal(why, TAMIS_MISMATCH);
}

/* A thread that asks seldom reads the clock each time. */
static void the_clock_of_a_slow_thread(void **state)
{
    (void)state;
    make_quick(reader);
    uint64_t absent = absent_key(reader);
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST_WITH_PAIR(all_pages_must_be_checked),
        TEST_WITH_PAIR(strict_filters_never_are),
        TEST_WITH_PAIR(batches_are),
        TEST_WITH_PAIR(answers_are_the_same),
        TEST_WITH_PAIR(a_foreign_key_is_a_mismatch),
        TEST_WITH_PAIR(growth),
        TEST_WITH_PAIR(a_commit),
        TEST_WITH_PAIR(a_watermark_that_is_missing),
        TEST_WITH_PAIR(an_older_copy),
        TEST_WITH_PAIR(either_end_of_the_slot),
        TEST_WITH_PAIR(a_bad_page),
        TEST_WITH_PAIR(a_copy_that_takes_the_name),
        TEST_WITH_PAIR(a_look_that_finds_a_copy),
        TEST_WITH_PAIR(a_look_that_is_old),
        TEST_WITH_PAIR(foreign_keys_count),
        TEST_WITH_PAIR(calls_with_all_looks_do_not),
        TEST_WITH_PAIR(the_clock_of_a_slow_thread),
    };
    return cmocka_run_group_tests_name("quick", tests, pair_set_up, test_dir_remove);
}
