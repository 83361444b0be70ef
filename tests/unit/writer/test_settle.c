/* Settling (SPEC.md R17): which stages of an open filter get digests and when, adds in
 * flight, and in which order digests and records become durable. */
#include "tests/unit/writer/settle_support.h"

/* ---- what is settled, and when ---- */

TEST_WITH_FAULTS(test_a_commit_settles_what_was_left)
{
    struct tamis_writer *w = grown();
    OK(tamis_writer_commit(w, 1, NULL));
    struct commit c = commit_of(path);
    IS(c.n_settled, STAGES - 1);
    IS(writer_info(w).n_settled, STAGES - 1);
    for (uint32_t i = 0; i < STAGES; i++) {
        const struct stage_desc *d = &c.stages[i];
        assert_true((d->root != 0) == (i < STAGES - 1));
        assert_true((d->digests_offset != 0) ==
                    (i < STAGES - 1 && d->length > PAGE_BYTES));
        assert_true(atomic_load(&w->stages[i]->drained) == (i < STAGES - 1));
    }
    IS(n_damaged(), 0);
    IS(n_absent(), 0);
    uint64_t sequence = c.sequence;
    OK(tamis_writer_commit(w, 2, NULL));
    c = commit_of(path);
    IS(c.sequence, sequence + 1);
    IS(c.n_settled, STAGES - 1);
    OK(tamis_writer_close(w, NULL));
    IS(commit_of(path).n_settled, STAGES - 1);
    /* And by its floors. */
    forget_digests();
    IS(n_damaged(), 0);
    IS(n_absent(), 0);
}

/* Without a commit in between growth settles, too, but for the stage that it leaves;
 * and its record has both slots. */
TEST_WITH_FAULTS(test_growth_settles_what_was_left_before)
{
    struct tamis_writer *w = grown();
    IS(w->commit.n_settled, STAGES - 2);
    size_t n;
    uint8_t *file = file_read(path, &n);
    const size_t at = offsetof(struct commit_disk, n_settled);
    IS(file[PAGE_BYTES + at], STAGES - 2);
    IS(file[2 * PAGE_BYTES + at], STAGES - 2);
    free(file);
    OK(tamis_writer_close(w, NULL)); /* a commit, too */
    IS(commit_of(path).n_settled, STAGES - 1);
    IS(n_absent(), 0);
}

/* Stages that no commit has settled yet. */
TEST_WITH_FAULTS(test_a_session_settles_at_its_start)
{
    make_settled();
    struct commit before = commit_of(path);
    forget_digests();
    struct tamis_writer *w = open_writer(path);
    struct commit c = commit_of(path);
    IS(c.n_settled, STAGES - 1);
    for (size_t i = 0; i < STAGES - 1; i++) {
        assert_true(c.stages[i].root == before.stages[i].root);
        if (c.stages[i].digests_offset) /* never the same place */
            assert_true(c.stages[i].digests_offset >= before.committed_bytes);
    }
    OK(tamis_writer_close(w, NULL));
    IS(n_damaged(), 0);
    IS(n_absent(), 0);
}

/* Digests of digests. */
TEST_WITH_FAULTS(test_a_stage_of_many_pages)
{
    enum { LARGE = 2200 * 1000 };
    FREED uint64_t *many = malloc(2 * LARGE * sizeof *many);
    assert_non_null(many);
    random_hashes(many, 2 * LARGE);
    WRITER w = fresh(LARGE);
    add_hashes(w, many, LARGE + LARGE / 8);
    OK(tamis_writer_commit(w, 1, NULL));
    struct commit c = commit_of(path);
    IS(c.n_settled, 1);
    assert_true(digests_bytes(c.stages[0].length / PAGE_BYTES) > 2 * PAGE_BYTES);
    IS(n_damaged(), 0);
    all_there(path, many, LARGE);
    /* A page of level 1 fails, and with it those that it speaks of. */
    uint8_t byte = 0x5a;
    file_poke(path, c.stages[0].digests_offset + 100, &byte, 1);
    IS(n_damaged(), DIGESTS_PER_PAGE);
    all_there(path, many, LARGE);
    uint64_t n_lost;
    OK(tamis_writer_seal(w, 1, &n_lost, NULL));
    IS(n_lost, DIGESTS_PER_PAGE);
    IS(n_damaged(), 0);
}

/* ---- adds in flight ---- */

/* A shard that is never seen empty, but moves on; and a shared one, which empties.
 * Each of them is looked at, the first and the last, too. */
