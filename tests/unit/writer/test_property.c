/* No key is ever lost: long random sequences of everything that can happen to a
 * filter, against the exact list of keys, over the whole range of parameters, with
 * readers of every age open all the while. TAMIS_SEED=n repeats a run. */
#include "tests/support/filters.h"

enum {
    MAX_KEYS = 30000,
    MAX_READERS = 6,
    LONGEST_KEY = 65536,
    POOL_BYTES = 2 * LONGEST_KEY,
    LEAST_ROUNDS = 12,
};

/* Keys are pieces of one pool of random bytes. */
struct item {
    uint32_t offset, length;
    uint64_t hash;
};

struct reader {
    struct tamis_filter *f;
    size_t n_known; /* SIZE_MAX: the live file's */
};

struct world {
    struct tamis_growth growth;
    struct tamis_domain domain;
    struct tamis_writer *w; /* NULL: closed, or sealed */
    char path[1024];
    unsigned n_copies;
    struct item *items;
    size_t n, n_committed;
    uint64_t watermark;
    struct reader readers[MAX_READERS];
    size_t n_readers;
    bool sealed;
};

static uint8_t pool[POOL_BYTES];
static uint64_t seed, round_seed;
static bool in_round;

static int set_up(void **state)
{
    const char *given = getenv("TAMIS_SEED");
    seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000;
    random_state = 1;
    for (size_t i = 0; i < sizeof pool; i++)
        pool[i] = (uint8_t)random_u64();
    return test_dir_create(state);
}

static int tear_down(void **state)
{
    if (in_round) /* it failed */
        fprintf(stderr, "repeat with TAMIS_SEED=%llu\n",
                (unsigned long long)round_seed);
    return test_dir_remove(state);
}

static double log_uniform(double low, double high)
{
    return exp(log(low) + random_unit() * (log(high) - log(low)));
}

/* ---- what must always hold ---- */

static void check_keys(struct world *t, struct reader *r, size_t from, size_t to)
{
    uint64_t hashes[256];
    size_t n_known = r->n_known < t->n ? r->n_known : t->n;
    to = to < n_known ? to : n_known;
    while (from < to) {
        size_t n = to - from < 256 ? to - from : 256;
        for (size_t i = 0; i < n; i++)
            hashes[i] = t->items[from + i].hash;
        IS(count_absent(r->f, hashes, n), 0);
        const struct item *one = &t->items[from + random_below(n)];
        struct tamis_key key =
            tamis_key_of(&t->domain, pool + one->offset, one->length);
        enum tamis_reason why;
        IS(tamis_filter_probe(r->f, &key, &why), TAMIS_MAYBE);
        IS(why, TAMIS_HIT);
        from += n;
    }
}

static void check_all(struct world *t)
{
    struct reader fresh = {open_filter(t->path), SIZE_MAX};
    check_keys(t, &fresh, 0, t->n);
    tamis_filter_close(fresh.f);
    for (size_t i = 0; i < t->n_readers; i++)
        check_keys(t, &t->readers[i], 0, t->n);
}

/* A stretch of keys in every reader, so that no step costs more than it must. */
static void check_some(struct world *t)
{
    size_t from = t->n ? random_below(t->n) : 0;
    for (size_t i = 0; i < t->n_readers; i++) {
        check_keys(t, &t->readers[i], from, from + 300);
        check_keys(t, &t->readers[i], t->n > 50 ? t->n - 50 : 0, t->n);
    }
}

/* A filter that says MAYBE to all would pass everything else. */
static void check_use(struct world *t, struct tamis_filter *f)
{
    enum { N = 2000 };
    uint64_t hashes[N];
    struct tamis_filter_info info = filter_info(f);
    random_hashes(hashes, N);
    double error = info.expected_error;
    if (!info.over_target)
        assert_true(error <= t->growth.error * 1.001);
    double hits = N - (double)count_absent(f, hashes, N);
    assert_true(hits <= N * error + 6 * sqrt(N * error) + 6);
}

/* ---- steps ---- */

static struct item new_item(const struct world *t)
{
    struct item k;
    uint32_t kind = (uint32_t)random_below(100);
    k.length = (uint32_t)random_below(kind == 0   ? LONGEST_KEY + 1
                                      : kind < 20 ? 300
                                                  : 24);
    k.offset = (uint32_t)random_below(POOL_BYTES - LONGEST_KEY);
    k.hash = tamis_key_of(&t->domain, pool + k.offset, k.length).hash;
    return k;
}

static void step_add(struct world *t, size_t n)
{
    uint64_t hashes[4096];
    if (!t->w || t->n + n > MAX_KEYS)
        return;
    for (size_t i = 0; i < n; i++) {
        struct item *k = &t->items[t->n + i];
        /* Some keys come again. */
        *k = t->n && random_below(10) == 0 ? t->items[random_below(t->n)] : new_item(t);
        hashes[i] = k->hash;
        if (n == 1)
            OK(tamis_writer_add_key(t->w, pool + k->offset, k->length));
    }
    if (n > 1)
        add_hashes(t->w, hashes, n);
    t->n += n;
}

static void step_commit(struct world *t)
{
    if (!t->w)
        return;
    t->watermark += random_below(3);
    OK(tamis_writer_commit(t->w, t->watermark, NULL));
    t->n_committed = t->n;
}

