/* Interleavings that chance would take years to find, forced: a thread is held at a
 * named place of the library (lib/sync_point.h) while others go on. The rules
 * are SPEC.md's R6, R8, R10 and R11. */
#define TAMIS_SYNC_POINTS
#include "tests/support/support.h"
#include "lib/filter/view.h"
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <pthread.h>
#include <semaphore.h>

enum { N = 5000, FIRST = 400, SECONDS = 60 };

static uint64_t keys[N];
static const char *path;
static struct tamis_writer *writer;
static struct tamis_filter *reader;

/* ---- a thread that is held ---- */

static _Thread_local struct held *me;

struct held {
    const char *at; /* where it stops, the `nth` time that it comes there */
    int nth;
    void (*what)(void *);
    void *ctx;
    pthread_t thread;
    sem_t there, go;
};

void sync_point(const char *name)
{
    if (!me || !me->at || strcmp(me->at, name) != 0 || --me->nth > 0)
        return;
    me->at = NULL;
    sem_post(&me->there);
    while (sem_wait(&me->go) != 0)
        ;
}

static void *run_held(void *ctx)
{
    me = ctx;
    me->what(me->ctx);
    if (me->at) /* it never came there: a test that shows nothing */
        abort();
    return NULL;
}

static void start(struct held *h, const char *at, int nth, void (*what)(void *),
                  void *ctx)
{
    *h = (struct held){.at = at, .nth = nth, .what = what, .ctx = ctx};
    sem_init(&h->there, 0, 0);
    sem_init(&h->go, 0, 0);
    assert_int_equal(pthread_create(&h->thread, NULL, run_held, h), 0);
    while (sem_wait(&h->there) != 0)
        ;
}

static void let_go(struct held *h)
{
    sem_post(&h->go);
}

static void end(struct held *h)
{
    let_go(h);
    assert_int_equal(pthread_join(h->thread, NULL), 0);
}

/* ---- what threads do ---- */

static void add(void *key)
{
    add_hashes(writer, key, 1);
}

static void commit(uint64_t watermark)
{
    assert_int_equal(tamis_writer_commit(writer, watermark, NULL), 0);
}

static bool is_absent(struct tamis_filter *f, uint64_t key)
{
    return ask(f, key, NULL) == TAMIS_ABSENT;
}

/* The block of a key in stage i of the file, as it is before the key is added. */
static uint8_t without_it[BLOCK_BYTES];

static uint64_t block_of(uint32_t i, uint64_t key)
{
    const struct commit c = commit_of(path);
    return c.stages[i].offset + geometry_block_offset(&c.stages[i].geometry, 0, key);
}

static void block_read(uint64_t at, uint8_t block[BLOCK_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, block, BLOCK_BYTES, (off_t)at), BLOCK_BYTES);
    close(fd);
}

/* A key that is not in the filter, nor has all its bits there. */
static void remember_block(uint32_t i, uint64_t key)
{
    assert_true(is_absent(reader, key));
    block_read(block_of(i, key), without_it);
}

/* Takes back the bits that came with the key, and no others, as a disk may lose them.
 * Is a reader misled that opens the file then? */
static bool loss_is_missed(uint32_t i, uint64_t key)
{
    uint8_t now[BLOCK_BYTES];
    uint64_t at = block_of(i, key);
    block_read(at, now);
    assert_memory_not_equal(now, without_it, BLOCK_BYTES);
    file_poke(path, at, without_it, BLOCK_BYTES);
    struct tamis_filter *f = open_filter(path);
    bool missed = is_absent(f, key);
    tamis_filter_close(f);
    file_poke(path, at, now, BLOCK_BYTES);
    return missed;
}

/* ---- floors (R8): already there, and not yet noted ---- */

/* The thread that set the bits has not marked their page, and the one that found them
 * there is acknowledged. */
static void found_before_noted(size_t n_at_once)
{
    struct held t;
    uint64_t batch[2] = {keys[N - 1], keys[N - 1]};
    commit(1); /* no mark is left */
    remember_block(0, keys[N - 1]);
    start(&t, "add: bits set", 1, add, &keys[N - 1]);
    add_hashes(writer, batch, n_at_once);
    commit(2);
    assert_false(loss_is_missed(0, keys[N - 1]));
    end(&t);
    commit(3);
    assert_false(loss_is_missed(0, keys[N - 1]));
}

static void test_found_before_noted(void **state)
{
    (void)state;
    found_before_noted(1);
}

static void test_found_before_noted_in_a_batch(void **state)
{
    (void)state;
    found_before_noted(2);
}

/* The next stage begins, whether or not this one is full. */
static void grow(void)
{
    uint32_t n = atomic_load(&writer->n_stages);
    writer->stages[n - 1]->n_full_bits = 0;
    assert_int_equal(writer_grow(writer), 0);
    assert_int_equal(atomic_load(&writer->n_stages), n + 1);
}

/* The same where growth has left the stage behind meanwhile, so that the other add
 * finds the key in an older stage. */