TEST_WITH_FAULTS(test_a_busy_shard_does_not_stop_it)
{
    static const size_t shards[] = {0, 3, N_SHARDS - 1, N_SHARDS,
                                    N_SHARDS + N_SHARED - 1};
    for (size_t i = 0; i < N_OF(shards); i++) {
        WRITER w = grown();
        _Atomic uint32_t *n = &w->in_flight[shards[i]].n;
        bool shared = shards[i] >= N_SHARDS;
        atomic_store(n, shared ? 2 : 7); /* adds of two threads */
        settle_note(w);
        for (int left = shared ? 2 : 1; left > 0; left--) {
            if (shared)
                atomic_store(n, (uint32_t)left);
            OK(tamis_writer_commit(w, 1, NULL));
            IS(commit_of(path).n_settled, STAGES - 2);
        }
        atomic_store(n, shared ? 0 : 9);
        OK(tamis_writer_commit(w, 2, NULL));
        IS(commit_of(path).n_settled, STAGES - 1);
        atomic_store(n, shared ? 0 : 10);
    }
}

/* ---- order, and what goes wrong ---- */

static struct {
    struct io_calls calls;
    bool area_dirty, broken; /* written and not synced; named while it was so */
    unsigned n_syncs;
} order;

static ssize_t watched_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    const uint8_t *slot = buf;
    const size_t at = offsetof(struct commit_disk, n_settled);
    bool is_slot =
        n == SLOT_BYTES && (offset == PAGE_BYTES || offset == 2 * PAGE_BYTES);
    if (is_slot && slot[at] == STAGES - 1 && order.area_dirty)
        order.broken = true;
    if (!is_slot && n % PAGE_BYTES == 0)
        order.area_dirty = true;
    return order.calls.pwrite(fd, buf, n, offset);
}

static int watched_fdatasync(int fd)
{
    order.area_dirty = false;
    order.n_syncs++;
    return order.calls.fdatasync(fd);
}

/* The bits and digests of a stage are durable before any record names them, and both
 * records before the commit is acknowledged. */
TEST_WITH_FAULTS(test_digests_before_their_record)
{
    WRITER w = grown();
    order.calls = io_calls;
    order.area_dirty = order.broken = false;
    order.n_syncs = 0;
    io_calls.pwrite = watched_pwrite;
    io_calls.fdatasync = watched_fdatasync;
    OK(tamis_writer_commit(w, 1, NULL));
    io_calls = order.calls;
    IS(commit_of(path).n_settled, STAGES - 1);
    assert_true(commit_of(path).stages[STAGES - 2].digests_offset != 0);
    assert_false(order.broken);
    IS(order.n_syncs, 3); /* slot B, too (R2) */
}

/* No space for digests is no reason to fail a commit, and its record names nothing of
 * them: a reader refuses a record that does. */
TEST_WITH_FAULTS(test_no_space_for_digests)
{
    struct tamis_writer *w = grown();
    uint64_t n_bytes;
    OK(io_size(w->guard.fd, &n_bytes));
    for (int i = 0; i < 3; i++) {
        uint64_t now;
        if (i == 0)
            fail_from_now(CALL_FALLOCATE, ENOSPC);
        else if (i == 1)
            fail_once(CALL_PWRITE, 1, ENOSPC); /* the digests come first */
        OK(tamis_writer_commit(w, 1, NULL));
        fail_never();
        IS(commit_of(path).n_settled, STAGES - 2 + (i == 2));
        OK(io_size(w->guard.fd, &now));
        assert_true((now == n_bytes) == (i < 2));
    }
    OK(tamis_writer_close(w, NULL));
    IS(n_absent(), 0);
}

/* A crash with digests written and no record that names them: they are dead space. */
TEST_WITH_FAULTS(test_a_crash_before_the_record)
{
    struct tamis_writer *w = grown();
    uint64_t n_bytes, now;
    OK(io_size(w->guard.fd, &n_bytes));
    fail_once(CALL_FDATASYNC, 1, EIO);
    IS(tamis_writer_commit(w, 1, NULL), EIO);
    OK(io_size(w->guard.fd, &now));
    assert_true(now > n_bytes);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
    IS(commit_of(path).n_settled, STAGES - 2);
    IS(n_absent(), 0);
    w = open_writer(path);
    struct commit c = commit_of(path);
    IS(c.n_settled, STAGES - 1);
    assert_true(c.stages[STAGES - 2].digests_offset >= now);
    OK(tamis_writer_close(w, NULL));
    IS(n_damaged(), 0);
    IS(n_absent(), 0);
}

RUN_TESTS(set_up, test_dir_remove)
