/* The floors that a writer leaves (R8), sector by sector, over many pages; who may
 * write them, and when; and what a writer believes of a page that lost bits. */
#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

enum { CAPACITY = 400 * 1000, N = 3000 };

static uint64_t keys[N], more[N];

/* Compares the floors of every sector in the file with its bits; how many are lower.
 * None may be higher. */
static size_t n_floors_below(void)
{
    struct commit c = commit_of(path);
    struct identity id;
    size_t n, below = 0;
    FREED uint8_t *file = file_read(path, &n);
    IS(identity_decode(file, n, &id).code, VERDICT_OK);
    for (size_t i = 0; i < c.n_stages; i++) {
        const struct stage_desc *d = &c.stages[i];
        for (uint64_t page = 0; page < d->length / PAGE_BYTES; page++) {
            uint64_t at = d->floors_offset + floor_sector_of(page);
            struct floor_sector_disk s;
            memcpy(&s, file + at, sizeof s);
            assert_true(floor_sector_good(&s, id.uuid, at));
            for (size_t k = 0; k < SECTORS_PER_PAGE; k++) {
                uint32_t floor = le16_get(floor_sector_page(&s, page)[k]);
                uint32_t count = sector_count(file + d->offset + page * PAGE_BYTES +
                                              k * SECTOR_BYTES);
                assert_true(floor <= count);
                below += floor < count;
            }
        }
    }
    return below;
}

TEST_WITH_FAULTS(test_a_commit_counts_every_sector)
{
    for (int alone = 0; alone < 2; alone++) {
        WRITER w = fresh(CAPACITY);
        if (alone)
            writer_own(w);
        assert_true(commit_of(path).stages[0].length > 100 * PAGE_BYTES);
        for (uint64_t i = 0; i < 60; i++) {
            add_hashes(w, keys + 50 * i, 50); /* a few pages each time */
            assert_true(n_floors_below() > 0);
            OK(tamis_writer_commit(w, i, NULL));
            IS(n_floors_below(), 0);
        }
        OK(tamis_writer_commit(w, 60, NULL));
        IS(n_floors_below(), 0);
    }
}

/* A commit writes the sectors of floors whose pages took keys, and no others: a large
 * filter has thousands. */
TEST_WITH_FAULTS(test_a_commit_writes_what_changed)
{
    WRITER w = fresh(CAPACITY);
    assert_true(w->stages[0]->stage.n_pages > 3 * PAGES_PER_FLOOR_SECTOR);
    add_hashes(w, keys, N);
    OK(tamis_writer_commit(w, 1, NULL));
    faults[CALL_PWRITE].n = 0;
    OK(tamis_writer_commit(w, 2, NULL));
    unsigned long n = 2; /* the slots */
    IS(faults[CALL_PWRITE].n, n);
    for (uint64_t page = 0; page < w->stages[0]->stage.n_pages; page++) {
        stage_set_dirty(w->stages[0], page);
        OK(tamis_writer_commit(w, 3, NULL));
        IS(faults[CALL_PWRITE].n, n += 3);
    }
}

TEST_WITH_FAULTS(test_of_every_stage)
{
    struct tamis_writer *w = fresh(200);
    for (uint64_t i = 0; i < 30; i++) {
        add_hashes(w, keys + 100 * i, 100);
        OK(tamis_writer_commit(w, i, NULL));
        IS(n_floors_below(), 0);
    }
    assert_true(commit_of(path).n_stages > 3);
    OK(tamis_writer_close(w, NULL));
    w = open_writer(path); /* it goes on from the counts that it took over */
    for (uint32_t k = 0; k < w->n_stages; k++) {
        const struct writer_stage *s = w->stages[k];
        for (uint64_t i = 0; i < s->stage.n_pages * SECTORS_PER_PAGE; i++)
            IS(s->floors[i], sector_count(s->stage.bits + i * SECTOR_BYTES));
    }
    add_hashes(w, more, 100);
    OK(tamis_writer_close(w, NULL));
    IS(n_floors_below(), 0);
}

/* Keys that a dead writer left uncommitted are counted by the next one's first commit,
 * which vouches for them (R3). */
TEST_WITH_FAULTS(test_of_what_a_dead_writer_left)
{
    WRITER w = fresh(CAPACITY);
    add_hashes(w, keys, N);
    file_copy(path, path_of("dead"));
    OK(tamis_writer_close(w, NULL));
    OK(rename(path_of("dead"), path));
    assert_true(n_floors_below() > 100);
    w = open_writer(path);
    IS(n_floors_below(), 0);
    const struct stage *s = &w->stages[0]->stage;
    uint64_t n_bits = 0;
    for (uint64_t page = 0; page < s->n_pages; page++)
        n_bits += page_bits(kernel_get(), s->bits + page * PAGE_BYTES);
    IS(stage_bits_now(w->stages[0]), n_bits); /* R9 */
}

/* A commit that failed before its floors were written leaves them to the next. */
TEST_WITH_FAULTS(test_marks_are_given_back)
{
    struct tamis_writer *w = fresh(CAPACITY);
    add_hashes(w, keys, N);
    struct writer_stage *s = w->stages[0];
    uint64_t marks[8], n = (s->stage.n_pages + 63) / 64;
    assert_in_range(n, 2, 8);
    for (uint64_t i = 0; i < n; i++)
        assert_true((marks[i] = s->dirty[i]) != 0);
    fail_once(CALL_FDATASYNC, 1, EIO);
    IS(tamis_writer_commit(w, 1, NULL), EIO);
    for (uint64_t i = 0; i < n; i++)
        assert_true(s->dirty[i] == marks[i]);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
}

