/* Sizes of the filters of one edit: the target on average, over the segments and over
 * their keys, with fewer bytes; the same sizes whatever threads do; and when an edit
 * has no say. */
#include "tests/support/store_support.h"

static const double TARGET = 0.01, MOST = 1.5 * 0.01;

static struct tamis_store *store_of(const char *name, double error)
{
    struct tamis_open_options opt = {.size = sizeof opt, .growth.error = error};
    OK(create_store(path_of(name), &opt, NULL));
    return store_open(name);
}

static const char *name_of(size_t i)
{
    static char text[32];
    snprintf(text, sizeof text, "s%05zu", i);
    return text;
}

static void add_random(struct tamis_builder *b, uint64_t n)
{
    enum { SOME = 4096 };
    static uint64_t hashes[SOME];
    while (n) {
        size_t some = n < SOME ? n : SOME;
        for (size_t i = 0; i < some; i++)
            hashes[i] = random_u64();
        OK(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, hashes, some));
        n -= some;
    }
}

static struct tamis_builder *builder_with(struct tamis_edit *e, size_t i, uint64_t n,
                                          double error)
{
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), error, NULL, &b, NULL));
    add_random(b, n);
    return b;
}

static void put(struct tamis_edit *e, size_t i, uint64_t n)
{
    BUILDER b = builder_with(e, i, n, 0);
    OK(tamis_edit_put(e, b, NULL, NULL));
}

/* All segments of a store: what they take, and their expected errors. */
struct sums {
    uint64_t keys, bytes, plain; /* plain: each planned alone */
    double mean, mean_by_keys, largest;
};

static double expected_error(struct tamis_snapshot *now, size_t i)
{
    struct tamis_stage_info stage = filter_info(filter_at(now, i)).stages[0];
    return tamis_plan_error(stage.lanes, stage.words, stage.n_blocks, stage.keys);
}

static struct sums sums_of(struct tamis_store *s)
{
    SNAPSHOT now = snapshot_of(s);
    struct sums sums = {0};
    size_t n = tamis_snapshot_info(now).n_segments;
    for (size_t i = 0; i < n; i++) {
        struct tamis_plan plan;
        double error = expected_error(now, i);
        struct tamis_segment_info info = segment_at(now, i);
        OK(tamis_plan_filter(info.keys, TARGET, NULL, &plan));
        assert_true(fabs(info.error - fmax(error, TARGET)) < 1e-15);
        sums.keys += info.keys;
        sums.bytes += info.file_bytes;
        sums.plain += plan.file_bytes;
        sums.mean += error / (double)n;
        sums.mean_by_keys += error * (double)info.keys;
        sums.largest = error > sums.largest ? error : sums.largest;
    }
    sums.mean_by_keys /= (double)sums.keys;
    return sums;
}

static void check_means(const struct sums *s)
{
    assert_true(s->mean <= TARGET * (1 + 1e-12));
    assert_true(s->mean_by_keys <= TARGET * (1 + 1e-12));
    assert_true(s->largest <= MOST * (1 + 1e-12));
    assert_true(s->bytes <= s->plain);
}

static struct sums sums_of_sizes(const char *name, const uint64_t *n_keys, size_t n)
{
    STORE s = store_of(name, TARGET);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < n; i++)
        put(e, i, n_keys[i]);
    OK(tamis_edit_commit(e, NULL));
    struct sums sums = sums_of(s);
    check_means(&sums);
    return sums;
}

/* ---- the means ---- */

TEST(like_segments_use_their_target_up)
{
    enum { N = 64, KEYS = 100000 };
    uint64_t n_keys[N];
    for (size_t i = 0; i < N; i++)
        n_keys[i] = KEYS;
    struct sums s = sums_of_sizes("like", n_keys, N);
    assert_true((double)s.bytes < 0.985 * (double)s.plain);
    assert_true(s.mean > 0.99 * TARGET && s.largest < 1.05 * TARGET);
}

/* Files of few sizes fit side by side in a pack, whose padding counts. */
static void check_packed(const char *name, uint64_t n_keys)
{
    struct tamis_pack_options opt = {.size = sizeof opt};
    struct tamis_pack_report report;
    STORE s = store_open(name);
    SNAPSHOT now = snapshot_of(s);
    EDIT(s, tamis_edit_pack(edit, now, NULL, 0, &opt, &report, NULL));
    print_message("%.2f bits a key\n", (double)report.file_bytes * 8 / (double)n_keys);
    assert_true((double)report.file_bytes * 8 < 12.5 * (double)n_keys);
}

TEST(segments_of_any_size)
{
    enum { N = 600 };
    uint64_t n_keys[N];
    for (int form = 0; form < 3; form++) {
        size_t n = form ? 200 : N;
        double low = form ? 1e4 : 50, ratio = form == 1 ? 3 : form ? 20 : 1000;
        for (size_t i = 0; i < n; i++)
            n_keys[i] = (uint64_t)(low * pow(ratio, (double)random_below(1000) / 1e3));
        n_keys[n / 2] = 0;
        struct sums s = sums_of_sizes(name_of((size_t)form), n_keys, n);
        assert_true((double)s.bytes < 0.99 * (double)s.plain);
        if (form == 0)
            check_packed(name_of(0), s.keys);
    }
}

