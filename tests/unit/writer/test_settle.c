/* Settling (SPEC.md R17): which stages of an open filter get digests and when, what
 * they find that floors do not, and what a writer without them makes of it. */
#include "tests/support/one_file.h"
#include "lib/writer/inside.h"

#include <pthread.h>
#include <sys/mman.h>

enum { N = 16000, STAGES = 5 };

static uint64_t keys[N];

/* All keys in five stages, the first four of them left behind, some of one page. */
static struct tamis_writer *grown(void)
{
    struct tamis_writer *w = fresh(600);
    add_hashes(w, keys, N);
    assert_int_equal(atomic_load(&w->n_stages), STAGES);
    return w;
}

static void make_settled(void)
{
    struct tamis_writer *w = grown();
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(commit_of(path).n_settled, STAGES - 1);
}

static void put_slots(const struct commit *c)
{
    uint8_t raw[SLOT_BYTES];
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        commit_encode(c, slot, raw);
        file_poke(path, commit_slot_offset(slot), raw, sizeof raw);
    }
}

/* The record as a writer leaves it that does not know the feature. */
static void forget_digests(void)
{
    struct commit c = commit_of(path);
    commit_unsettle(&c);
    c.sequence += 1;
    put_slots(&c);
}

static uint64_t n_damaged(void)
{
    struct tamis_filter *f = open_filter(path);
    struct tamis_verify report, scrub;
    struct header h;
    tamis_filter_verify(f, &report, NULL);
    tamis_filter_close(f);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(header_load(fd, true, 0, 0, path, &h, NULL), 0);
    assert_int_equal(filter_scrub(fd, &h, &scrub), 0);
    close(fd);
    assert_int_equal(scrub.n_damaged, report.n_damaged);
    return report.n_damaged;
}

static size_t n_absent(void)
{
    struct tamis_filter *f = open_filter(path);
    size_t n = count_absent(f, keys, N);
    tamis_filter_close(f);
    return n;
}

/* ---- what is settled, and when ---- */

static void test_a_commit_settles_what_was_left(void **state)
{
    (void)state;
    struct tamis_writer *w = grown();
    struct tamis_filter_info info;
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    struct commit c = commit_of(path);
    assert_int_equal(c.n_settled, STAGES - 1);
    assert_int_equal(c.compat, COMMIT_COMPAT_SETTLED);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_int_equal(info.n_settled, STAGES - 1);
    for (uint32_t i = 0; i < STAGES; i++) {
        const struct stage_desc *d = &c.stages[i];
        assert_true(d->digests_offset == 0 && d->root == 0);
        assert_true((d->settled_root != 0) == (i < STAGES - 1));
        assert_true((d->settled_offset != 0) ==
                    (i < STAGES - 1 && d->length > PAGE_BYTES));
    }
    assert_int_equal(n_damaged(), 0);
    assert_int_equal(n_absent(), 0);
    uint64_t sequence = c.sequence;
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    c = commit_of(path);
    assert_int_equal(c.sequence, sequence + 1);
    assert_int_equal(c.n_settled, STAGES - 1);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(commit_of(path).n_settled, STAGES - 1);
    /* And by its floors, as a reader without the feature reads it. */
    forget_digests();
    assert_int_equal(n_damaged(), 0);
    assert_int_equal(n_absent(), 0);
}

/* Without a commit in between growth settles, too, but for the stage that it leaves;
 * and its record has both slots. */
static void test_growth_settles_what_was_left_before(void **state)
{
    (void)state;
    struct tamis_writer *w = grown();
    assert_int_equal(w->commit.n_settled, STAGES - 2);
    size_t n;
    uint8_t *file = file_read(path, &n);
    const size_t at = offsetof(struct commit_disk, n_settled);
    assert_int_equal(file[PAGE_BYTES + at], STAGES - 2);
    assert_int_equal(file[2 * PAGE_BYTES + at], STAGES - 2);
    free(file);
    assert_int_equal(tamis_writer_close(w), 0); /* a commit, too */
    assert_int_equal(commit_of(path).n_settled, STAGES - 1);
    assert_int_equal(n_absent(), 0);
}