static void test_found_in_an_older_stage(void **state)
{
    struct held t;
    (void)state;
    commit(1);
    remember_block(0, keys[N - 1]);
    start(&t, "add: bits set", 1, add, &keys[N - 1]);
    grow();
    add(&keys[N - 1]);
    commit(2);
    assert_false(loss_is_missed(0, keys[N - 1]));
    end(&t);
    commit(3);
    assert_false(loss_is_missed(0, keys[N - 1]));
}

/* A commit takes the marks of a page just before the bits are set: its own does not
 * cover them, and the next one does. */
static void test_a_commit_just_before_the_bits(void **state)
{
    struct held t;
    (void)state;
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
    (void)ctx;
    commit(2);
}

/* An add while a commit takes the marks and counts: it leaves a mark of its own, which
 * the commit does not clear. */
static void test_an_add_while_a_commit_counts(void **state)
{
    const char *places[] = {"commit: marks taken", "commit: pages counted"};
    struct held t;
    (void)state;
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

static void test_found_again_and_again(void **state)
{
    (void)state;
    commit(1);
    real_pwrite = io_calls.pwrite;
    io_calls.pwrite = counting_pwrite;
    n_floors_written = 0;
    add_hashes(writer, keys, FIRST);
    commit(2);
    assert_int_equal(n_floors_written, 0);
    add(&keys[N - 1]);
    commit(3);
    assert_true(n_floors_written > 0);
}

/* ---- a page that is condemned and filled (R8), and a reader ---- */

static volatile bool was_absent;

static void probe_key(void *key)
{
    was_absent = is_absent(reader, *(uint64_t *)key);
}

/* A page lost the bits of a key. Its writer finds that and fills the page; half-way the
 * page has as many bits as its floors say, and the key's are not among them. */
static void test_a_reader_while_a_page_is_filled(void **state)
{
    struct held reads, fills;
    (void)state;
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
    struct tamis_filter *f = open_filter(path);
    assert_false(is_absent(f, lost));
    tamis_filter_close(f);
}

/* ---- growth, and adds and probes in flight (R6, R10) ---- */

/* A reader has looked at slot A; then the filter grows, and the key comes into the new
 * stage. That probe may miss the key, which came later; no probe after it may. */
static void test_growth_after_the_look(void **state)
{
    struct held t;
    (void)state;
    start(&t, "probe: view chosen", 1, probe_key, &keys[0]);
    struct view *before = atomic_load(&reader->view);
    grow();
    add(&keys[N - 1]);
    commit(1);
    assert_false(is_absent(reader, keys[N - 1]));
    assert_ptr_not_equal(atomic_load(&reader->view), before);
    end(&t);
    assert_false(was_absent); /* by a view that others have left: it is still mapped */
    assert_false(is_absent(reader, keys[N - 1]));
}

static void grow_by_adding(void *ctx)
{
    (void)ctx;
    grow();
}

/* The record names the new stage before any key goes there: keys that come meanwhile
 * go to the old one, and readers see both. */
static void test_adds_before_a_stage_is_used(void **state)
{
    struct held t;
    (void)state;
    remember_block(0, keys[N - 1]);
    start(&t, "grow: record written", 1, grow_by_adding, NULL);
    assert_int_equal(commit_of(path).n_stages, 2);
    writer->stages[0]->n_full_bits =
        UINT64_MAX; /* else it would wait to grow it, too */
    add(&keys[N - 1]);
    assert_false(is_absent(reader, keys[N - 1]));
    end(&t);
    commit(1);
    assert_int_equal(count_absent(reader, keys, FIRST), 0);
    assert_false(is_absent(reader, keys[N - 1]));
    assert_false(loss_is_missed(0, keys[N - 1]));
}

/* An add that chose its stage before growth sets its bits afterwards. */
static void test_growth_under_an_add(void **state)
{
    struct held t;
    (void)state;
    remember_block(0, keys[N - 1]);
    start(&t, "add: stage chosen", 1, add, &keys[N - 1]);
    grow();
    add(&keys[N - 2]);
    commit(1);
    grow(); /* which would settle the first stage, were the add not in flight */
    commit(2);
    assert_int_equal(commit_of(path).n_settled, 0);
    end(&t);
    commit(3);
    commit(4);
    assert_int_equal(commit_of(path).n_settled, 2);
    struct tamis_filter *f = open_filter(path);
    assert_false(is_absent(f, keys[N - 1]));
    assert_false(is_absent(f, keys[N - 2]));
    tamis_filter_close(f);
    assert_false(loss_is_missed(0, keys[N - 1]));
}

static void fill_stage(void *ctx)
{
    (void)ctx;
    add_hashes(writer, keys + FIRST, 200);
}

/* Two threads find the stage full: it is followed by one. */
static void test_two_growths(void **state)
{
    struct held t;
    (void)state;
    start(&t, "add: stage full", 1, fill_stage, NULL);
    assert_int_equal(writer_grow(writer), 0);
    assert_int_equal(atomic_load(&writer->n_stages), 2);
    end(&t);
    assert_int_equal(atomic_load(&writer->n_stages), 2);
    commit(1);
    assert_int_equal(count_absent(reader, keys, FIRST + 200), 0);
}

/* ---- seal (R11) ---- */

static _Atomic bool is_sealed;

static void seal(void *ctx)
{
    (void)ctx;
    assert_int_equal(tamis_writer_seal(writer, 5, NULL, NULL), 0);
    atomic_store(&is_sealed, true);
}

/* The seal waits for an add that is in flight, and digests what it sets. */
static void test_a_seal_under_an_add(void **state)
{
    struct held adds, seals;
    (void)state;
    atomic_store(&is_sealed, false);
    start(&adds, "add: page looked at", 1, add, &keys[N - 1]);
    start(&seals, "seal: adds are told", 1, seal, NULL);
    assert_int_equal(tamis_writer_add_hashes(writer, tamis_writer_domain(writer).tag,
                                             &keys[N - 2], 1),
                     TAMIS_ERR_SEALED);
    let_go(&seals);
    usleep(20000);
    assert_false(atomic_load(&is_sealed));
    end(&adds);
    assert_int_equal(pthread_join(seals.thread, NULL), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, FIRST), 0);
    assert_false(is_absent(f, keys[N - 1]));
    struct tamis_verify report;
    assert_int_equal(tamis_filter_verify(f, &report, NULL), 0);
    tamis_filter_close(f);
}

