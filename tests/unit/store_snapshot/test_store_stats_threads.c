/* Counting in many threads, in threads that end, and in the children of a fork. */
#include "tests/unit/store_snapshot/stats_support.h"

/* ---- threads ---- */

/* More than there are sheets, all at once, and then others in their place. */
enum { THREADS = N_OWN_SHEETS + 20, ROUNDS = 200, WAVES = 2 };

struct crowd {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    pthread_barrier_t all_there;
    atomic_bool over;
};

static void crowd_ends(struct crowd *c)
{
    OK(pthread_barrier_destroy(&c->all_there));
    tamis_snapshot_release(c->snapshot);
    tamis_store_close(c->store);
}
#define CROWD CLOSED_BY(crowd_ends, struct crowd)

/* Counting is on; n threads wait for each other. */
static void crowd_begins(struct crowd *c, unsigned n)
{
    c->store = small_store();
    OK(tamis_store_count(c->store, 1, NULL));
    c->snapshot = snapshot_of(c->store);
    OK(pthread_barrier_init(&c->all_there, NULL, n));
}

static size_t n_sheets(const struct crowd *c)
{
    size_t n = 0;
    for (size_t i = 0; i < N_OWN_SHEETS + 2; i++)
        n += atomic_load(&c->snapshot->counts.sheets[i]) != NULL;
    return n;
}

static void *one_probe(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_target t = tamis_snapshot_target(c->snapshot, 0);
    tamis_snapshot_probe(c->snapshot, &t, &(struct tamis_key){0}, NULL);
    return NULL;
}

static void *probing(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_target t = tamis_snapshot_target(c->snapshot, 1);
    struct tamis_key keys[3];
    struct tamis_domain d = tamis_snapshot_info(c->snapshot).domain;
    const char *text[] = {"key00000105", "key00000005", "nothing"};
    for (size_t i = 0; i < 3; i++)
        keys[i] = (struct tamis_key){
            .tag = d.tag, .hash = tamis_key_of(&d, text[i], strlen(text[i])).hash};
    pthread_barrier_wait(&c->all_there);
    for (size_t i = 0; i < ROUNDS; i++) {
        tamis_snapshot_probe(c->snapshot, &t, &keys[i % 3], NULL);
        ASK(c->snapshot, ALL, KEYS(&keys[i % 3], 1));
        ASK(c->snapshot, ALL, KEYS(keys, 3));
        OK(tamis_snapshot_report_false_positive(c->snapshot, &t));
    }
    pthread_barrier_wait(&c->all_there); /* none has ended before all were there */
    return NULL;
}

/* No sum ever falls. */
static void *watching(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_stats before = {0}, now;
    do {
        now = stats_of(c->store);
        assert_true(now.n_probes >= before.n_probes);
        assert_true(now.n_absent >= before.n_absent);
        assert_true(now.n_maybe[TAMIS_HIT] >= before.n_maybe[TAMIS_HIT]);
        assert_true(now.n_false_positives >= before.n_false_positives);
        struct tamis_segment_stats one;
        OK(tamis_snapshot_segment_stats(c->snapshot, 1, &one));
        assert_true(one.counts.n_absent <= 7 * UINT64_C(1) * THREADS * ROUNDS * WAVES);
        before = now;
    } while (!atomic_load(&c->over));
    return NULL;
}