/* Stages of a writer that did not know how. */
static void test_a_session_settles_at_its_start(void **state)
{
    (void)state;
    make_settled();
    struct commit before = commit_of(path);
    forget_digests();
    struct tamis_writer *w = open_writer(path);
    struct commit c = commit_of(path);
    assert_int_equal(c.n_settled, STAGES - 1);
    for (size_t i = 0; i < STAGES - 1; i++) {
        assert_true(c.stages[i].settled_root == before.stages[i].settled_root);
        if (c.stages[i].settled_offset) /* never the same place */
            assert_true(c.stages[i].settled_offset >= before.committed_bytes);
    }
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(n_damaged(), 0);
    assert_int_equal(n_absent(), 0);
}

/* Digests of digests. */
static void test_a_stage_of_many_pages(void **state)
{
    enum { LARGE = 2200 * 1000 };
    (void)state;
    uint64_t *many = malloc(2 * LARGE * sizeof *many);
    assert_non_null(many);
    random_hashes(many, 2 * LARGE);
    struct tamis_writer *w = fresh(LARGE);
    add_hashes(w, many, LARGE + LARGE / 8);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    struct commit c = commit_of(path);
    assert_int_equal(c.n_settled, 1);
    assert_true(digests_bytes(c.stages[0].length / PAGE_BYTES) > 2 * PAGE_BYTES);
    assert_int_equal(n_damaged(), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, many, LARGE), 0);
    tamis_filter_close(f);
    /* A page of level 1 fails, and with it those that it speaks of. */
    uint8_t byte = 0x5a;
    file_poke(path, c.stages[0].settled_offset + 100, &byte, 1);
    assert_int_equal(n_damaged(), DIGESTS_PER_PAGE);
    f = open_filter(path);
    assert_int_equal(count_absent(f, many, LARGE), 0);
    tamis_filter_close(f);
    assert_int_equal(tamis_writer_close(w), 0);
    free(many);
}

/* ---- adds in flight ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    const struct kernel *kernel;
    uint64_t held; /* the hash whose add is held up */
    bool there, go;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

/* An add that has chosen its stage and has set nothing yet. */
static uint32_t slow_block_add(uint8_t *block, uint32_t words, uint64_t h)
{
    pthread_mutex_lock(&gate.mutex);
    if (h == gate.held) {
        gate.there = true;
        pthread_cond_broadcast(&gate.cond);
        while (!gate.go)
            pthread_cond_wait(&gate.cond, &gate.mutex);
    }
    pthread_mutex_unlock(&gate.mutex);
    return gate.kernel->block_add(block, words, h);
}

static void *add_held(void *w)
{
    add_hashes(w, &gate.held, 1);
    return NULL;
}

static void take_stripes(struct tamis_writer *w)
{
    for (size_t i = 0; i < N_STRIPES; i++)
        atomic_fetch_add(&w->in_flight[i].n, 1);
}

/* One add begins in the first stage; growth leaves the stage, and commits go by. */
static void hold_an_add(bool shared)
{
    struct kernel slow;
    pthread_t thread;
    struct tamis_writer *w = fresh(200);
    gate.kernel = w->kernel;
    slow = *w->kernel;
    slow.block_add = slow_block_add;
    gate.held = random_u64();
    gate.there = gate.go = false;
    w->kernel = &slow;
    if (shared)
        take_stripes(w);
    assert_int_equal(pthread_create(&thread, NULL, add_held, w), 0);
    pthread_mutex_lock(&gate.mutex);
    while (!gate.there)
        pthread_cond_wait(&gate.cond, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    if (shared)
        take_stripes(w); /* and gives them back */
    for (size_t i = 0; i < 1000; i += 100) {
        add_hashes(w, keys + i, 100);
        assert_int_equal(tamis_writer_commit(w, i, NULL), 0);
    }
    assert_true(atomic_load(&w->n_stages) > 2);
    assert_int_equal(commit_of(path).n_settled, 0);
    assert_int_equal(n_damaged(), 0);
    pthread_mutex_lock(&gate.mutex);
    gate.go = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.mutex);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(tamis_writer_commit(w, 1000, NULL), 0);
    assert_int_equal(commit_of(path).n_settled, atomic_load(&w->n_stages) - 1);
    assert_int_equal(n_damaged(), 0);
    struct tamis_filter *f = open_filter(path);
    enum tamis_reason why;
    assert_int_equal(ask(f, gate.held, &why), TAMIS_MAYBE);
    assert_int_equal(why, TAMIS_HIT);
    assert_int_equal(count_absent(f, keys, 1000), 0);
    tamis_filter_close(f);
    w->kernel = gate.kernel;
    assert_int_equal(tamis_writer_close(w), 0);
}