/* Slot A says sealed, slot B does not yet: a power cut may undo that, and a reader
 * watches on. */
static void test_a_reader_amid_a_seal(void **state)
{
    struct held t;
    (void)state;
    start(&t, "commit: slot A written", 1, seal, NULL);
    assert_int_equal(count_absent(reader, keys, FIRST), 0);
    assert_non_null(atomic_load(&reader->view)->live_sequence);
    end(&t);
    assert_int_equal(count_absent(reader, keys, FIRST), 0);
}

/* ---- threads that bring one view up to the file (R6) ---- */

/* The header of a commit comes in parts after that of a later one. */
static void test_two_refreshes(void **state)
{
    struct tamis_key key = tamis_key_of_hash(reader->tag, keys[0]);
    struct held t;
    enum tamis_reason why;
    (void)state;
    commit(5);
    start(&t, "refresh: header judged", 1, probe_key, &keys[0]);
    t.at = "refresh: watermark raised";
    commit(9);
    filter_probe_from(reader, 9, 0, &key, &why);
    assert_int_equal(why, TAMIS_HIT);
    let_go(&t);
    while (sem_wait(&t.there) != 0)
        ;
    filter_probe_from(reader, 9, 0, &key, &why);
    assert_int_equal(why, TAMIS_HIT);
    filter_probe_from(reader, 10, 0, &key, &why);
    assert_int_equal(why, TAMIS_BEHIND);
    end(&t);
    filter_probe_from(reader, 9, 0, &key, &why);
    assert_int_equal(why, TAMIS_HIT);
}

/* A view of two stages, made before the filter grew to three, is not published. */
static void test_an_overtaken_refresh(void **state)
{
    struct held t;
    (void)state;
    grow();
    start(&t, "refresh: view made", 1, probe_key, &keys[0]);
    grow();
    add(&keys[N - 1]);
    assert_false(is_absent(reader, keys[N - 1]));
    struct view *v = atomic_load(&reader->view);
    end(&t);
    assert_ptr_equal(atomic_load(&reader->view), v);
    assert_false(was_absent);
    assert_false(is_absent(reader, keys[N - 1]));
}

/* ---- one writer and one reader a test ---- */

static int set_up(void **state)
{
    random_hashes(keys, N);
    return test_dir_create(state);
}

static int open_both(void **state)
{
    static char name[1024];
    if (faults_on(state)) /* no test waits for a disk */
        return -1;
    snprintf(name, sizeof name, "%s", path_of("filter"));
    path = name;
    unlink(path);
    alarm(SECONDS);
    writer = create_writer(path, 0.01, 2, 500);
    add_hashes(writer, keys, FIRST);
    commit(0);
    reader = open_filter(path);
    return count_absent(reader, keys, FIRST) == 0 ? 0 : -1;
}

static int close_both(void **state)
{
    alarm(0);
    tamis_filter_close(reader);
    tamis_writer_close(writer);
    return faults_off(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_found_before_noted),
        TEST(test_found_before_noted_in_a_batch),
        TEST(test_found_in_an_older_stage),
        TEST(test_a_commit_just_before_the_bits),
        TEST(test_an_add_while_a_commit_counts),
        TEST(test_found_again_and_again),
        TEST(test_a_reader_while_a_page_is_filled),
        TEST(test_growth_after_the_look),
        TEST(test_adds_before_a_stage_is_used),
        TEST(test_growth_under_an_add),
        TEST(test_two_growths),
        TEST(test_a_seal_under_an_add),
        TEST(test_a_reader_amid_a_seal),
        TEST(test_two_refreshes),
        TEST(test_an_overtaken_refresh),
    };
    return cmocka_run_group_tests_name("interleavings", tests, set_up, test_dir_remove);
}
