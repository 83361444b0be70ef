/* The SIGBUS guard and writers (R15): a writer that meets a lost page is poisoned.
 * Nothing that the page took is acknowledged, whatever the moment of the loss, nothing
 * of it reaches the file, and the next writer finds what the last commit left. */
#include "tests/support/guard_support.h"

#include "lib/writer/inside.h"

enum { N_KEYS = 50 * 1000 };
static uint64_t keys[N_KEYS];

static int set_up(void **state)
{
    random_hashes(keys, N_KEYS);
    return test_dir_create(state);
}

static int add(struct tamis_writer *w, const uint64_t *hashes, size_t n)
{
    return tamis_writer_add_hashes(w, tamis_writer_domain(w).tag, hashes, n);
}

/* A writer with 1000 keys committed as of watermark 1. */
static struct tamis_writer *writer_at_1(const char *path)
{
    struct tamis_writer *w = create_writer(path, 0.01, 2, N_KEYS);
    add_hashes(w, keys, 1000);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    return w;
}

/* Poisoned for good, and not a word of it in the file. */
static void check_poisoned(struct tamis_writer *w, const char *path)
{
    struct tamis_diag diag;
    assert_int_equal(add(w, keys, 1), TAMIS_ERR_POISONED);
    assert_int_equal(add(w, keys, 0), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_add_key(w, "k", 1), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_commit(w, 99, &diag), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_seal(w, 99, NULL, NULL), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_commit(w, 99, NULL), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_watermark(w), 1);
    assert_int_equal(tamis_writer_close(w), TAMIS_ERR_POISONED);
    struct commit c = commit_of_cut(path);
    assert_int_equal(c.watermark, 1);
    assert_int_equal(c.clean, 0);
    assert_int_equal(c.state, STATE_OPEN);
}

/* The file lost nothing in these tests: only the mapping did. So the next writer goes
 * on from watermark 1, and no page was condemned for what was the mapping's fault. */
static void check_reopens(const char *path)
{
    struct tamis_verify report;
    struct tamis_writer *w = open_writer(path);
    assert_int_equal(tamis_writer_watermark(w), 1);
    add_hashes(w, keys, N_KEYS);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    tamis_filter_close(f);
}

static uint8_t *page_of(struct tamis_writer *w, uint64_t hash)
{
    struct stage *s = &w->stages[0]->stage;
    return s->bits +
           geometry_block_offset(&s->geometry, 0, hash) / PAGE_BYTES * PAGE_BYTES;
}

/* ---- a file cut short under a live writer ---- */

static void test_cut_then_add(void **state)
{
    const char *path = path_of("cut-add");
    struct tamis_writer *w = writer_at_1(path), *again;
    (void)state;
    file_copy(path, path_of("as-it-was"));
    cut(path, commit_of_cut(path).stages[0].offset);
    /* The first to touch a lost page is told: its key is nowhere. */
    assert_int_equal(add(w, keys + 1000, 1), TAMIS_ERR_POISONED);
    check_poisoned(w, path);
    /* The header promises more than there is: refused, for reading and writing. */
    struct tamis_filter *f;
    assert_int_equal(tamis_writer_open(path, &again, NULL), TAMIS_ERR_DAMAGED);
    assert_int_equal(tamis_filter_open(path, NULL, &f, NULL), TAMIS_ERR_DAMAGED);
    check_reopens(path_of("as-it-was"));
}

/* Nobody adds any more: the commit itself must find out, before it writes a slot. */
static void test_cut_then_commit(void **state)
{
    const char *path = path_of("cut-commit");
    struct tamis_writer *w = writer_at_1(path);
    (void)state;
    add_hashes(w, keys + 1000, 1000);
    cut(path, commit_of_cut(path).stages[0].offset);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_POISONED);
    check_poisoned(w, path);
}

static void test_cut_then_seal(void **state)
{
    const char *path = path_of("cut-seal");
    struct tamis_writer *w = writer_at_1(path);
    struct tamis_diag diag;
    (void)state;
    cut(path, commit_of_cut(path).stages[0].offset);
    assert_int_equal(tamis_writer_seal(w, 2, NULL, &diag), TAMIS_ERR_POISONED);
    assert_int_equal(diag.code, TAMIS_ERR_POISONED);
    check_poisoned(w, path);
}

static void test_cut_then_close(void **state)
{
    const char *path = path_of("cut-close");
    struct tamis_writer *w = writer_at_1(path);
    (void)state;
    add_hashes(w, keys + 1000, 1000);
    cut(path, commit_of_cut(path).stages[0].offset);
    assert_int_equal(tamis_writer_close(w), TAMIS_ERR_POISONED);
    struct commit c = commit_of_cut(path);
    assert_int_equal(c.clean, 0);
    assert_int_equal(c.watermark, 1);
}