static void fail_a_commit(uint64_t first_capacity, const uint64_t *hashes, size_t n)
{
    struct tamis_writer *w = fresh(first_capacity);
    add_hashes(w, hashes, n);
    size_t before = n_floors_below();
    assert_true(before > 0);
    fail_once(CALL_PWRITE, 1, EIO);
    IS(tamis_writer_commit(w, 1, NULL), EIO);
    IS(n_floors_below(), before);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
}

/* After floors that could not be written no others are: neither those that lie further
 * on, nor the rest of more than are written at once. */
TEST_WITH_FAULTS(test_no_floors_after_a_failed_write)
{
    const uint64_t ends[] = {0, UINT64_MAX};
    fail_a_commit(CAPACITY, ends, 2);
    fail_a_commit(4 * 1000 * 1000, keys, N);
}

/* ---- who holds what while writing ---- */

static struct tamis_writer *watched;
static size_t n_slots, n_floor_sectors;
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

/* One at a time: slots under the writer's mutex, floors under theirs. */
static ssize_t watching_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (watched && n == SLOT_BYTES && offset < 3 * PAGE_BYTES) {
        n_slots++;
        IS(pthread_mutex_trylock(&watched->mutex), EBUSY);
    }
    if (watched && n == SECTOR_BYTES) {
        n_floor_sectors++;
        IS(pthread_mutex_trylock(&watched->floors_mutex), EBUSY);
    }
    return real_pwrite(fd, buf, n, offset);
}

static void expect_free(struct tamis_writer *w)
{
    OK(pthread_mutex_trylock(&w->mutex));
    OK(pthread_mutex_trylock(&w->floors_mutex));
    pthread_mutex_unlock(&w->floors_mutex);
    pthread_mutex_unlock(&w->mutex);
}

TEST_WITH_FAULTS(test_writes_are_under_a_lock)
{
    real_pwrite = io_calls.pwrite;
    io_calls.pwrite = watching_pwrite;
    watched = fresh(500);
    expect_free(watched);
    add_hashes(watched, keys, 2000); /* grows */
    expect_free(watched);
    assert_true(n_slots >= 2);
    n_slots = 0;
    OK(tamis_writer_commit(watched, 1, NULL));
    IS(n_slots, 2);
    assert_true(n_floor_sectors > 0);
    expect_free(watched);
    IS(tamis_writer_commit(watched, 0, NULL), TAMIS_ERR_RANGE);
    expect_free(watched);
    writer_info(watched);
    expect_free(watched);
    n_slots = 0;
    IS(tamis_writer_seal(watched, 0, NULL, NULL), TAMIS_ERR_RANGE);
    expect_free(watched);
    OK(tamis_writer_seal(watched, 2, NULL, NULL));
    IS(n_slots, 2);
    expect_free(watched);
    struct tamis_writer *w = watched;
    watched = NULL;
    OK(tamis_writer_close(w, NULL));
    io_calls.pwrite = real_pwrite;

    watched = fresh(500);
    n_slots = 0;
    w = watched;
    io_calls.pwrite = watching_pwrite;
    OK(tamis_writer_close(w, NULL));
    watched = NULL;
    IS(n_slots, 2);
    io_calls.pwrite = real_pwrite;
}

/* ---- what a writer believes (R12) ---- */

static void lose_first_sector(uint64_t page)
{
    static const uint8_t zeros[SECTOR_BYTES];
    file_poke(path, commit_of(path).stages[0].offset + page * PAGE_BYTES, zeros,
              sizeof zeros);
}

/* A commit that finds a loss condemns the page: a key whose bits "are" all in it is not
 * one that an older stage has. */
TEST_WITH_FAULTS(test_a_page_lost_in_session_is_not_believed)
{
    struct tamis_writer *w = fresh(CAPACITY);
    add_hashes(w, keys, N);
    OK(tamis_writer_commit(w, 1, NULL));
    lose_first_sector(0);
    stage_set_dirty(w->stages[0], 0);
    OK(tamis_writer_commit(w, 2, NULL)); /* counts, finds it */
    assert_true(stage_is_bad(&w->stages[0]->stage, 0));
    assert_false(stage_page_good(&w->stages[0]->stage, 0));
    IS(w->stages[0]->floors[0], FLOOR_DAMAGED);
    IS(w->stages[0]->floors[SECTORS_PER_PAGE - 1], FLOOR_DAMAGED);
    assert_true(w->stages[0]->floors[SECTORS_PER_PAGE] != FLOOR_DAMAGED);
    OK(tamis_writer_close(w, NULL));
    all_there(path, keys, N);
}

/* All ones, from the first byte to the last, and none beyond. */
TEST_WITH_FAULTS(test_a_page_is_filled_whole)
{
    static uint8_t before[2 * PAGE_BYTES];
    WRITER w = fresh(CAPACITY);
    add_hashes(w, keys, N);
    struct writer_stage *s = w->stages[0];
    const uint8_t *page = s->stage.bits + 7 * PAGE_BYTES;
    memcpy(before, page - PAGE_BYTES, PAGE_BYTES);
    memcpy(before + PAGE_BYTES, page + PAGE_BYTES, PAGE_BYTES);
    writer_condemn_page(w, s, 7);
    IS(page_bits(kernel_get(), page), PAGE_BYTES * 8);
    assert_memory_equal(page - PAGE_BYTES, before, PAGE_BYTES);
    assert_memory_equal(page + PAGE_BYTES, before + PAGE_BYTES, PAGE_BYTES);
    writer_condemn_page(w, s, 7); /* nothing more to do */
    writer_condemn_page(w, s, s->stage.n_pages - 1);
}

SET_UP(one_file_create, random_hashes(keys, N), random_hashes(more, N))

RUN_TESTS(set_up, test_dir_remove)
