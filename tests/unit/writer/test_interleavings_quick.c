/* Interleavings that chance would take years to find, forced: a view becomes quick
 * (lib/page/quick.h) by what one thread saw, while another sees a later header. An
 * older copy then comes back in its place, which no probe may take for the file. */
#include "tests/support/still_clock.h"
#include "tests/unit/writer/held_support.h"

static bool quick(void)
{
    return view_was_offered(atomic_load(&reader->view), reader->tag);
}

static uint8_t *older;
static size_t n_older;

static void remember_file(void)
{
    older = file_read(path, &n_older);
}

static void put_back(void)
{
    file_poke(path, 0, older, n_older);
    free(older);
}

static void expect_refusal(void)
{
    assert_false(quick());
    IS(why_of(reader, keys[N - 1]), TAMIS_UNREADABLE);
    assert_false(quick());
}

/* The thread that noted the later header has not offered the view again. */
TEST_WITH_PAIR(test_a_later_header_is_noted)
{
    verified(reader); /* every page is checked */
    assert_false(is_absent(reader, keys[0]));
    assert_true(quick());
    remember_file();
    commit(7);
    start(&t, "probe: view chosen", 1, probe_key, &keys[0]);
    put_back();
    expect_refusal();
    end(&t);
    expect_refusal();
}

/* The thread that offers the view judged it before the later header came. */
TEST_WITH_PAIR(test_a_later_header_amid_an_offer)
{
    verified(reader);
    remember_file();
    quick_end(); /* else there is nothing to offer */
    start(&t, "offer: view judged", 1, probe_key, &keys[0]);
    commit(7);
    assert_false(is_absent(reader, keys[0]));
    put_back();
    end(&t);
    expect_refusal();
}

/* A view of two stages is offered as soon as it is published. Then its publisher
 * inherits from the view before that a later header was seen. */
TEST_WITH_PAIR(test_a_fresh_view_is_offered)
{
    grow();
    start(&t, "refresh: view published", 1, probe_key, &keys[0]);
    struct view *v = atomic_load(&reader->view);
    atomic_fetch_add(&v->older->sequence, 9);
    verified(reader);
    assert_false(is_absent(reader, keys[0]));
    assert_true(quick());
    end(&t);
    expect_refusal();
}

RUN_TESTS(pair_set_up, test_dir_remove)