/* Small filters have errors near 0. Large ones may not live on that: a lookup within
 * one key range of many would meet them nearly always. */
TEST(small_segments_do_not_pay_for_large_ones)
{
    enum { N = 40 };
    uint64_t n_keys[N];
    for (size_t i = 0; i < N; i++)
        n_keys[i] = i % 2 ? 100000 : 500;
    struct sums s = sums_of_sizes("unlike", n_keys, N);
    assert_true(s.mean < 0.6 * TARGET && s.mean_by_keys > 0.99 * TARGET);
}

/* Large segments do not pay either: a large filter below its target has much weight. */
TEST(large_segments_do_not_pay_for_small_ones)
{
    enum { N = 16 };
    uint64_t n_keys[N];
    for (size_t i = 0; i < N; i++)
        n_keys[i] = i ? 6800 : 1000000;
    struct sums s = sums_of_sizes("large", n_keys, N);
    assert_true(s.mean > 0.9 * TARGET);
}

TEST(errors_are_as_planned)
{
    enum { N = 12, KEYS = 20000, PROBES = 400000 };
    STORE s = store_of("measured", TARGET);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < N; i++)
        put(e, i, KEYS + 500 * i);
    OK(tamis_edit_commit(e, NULL));
    struct sums sums = sums_of(s);
    SNAPSHOT now = snapshot_of(s);
    uint64_t wrong = 0;
    for (size_t i = 0; i < N; i++) {
        struct tamis_filter *f = filter_at(now, i);
        struct tamis_filter_info info = filter_info(f);
        assert_true(info.expected_error < 1.02 * info.growth.error);
        for (int probe = 0; probe < PROBES; probe++) {
            struct tamis_key key = {.hash = random_u64(),
                                    .tag = tamis_store_domain(s).tag};
            wrong += tamis_filter_probe(f, &key, NULL) == TAMIS_MAYBE;
        }
    }
    double measured = (double)wrong / N / PROBES;
    assert_true(sums.largest > TARGET);
    assert_true(fabs(measured - sums.mean) < 0.03 * sums.mean);
}

/* ---- the same sizes whatever threads do, and after failures ---- */

/* n sizes, and then nothing of the edit. */
static void sizes_of(struct tamis_edit *e, struct tamis_store *s, uint64_t *bytes,
                     size_t n)
{
    OK(tamis_edit_commit(e, NULL));
    SNAPSHOT now = snapshot_of(s);
    IS(tamis_snapshot_info(now).n_segments, n);
    for (size_t i = 0; i < n; i++) {
        struct tamis_segment_info info = segment_at(now, i);
        bytes[i] = info.file_bytes;
    }
    EDIT(s, tamis_edit_reconcile(edit, now, NULL, 0, NULL, NULL));
}

enum { SIX = 6, KEYS = 20400 };
static uint64_t keys_at(size_t i)
{
    return KEYS + i;
}

/* Put one by one, by the store's only thread. */
static void plain_sizes(struct tamis_store *s, uint64_t *bytes)
{
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < SIX; i++)
        put(e, i, keys_at(i));
    sizes_of(e, s, bytes, SIX);
    assert_true(bytes[0] > bytes[1] || bytes[0] > bytes[2]);
}

struct putting {
    struct tamis_edit *edit;
    struct tamis_builder *builders[SIX];
    size_t first;
};

static void *put_every_other(void *arg)
{
    struct putting *p = arg;
    for (size_t i = SIX + p->first; i > 1; i -= 2) /* the last ones first */
        OK(tamis_edit_put(p->edit, p->builders[i - 2], NULL, NULL));
    return NULL;
}

TEST(sizes_chosen_in_order_stay)
{
    uint64_t plain[SIX], ours[SIX];
    STORE s = store_of("ordered", TARGET);
    plain_sizes(s, plain);
    struct tamis_edit *e = edit_new(s);
    struct putting even = {.edit = e}, odd = {.edit = e, .first = 1};
    pthread_t thread;
    for (size_t i = 0; i < SIX; i++) {
        odd.builders[i] = even.builders[i] = builder_with(e, i, keys_at(i), 0);
        OK(tamis_edit_size(e, even.builders[i], NULL));
        OK(tamis_edit_size(e, even.builders[i], NULL)); /* once more, and no more */
    }
    OK(pthread_create(&thread, NULL, put_every_other, &odd));
    put_every_other(&even);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < SIX; i++)
        tamis_builder_free(even.builders[i]);
    sizes_of(e, s, ours, SIX);
    assert_memory_equal(ours, plain, sizeof plain);
}

static int failing_fdatasync(int fd)
{
    errno = EIO;
    return -1;
}