TEST_IN_DIR_WITH_FAULTS(threads_lose_no_count)
{
    CROWD c = {.over = false};
    pthread_t threads[THREADS], watcher;
    crowd_begins(&c, THREADS);
    one_probe(&c); /* this thread has a sheet, too */
    OK(pthread_create(&watcher, NULL, watching, &c));
    for (size_t wave = 0; wave < WAVES; wave++) {
        for (size_t i = 0; i < THREADS; i++)
            OK(pthread_create(&threads[i], NULL, probing, &c));
        for (size_t i = 0; i < THREADS; i++)
            OK(pthread_join(threads[i], NULL));
    }
    atomic_store(&c.over, true);
    OK(pthread_join(watcher, NULL));
    struct tamis_stats stats = stats_of(c.store);
    uint64_t rounds = (uint64_t)THREADS * ROUNDS * WAVES;
    IS(stats.n_probes, 1 + rounds * (1 + 3 + 9));
    IS(stats.n_false_positives, rounds);
    struct tamis_segment_stats one;
    OK(tamis_snapshot_segment_stats(c.snapshot, 1, &one));
    IS(one.counts.n_probes, rounds * (1 + 1 + 3));
    IS(one.counts.n_false_positives, rounds);
    /* Every one of them ended, and gave back what it had. */
    IS(n_sheets(&c), N_OWN_SHEETS + 1);
}

/* As if there were no sheet for any of them; long enough that they meet. */
enum { SHARERS = 4, MEETINGS = 1000000 };

static void *probing_in_the_shared_sheet(void *ctx)
{
    struct crowd *c = ctx;
    counters_own_sheet = SHARED_SHEET;
    pthread_barrier_wait(&c->all_there);
    for (size_t i = 0; i < MEETINGS; i++)
        one_probe(c);
    return NULL;
}

TEST_IN_DIR_WITH_FAULTS(the_shared_sheet_loses_none)
{
    CROWD c = {.over = false};
    pthread_t threads[SHARERS];
    crowd_begins(&c, SHARERS);
    for (size_t i = 0; i < SHARERS; i++)
        OK(pthread_create(&threads[i], NULL, probing_in_the_shared_sheet, &c));
    for (size_t i = 0; i < SHARERS; i++)
        OK(pthread_join(threads[i], NULL));
    IS(stats_of(c.store).n_probes, SHARERS * MEETINGS);
}

/* Each thread finds a sheet that an earlier one has left. */
TEST_IN_DIR_WITH_FAULTS(sheets_are_given_back)
{
    CROWD c = {.over = false};
    crowd_begins(&c, 1);
    for (size_t i = 0; i < 2 * N_OWN_SHEETS; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, NULL, one_probe, &c));
        OK(pthread_join(thread, NULL));
    }
    IS(n_sheets(&c), 2); /* theirs, and the shared one */
    IS(stats_of(c.store).n_maybe[TAMIS_MISMATCH], 2 * N_OWN_SHEETS);
}

/* A destructor of the host's that runs after ours: the sheet is another's by then. */
static pthread_key_t late_key;

static void count_late(void *ctx)
{
    IS(counters_own_sheet, NO_SHEET);
    one_probe(ctx);
    assert_in_range(counters_own_sheet, 1, N_OWN_SHEETS);
}

static void *probe_then_late(void *ctx)
{
    OK(pthread_setspecific(late_key, ctx));
    return one_probe(ctx);
}

TEST_IN_DIR_WITH_FAULTS(a_thread_may_count_while_it_ends)
{
    CROWD c = {.over = false};
    crowd_begins(&c, 1);
    one_probe(&c); /* now the library's key is there, which comes first */
    OK(pthread_key_create(&late_key, count_late));
    for (size_t i = 0; i < 2 * N_OWN_SHEETS; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, NULL, probe_then_late, &c));
        OK(pthread_join(thread, NULL));
    }
    OK(pthread_key_delete(late_key));
    IS(stats_of(c.store).n_probes, 1 + 4 * N_OWN_SHEETS);
    assert_null(atomic_load(&c.snapshot->counts.sheets[4])); /* all gave theirs back */
}

/* ---- fork ---- */

