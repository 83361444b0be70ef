/* A thread that is cancelled in a writer's call leaves a writer and a file that other
 * threads can use. */
#include "tests/support/cancel_support.h"
#include "tests/support/one_file.h"

enum { FIRST = 1000, N = 6 * FIRST };

static uint64_t keys[N];
static struct tamis_writer *w, *opened;
static int result;

static int set_up(void **state)
{
    random_hashes(keys, N);
    return set_alarm(state) || one_file_create(state);
}

/* Keys go in, become durable, and are found after the seal. */
static void expect_use(uint64_t watermark)
{
    add_hashes(w, keys, N);
    assert_int_equal(tamis_writer_commit(w, watermark, NULL), 0);
    assert_int_equal(tamis_writer_seal(w, watermark, NULL, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
}

/* Cancelled before it, the thread makes the whole call all the same. */
static void finishes(void (*call)(void))
{
    result = -1;
    cancelled(call);
    assert_int_equal(result, 0);
}

static void commit(void)
{
    result = tamis_writer_commit(w, 7, NULL);
}

static void test_commit(void **state)
{
    (void)state;
    w = fresh(FIRST);
    add_hashes(w, keys, FIRST / 2);
    finishes(commit);
    assert_int_equal(tamis_writer_watermark(w), 7);
    expect_use(8);
}

static void grow(void)
{
    add_hashes(w, keys, N);
}

static void test_growth(void **state)
{
    struct tamis_filter_info info;
    (void)state;
    w = fresh(FIRST);
    cancelled(grow);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_true(info.n_stages > 1);
    expect_use(8);
}

static void seal(void)
{
    result = tamis_writer_seal(w, 7, NULL, NULL);
}

static void test_seal(void **state)
{
    (void)state;
    w = fresh(FIRST);
    add_hashes(w, keys, N);
    finishes(seal);
    assert_int_equal(tamis_writer_seal(w, 8, NULL, NULL), TAMIS_ERR_SEALED);
    assert_int_equal(tamis_writer_close(w), 0);
}

static void close_it(void)
{
    result = tamis_writer_close(w);
}

static void test_close(void **state)
{
    (void)state;
    w = fresh(FIRST);
    add_hashes(w, keys, FIRST / 2);
    finishes(close_it);
    w = open_writer(path); /* nobody has its lock */
    expect_use(8);
}

static void open_it(void)
{
    result = tamis_writer_open(path, &opened, NULL);
}

static void create_it(void)
{
    struct tamis_writer_options opt = {.size = sizeof opt};
    result = tamis_writer_create(path, &opt, &opened, NULL);
}

/* Opening holds off forks meanwhile: later ones, and other files, do not wait. */
static void test_open(void **state)
{
    static void (*const calls[])(void) = {open_it, create_it};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tamis_writer_close(fresh(FIRST)), 0);
        if (i == 1)
            unlink(path);
        finishes(calls[i]);
        assert_int_equal(tamis_writer_open(path, &w, NULL), TAMIS_ERR_BUSY);
        assert_int_equal(count_files(test_dir), 1);
        assert_int_equal(tamis_writer_close(opened), 0);
        w = open_writer(path);
        expect_use(8);
    }
}

/* A page that has lost bits is condemned by the add that finds it. */
static void damage_all(void)
{
    static const uint8_t zeros[PAGE_BYTES];
    struct commit c = commit_of(path);
    for (uint64_t at = 0; at < c.stages[0].length; at += PAGE_BYTES)
        file_poke(path, c.stages[0].offset + at, zeros, sizeof zeros);
}

static void add_one(void)
{
    result = tamis_writer_add_hashes(w, tamis_writer_domain(w).tag, &keys[N - 1], 1);
}

static void test_add_to_a_damaged_page(void **state)
{
    uint64_t n_damaged;
    (void)state;
    w = fresh(FIRST);
    add_hashes(w, keys, FIRST / 2);
    assert_int_equal(tamis_writer_close(w), 0);
    damage_all();
    w = open_writer(path);
    finishes(add_one);
    assert_int_equal(tamis_writer_commit(w, 8, NULL), 0);
    assert_int_equal(tamis_writer_seal(w, 8, &n_damaged, NULL), 0);
    assert_true(n_damaged > 0);
    assert_int_equal(tamis_writer_close(w), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit), cmocka_unit_test(test_growth),
        cmocka_unit_test(test_seal),   cmocka_unit_test(test_close),
        cmocka_unit_test(test_open),   cmocka_unit_test(test_add_to_a_damaged_page),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
