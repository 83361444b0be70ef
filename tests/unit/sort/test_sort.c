/* Sorted in place, and merged from sorted sources: the same hashes as qsort gives, in
 * the same order, whatever the hashes are. */
#include "tests/support/support.h"
#include "lib/sort/sort.h"

enum { MOST = 60000, N_SHAPES = 9 };

static uint64_t hashes[MOST], wanted[MOST];

/* Uniform ones, and those that an adversary or an accident may send. */
static uint64_t shaped(unsigned shape, size_t i)
{
    uint64_t r = random_u64();
    const uint64_t by_shape[N_SHAPES] = {
        r,                                    /* uniform */
        r >> 44,                              /* all in the first page of a list */
        r | UINT64_C(0xfffff) << 44,          /* all in the last */
        r % 7 * UINT64_C(0x1111111111111111), /* seven of them */
        i,                                    /* in order */
        ~(uint64_t)i,                         /* in the wrong order */
        r & UINT64_C(0xff00000000000000),     /* different in the top byte only */
        UINT64_C(1) << i % 64,
        r >> r % 64, /* each bucket of a step holds all of the next one */
    };
    return by_shape[shape];
}

static void make(unsigned shape, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hashes[i] = wanted[i] = shaped(shape, i);
    qsort(wanted, n, sizeof *wanted, compare_u64);
}

static const size_t sizes[] = {0, 1, 2, 24, 25, 26, 600, 4095, 4096, 4097, MOST};

TEST(test_sorts)
{
    for (unsigned shape = 0; shape < N_SHAPES; shape++)
        for (size_t i = 0; i < N_OF(sizes); i++) {
            make(shape, sizes[i]);
            sort_hashes(hashes, sizes[i]);
            assert_memory_equal(hashes, wanted, sizes[i] * sizeof *hashes);
        }
}

enum { MOST_SOURCES = 65 };

struct run {
    const uint64_t *at;
    size_t left, block;
    int error; /* at the end */
};
static struct run runs[MOST_SOURCES];
static struct merge_source sources[MOST_SOURCES];

static int run_next(void *ctx, const uint64_t **block, size_t *n)
{
    struct run *r = ctx;
    *block = r->at;
    *n = r->left < r->block ? r->left : r->block;
    r->at += *n;
    r->left -= *n;
    return *n == 0 ? r->error : 0;
}

/* Parts of the hashes, sorted; some are short, some empty. */
static void make_runs(size_t n, size_t n_runs, size_t block)
{
    size_t from = 0;
    for (size_t i = 0; i < n_runs; i++) {
        size_t most = n - from, some = i + 1 == n_runs ? most : random_below(most + 1);
        if (random_below(4) == 0 && i + 1 < n_runs)
            some = 0;
        sort_hashes(hashes + from, some);
        runs[i] = (struct run){hashes + from, some, block, 0};
        sources[i] = (struct merge_source){run_next, &runs[i]};
        from += some;
    }
}

static void expect_merged(size_t n, size_t n_runs)
{
    struct merge *m;
    const uint64_t *block;
    size_t got = 0, kept = 0, n_block;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || wanted[i] != wanted[i - 1])
            wanted[kept++] = wanted[i];
    IS(merge_create(sources, n_runs, 1 << random_below(21), &m), 0);
    do {
        IS(merge_next(m, &block, &n_block), 0);
        assert_true(got + n_block <= kept);
        assert_memory_equal(wanted + got, block, n_block * sizeof *block);
        got += n_block;
    } while (n_block > 0);
    IS(got, kept);
    IS(merge_repeats(m), n - kept);
    IS(merge_next(m, &block, &n_block), 0);
    IS(n_block, 0);
    merge_free(m);
}

TEST(test_merges)
{
    static const size_t blocks[] = {1, 7, 512, 1024, 5000, MOST};
    for (unsigned shape = 0; shape < N_SHAPES; shape++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (size_t n_runs = 1; n_runs <= MOST_SOURCES; n_runs = n_runs * 2 + 1) {
                size_t n = blocks[b] == 1 ? 500 : 9000;
                make(shape, n);
                make_runs(n, n_runs, blocks[b]);
                expect_merged(n, n_runs);
            }
}

TEST(test_nothing_to_merge)
{
    expect_merged(0, 0);
    make_runs(0, 3, 10);
    expect_merged(0, 3);
}

/* Equal hashes lie on both sides of every bound that a node may choose. */
TEST(test_merges_repeats)
{
    for (size_t i = 0; i < MOST; i++)
        hashes[i] = wanted[i] = i % (MOST / 4) / 3000;
    qsort(wanted, MOST, sizeof *wanted, compare_u64);
    for (size_t i = 0; i < 4; i++) {
        runs[i] = (struct run){hashes + i * (MOST / 4), MOST / 4, 1000, 0};
        sources[i] = (struct merge_source){run_next, &runs[i]};
    }
    expect_merged(MOST, 4);
}

TEST(test_failing_source)
{
    struct merge *m;
    const uint64_t *block;
    size_t n;
    int err = 0;
    make(0, 9000);
    make_runs(9000, 5, 100);
    runs[3].error = EIO;
    IS(merge_create(sources, 5, SIZE_MAX, &m), 0);
    do
        err = merge_next(m, &block, &n);
    while (!err && n > 0);
    IS(err, EIO);
    merge_free(m);
}

RUN_TESTS(NULL, NULL)
