/* Two containers that share a store: in both the process has number 1. LMDB cannot tell
 * them apart, so the second is refused, and is not told of a copy that is not there. */
#include "tests/support/store_support.h"

#include <poll.h>
#include <sched.h>

static int number_one(void *ctx)
{
    const int *pipes = ctx;
    struct tamis_store *s;
    struct tamis_diag diag = {0};
    int rc = tamis_store_open(path_of("s"), &s, &diag);
    char c = rc == 0 ? 'o' : 'x';
    if (rc == TAMIS_ERR_BUSY && strstr(diag.what, "same number"))
        c = 'n';
    if (getpid() != 1 || write(pipes[1], &c, 1) != 1)
        return 4;
    if (read(pipes[2], &c, 1) != 0) /* until both have tried */
        return 5;
    if (!rc)
        tamis_store_close(s);
    return 0;
}

static int in_container(void *ctx)
{
    if (unshare(CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0)) != 0)
        return 3;
    in_child(number_one, ctx);
    return 0;
}

static void a_process_of_the_same_number_is_no_copy(void **state)
{
    (void)state;
    int out[2], in[2], status;
    char said[3] = "";
    pid_t child[2];
    tamis_store_close(store_new("s"));
    OK(pipe(out));
    OK(pipe(in));
    int pipes[3] = {out[0], out[1], in[0]};
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            close(in[1]);
            _exit(in_container(pipes));
        }
        struct pollfd answer = {.fd = out[0], .events = POLLIN};
        if (poll(&answer, 1, 10000) != 1 || read(out[0], &said[i], 1) != 1)
            fail_msg(
                "no namespaces of processes: run as root, or allow those of users");
    }
    close(in[1]);
    for (int i = 0; i < 2; i++)
        assert_true(waitpid(child[i], &status, 0) == child[i] && status == 0);
    assert_string_equal(said, "on");
    close(out[0]);
    close(out[1]);
    close(in[0]);
    nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_of_the_same_number_is_no_copy),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
