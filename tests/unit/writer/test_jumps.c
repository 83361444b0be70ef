/* A signal handler adds while its thread grows the filter, or leaves the growth by
 * siglongjmp(): no later call waits for itself, and no key that a commit
 * acknowledged is lost. */
#include "tests/support/one_file.h"

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
    random_hashes(keys, N);
    writer = fresh(FIRST);
    add_hashes(writer, keys, FIRST / 2);
    OK(tamis_writer_commit(writer, 7, NULL));
    io_calls.fdatasync = syncing;
    return 0;
}

static int tear_down(void **state)
{
    io_calls.fdatasync = fdatasync;
    in_sync = NULL;
    return 0;
}

#define TEST_WITH_ALARM(name) TEST_WITH(set_up, tear_down, name)

static int add(size_t i)
{
    return tamis_writer_add_hashes(writer, writer->domain.tag, &keys[i], 1);
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
    all_there(path, keys, FIRST / 2);
    writer = open_writer(path);
    IS(writer->watermark, 7);
    OK(tamis_writer_close(writer, NULL));
}

static void refuses_and_closes(void)
{
    struct tamis_filter_info info;
    IS(tamis_writer_commit(writer, 9, NULL), TAMIS_ERR_THREAD);
    IS(tamis_writer_info(writer, &info, NULL), TAMIS_ERR_THREAD);
    IS(tamis_writer_seal(writer, 9, NULL, NULL), TAMIS_ERR_THREAD);
    IS(tamis_writer_close(writer, NULL), TAMIS_ERR_POISONED);
    reopens();
}

TEST_WITH_ALARM(test_a_jump_out_of_growth)
{
    assert_true(growth_is_left());
    for (size_t i = 0; i < N; i++) /* into the stage that is full */
        IS(add(i), 0);
    refuses_and_closes();
}

TEST_WITH_ALARM(test_a_jump_out_of_growth_of_a_lone_writer)
{
    writer_own(writer);
    assert_true(growth_is_left());
    IS(add(0), TAMIS_ERR_THREAD);
    refuses_and_closes();
}

static void add_the_last(void)
{
    IS(add(N - 1), 0);
}

TEST_WITH_ALARM(test_a_handler_adds_during_growth)
{
    in_sync = add_the_last;
    add_hashes(writer, keys, N - 1);
    assert_null(in_sync);
    commit_and_close(writer, 9);
    all_there(path, keys, N);
}

int main(void)
{
    alarm(20); /* a call that waits for itself waits for ever */
    return run_listed_tests(one_file_create, test_dir_remove);
}