/* The floors alone: no page can be checked, but that is no reason to condemn one. */
static void test_cut_floors(void **state)
{
    const char *path = path_of("cut-floors");
    struct tamis_writer *w = writer_at_1(path);
    size_t n;
    (void)state;
    assert_int_equal(tamis_writer_close(w), 0);
    w = open_writer(path);
    file_copy(path, path_of("with-floors"));
    cut(path, commit_of_cut(path).stages[0].floors_offset);
    uint8_t *before = file_read(path, &n);
    uint64_t n_keys = stage_keys_now(w->stages[0]);
    assert_int_equal(add(w, keys + 1000, 1000), TAMIS_ERR_POISONED);
    assert_int_equal(stage_keys_now(w->stages[0]), n_keys); /* nothing was set */
    check_poisoned(w, path);
    file_has(path, before, n);
    free(before);
    check_reopens(path_of("with-floors"));
}

/* A key that has its first lane's page, and meets the loss in the second: the bits that
 * it set are in the counts. */
static void test_cut_second_lane(void **state)
{
    const char *path = path_of("cut-lane");
    struct tamis_writer *w = writer_at_1(path);
    (void)state;
    assert_int_equal(tamis_writer_close(w), 0);
    w = open_writer(path);
    const struct stage *s = &w->stages[0]->stage;
    assert_true(s->geometry.lanes > 1);
    uint64_t hash = keys[1000], page = page_in(&s->geometry, 0, hash);
    add_hashes(w, &hash, 1);
    cut(path, commit_of_cut(path).stages[0].offset + (page + 1) * PAGE_BYTES);
    size_t i = 1001;
    while (page_in(&s->geometry, 0, keys[i]) != page ||
           page_in(&s->geometry, 1, keys[i]) == page_in(&s->geometry, 1, hash))
        i++;
    uint64_t n_bits = stage_bits_now(w->stages[0]);
    uint32_t n_before = page_count(s->bits + page * PAGE_BYTES);
    assert_int_equal(add(w, &keys[i], 1), TAMIS_ERR_POISONED);
    uint32_t n_set = page_count(s->bits + page * PAGE_BYTES) - n_before;
    assert_true(n_set > 1);
    assert_int_equal(stage_bits_now(w->stages[0]), n_bits + n_set);
    check_poisoned(w, path);
}

/* ---- a page lost at every moment of an add, a commit, a seal, a growth ---- */

static void test_lost_between_add_and_commit(void **state)
{
    const char *path = path_of("between");
    struct tamis_writer *w = writer_at_1(path);
    (void)state;
    add_hashes(w, keys + 1000, 1000);
    lose(page_of(w, keys[1000]));
    assert_int_equal(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_POISONED);
    check_poisoned(w, path);
    check_reopens(path);
}

/* A key that seems to be in a lost page already, in an older stage. */
static void test_lost_page_is_no_reason_to_skip(void **state)
{
    const char *path = path_of("skip");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    (void)state;
    add_hashes(w, keys, 3000);
    assert_true(atomic_load(&w->n_stages) > 1);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    struct stage *first = &w->stages[0]->stage;
    for (uint64_t page = 0; page < first->n_pages; page++)
        lose(first->bits + page * PAGE_BYTES);
    assert_int_equal(add(w, keys + 3000, 1), TAMIS_ERR_POISONED);
    check_poisoned(w, path);
    check_reopens(path);
}

/* The nth sync from now on, another thread loses a page while it runs. */
static struct {
    struct tamis_writer *w;
    int lose_at, n;
} losing;

static int losing_fdatasync(int fd)
{
    if (++losing.n == losing.lose_at)
        lose(page_of(losing.w, keys[1000]));
    return calls_before.fdatasync(fd);
}

static int commit_losing_at(struct tamis_writer *w, int sync, bool seal)
{
    losing.w = w, losing.lose_at = sync, losing.n = 0;
    calls_before = io_calls;
    io_calls.fdatasync = losing_fdatasync;
    int err =
        seal ? tamis_writer_seal(w, 2, NULL, NULL) : tamis_writer_commit(w, 2, NULL);
    io_calls = calls_before;
    assert_true(losing.n >= sync);
    return err;
}

static void test_lost_during_data_sync(void **state)
{
    (void)state;
    for (int seal = 0; seal < 2; seal++) {
        const char *path = path_of(seal ? "data-sync-seal" : "data-sync");
        struct tamis_writer *w = writer_at_1(path);
        add_hashes(w, keys + 1000, 1000);
        assert_int_equal(commit_losing_at(w, 1, seal), TAMIS_ERR_POISONED);
        assert_true(atomic_load(&w->stages[0]->dirty[0]) != 0); /* as nobody wrote */
        check_poisoned(w, path); /* slot A was not written */
        check_reopens(path);
    }
}