static void step_close_or_open(struct world *t)
{
    if (t->w) {
        OK(tamis_writer_close(t->w));
        t->w = NULL;
    } else if (!t->sealed) {
        t->w = open_writer(t->path);
        IS(tamis_writer_watermark(t->w), t->watermark);
    }
}

/* The file as it is goes on elsewhere; readers of the old one keep what they know. */
static void step_kill(struct world *t)
{
    char copy[1024];
    if (!t->w)
        return;
    snprintf(copy, sizeof copy, "%s/copy %u", test_dir, t->n_copies++);
    file_copy(t->path, copy);
    for (size_t i = 0; i < t->n_readers; i++)
        if (t->readers[i].n_known == SIZE_MAX)
            t->readers[i].n_known = t->n;
    tamis_writer_close(t->w);
    unlink(t->path);
    memcpy(t->path, copy, sizeof copy);
    t->w = NULL;
    check_some(t);
    step_close_or_open(t);
}

static void step_reader(struct world *t)
{
    struct reader *r = &t->readers[random_below(MAX_READERS)];
    if (r >= &t->readers[t->n_readers]) {
        r = &t->readers[t->n_readers++];
        r->n_known = SIZE_MAX;
        r->f = OPEN_AS(t->path, .check = (enum tamis_check)random_below(4),
                       .domain = &t->domain);
    } else if (random_below(4) == 0) {
        tamis_filter_close(r->f);
        *r = t->readers[--t->n_readers];
    }
}

static void step_seal(struct world *t)
{
    uint64_t n_damaged;
    if (!t->w)
        return;
    OK(tamis_writer_seal(t->w, t->watermark, &n_damaged, NULL));
    IS(n_damaged, 0);
    t->n_committed = t->n;
    t->sealed = true;
    step_close_or_open(t);
}

/* All keys so far, built at once, in random pieces. */
static void step_build(struct world *t)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &t->domain,
        .error = t->growth.error,
        .memory_limit = random_below(2) ? 4096 : 0,
        .spool_dir = test_dir,
    };
    char path[1024];
    snprintf(path, sizeof path, "%s/built %u", test_dir, t->n_copies++);
    struct tamis_builder *b = builder_made(&opt);
    for (size_t i = 0; i < t->n; i++) {
        const struct item *k = &t->items[i];
        int err = i % 3 ? tamis_builder_add_hashes(b, t->domain.tag, &k->hash, 1)
                        : tamis_builder_add_key(b, pool + k->offset, k->length);
        IS(err, 0);
    }
    OK(tamis_builder_finish_file(b, path, NULL));
    tamis_builder_free(b);
    struct reader built = {open_filter(path), SIZE_MAX};
    check_keys(t, &built, 0, t->n);
    check_use(t, built.f);
    verified(built.f);
    tamis_filter_close(built.f);
    unlink(path);
}

/* ---- rounds ---- */

static void begin(struct world *t)
{
    memset(t, 0, sizeof *t);
    t->items = malloc(MAX_KEYS * sizeof *t->items);
    assert_non_null(t->items);
    t->growth = (struct tamis_growth){
        .error = log_uniform(1e-7, 0.3),
        .factor = 1.25 + random_unit() * 6.75,
        .tightening = 0.5 + random_unit() * 0.45,
        .first_capacity = (uint64_t)log_uniform(1, 4000),
    };
    tamis_domain_init(&t->domain, 1, random_u64());
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = t->growth, .domain = &t->domain};
    snprintf(t->path, sizeof t->path, "%s/live %llu", test_dir,
             (unsigned long long)round_seed);
    OK(tamis_writer_create(t->path, &opt, &t->w, NULL));
}

static void step(struct world *t)
{
    uint64_t what = random_below(1000);
    if (what < 350)
        step_add(t, 1);
    else if (what < 550)
        step_add(t, 2 + random_below(200));
    else if (what < 560)
        step_add(t, 1000 + random_below(3000));
    else if (what < 750)
        check_some(t);
    else if (what < 850)
        step_commit(t);
    else if (what < 920)
        step_reader(t);
    else if (what < 970)
        step_close_or_open(t);
    else if (what < 990)
        step_kill(t);
    else if (what < 995)
        step_build(t);
    else if (what < 998)
        check_all(t);
    else
        step_seal(t);
}

static void finish(struct world *t)
{
    struct tamis_filter *f = open_filter(t->path);
    check_all(t);
    check_use(t, f);
    IS(verified(f).n_damaged, 0);
    tamis_filter_close(f);
    for (size_t i = 0; i < t->n_readers; i++)
        tamis_filter_close(t->readers[i].f);
    tamis_writer_close(t->w);
    unlink(t->path);
    free(t->items);
}

TEST_WITH_FAULTS(test_no_key_is_ever_lost)
{
    time_t end = time(NULL) + by_form(0, 4);
    size_t n_keys = 0;
    unsigned n;
    for (n = 0; n < LEAST_ROUNDS || time(NULL) < end; n++) {
        struct world t;
        random_state = round_seed = seed + n;
        in_round = true;
        begin(&t);
        for (size_t steps = 100 + random_below(700); steps > 0; steps--)
            step(&t);
        /* One in two ends sealed. */
        if (!t.w)
            step_close_or_open(&t);
        if (random_below(2))
            step_seal(&t);
        n_keys += t.n;
        finish(&t);
        in_round = false;
    }
    printf("%u rounds, %zu keys, from TAMIS_SEED=%llu on\n", n, n_keys,
           (unsigned long long)seed);
}

RUN_TESTS(set_up, tear_down)
