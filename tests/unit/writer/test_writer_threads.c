/* One writer, many threads: adds, growth, commits, probes, facts, readers that come
 * and go, and a seal among them (R10). A key whose add returned is in, and is never
 * ABSENT. Runs under TSan too, which checks what luck may hide here. */
#include "tests/support/filters.h"

enum {
    N_ADDERS = 4,
    MAX_BATCH = 100,
};
static uint64_t *keys;
static size_t n_each, n_keys; /* of an adder, of all */

/* cmocka's assertions work in the main thread only: the others leave the line. */
static atomic_int failed_line;
#define CHECK(condition)                                                               \
    do {                                                                               \
        int none = 0;                                                                  \
        if (!(condition))                                                              \
            atomic_compare_exchange_strong(&failed_line, &none, __LINE__);             \
    } while (0)

static struct stage_set {
    struct tamis_writer *w;
    struct tamis_filter *f; /* shared by the threads */
    char path[1024];
    _Atomic size_t done[N_ADDERS]; /* adds that returned, published after them */
    atomic_bool stop;
    _Atomic uint64_t watermark;
} all;

static int set_up(void **state)
{
    n_each = by_form(40000, 400000);
    n_keys = N_ADDERS * n_each;
    keys = malloc(n_keys * sizeof *keys);
    random_hashes(keys, n_keys);
    return keys ? test_dir_create(state) : -1;
}

static int tear_down(void **state)
{
    free(keys);
    return test_dir_remove(state);
}

static pthread_t adders[N_ADDERS];

static void begin(const char *name, uint64_t first_capacity)
{
    snprintf(all.path, sizeof all.path, "%s", path_of(name));
    unlink(all.path);
    all.w = create_writer(all.path, 0.01, 2, first_capacity);
    all.f = open_filter(all.path);
    atomic_store(&all.stop, false);
    atomic_store(&all.watermark, 0);
    atomic_store(&failed_line, 0);
    for (size_t i = 0; i < N_ADDERS; i++)
        atomic_store(&all.done[i], 0);
}

static size_t done_of(size_t adder)
{
    return atomic_load_explicit(&all.done[adder], memory_order_acquire);
}

static size_t total_done(void)
{
    size_t n = 0;
    for (size_t i = 0; i < N_ADDERS; i++)
        n += done_of(i);
    return n;
}

/* Each thread its own generator. */
static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

/* ---- what the threads do ---- */

static void *adder(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg, done = 0;
    uint64_t s = me + 1, tag = all.w->domain.tag;
    const uint64_t *mine = keys + me * n_each;
    while (done < n_each) {
        size_t n = next(&s) % 2 ? 1 : 1 + next(&s) % MAX_BATCH;
        n = n < n_each - done ? n : n_each - done;
        int err = tamis_writer_add_hashes(all.w, tag, mine + done, n);
        if (err) { /* part of the batch may be in; none of it is promised */
            CHECK(err == TAMIS_ERR_SEALED);
            return NULL;
        }
        done += n;
        atomic_store_explicit(&all.done[me], done, memory_order_release);
    }
    return NULL;
}

static void *committer(void *arg)
{
    while (!atomic_load(&all.stop)) {
        uint64_t next_mark = atomic_load(&all.watermark) + 1;
        int err = tamis_writer_commit(all.w, next_mark, NULL);
        CHECK(err == 0 || err == TAMIS_ERR_SEALED);
        if (err)
            return NULL;
        atomic_store(&all.watermark, next_mark);
        CHECK(all.w->watermark >= next_mark);
    }
    return NULL;
}

/* Keys whose add has returned, by one and in batches. */
static void probe_some(struct tamis_filter *f, uint64_t *s)
{
    size_t from = next(s) % N_ADDERS, n = done_of(from);
    if (n == 0)
        return;
    const uint64_t *theirs = keys + from * n_each;
    size_t at = next(s) % 4 ? n - 1 - next(s) % (n < 200 ? n : 200) : next(s) % n;
    enum tamis_reason why;
    CHECK(ask(f, theirs[at], &why) == TAMIS_MAYBE);
    CHECK(why == TAMIS_HIT);
    size_t batch = n - at < 64 ? n - at : 64;
    CHECK(count_absent(f, theirs + at, batch) == 0);
}

static void *prober(void *arg)
{
    uint64_t s = (uintptr_t)arg + 100;
    while (!atomic_load(&all.stop))
        probe_some(all.f, &s);
    return NULL;
}

/* Readers that come at any time, and go. */
static void *visitor(void *arg)
{
    uint64_t s = (uintptr_t)arg + 200;
    while (!atomic_load(&all.stop)) {
        struct tamis_filter_options opt = {.size = sizeof opt,
                                           .check = (enum tamis_check)(next(&s) % 4)};
        FILTER f = NULL;
        CHECK(tamis_filter_open(all.path, &opt, &f, NULL) == 0);
        for (int i = 0; f && i < 20; i++)
            probe_some(f, &s);
    }
    return NULL;
}

/* Facts of the shared filter and of the writer, which only ever rise. */
static void *observer(void *arg)
{
    uint64_t sequence = 0, watermark = 0;
    uint32_t n_stages = 0;
    while (!atomic_load(&all.stop)) {
        struct tamis_filter_info info;
        struct tamis_verify report;
        CHECK(tamis_filter_info(all.f, &info, NULL) == 0);
        CHECK(info.sequence >= sequence && info.watermark >= watermark);
        CHECK(info.n_stages >= n_stages);
        sequence = info.sequence, watermark = info.watermark;
        n_stages = info.n_stages;
        tamis_filter_verify(all.f, &report, NULL);
        CHECK(report.n_damaged == 0);
        CHECK(tamis_writer_info(all.w, &info, NULL) == 0);
        CHECK(info.n_stages >= n_stages);
    }
    return NULL;
}