/* Too late to keep the record back, in time not to acknowledge it. */
static void test_lost_during_slot_sync(void **state)
{
    const char *path = path_of("slot-sync");
    struct tamis_writer *w = writer_at_1(path);
    (void)state;
    add_hashes(w, keys + 1000, 1000);
    assert_int_equal(commit_losing_at(w, 2, false), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_watermark(w), 1);
    assert_int_equal(add(w, keys, 1), TAMIS_ERR_POISONED);
    assert_int_equal(tamis_writer_close(w), TAMIS_ERR_POISONED);
    assert_int_equal(commit_of_cut(path).clean, 0);
    w = open_writer(path);
    assert_int_equal(tamis_writer_watermark(w), 2);
    assert_int_equal(tamis_writer_close(w), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, 2000), 0);
    tamis_filter_close(f);
}

/* Ones are not counted into floors, a page of them is not filled and not condemned. */
static void test_lost_page_leaves_the_file_alone(void **state)
{
    const char *path = path_of("alone");
    struct tamis_writer *w = writer_at_1(path);
    size_t n;
    (void)state;
    add_hashes(w, keys + 1000, 1000);
    uint8_t *before = file_read(path, &n);
    for (uint64_t page = 0; page < w->stages[0]->stage.n_pages; page++)
        lose(w->stages[0]->stage.bits + page * PAGE_BYTES);
    lose(w->stages[0]->stage.floors);
    assert_int_equal(add(w, keys + 2000, 1000), TAMIS_ERR_POISONED);
    check_poisoned(w, path);
    file_has(path, before, n);
    free(before);
    check_reopens(path);
}

/* A commit that meets the loss while it counts: its ones are no bits of ours, whether
 * all pages are gone or the first is still there. */
static void test_lost_page_is_not_counted(void **state)
{
    (void)state;
    for (int n_left = 0; n_left < 2; n_left++) {
        const char *path = path_of(n_left ? "counted-1" : "counted-0");
        struct tamis_writer *w = writer_at_1(path);
        add_hashes(w, keys + 1000, 1000);
        cut(path, commit_of_cut(path).stages[0].offset + (unsigned)n_left * PAGE_BYTES);
        assert_int_equal(tamis_writer_commit(w, 2, NULL), TAMIS_ERR_POISONED);
        for (uint64_t i = 0; i < w->stages[0]->stage.n_pages * SECTORS_PER_PAGE; i++)
            assert_true(atomic_load(&w->stages[0]->floors[i]) < 512);
        check_poisoned(w, path);
    }
}

static void test_no_growth_after_a_loss(void **state)
{
    const char *path = path_of("growth");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    (void)state;
    add_hashes(w, keys, 900);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    uint64_t sequence = commit_of_cut(path).sequence;
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    lose(w->stages[0]->stage.bits);
    /* As a thread that found the stage full just before. */
    w->stages[0]->n_full_bits = 1;
    assert_int_equal(writer_grow(w), TAMIS_ERR_POISONED);
    assert_int_equal(commit_of_cut(path).sequence, sequence);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    check_poisoned(w, path);
    check_reopens(path);
}

/* ---- opening a file whose pages cannot be had ---- */

static const char *cut_while_mapping;

static void *cutting_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fd >= 0 && (prot & PROT_WRITE))
        cut(cut_while_mapping, (uint64_t)offset);
    return calls_before.mmap(at, n, prot, flags, fd, offset);
}

static void test_recovery_meets_a_lost_page(void **state)
{
    const char *path = path_of("recovery");
    struct tamis_writer *w = writer_at_1(path), *again;
    struct tamis_diag diag;
    (void)state;
    file_copy(path, path_of("unclean"));
    assert_int_equal(tamis_writer_close(w), 0);
    struct commit before = commit_of_cut(path_of("unclean"));
    assert_int_equal(before.clean, 0);
    file_copy(path_of("unclean"), path_of("unclean-cut"));
    cut_while_mapping = path_of("unclean-cut");
    calls_before = io_calls;
    io_calls.mmap = cutting_mmap;
    int err = tamis_writer_open(path_of("unclean-cut"), &again, &diag);
    io_calls = calls_before;
    assert_int_equal(err, EIO);
    assert_int_equal(diag.code, EIO);
    /* And wrote nothing. */
    assert_int_equal(commit_of_cut(path_of("unclean-cut")).sequence, before.sequence);
    check_reopens(path_of("unclean"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_GUARD(test_cut_then_add),
        TEST_WITH_GUARD(test_cut_then_commit),
        TEST_WITH_GUARD(test_cut_then_seal),
        TEST_WITH_GUARD(test_cut_then_close),
        TEST_WITH_GUARD(test_cut_floors),
        TEST_WITH_GUARD(test_cut_second_lane),
        TEST_WITH_GUARD(test_lost_between_add_and_commit),
        TEST_WITH_GUARD(test_lost_page_is_no_reason_to_skip),
        TEST_WITH_GUARD(test_lost_during_data_sync),
        TEST_WITH_GUARD(test_lost_during_slot_sync),
        TEST_WITH_GUARD(test_lost_page_leaves_the_file_alone),
        TEST_WITH_GUARD(test_lost_page_is_not_counted),
        TEST_WITH_GUARD(test_no_growth_after_a_loss),
        TEST_WITH_GUARD(test_recovery_meets_a_lost_page),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