/* Each put fails first: late, by its file, then early, for its name is taken. */
TEST(failed_puts_leave_no_share)
{
    uint64_t plain[SIX], ours[SIX];
    STORE s = store_of("failed", TARGET);
    struct io_calls real = io_calls;
    plain_sizes(s, plain);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < SIX; i++) {
        BUILDER b = builder_with(e, i, keys_at(i), 0);
        io_calls.fdatasync = io_calls.fsync = failing_fdatasync;
        IS(tamis_edit_put(e, b, NULL, NULL), EIO);
        io_calls = real;
        OK(tamis_edit_size(e, b, NULL));
        if (i) {
            OK(builder_rename(b, NAMED(name_of(0)), NULL));
            IS(tamis_edit_put(e, b, NULL, NULL), TAMIS_ERR_EXISTS);
            OK(builder_rename(b, NAMED(name_of(i)), NULL));
        }
        OK(tamis_edit_put(e, b, NULL, NULL));
    }
    sizes_of(e, s, ours, SIX);
    assert_memory_equal(ours, plain, sizeof plain);
}

/* An edit begins anew, also with builders whose size an earlier one has chosen; and a
 * size is for the keys that the builder has when it is put. */
TEST(later_keys_and_later_edits)
{
    uint64_t plain[SIX], ours[SIX];
    STORE s = store_of("later", TARGET);
    plain_sizes(s, plain);
    struct tamis_edit *e = edit_new(s);
    struct tamis_builder *b[SIX];
    for (size_t i = 0; i < SIX; i++) {
        b[i] = builder_with(e, i, keys_at(i) / 2, 0);
        OK(tamis_edit_size(e, b[i], NULL));
    }
    tamis_edit_abort(e);
    e = edit_new(s);
    IS(tamis_edit_size(e, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_size(NULL, NULL, NULL), TAMIS_ERR_RANGE);
    IS(tamis_edit_put(e, NULL, NULL, NULL), TAMIS_ERR_RANGE);
    for (size_t i = 0; i < SIX; i++) {
        OK(tamis_edit_size(e, b[i], NULL));
        add_random(b[i], keys_at(i) - keys_at(i) / 2);
        OK(tamis_edit_put(e, b[i], NULL, NULL));
        tamis_builder_free(b[i]);
    }
    sizes_of(e, s, ours, SIX);
    assert_memory_equal(ours, plain, sizeof plain);
}

/* A share that was taken back after others relied on it is made up for. */
TEST(a_balance_below_zero_is_made_up_for)
{
    STORE s = store_of("below", TARGET);
    struct tamis_edit *e = edit_new(s);
    struct tamis_builder *first = builder_with(e, 0, 100000, 0);
    OK(tamis_edit_size(e, first, NULL));
    put(e, 1, 100000); /* relies on it */
    OK(builder_rename(first, NAMED(name_of(1)), NULL));
    IS(tamis_edit_put(e, first, NULL, NULL), TAMIS_ERR_EXISTS);
    tamis_builder_free(first);
    put(e, 2, 100000);
    OK(tamis_edit_commit(e, NULL));
    struct sums sums = sums_of(s);
    assert_true(sums.largest > TARGET);
    check_means(&sums);
}

/* ---- no say ---- */

static uint64_t bytes_alone(uint64_t n_keys)
{
    struct tamis_builder_options opt = {.size = sizeof opt, .error = TARGET};
    BUILDER b = builder_made(&opt);
    add_random(b, n_keys);
    OK(tamis_builder_finish(b, path_of("alone"), NULL, NULL, NULL));
    struct tamis_filter *f = open_filter(path_of("alone"));
    struct tamis_filter_info info = filter_info(f);
    tamis_filter_close(f);
    unlink(path_of("alone"));
    return info.file_bytes;
}

/* Four segments like the one that would be smaller; each as if alone. */
static void check_alone(struct tamis_store *s, double error, uint64_t n_keys)
{
    struct tamis_edit *e = edit_new(s);
    uint64_t bytes[4], file_bytes = bytes_alone(n_keys);
    for (size_t i = 0; i < 4; i++) {
        BUILDER b = builder_with(e, i, n_keys, error);
        OK(tamis_edit_size(e, b, NULL));
        OK(tamis_edit_put(e, b, NULL, NULL));
    }
    sizes_of(e, s, bytes, 4);
    for (size_t i = 0; i < 4; i++)
        IS(bytes[i], file_bytes);
}

TEST(edits_have_no_say)
{
    STORE s = store_of("own", TARGET);
    check_alone(s, TARGET, 100000);
    check_alone(s, TARGET, KEYS);
    check_alone(s, 0, TAMIS_EDIT_BALANCED_KEYS + 1);
}

/* No filter states more than the largest error that there is. */
TEST(the_largest_error)
{
    enum { N = 12 };
    STORE s = store_of("largest", ERROR_MAX);
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < N; i++)
        put(e, i, 20000 + 300 * i);
    OK(tamis_edit_commit(e, NULL));
    SNAPSHOT now = snapshot_of(s);
    for (size_t i = 0; i < N; i++)
        assert_true(expected_error(now, i) <= ERROR_MAX);
}

RUN_TESTS(test_dir_create, test_dir_remove)