static void test_not_while_an_add_is_in_flight(void **state)
{
    (void)state;
    hold_an_add(false);
}

static void test_nor_in_a_shared_stripe(void **state)
{
    (void)state;
    hold_an_add(true);
}

/* A stripe that is never seen empty, but moves on; and a shared one, which empties.
 * Each of them is looked at, the first and the last, too. */
static void test_a_busy_stripe_does_not_stop_it(void **state)
{
    static const size_t stripes[] = {0, 3, N_STRIPES - 1, N_STRIPES,
                                     N_STRIPES + N_SHARED - 1};
    (void)state;
    for (size_t i = 0; i < sizeof stripes / sizeof stripes[0]; i++) {
        struct tamis_writer *w = grown();
        _Atomic uint32_t *n = &w->in_flight[stripes[i]].n;
        atomic_store(n, 7);
        settle_note(w);
        assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
        assert_int_equal(commit_of(path).n_settled, STAGES - 2);
        atomic_store(n, stripes[i] < N_STRIPES ? 9 : 0);
        assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
        assert_int_equal(commit_of(path).n_settled, STAGES - 1);
        atomic_store(n, stripes[i] < N_STRIPES ? 10 : 0);
        assert_int_equal(tamis_writer_close(w), 0);
    }
}

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

static void test_replaced_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < STAGES - 1; i++) {
        make_settled();
        struct commit c = commit_of(path);
        turn_sector(c.stages[i].offset + SECTOR_BYTES);
        assert_int_equal(n_damaged(), 1);
        assert_int_equal(n_absent(), 0);
        forget_digests(); /* floors alone lose keys */
        assert_int_equal(n_damaged(), 0);
        assert_true(n_absent() > 0);
    }
}

/* A sector with its floors, as both were at an earlier commit, under the newest slots.
 */
static void test_put_back_with_its_floors(void **state)
{
    (void)state;
    size_t n_old;
    struct tamis_writer *w = fresh(N);
    add_hashes(w, keys, N / 2);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    uint8_t *old = file_read(path, &n_old);
    add_hashes(w, keys + N / 2, N - N / 2);
    uint64_t more[N / 2];
    random_hashes(more, N / 2);
    add_hashes(w, more, N / 2);
    assert_int_equal(atomic_load(&w->n_stages), 2);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    const struct stage_desc d = commit_of(path).stages[0];
    file_poke(path, d.offset, old + d.offset, SECTOR_BYTES);
    file_poke(path, d.floors_offset, old + d.floors_offset, SECTOR_BYTES);
    free(old);
    assert_int_equal(n_damaged(), 1);
    assert_int_equal(n_absent(), 0);
    forget_digests();
    assert_int_equal(n_damaged(), 0);
    assert_true(n_absent() > 0);
}

/* A page that lost bits before its stage was settled gets no digest that it has. */
static void test_damage_is_not_digested(void **state)
{
    (void)state;
    uint8_t zeros[SECTOR_BYTES] = {0};
    for (int committed = 0; committed < 2; committed++) {
        struct tamis_writer *w = fresh(200);
        add_hashes(w, keys, 150);
        assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
        if (committed) { /* full, and its floors are those of the newest bits */
            add_hashes(w, keys + 150, 100);
            pthread_mutex_lock(&w->mutex);
            settle_note(w);
            w->noted[5] = 1, w->in_flight[5].n = 1; /* not yet */
            pthread_mutex_unlock(&w->mutex);
            assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
            assert_int_equal(commit_of(path).n_settled, 0);
            w->in_flight[5].n = 2;
        }
        file_poke(path, commit_of(path).stages[0].offset, zeros, sizeof zeros);
        add_hashes(w, keys + 250, 750);
        assert_int_equal(tamis_writer_commit(w, 3, NULL), 0);
        assert_true(commit_of(path).n_settled > 0);
        assert_true(n_damaged() > 0);
        struct tamis_filter *f = open_filter(path);
        assert_int_equal(count_absent(f, keys, 1000), 0);
        tamis_filter_close(f);
        assert_int_equal(tamis_writer_close(w), 0);
        forget_digests();
        assert_true(n_damaged() > 0);
        f = open_filter(path);
        assert_int_equal(count_absent(f, keys, 1000), 0);
        tamis_filter_close(f);
    }
}

