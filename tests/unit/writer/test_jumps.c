/* A signal handler adds while its thread grows the filter, or leaves the growth by
 * siglongjmp(): no later call waits for itself, and no key that a commit
 * acknowledged is lost. */
#include "tests/support/one_file.h"

#include <setjmp.h>

enum { FIRST = 1000, N = 6 * FIRST };

static uint64_t keys[N];
static struct tamis_writer *writer;
static sigjmp_buf out;

/* The next sync calls this first, as a signal handler would interrupt it. */
static void (*in_sync)(void);

static int syncing(int fd)
{
    void (*now)(void) = in_sync;
    in_sync = NULL;
    if (now)
        now();
    return fdatasync(fd);
}

static int set_up(void **state)
{
    (void)state;
    random_hashes(keys, N);
    writer = fresh(FIRST);
    add_hashes(writer, keys, FIRST / 2);
    assert_int_equal(tamis_writer_commit(writer, 7, NULL), 0);
    io_calls.fdatasync = syncing;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_calls.fdatasync = fdatasync;
    in_sync = NULL;
    return 0;
}

static int add(size_t i)
{
    return tamis_writer_add_hashes(writer, tamis_writer_domain(writer).tag, &keys[i],
                                   1);
}

static void jump(void)
{
    siglongjmp(out, 1);
}

/* Does adding the rest end by a jump out of the first sync, that of a growth? */
static bool growth_is_left(void)
{
    if (sigsetjmp(out, 1) != 0)
        return true;
    in_sync = jump;
    for (size_t i = FIRST / 2; i < N; i++)
        add(i);
    return false;
}

/* The half that was committed is there. */
static void reopens(void)
{
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, FIRST / 2), 0);
    tamis_filter_close(f);
    writer = open_writer(path);
    assert_int_equal(tamis_writer_watermark(writer), 7);
    assert_int_equal(tamis_writer_close(writer), 0);
}

static void refuses_and_closes(void)
{
    struct tamis_filter_info info;
    assert_int_equal(tamis_writer_commit(writer, 9, NULL), TAMIS_ERR_THREAD);
    assert_int_equal(tamis_writer_info(writer, &info), TAMIS_ERR_THREAD);
    assert_int_equal(tamis_writer_seal(writer, 9, NULL, NULL), TAMIS_ERR_THREAD);
    assert_int_equal(tamis_writer_one_thread(writer), TAMIS_ERR_THREAD);
    assert_int_equal(tamis_writer_close(writer), TAMIS_ERR_POISONED);
    reopens();
}

static void test_a_jump_out_of_growth(void **state)
{
    (void)state;
    assert_true(growth_is_left());
    for (size_t i = 0; i < N; i++) /* into the stage that is full */
        assert_int_equal(add(i), 0);
    refuses_and_closes();
}

static void test_a_jump_out_of_growth_of_a_lone_writer(void **state)
{
    (void)state;
    assert_int_equal(tamis_writer_one_thread(writer), 0);
    assert_true(growth_is_left());
    assert_int_equal(add(0), TAMIS_ERR_THREAD);
    refuses_and_closes();
}

static void add_the_last(void)
{
    assert_int_equal(add(N - 1), 0);
}

static void test_a_handler_adds_during_growth(void **state)
{
    (void)state;
    in_sync = add_the_last;
    add_hashes(writer, keys, N - 1);
    assert_null(in_sync);
    assert_int_equal(tamis_writer_commit(writer, 9, NULL), 0);
    assert_int_equal(tamis_writer_close(writer), 0);
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys, N), 0);
    tamis_filter_close(f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_jump_out_of_growth),
        TEST(test_a_jump_out_of_growth_of_a_lone_writer),
        TEST(test_a_handler_adds_during_growth),
    };
    alarm(20); /* a call that waits for itself waits for ever */
    return cmocka_run_group_tests(tests, one_file_create, test_dir_remove);
}