static void expect_all_done(struct tamis_filter *f)
{
    for (size_t i = 0; i < N_ADDERS; i++)
        IS(count_absent(f, keys + i * n_each, done_of(i)), 0);
}

static void start_adders(void)
{
    for (uintptr_t i = 0; i < N_ADDERS; i++)
        OK(pthread_create(&adders[i], NULL, adder, (void *)i));
}

static void join_adders(void)
{
    for (size_t i = 0; i < N_ADDERS; i++)
        pthread_join(adders[i], NULL);
}

/* All threads have ended; what they added is there. */
static void end(void)
{
    if (atomic_load(&failed_line))
        fail_msg("a thread's check failed in line %d", atomic_load(&failed_line));
    expect_all_done(all.f);
    tamis_filter_close(all.f);
    OK(tamis_writer_close(all.w, NULL));
}

/* ---- the tests ---- */

TEST(test_everything_at_once)
{
    void *(*const others[])(void *) = {committer, prober, prober, visitor, observer};
    pthread_t rest[N_OF(others)];
    uint64_t n_damaged;
    begin("busy", 1000);
    start_adders();
    for (uintptr_t i = 0; i < N_OF(others); i++)
        OK(pthread_create(&rest[i], NULL, others[i], (void *)i));
    while (total_done() < n_keys / 2 && !atomic_load(&failed_line))
        sched_yield();
    OK(tamis_writer_seal(all.w, UINT64_MAX, &n_damaged, NULL));
    IS(n_damaged, 0);
    join_adders();
    /* Some time for those who probe what is sealed now. */
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    atomic_store(&all.stop, true);
    for (size_t i = 0; i < N_OF(others); i++)
        pthread_join(rest[i], NULL);
    assert_true(total_done() >= n_keys / 2);
    end();
    FILTER fresh = open_filter(all.path);
    expect_all_done(fresh);
    verified(fresh);
    printf("%zu of %zu keys were in before the seal, after %llu commits\n",
           total_done(), n_keys, (unsigned long long)atomic_load(&all.watermark));
}

/* Growth from a stage of one key, by all threads at once. */
TEST(test_growth_by_all)
{
    pthread_t prober_thread;
    begin("growth", 1);
    start_adders();
    OK(pthread_create(&prober_thread, NULL, prober, NULL));
    join_adders();
    atomic_store(&all.stop, true);
    pthread_join(prober_thread, NULL);
    IS(total_done(), n_keys);
    struct tamis_filter_info info = writer_info(all.w);
    /* Nothing counted twice or not at all, but for keys that looked present. */
    assert_true(info.keys <= n_keys && info.keys >= n_keys / 100 * 99);
    IS(info.over_target, 0);
    end();
}

/* Many seals, each among adds that are under way: one that returned 0 is in what was
 * digested, however its thread was held up. */
TEST_WITH_FAULTS(test_seals_wait_for_adds_in_flight)
{
    const unsigned n_rounds = by_form(60, 400);
    for (unsigned round = 0; round < n_rounds; round++) {
        begin("seals", 100000);
        start_adders();
        while (total_done() < 500)
            sched_yield();
        OK(tamis_writer_seal(all.w, 1, NULL, NULL));
        join_adders();
        verified(all.f);
        end();
    }
}

/* Sectors lost before the writer came: all threads find them at once, and readers that
 * come just then must not take a page half repaired for a whole one. */
enum { N_OLD = 3000 };
static uint64_t old_keys[N_OLD];

static void *old_prober(void *arg)
{
    uint64_t s = (uintptr_t)arg + 300;
    while (!atomic_load(&all.stop)) {
        FILTER f = NULL;
        CHECK(tamis_filter_open(all.path, NULL, &f, NULL) == 0);
        for (int i = 0; f && i < 100; i++)
            CHECK(ask(f, old_keys[next(&s) % N_OLD], NULL) == TAMIS_MAYBE);
    }
    return NULL;
}

static void lose_a_sector_of_each_page(void)
{
    static const uint8_t zeros[SECTOR_BYTES];
    struct commit c = commit_of(all.path);
    for (uint64_t at = 0; at < c.stages[0].length; at += PAGE_BYTES)
        file_poke(all.path,
                  c.stages[0].offset + at +
                      random_below(SECTORS_PER_PAGE) * SECTOR_BYTES,
                  zeros, sizeof zeros);
}

TEST_WITH_FAULTS(test_adds_to_damaged_pages)
{
    const unsigned n_rounds = by_form(5, 50);
    random_hashes(old_keys, N_OLD);
    for (unsigned round = 0; round < n_rounds; round++) {
        pthread_t probers[2];
        begin("lossy", 50000);
        add_hashes(all.w, old_keys, N_OLD);
        OK(tamis_writer_close(all.w, NULL));
        lose_a_sector_of_each_page();
        all.w = open_writer(all.path);
        for (uintptr_t i = 0; i < 2; i++)
            OK(pthread_create(&probers[i], NULL, old_prober, (void *)i));
        start_adders();
        while (total_done() < 20000)
            sched_yield();
        OK(tamis_writer_seal(all.w, 1, NULL, NULL));
        join_adders();
        atomic_store(&all.stop, true);
        for (size_t i = 0; i < 2; i++)
            pthread_join(probers[i], NULL);
        IS(count_absent(all.f, old_keys, N_OLD), 0);
        end();
    }
}

RUN_TESTS(set_up, tear_down)
