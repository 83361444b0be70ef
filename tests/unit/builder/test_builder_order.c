/* The hashes of a builder in order, each once: from memory, and from a spool of sorted
 * runs that are merged. None is lost where one run ends and the next begins. */
#include "tests/unit/builder/builder_support.h"
#include "lib/builder/inside.h"

static uint64_t *wanted;

/* The first n hashes in order, each once; returns how many. */
static size_t sorted(size_t n)
{
    size_t kept = 0;
    wanted = realloc(wanted, (n + 1) * sizeof *wanted);
    memcpy(wanted, keys, n * sizeof *wanted);
    qsort(wanted, n, sizeof *wanted, compare_u64);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || wanted[i] != wanted[kept - 1])
            wanted[kept++] = wanted[i];
    return kept;
}

static struct tamis_builder *listed_builder(uint64_t limit)
{
    return BUILDER_AS(.domain = &domain, .memory_limit = limit, .spool_dir = test_dir,
                      .list_bits = 64);
}

static void expect_order(struct tamis_builder *b, size_t n)
{
    struct order *o;
    const uint64_t *block;
    size_t n_wanted = sorted(n), got = 0, n_block;
    IS(order_begin(b, &o), 0);
    do {
        IS(order_next(o, &block, &n_block), 0);
        assert_true(got + n_block <= n_wanted);
        assert_memory_equal(wanted + got, block, n_block * sizeof *block);
        got += n_block;
    } while (n_block > 0);
    IS(got, n_wanted);
    order_end(o);
}

static void add_all(struct tamis_builder *b, size_t n)
{
    for (size_t done = 0, some; done < n; done += some) {
        some = 1 + random_below(3000);
        some = n - done < some ? n - done : some;
        OK(tamis_builder_add_hashes(b, domain.tag, keys + done, some));
    }
}

/* Twice, and after a filter was made, which puts the hashes in another order. */
TEST_WITH(repeatable, faults_off, test_in_order)
{
    static const struct {
        uint64_t limit;
        size_t n;
    } cases[] = {
        {0, 0},        {0, 1},           {0, 100000},       {1, 600},
        {4096, 20000}, {1 << 20, 15000}, {1 << 20, 400000}, {100, 512},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BUILDER b = listed_builder(cases[i].limit);
        add_all(b, cases[i].n);
        expect_order(b, cases[i].n);
        expect_order(b, cases[i].n);
        OK(tamis_builder_finish(b, path_of("f"), NULL, NULL, NULL));
        expect_order(b, cases[i].n);
        OK(unlink(path_of("f")));
    }
}

/* The filter is the same, whatever order its hashes come back in. */
TEST_WITH(repeatable, faults_off, test_same_filter)
{
    struct tamis_builder *b = listed_builder(1 << 20);
    add_all(b, 300000);
    expect_order(b, 300000);
    finish(b, path_of("listed"));
    finish(threaded_builder_of(0.01, 300000, 0, 1 << 20), path_of("plain"));
    assert_same_file(path_of("listed"), path_of("plain"));
}

/* Adding goes on after the hashes were read in order. */
TEST(test_more_is_added)
{
    BUILDER b = listed_builder(1 << 20);
    add_all(b, 100000);
    expect_order(b, 100000);
    OK(tamis_builder_add_hashes(b, domain.tag, keys + 100000, 100000));
    expect_order(b, 200000);
}

/* Repeats lie in one run, in several, and side by side. */
TEST(test_repeats)
{
    FREED uint64_t *before = malloc(60000 * sizeof *before);
    memcpy(before, keys, 60000 * sizeof *before);
    for (size_t i = 0; i < 60000; i++)
        keys[i] = before[i % 7 == 0 ? i / 2 : i % 20000];
    struct tamis_builder *b = listed_builder(1 << 17);
    add_all(b, 60000);
    expect_order(b, 60000);
    tamis_builder_free(b);
    memcpy(keys, before, 60000 * sizeof *before);
}

/* A run that does not come back as it was written. */
TEST(test_changed_spool)
{
    BUILDER b = listed_builder(1 << 17);
    struct order *o;
    const uint64_t *block;
    size_t n;
    int err;
    uint8_t byte;
    add_all(b, 50000);
    IS(pread(b->spool_fd, &byte, 1, 100003), 1);
    byte ^= 4;
    IS(pwrite(b->spool_fd, &byte, 1, 100003), 1);
    IS(order_begin(b, &o), 0);
    do
        err = order_next(o, &block, &n);
    while (!err && n > 0);
    IS(err, EIO);
    assert_true(b->spool_damaged);
    order_end(o);
}

static int free_wanted(void **state)
{
    free(wanted);
    return test_dir_remove(state);
}

RUN_TESTS(set_up, free_wanted)