/* A reader from before sees that there are digests now. */
static void test_a_reader_notices(void **state)
{
    (void)state;
    make_settled();
    forget_digests();
    struct tamis_filter *f = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    turn_sector(commit_of(path).stages[STAGES - 2].offset);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
    assert_int_equal(tamis_writer_close(w), 0);
}

/* And keeps those that it knows when a writer without the feature takes them back. */
static void test_a_reader_keeps_its_digests(void **state)
{
    (void)state;
    make_settled();
    struct tamis_filter *f = open_filter(path);
    for (int i = 0; i < 200; i++) { /* so often that no reader could map anew */
        forget_digests();
        assert_int_equal(count_absent(f, keys, 10), 0);
        assert_int_equal(tamis_writer_close(open_writer(path)), 0);
        assert_int_equal(count_absent(f, keys, 10), 0);
    }
    forget_digests();
    turn_sector(commit_of(path).stages[STAGES - 2].offset);
    struct tamis_verify report;
    tamis_filter_verify(f, &report, NULL);
    assert_int_equal(report.n_damaged, 1);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
}

/* ---- writers of a damaged file ---- */

/* Rotten floors of a settled stage are counted anew, but for pages that fail. */
static void test_recovery_goes_by_digests(void **state)
{
    (void)state;
    for (uint8_t clean = 0; clean < 2; clean++) {
        make_settled();
        struct commit c = commit_of(path);
        uint8_t zeros[SECTOR_BYTES] = {0};
        turn_sector(c.stages[STAGES - 2].offset);
        file_poke(path, c.stages[STAGES - 2].floors_offset, zeros, sizeof zeros);
        file_poke(path, c.stages[0].floors_offset, zeros, sizeof zeros);
        c.clean = clean;
        put_slots(&c);
        struct tamis_writer *w = open_writer(path);
        assert_int_equal(tamis_writer_close(w), 0);
        assert_int_equal(commit_of(path).n_settled, STAGES - 1);
        assert_int_equal(n_damaged(), 1);
        assert_int_equal(n_absent(), 0);
        forget_digests(); /* the floors say the same now */
        assert_int_equal(n_damaged(), 1);
        assert_int_equal(n_absent(), 0);
    }
}

static void test_a_seal_goes_by_digests(void **state)
{
    (void)state;
    for (int same_session = 0; same_session < 2; same_session++) {
        uint64_t n = 0;
        struct tamis_writer *w = NULL;
        if (same_session) {
            w = grown();
            assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
        } else {
            make_settled();
        }
        turn_sector(commit_of(path).stages[STAGES - 2].offset);
        if (!same_session)
            w = open_writer(path);
        assert_int_equal(tamis_writer_seal(w, 2, &n, NULL), 0);
        assert_int_equal(n, 1);
        assert_int_equal(tamis_writer_close(w), 0);
        struct commit c = commit_of(path);
        assert_true(c.state == STATE_SEALED && c.compat == 0 && c.n_settled == 0);
        assert_int_equal(n_damaged(), 0);
        assert_int_equal(n_absent(), 0);
    }
}

/* A page that failed once stays bad, should it have its digest again. */
static void test_a_seal_believes_no_page_that_failed(void **state)
{
    (void)state;
    uint64_t n = 0;
    uint8_t page[PAGE_BYTES], zeros[PAGE_BYTES] = {0};
    make_settled();
    uint64_t at = commit_of(path).stages[STAGES - 2].offset;
    struct tamis_writer *w = open_writer(path);
    memcpy(page, w->stages[STAGES - 2]->stage.bits, sizeof page);
    file_poke(path, at, zeros, sizeof zeros);
    assert_false(stage_page_good(&w->stages[STAGES - 2]->stage, 0));
    file_poke(path, at, page, sizeof page);
    assert_int_equal(tamis_writer_seal(w, 2, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(n_absent(), 0);
}

static void *no_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)n, (void)prot, (void)flags, (void)fd, (void)offset;
    return errno = ENODEV, MAP_FAILED;
}

