/* Ribbon filters: no key is lost, however many there are, however the hashes fall and
 * however little memory the builder has; and the files are the same byte for byte. */
#include "tests/support/filters.h"

enum { MAX_KEYS = 400000, N_OTHERS = 400000 };

static uint64_t keys[MAX_KEYS], others[N_OTHERS];
static struct tamis_domain domain;

static struct tamis_builder_options options(double error)
{
    return (struct tamis_builder_options){.size = sizeof(struct tamis_builder_options),
                                          .domain = &domain,
                                          .error = error,
                                          .memory_limit = 1 << 30,
                                          .kind = TAMIS_RIBBON};
}

static const char *built(const char *name, const struct tamis_builder_options *o,
                         size_t n)
{
    const char *path = path_of(name);
    build_as(path, keys, n, o);
    return path;
}

static size_t absent_in_batch(struct tamis_filter *f, const uint64_t *hashes, size_t n)
{
    static uint64_t absent[MAX_KEYS / 64 + 1];
    return tamis_filter_probe_batch(f, domain.tag, hashes, n, absent, NULL);
}

/* Returns what part of the other keys is in. */
static double error_of(const char *path, size_t n)
{
    FILTER f = open_filter(path);
    size_t n_absent = absent_in_batch(f, others, N_OTHERS);
    IS(count_absent(f, keys, n), 0); /* one by one */
    IS(count_absent(f, others, N_OTHERS), n_absent);
    IS(absent_in_batch(f, keys, n), 0);
    IS(absent_in_batch(f, others, N_OTHERS), n_absent);
    IS(absent_in_batch(f, others, 7), count_absent(f, others, 7));
    return 1 - (double)n_absent / N_OTHERS;
}

TEST(any_number_of_keys)
{
    static const size_t numbers[] = {0, 1, 2, 63, 1000, 5000, 30000, MAX_KEYS};
    struct tamis_builder_options o = options(0.01);
    for (size_t i = 0; i < N_OF(numbers); i++) {
        double error = error_of(built("some", &o, numbers[i]), numbers[i]);
        assert_true(error < 0.0107);
    }
}

TEST(any_error)
{
    static const double errors[] = {0.5, 0.1, 0.03, 0.001, 1e-5, 1e-8};
    for (size_t i = 0; i < N_OF(errors); i++) {
        struct tamis_builder_options o = options(errors[i]);
        double error = error_of(built("some", &o, 50000), 50000);
        assert_true(error < 1.04 * errors[i] + 3e-4);
        assert_true(errors[i] < 0.002 || error > 0.9 * errors[i]);
    }
}

/* Threads, a check of memory and spooled hashes make no difference to the file. */
TEST(the_same_file_anyhow)
{
    enum { N = 300000, FROM = PAGE_BYTES };
    size_t n_bytes, n_other;
    struct tamis_builder_options o = options(0.01);
    FREED uint8_t *file = file_read(built("plain", &o, N), &n_bytes);
    for (unsigned i = 0; i < 4; i++) {
        o.n_threads = i & 1 ? 2 : 1;
        o.check = i >= 1;
        o.memory_limit = i >= 2 ? 2 << 20 : 1 << 30;
        o.spool_dir = test_dir;
        FREED uint8_t *other = file_read(built("other", &o, N), &n_other);
        IS(n_other, n_bytes);
        assert_memory_equal(other + FROM, file + FROM, n_bytes - FROM);
    }
}

/* All of one page; all of one row; repeats. */
TEST(poor_hashes)
{
    struct tamis_builder_options o = options(0.01);
    for (size_t i = 0; i < MAX_KEYS; i++)
        keys[i] = UINT64_C(0x1234) << 48 | keys[i] >> 16;
    const char *path = built("one page", &o, 100000);
    error_of(path, 100000);
    struct tamis_filter *f = open_filter(path);
    struct tamis_filter_info info = filter_info(f);
    assert_true(info.n_stages > 2 && info.n_stages <= 5);
    tamis_filter_close(f);
    for (size_t i = 0; i < MAX_KEYS; i++)
        keys[i] = UINT64_C(0x123456789abcd) << 12 | (keys[i] & 0xfff);
    error_of(built("one row", &o, 100000), 100000);
    o.check = 1;
    error_of(built("one row", &o, 100000), 100000);
    random_hashes(keys, MAX_KEYS);
    memcpy(keys + 50000, keys, 50000 * sizeof keys[0]);
    error_of(built("twice", &o, 100000), 100000);
    random_hashes(keys, MAX_KEYS);
}

TEST(what_it_refuses)
{
    struct tamis_builder_options o = options(0.01);
    struct tamis_builder *b;
    static const uint64_t kinds[] = {TAMIS_PACK, 4, 1U << 16 | TAMIS_RIBBON};
    for (size_t i = 0; i < N_OF(kinds); i++) {
        o.kind = kinds[i];
        IS(tamis_builder_create(&o, &b, NULL), TAMIS_ERR_RANGE);
    }
    /* An older caller's options end before the field. */
    o.kind = TAMIS_RIBBON;
    o.size = offsetof(struct tamis_builder_options, kind);
    OK(tamis_builder_create(&o, &b, NULL));
    const char *path = path_of("older");
    OK(tamis_builder_finish(b, path, NULL, NULL, NULL));
    tamis_builder_free(b);
    IS(commit_of(path).stages[0].layout, LAYOUT_SPLIT_BLOCKS);
    struct tamis_plan plan;
    IS(plan_of_ribbon(1, 0.6, &plan), TAMIS_ERR_RANGE);
    IS(plan_of_ribbon(1, 1e-9, &plan), TAMIS_ERR_RANGE);
    IS(plan_of_ribbon(UINT64_MAX, 0.01, &plan), TAMIS_ERR_TOO_LARGE);
}

/* A plan of many filters is kept by all of them together, and by each within a page. */
TEST(sizes_are_not_above_the_plan)
{
    static const double errors[] = {0.05, 0.001, 1e-6};
    uint64_t planned = 0, built_bytes = 0;
    for (size_t n = 3000; n <= MAX_KEYS; n = n * 7 / 4)
        for (size_t i = 0; i < 3; i++) {
            struct tamis_builder_options o = options(errors[i]);
            struct tamis_plan plan;
            struct commit c = commit_of(built("below", &o, n));
            OK(plan_of_ribbon(n, errors[i], &plan));
            assert_true(c.committed_bytes <= plan.file_bytes + PAGE_BYTES);
            planned += plan.file_bytes;
            built_bytes += c.committed_bytes;
        }
    assert_true(built_bytes <= planned && built_bytes > planned / 100 * 97);
}

SET_UP(test_dir_create, random_hashes(keys, MAX_KEYS), random_hashes(others, N_OTHERS),
       tamis_domain_init(&domain, 1, 77))

RUN_TESTS(set_up, test_dir_remove)
