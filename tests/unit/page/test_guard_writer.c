/* The SIGBUS guard and writers (R15): a writer that meets a lost page is poisoned.
 * Nothing that the page took is acknowledged, whatever the moment of the loss, nothing
 * of it reaches the file, and the next writer finds what the last commit left. */
#include "tests/support/guard_support.h"

#include "lib/writer/inside.h"

enum { N_KEYS = 50 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

static int add(struct tamis_writer *w, const uint64_t *hashes, size_t n)
{
    return tamis_writer_add_hashes(w, w->domain.tag, hashes, n);
}

/* A writer with 1000 keys committed as of watermark 1. */
static struct tamis_writer *writer_at_1(const char *path)
{
    struct tamis_writer *w = create_writer(path, 0.01, 2, N_KEYS);
    add_hashes(w, keys, 1000);
    OK(tamis_writer_commit(w, 1, NULL));
    return w;
}

static void check_record(const char *path)
{
    struct commit c = commit_of_cut(path);
    IS(c.watermark, 1);
    IS(c.clean, 0);
    IS(c.state, STATE_OPEN);
}

/* Poisoned for good, and not a word of it in the file. */
static void check_poisoned(struct tamis_writer *w, const char *path)
{
    struct tamis_diag diag;
    IS(add(w, keys, 1), TAMIS_ERR_POISONED);
    IS(add(w, keys, 0), TAMIS_ERR_POISONED);
    IS(tamis_writer_add_key(w, "k", 1), TAMIS_ERR_POISONED);
    IS(tamis_writer_commit(w, 99, &diag), TAMIS_ERR_POISONED);
    IS(tamis_writer_seal(w, 99, NULL, NULL), TAMIS_ERR_POISONED);
    IS(tamis_writer_commit(w, 99, NULL), TAMIS_ERR_POISONED);
    IS(w->watermark, 1);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
    check_record(path);
}

/* The file lost nothing in these tests: only the mapping did. So the next writer goes
 * on from watermark 1, and no page was condemned for what was the mapping's fault. */
static void check_reopens(const char *path)
{
    struct tamis_writer *w = open_writer(path);
    IS(w->watermark, 1);
    add_hashes(w, keys, N_KEYS);
    commit_and_close(w, 2);
    all_there(path, keys, N_KEYS);
    FILTER f = open_filter(path);
    verified(f);
}

static uint8_t *page_of(struct tamis_writer *w, uint64_t hash)
{
    struct stage *s = &w->stages[0]->stage;
    return s->bits +
           geometry_block_offset(&s->geometry, 0, hash) / PAGE_BYTES * PAGE_BYTES;
}

/* CUT: the file behind its header. Else the mapping loses a page, or all and floors. */
enum loss { CUT, CUT_BUT_A_PAGE, CUT_FLOORS, LOSE_ONE, LOSE_ALL };
enum act { ADD, COMMIT, SEAL, CLOSE };

static void lose_by(enum loss how, struct tamis_writer *w, const char *path)
{
    const struct stage_desc d = commit_of_cut(path).stages[0];
    if (how <= CUT_FLOORS)
        cut(path, how == CUT_FLOORS ? d.floors_offset : d.offset + how * PAGE_BYTES);
    if (how == LOSE_ONE)
        lose(page_of(w, keys[1000]));
    if (how != LOSE_ALL)
        return;
    for (uint64_t page = 0; page < w->stages[0]->stage.n_pages; page++)
        lose(w->stages[0]->stage.bits + page * PAGE_BYTES);
    lose(w->stages[0]->stage.floors);
}

/* The thread that touches a lost page first is told: its key is nowhere. If no thread
 * adds any more, the commit itself finds out, before it writes a slot. Ones are not our
 * bits: they are not counted. No page of ones is filled or condemned, and no page whose
 * floors alone are gone. */
TEST_WITH_GUARD(test_lost_then)
{
    static const struct {
        const char *name;
        size_t n_more;
        enum loss loss;
        enum act act;
    } rows[] = {
        {"cut, then an add", 0, CUT, ADD},
        {"cut, then a commit", 1000, CUT, COMMIT},
        {"cut, then a seal", 0, CUT, SEAL},
        {"cut, then a close", 1000, CUT, CLOSE},
        {"cut but for a page, then a commit", 1000, CUT_BUT_A_PAGE, COMMIT},
        {"floors cut, then an add", 0, CUT_FLOORS, ADD},
        {"a page lost, then a commit", 1000, LOSE_ONE, COMMIT},
        {"all lost, then an add", 1000, LOSE_ALL, ADD},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        const char *path = path_of("live"), *copy = path_of("as-it-was");
        struct tamis_diag diag = {.code = TAMIS_ERR_POISONED};
        unlink(path);
        OK(tamis_writer_close(writer_at_1(path), NULL));
        struct tamis_writer *w = open_writer(path);
        OK(tamis_writer_commit(w, 1, NULL));
        add_hashes(w, keys + 1000, rows[i].n_more);
        file_copy(path, copy);
        lose_by(rows[i].loss, w, path);
        size_t n;
        FREED uint8_t *before = file_read(path, &n);
        uint64_t n_keys = stage_keys_now(w->stages[0]);
        int err = rows[i].act == ADD      ? add(w, keys + 2000, 1000)
                  : rows[i].act == COMMIT ? tamis_writer_commit(w, 2, NULL)
                  : rows[i].act == SEAL   ? tamis_writer_seal(w, 2, NULL, &diag)
                                          : tamis_writer_close(w, NULL);
        if (err != TAMIS_ERR_POISONED || diag.code != TAMIS_ERR_POISONED)
            fail_msg("%s: %d, and %d", rows[i].name, err, diag.code);
        if (rows[i].act != CLOSE) {
            IS(stage_keys_now(w->stages[0]), n_keys); /* nothing was set */
            for (uint64_t k = 0; k < w->stages[0]->stage.n_pages * SECTORS_PER_PAGE;
                 k++)
                assert_true(atomic_load(&w->stages[0]->floors[k]) < 512);
            check_poisoned(w, path);
        }
        check_record(path);
        if (rows[i].act != SEAL) /* which makes room for digests */
            file_has(path, before, n);
        if (rows[i].loss <= CUT_FLOORS) { /* the header promises more than there is */
            writer_refused(path, TAMIS_ERR_DAMAGED);
            reader_refused(path, NULL, TAMIS_ERR_DAMAGED);
        }
        check_reopens(copy);
    }
}

/* A key that has its first lane's page, and meets the loss in the second: the bits that
 * it set are in the counts. */
TEST_WITH_GUARD(test_cut_second_lane)
{
    const char *path = path_of("cut-lane");
    struct tamis_writer *w = writer_at_1(path);
    OK(tamis_writer_close(w, NULL));
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
    uint64_t n_before = page_bits(kernel_get(), s->bits + page * PAGE_BYTES);
    IS(add(w, &keys[i], 1), TAMIS_ERR_POISONED);
    uint64_t n_set = page_bits(kernel_get(), s->bits + page * PAGE_BYTES) - n_before;
    assert_true(n_set > 1);
    IS(stage_bits_now(w->stages[0]), n_bits + n_set);
    check_poisoned(w, path);
}

/* A key that seems to be in a lost page already, in an older stage. */
TEST_WITH_GUARD(test_lost_page_is_no_reason_to_skip)
{
    const char *path = path_of("skip");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 3000);
    assert_true(atomic_load(&w->n_stages) > 1);
    OK(tamis_writer_commit(w, 1, NULL));
    struct stage *first = &w->stages[0]->stage;
    for (uint64_t page = 0; page < first->n_pages; page++)
        lose(first->bits + page * PAGE_BYTES);
    IS(add(w, keys + 3000, 1), TAMIS_ERR_POISONED);
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

TEST_WITH_GUARD(test_lost_during_data_sync)
{
    for (int seal = 0; seal < 2; seal++) {
        const char *path = path_of(seal ? "data-sync-seal" : "data-sync");
        struct tamis_writer *w = writer_at_1(path);
        add_hashes(w, keys + 1000, 1000);
        IS(commit_losing_at(w, 1, seal), TAMIS_ERR_POISONED);
        assert_true(atomic_load(&w->stages[0]->dirty[0]) != 0); /* as nobody wrote */
        check_poisoned(w, path); /* slot A was not written */
        check_reopens(path);
    }
}

/* Too late to keep the record back, in time not to acknowledge it. */
TEST_WITH_GUARD(test_lost_during_slot_sync)
{
    const char *path = path_of("slot-sync");
    struct tamis_writer *w = writer_at_1(path);
    add_hashes(w, keys + 1000, 1000);
    IS(commit_losing_at(w, 2, false), TAMIS_ERR_POISONED);
    IS(w->watermark, 1);
    IS(add(w, keys, 1), TAMIS_ERR_POISONED);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
    IS(commit_of_cut(path).clean, 0);
    w = open_writer(path);
    IS(w->watermark, 2);
    OK(tamis_writer_close(w, NULL));
    all_there(path, keys, 2000);
}

TEST_WITH_GUARD(test_no_growth_after_a_loss)
{
    const char *path = path_of("growth");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, keys, 900);
    OK(tamis_writer_commit(w, 1, NULL));
    uint64_t sequence = commit_of_cut(path).sequence;
    struct stat before = stat_of(path);
    lose(w->stages[0]->stage.bits);
    /* As a thread that found the stage full just before. */
    w->stages[0]->n_full_bits = 1;
    IS(writer_grow(w), TAMIS_ERR_POISONED);
    IS(commit_of_cut(path).sequence, sequence);
    IS(before.st_size, stat_of(path).st_size);
    check_poisoned(w, path);
    check_reopens(path);
}

static const char *cut_while_mapping;

static void *cutting_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fd >= 0 && (prot & PROT_WRITE))
        cut(cut_while_mapping, (uint64_t)offset);
    return calls_before.mmap(at, n, prot, flags, fd, offset);
}

TEST_WITH_GUARD(test_recovery_meets_a_lost_page)
{
    const char *path = path_of("recovery");
    struct tamis_writer *w = writer_at_1(path), *again;
    struct tamis_diag diag;
    file_copy(path, path_of("unclean"));
    OK(tamis_writer_close(w, NULL));
    struct commit before = commit_of_cut(path_of("unclean"));
    IS(before.clean, 0);
    file_copy(path_of("unclean"), path_of("unclean-cut"));
    cut_while_mapping = path_of("unclean-cut");
    calls_before = io_calls;
    io_calls.mmap = cutting_mmap;
    int err = tamis_writer_open(path_of("unclean-cut"), NULL, &again, &diag);
    io_calls = calls_before;
    IS(err, EIO);
    IS(diag.code, EIO);
    /* And wrote nothing. */
    IS(commit_of_cut(path_of("unclean-cut")).sequence, before.sequence);
    check_reopens(path_of("unclean"));
}

RUN_TESTS(set_up, test_dir_remove)