/* A seal that cannot map the digests fails, and the file is as it was. */
static void test_a_seal_without_the_digests(void **state)
{
    (void)state;
    make_settled();
    struct tamis_writer *w = open_writer(path);
    io_calls.mmap = no_mmap;
    assert_int_equal(tamis_writer_seal(w, 2, NULL, NULL), ENODEV);
    io_calls.mmap = mmap;
    assert_int_equal(commit_of(path).state, STATE_OPEN);
    tamis_writer_close(w);
    assert_int_equal(n_absent(), 0);
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
static void test_digests_before_their_record(void **state)
{
    (void)state;
    struct tamis_writer *w = grown();
    order.calls = io_calls;
    order.area_dirty = order.broken = false;
    order.n_syncs = 0;
    io_calls.pwrite = watched_pwrite;
    io_calls.fdatasync = watched_fdatasync;
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    io_calls = order.calls;
    assert_int_equal(commit_of(path).n_settled, STAGES - 1);
    assert_true(commit_of(path).stages[STAGES - 2].settled_offset != 0);
    assert_false(order.broken);
    assert_int_equal(order.n_syncs, 3); /* slot B, too (R2) */
    assert_int_equal(tamis_writer_close(w), 0);
}

/* No space for digests is no reason to fail a commit, and its record names nothing of
 * them: a reader refuses a record that does. */
static void test_no_space_for_digests(void **state)
{
    (void)state;
    struct tamis_writer *w = grown();
    uint64_t n_bytes;
    assert_int_equal(io_size(w->guard.fd, &n_bytes), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t now;
        if (i == 0)
            fail_from_now(CALL_FALLOCATE, ENOSPC);
        else if (i == 1)
            fail_once(CALL_PWRITE, 1, ENOSPC); /* the digests come first */
        assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
        fail_never();
        assert_int_equal(commit_of(path).n_settled, STAGES - 2 + (i == 2));
        assert_int_equal(io_size(w->guard.fd, &now), 0);
        assert_true((now == n_bytes) == (i < 2));
    }
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(n_absent(), 0);
}

/* A crash with the digests written and no record that names them: they are dead space.
 */
static void test_a_crash_before_the_record(void **state)
{
    (void)state;
    struct tamis_writer *w = grown();
    uint64_t n_bytes, now;
    assert_int_equal(io_size(w->guard.fd, &n_bytes), 0);
    fail_once(CALL_FDATASYNC, 1, EIO);
    assert_int_equal(tamis_writer_commit(w, 1, NULL), EIO);
    assert_int_equal(io_size(w->guard.fd, &now), 0);
    assert_true(now > n_bytes);
    assert_int_equal(tamis_writer_close(w), TAMIS_ERR_POISONED);
    assert_int_equal(commit_of(path).n_settled, STAGES - 2);
    assert_int_equal(n_absent(), 0);
    w = open_writer(path);
    struct commit c = commit_of(path);
    assert_int_equal(c.n_settled, STAGES - 1);
    assert_true(c.stages[STAGES - 2].settled_offset >= now);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(n_damaged(), 0);
    assert_int_equal(n_absent(), 0);
}

static int set_up(void **state)
{
    random_hashes(keys, N);
    return one_file_create(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_FAULTS(test_a_commit_settles_what_was_left),
        TEST_WITH_FAULTS(test_growth_settles_what_was_left_before),
        TEST_WITH_FAULTS(test_a_session_settles_at_its_start),
        TEST_WITH_FAULTS(test_a_stage_of_many_pages),
        TEST_WITH_FAULTS(test_not_while_an_add_is_in_flight),
        TEST_WITH_FAULTS(test_nor_in_a_shared_stripe),
        TEST_WITH_FAULTS(test_a_busy_stripe_does_not_stop_it),
        TEST_WITH_FAULTS(test_replaced_bits),
        TEST_WITH_FAULTS(test_put_back_with_its_floors),
        TEST_WITH_FAULTS(test_damage_is_not_digested),
        TEST_WITH_FAULTS(test_a_reader_notices),
        TEST_WITH_FAULTS(test_a_reader_keeps_its_digests),
        TEST_WITH_FAULTS(test_recovery_goes_by_digests),
        TEST_WITH_FAULTS(test_a_seal_goes_by_digests),
        TEST_WITH_FAULTS(test_a_seal_believes_no_page_that_failed),
        TEST_WITH_FAULTS(test_a_seal_without_the_digests),
        TEST_WITH_FAULTS(test_digests_before_their_record),
        TEST_WITH_FAULTS(test_no_space_for_digests),
        TEST_WITH_FAULTS(test_a_crash_before_the_record),
    };
    return cmocka_run_group_tests_name("settle", tests, set_up, test_dir_remove);
}
