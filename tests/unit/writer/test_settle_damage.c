/* Settled stages that are damaged (SPEC.md R17): what digests find that floors do not,
 * for readers and for the next writer. */
#include "tests/unit/writer/settle_support.h"

/* ---- damage ---- */

/* Bits of a sector replaced by as many others. */
static void turn_sector(uint64_t at)
{
    size_t n;
    uint8_t *file = file_read(path, &n), *sector = file + at;
    for (size_t i = 0; i < SECTOR_BYTES; i++)
        sector[i] = (uint8_t)(sector[i] << 3 | sector[i] >> 5);
    file_poke(path, at, sector, SECTOR_BYTES);
    free(file);
}

TEST_WITH_FAULTS(test_replaced_bits)
{
    for (uint32_t i = 0; i < STAGES - 1; i++) {
        make_settled();
        turn_sector(commit_of(path).stages[i].offset + SECTOR_BYTES);
        IS(n_damaged(), 1);
        IS(n_absent(), 0);
        forget_digests(); /* floors alone lose keys */
        IS(n_damaged(), 0);
        assert_true(n_absent() > 0);
    }
}

/* A sector and its floors, as at an earlier commit, under the newest slots. */
TEST_WITH_FAULTS(test_put_back_with_its_floors)
{
    size_t n_old;
    struct tamis_writer *w = fresh(N);
    add_hashes(w, keys, N / 2);
    OK(tamis_writer_commit(w, 1, NULL));
    uint8_t *old = file_read(path, &n_old);
    add_hashes(w, keys + N / 2, N - N / 2);
    uint64_t more[N / 2];
    random_hashes(more, N / 2);
    add_hashes(w, more, N / 2);
    IS(atomic_load(&w->n_stages), 2);
    commit_and_close(w, 2);
    const struct stage_desc d = commit_of(path).stages[0];
    file_poke(path, d.offset, old + d.offset, SECTOR_BYTES);
    file_poke(path, d.floors_offset, old + d.floors_offset, SECTOR_BYTES);
    free(old);
    IS(n_damaged(), 1);
    IS(n_absent(), 0);
    forget_digests();
    IS(n_damaged(), 0);
    assert_true(n_absent() > 0);
}

/* A page that lost bits before its stage was settled gets no digest that it has. */
TEST_WITH_FAULTS(test_damage_is_not_digested)
{
    uint8_t zeros[SECTOR_BYTES] = {0};
    for (int committed = 0; committed < 2; committed++) {
        struct tamis_writer *w = fresh(200);
        add_hashes(w, keys, 150);
        OK(tamis_writer_commit(w, 1, NULL));
        if (committed) { /* full, and its floors are those of the newest bits */
            add_hashes(w, keys + 150, 100);
            pthread_mutex_lock(&w->mutex);
            settle_note(w);
            w->noted[5] = 1, w->in_flight[5].n = 1; /* not yet */
            pthread_mutex_unlock(&w->mutex);
            OK(tamis_writer_commit(w, 2, NULL));
            IS(commit_of(path).n_settled, 0);
            w->in_flight[5].n = 2;
        }
        file_poke(path, commit_of(path).stages[0].offset, zeros, sizeof zeros);
        add_hashes(w, keys + 250, 750);
        OK(tamis_writer_commit(w, 3, NULL));
        assert_true(commit_of(path).n_settled > 0);
        assert_true(n_damaged() > 0);
        FILTER f = open_filter(path);
        IS(count_absent(f, keys, 1000), 0);
        tamis_filter_close(f);
        OK(tamis_writer_close(w, NULL));
        forget_digests();
        assert_true(n_damaged() > 0);
        f = open_filter(path);
        IS(count_absent(f, keys, 1000), 0);
    }
}

/* A reader from before sees that there are digests now. */
TEST_WITH_FAULTS(test_a_reader_notices)
{
    make_settled();
    forget_digests();
    FILTER f = open_filter(path);
    WRITER w = open_writer(path);
    turn_sector(commit_of(path).stages[STAGES - 2].offset);
    IS(count_absent(f, keys, N), 0);
}

/* ---- writers of a damaged file ---- */

/* Rotten floors of a settled stage are counted anew, but for pages that fail. */
TEST_WITH_FAULTS(test_recovery_goes_by_digests)
{
    for (uint8_t clean = 0; clean < 2; clean++) {
        make_settled();
        struct commit c = commit_of(path);
        uint8_t zeros[SECTOR_BYTES] = {0};
        turn_sector(c.stages[STAGES - 2].offset);
        file_poke(path, c.stages[STAGES - 2].floors_offset, zeros, sizeof zeros);
        file_poke(path, c.stages[0].floors_offset, zeros, sizeof zeros);
        c.clean = clean;
        put_slots(path, &c);
        struct tamis_writer *w = open_writer(path);
        OK(tamis_writer_close(w, NULL));
        IS(commit_of(path).n_settled, STAGES - 1);
        IS(n_damaged(), 1);
        IS(n_absent(), 0);
        forget_digests(); /* the floors say the same now */
        IS(n_damaged(), 1);
        IS(n_absent(), 0);
    }
}

TEST_WITH_FAULTS(test_a_seal_goes_by_digests)
{
    for (int same_session = 0; same_session < 2; same_session++) {
        uint64_t n = 0;
        struct tamis_writer *w = NULL;
        if (same_session) {
            w = grown();
            OK(tamis_writer_commit(w, 1, NULL));
        } else {
            make_settled();
        }
        turn_sector(commit_of(path).stages[STAGES - 2].offset);
        if (!same_session)
            w = open_writer(path);
        OK(tamis_writer_seal(w, 2, &n, NULL));
        IS(n, 1);
        OK(tamis_writer_close(w, NULL));
        struct commit c = commit_of(path);
        assert_true(c.state == STATE_SEALED && c.n_settled == 0);
        IS(n_damaged(), 0);
        IS(n_absent(), 0);
    }
}

/* A page that failed once stays bad, should it have its digest again. */
TEST_WITH_FAULTS(test_a_seal_believes_no_page_that_failed)
{
    uint64_t n = 0;
    uint8_t page[PAGE_BYTES], zeros[PAGE_BYTES] = {0};
    make_settled();
    uint64_t at = commit_of(path).stages[STAGES - 2].offset;
    struct tamis_writer *w = open_writer(path);
    memcpy(page, w->stages[STAGES - 2]->stage.bits, sizeof page);
    file_poke(path, at, zeros, sizeof zeros);
    assert_false(stage_page_good(&w->stages[STAGES - 2]->stage, 0));
    file_poke(path, at, page, sizeof page);
    OK(tamis_writer_seal(w, 2, &n, NULL));
    IS(n, 1);
    OK(tamis_writer_close(w, NULL));
    IS(n_absent(), 0);
}

static void *no_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return errno = ENODEV, MAP_FAILED;
}

/* A seal that cannot map the digests fails, and the file is as it was. */
TEST_WITH_FAULTS(test_a_seal_without_the_digests)
{
    make_settled();
    struct tamis_writer *w = open_writer(path);
    io_calls.mmap = no_mmap;
    IS(tamis_writer_seal(w, 2, NULL, NULL), ENODEV);
    io_calls.mmap = mmap;
    IS(commit_of(path).state, STATE_OPEN);
    tamis_writer_close(w, NULL);
    IS(n_absent(), 0);
}

RUN_TESTS(set_up, test_dir_remove)