static int in_the_child(void *ctx)
{
    struct crowd *c = ctx;
    struct tamis_stats stats;
    struct tamis_segment_stats one;
    alarm(60); /* should it wait for a lock of the parent's */
    one_probe(c);
    if (tamis_snapshot_stats(c->snapshot, 1, &stats) != TAMIS_ERR_FORKED ||
        tamis_store_count(c->store, 0, NULL) != TAMIS_ERR_FORKED)
        return 1;
    if (tamis_snapshot_stats(c->snapshot, 0, &stats) != 0 || stats.n_probes != 2)
        return 2;
    if (tamis_snapshot_segment_stats(c->snapshot, 0, &one) != 0 ||
        one.counts.n_probes != 2)
        return 3;
    tamis_snapshot_release(c->snapshot);
    return 0;
}

/* Holds the lock while another thread forks. */
static void *hold_the_ledger(void *ctx)
{
    struct crowd *c = ctx;
    OK(!ledger_lock(c->snapshot->ledger));
    pthread_barrier_wait(&c->all_there);
    pthread_barrier_wait(&c->all_there);
    pthread_mutex_unlock(&c->snapshot->ledger->lock);
    return NULL;
}

TEST_IN_DIR_WITH_FAULTS(a_child_counts_for_itself)
{
    CROWD c = {.over = false};
    pthread_t holder;
    crowd_begins(&c, 2);
    one_probe(&c);
    OK(pthread_create(&holder, NULL, hold_the_ledger, &c));
    pthread_barrier_wait(&c.all_there);
    in_child(in_the_child, &c);
    pthread_barrier_wait(&c.all_there);
    OK(pthread_join(holder, NULL));
    IS(stats_of(c.store).n_probes, 1);
}

/* Every sheet is taken when a thread forks that has none, or shares one. In the child
 * all sheets are free, for the threads that would give them back are not there. */
static void *wait_with_a_sheet(void *ctx)
{
    struct crowd *c = ctx;
    one_probe(c);
    pthread_barrier_wait(&c->all_there);
    pthread_barrier_wait(&c->all_there);
    return NULL;
}

static int counts_alone(void *ctx)
{
    unsigned mine = counters_own_sheet, first = mine == 1 ? 2 : 1;
    alarm(60);
    for (unsigned i = first; i <= N_OWN_SHEETS; i += i + 1 == mine ? 2 : 1) {
        counters_own_sheet = NO_SHEET; /* as a new thread's */
        one_probe(ctx);
        if (counters_own_sheet != i)
            return 1;
    }
    return 0;
}

static void *fork_without_a_sheet(void *ctx)
{
    struct crowd *c = ctx;
    IS(counters_own_sheet, NO_SHEET);
    in_child(counts_alone, c);
    one_probe(c);
    IS(counters_own_sheet, SHARED_SHEET);
    in_child(counts_alone, c);
    return NULL;
}

static void *fork_with_a_sheet(void *ctx)
{
    one_probe(ctx);
    assert_in_range(counters_own_sheet, 1, N_OWN_SHEETS);
    in_child(counts_alone, ctx);
    return NULL;
}

TEST_IN_DIR_WITH_FAULTS(sheets_are_free_in_a_child)
{
    CROWD c = {.over = false};
    pthread_t threads[N_OWN_SHEETS], forking;
    crowd_begins(&c, N_OWN_SHEETS + 1);
    for (size_t i = 0; i < N_OWN_SHEETS; i++)
        OK(pthread_create(&threads[i], NULL, wait_with_a_sheet, &c));
    pthread_barrier_wait(&c.all_there);
    OK(pthread_create(&forking, NULL, fork_without_a_sheet, &c));
    OK(pthread_join(forking, NULL));
    pthread_barrier_wait(&c.all_there);
    for (size_t i = 0; i < N_OWN_SHEETS; i++)
        OK(pthread_join(threads[i], NULL));
    IS(stats_of(c.store).n_probes, N_OWN_SHEETS + 1);
    OK(pthread_create(&forking, NULL, fork_with_a_sheet, &c));
    OK(pthread_join(forking, NULL));
}

RUN_TESTS(NULL, NULL)
