/* Processes wait for each other, with a limit, and say for whom. In containers that
 * share a store each has number 1, and so has its thread. LMDB cannot tell them apart;
 * our locks can. */
#include "tests/support/repair_support.h"
#include "tests/support/still_disk.h"

#include <poll.h>

/* ---- processes of number 1, each in a namespace of its own ---- */

struct one {
    int (*work)(struct one *one);
    int said[2], told[2]; /* pipes: to the parent, from it */
    pid_t outer;          /* waits for the process of number 1 */
    const char *name;
    bool plain;  /* in no namespace of its own */
    bool killed; /* when it is told so: nothing within its namespace can */
};

static void says(struct one *one, char c)
{
    if (write(one->said[1], &c, 1) != 1)
        _exit(9);
}

static char hears(int fd)
{
    char c = 0;
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    if (poll(&answer, 1, 20000) != 1 || read(fd, &c, 1) != 1)
        return 0;
    return c;
}

static void start(struct one *one)
{
    OK(pipe(one->said) || pipe(one->told));
    one->outer = fork();
    if (one->outer)
        return;
    if (one->plain)
        _exit(one->work(one));
    if (unshare(CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0)) != 0)
        _exit(3);
    pid_t child = fork();
    int status;
    if (child == 0)
        _exit(getpid() == 1 ? one->work(one) : 4);
    if (one->killed && hears(one->told[0]))
        kill(child, SIGKILL);
    _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                   : 5);
}

static int ended(struct one *one)
{
    int status;
    for (int i = 0; i < 2; i++)
        close(one->said[i]), close(one->told[i]);
    return waitpid(one->outer, &status, 0) == one->outer ? status : -1;
}

/* ---- each reads and builds ---- */

static int builds(struct one *one)
{
    struct tamis_store *s = NULL;
    says(one, tamis_store_open(path_of("s"), NULL, &s, NULL) == 0 ? 'o' : 'x');
    if (hears(one->told[0]) != 'g')
        return 6;
    put_segment(s, one->name, 0, 10);
    says(one, 'b');
    if (hears(one->told[0]) != 'g')
        return 7;
    bool both = reason_of(s, "a", 5) == TAMIS_HIT && reason_of(s, "b", 5) == TAMIS_HIT;
    tamis_store_close(s);
    return both ? 0 : 8;
}

TEST_IN_DIR(both_read_and_build)
{
    struct one one[2] = {{.work = builds, .name = "a"}, {.work = builds, .name = "b"}};
    tamis_store_close(store_new("s"));
    for (int i = 0; i < 2; i++) {
        start(&one[i]);
        if (hears(one[i].said[0]) != 'o')
            fail_msg(
                "no store, or no namespaces: run as root, or allow those of users");
    }
    for (int step = 0; step < 2; step++)
        for (int i = 0; i < 2; i++) {
            IS(write(one[i].told[1], "g", 1), 1);
            assert_true(step || hears(one[i].said[0]) == 'b');
        }
    for (int i = 0; i < 2; i++)
        IS(ended(&one[i]), 0);
}

/* ---- one commits, one waits and is killed ---- */

static int hold(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct one *one = ctx;
    says(one, 'h');
    return hears(one->told[0]) == 'g' ? 0 : ECANCELED;
}

static int commits(struct one *one)
{
    struct tamis_store *s;
    if (tamis_store_open(path_of("s"), NULL, &s, NULL))
        return 6;
    int rc = catalog_write(s->catalog, NULL, hold, one, NULL, NULL);
    tamis_store_close(s);
    return rc ? 7 : 0;
}

static int tells_once(void *ctx, uint64_t waited_ms, const struct tamis_diag *whom)
{
    struct one *one = ctx;
    bool right = strstr(whom->what, "a process of another pid namespace") != NULL;
    if (waited_ms == 0)
        says(one, right ? 'w' : 'x');
    return 0;
}

static int waits(struct one *one)
{
    const struct tamis_open_options open = {
        .size = sizeof open, .waiting = tells_once, .ctx = one};
    struct tamis_store *s;
    if (tamis_store_open(path_of("s"), &open, &s, NULL))
        return 6;
    const struct io_wait wait = store_wait(s, 0);
    return catalog_write(s->catalog, &wait, hold, one, NULL, NULL);
}

TEST_IN_DIR(a_waiter_that_is_killed_gives_nothing_away)
{
    const struct io_wait not_at_all = {.timeout_ms = -1};
    struct one first = {.work = commits}, second = {.work = waits, .killed = true};
    struct tamis_diag diag;
    tamis_store_close(store_new("s"));
    start(&first);
    IS(hears(first.said[0]), 'h');
    start(&second);
    char said = hears(second.said[0]);
    IS(write(second.told[1], "k", 1), 1);
    IS(WEXITSTATUS(ended(&second)), 5);
    STORE s = store_open("s");
    IS(catalog_write(s->catalog, &not_at_all, hold, &first, NULL, &diag),
       TAMIS_ERR_BUSY);
    assert_string_equal(diag.what, "a process of another pid namespace is changing "
                                   "the catalog");
    IS(said, 'w');
    IS(write(first.told[1], "g", 1), 1);
    IS(ended(&first), 0);
    put_segment(s, "c", 0, 10);
}

/* ---- an edit with a limit ---- */

TEST_IN_DIR(an_edit_that_is_tired_of_waiting_goes_on_later)
{
    const int64_t limits[] = {-1, 1};
    struct one first = {.work = commits, .plain = true};
    struct tamis_diag diag;
    struct tamis_edit *e;
    char words[64];
    STORE s = store_new("s");
    start(&first);
    IS(hears(first.said[0]), 'h');
    snprintf(words, sizeof words, "process %d is changing the catalog",
             (int)first.outer);
    for (int i = 0; i < 2; i++) {
        const struct tamis_edit_options opt = {.size = sizeof opt,
                                               .timeout_ms = limits[i]};
        OK(tamis_edit_begin(s, &opt, &e, NULL));
        OK(put_keys(e, "e", 0, 10, NULL));
        IS(tamis_edit_commit(e, &diag), TAMIS_ERR_BUSY);
        assert_string_equal(diag.what, words);
        if (i == 0)
            tamis_edit_abort(e);
    }
    IS(write(first.told[1], "g", 1), 1);
    IS(ended(&first), 0);
    OK(tamis_edit_commit(e, NULL));
    IS(reason_of(s, "e", 5), TAMIS_HIT);
}

RUN_TESTS(NULL, NULL)
