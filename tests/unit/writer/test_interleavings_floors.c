/* Interleavings that chance would take years to find, forced: marks and floors of pages
 * (SPEC.md R8) while others add, commit and probe. */
#include "tests/unit/writer/held_support.h"

/* ---- floors (R8): already there, and not yet noted ---- */

/* The thread that set the bits has not marked their page, and the one that found them
 * there is acknowledged. It may find them in an older stage, if growth has left that
 * meanwhile. */
static void found_before_noted(size_t n_at_once, bool older)
{
    uint64_t batch[2] = {keys[N - 1], keys[N - 1]};
    commit(1); /* no mark is left */
    remember_block(0, keys[N - 1]);
    start(&t, "add: bits set", 1, add, &keys[N - 1]);
    if (older)
        grow();
    add_hashes(writer, batch, n_at_once);
    commit(2);
    assert_false(loss_is_missed(0, keys[N - 1]));
    end(&t);
    commit(3);
    assert_false(loss_is_missed(0, keys[N - 1]));
}

TEST_WITH_PAIR(test_found_before_noted)
{
    found_before_noted(1, false);
}

TEST_WITH_PAIR(test_found_before_noted_in_a_batch)
{
    found_before_noted(2, false);
}

TEST_WITH_PAIR(test_found_in_an_older_stage)
{
    found_before_noted(1, true);
}

/* A commit takes the marks of a page just before the bits are set: its own does not
 * cover them, and the next one does. */
TEST_WITH_PAIR(test_a_commit_just_before_the_bits)
{
    stage_set_dirty(
        writer->stages[0],
        geometry_block_offset(&writer->stages[0]->stage.geometry, 0, keys[N - 1]) /
            PAGE_BYTES); /* there is something to take */
    remember_block(0, keys[N - 1]);
    start(&t, "add: page looked at", 1, add, &keys[N - 1]);
    commit(1);
    end(&t);
    commit(2);
    assert_false(loss_is_missed(0, keys[N - 1]));
}

static void commit_2(void *ctx)
{
    commit(2);
}

/* An add while a commit takes the marks and counts: it leaves a mark of its own, which
 * the commit does not clear. */
TEST_WITH_PAIR(test_an_add_while_a_commit_counts)
{
    const char *places[] = {"commit: marks taken", "commit: pages counted"};
    for (int i = 0; i < 2; i++) {
        for (uint64_t page = 0; page < writer->stages[0]->stage.n_pages; page++)
            stage_set_dirty(writer->stages[0], page);
        remember_block(0, keys[N - 1 - i]);
        start(&t, places[i], 1, commit_2, NULL);
        add(&keys[N - 1 - i]);
        end(&t);
        commit(2);
        assert_false(loss_is_missed(0, keys[N - 1 - i]));
    }
}

/* Adds that find all their bits cost a commit no write, once they are counted. */
static unsigned n_floors_written;
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static ssize_t counting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    n_floors_written += offset != PAGE_BYTES && offset != 2 * PAGE_BYTES;
    return real_pwrite(fd, buf, n, offset);
}

TEST_WITH_PAIR(test_found_again_and_again)
{
    commit(1);
    real_pwrite = io_calls.pwrite;
    io_calls.pwrite = counting_pwrite;
    n_floors_written = 0;
    add_hashes(writer, keys, FIRST);
    commit(2);
    IS(n_floors_written, 0);
    add(&keys[N - 1]);
    commit(3);
    assert_true(n_floors_written > 0);
}

/* ---- a page that is condemned and filled (R8), and a reader ---- */

/* A page lost the bits of a key. Its writer finds that and fills the page; half-way the
 * page has as many bits as its floors say, and the key's are not among them. */
TEST_WITH_PAIR(test_a_reader_while_a_page_is_filled)
{
    struct held reads, fills;
    commit(1);
    const struct commit c = commit_of(path);
    /* A key whose block is the last one with bits, in one of the page's last words. */
    uint64_t lost = keys[0], most = 0, at = 0;
    for (size_t i = 0; i < FIRST; i++) {
        uint64_t k = geometry_block_offset(&c.stages[0].geometry, 0, keys[i]);
        if (k / PAGE_BYTES == 0 && k >= most) {
            most = k;
            lost = keys[i];
        }
    }
    at = c.stages[0].offset + most;
    static const uint8_t zeros[BLOCK_BYTES];
    tamis_filter_close(reader);
    reader = open_filter(path);
    start(&reads, "check: floors read", 1, probe_key, &lost);
    file_poke(path, at, zeros, sizeof zeros);
    /* The writer finds the loss with the next add to the page: a commit does, too. */
    stage_set_dirty(writer->stages[0], 0);
    start(&fills, "fill: one word", (int)(most / sizeof(uint64_t)) - 8, commit_2, NULL);
    end(&reads);
    assert_false(was_absent);
    assert_false(is_absent(reader, lost));
    end(&fills);
    assert_false(is_absent(reader, lost));
    FILTER f = open_filter(path);
    assert_false(is_absent(f, lost));
}

RUN_TESTS(pair_set_up, test_dir_remove)
