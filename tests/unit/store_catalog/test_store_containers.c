/* Processes wait for each other, with a limit, and say for whom. In containers that
 * share a store each has number 1, and so has its thread. LMDB cannot tell them apart;
 * our locks can. */
#include "lib/store/catalog/lmdb.h"
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
    STORE s = NULL;
    says(one, tamis_store_open(path_of("s"), NULL, &s, NULL) == 0 ? 'o' : 'x');
    if (hears(one->told[0]) != 'g')
        return 6;
    put_segment(s, one->name, 0, 10);
    says(one, 'b');
    if (hears(one->told[0]) != 'g')
        return 7;
    bool both = reason_of(s, "a", 5) == TAMIS_HIT && reason_of(s, "b", 5) == TAMIS_HIT;
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

static int hold(struct catalog_txn *t, void *ctx)
{
    struct one *one = ctx;
    says(one, 'h');
    if (one->killed)
        pause();
    return hears(one->told[0]) == 'g' ? 0 : ECANCELED;
}

static int commits(struct one *one)
{
    STORE s;
    if (tamis_store_open(path_of("s"), NULL, &s, NULL))
        return 6;
    return catalog_write(s->catalog, NULL, 0, hold, one, NULL, NULL) ? 7 : 0;
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
    return catalog_write(s->catalog, &wait, 0, hold, one, NULL, NULL);
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
    IS(catalog_write(s->catalog, &not_at_all, 0, hold, &first, NULL, &diag),
       TAMIS_ERR_BUSY);
    assert_string_equal(diag.what, "a process of another pid namespace is changing "
                                   "the catalog");
    IS(said, 'w');
    IS(write(first.told[1], "g", 1), 1);
    IS(ended(&first), 0);
    put_segment(s, "c", 0, 10);
}

/* ---- one is killed while it reads; the next one has its number ---- */

static int reads(struct one *one)
{
    struct tamis_store *s;
    if (tamis_store_open(path_of("s"), NULL, &s, NULL))
        return 6;
    return catalog_read(s->catalog, hold, one, NULL);
}

static int one_slot(void *ctx)
{
    size_t n_bytes, n = 0;
    FREED uint8_t *bytes = file_read(path_of("s/catalog.lmdb-lock"), &n_bytes);
    const struct lmdb_lock *l = (const void *)bytes;
    for (uint32_t i = 0; i < l->n_slots; i++)
        n += l->slots[i].pid == 1;
    return n != 1;
}

TEST_IN_DIR(a_slot_of_the_own_number_is_cleared)
{
    struct one first = {.work = reads, .killed = true}, second = {.work = reads};
    STORE s = store_new("s"); /* so that the lock file is not made anew */
    start(&first);
    IS(hears(first.said[0]), 'h');
    IS(write(first.told[1], "k", 1), 1);
    IS(WEXITSTATUS(ended(&first)), 5);
    in_child(one_slot, NULL);
    start(&second);
    IS(hears(second.said[0]), 'h');
    in_child(one_slot, NULL);
    IS(write(second.told[1], "g", 1), 1);
    IS(ended(&second), 0);
}

/* ---- a directory's lock ---- */

/* A process that has let it go, or lost it, is not named any more. */
TEST_IN_DIR(only_a_holder_is_named)
{
    char text[HOLDER_TEXT_BYTES];
    struct io_guarded_fd dir[3];
    for (int i = 0; i < 3; i++)
        OK(dir_open_guarded(AT_FDCWD, test_dir, &dir[i]));
    for (int lost = 0; lost < 2; lost++) {
        OK(dir_lock(dir[0].fd, LOCK_SH | LOCK_NB));
        OK(dir_lock(dir[1].fd, LOCK_SH | LOCK_NB));
        if (lost)
            IS(dir_lock(dir[1].fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
        else
            dir_unlock(dir[1].fd);
        dir_unlock(dir[0].fd);
        assert_string_equal(io_holder(dir[2].fd, LOCK_DIRECTORY, text),
                            "another process");
    }
    for (int i = 0; i < 3; i++)
        dir_close_guarded(&dir[i]);
}

/* ---- readers beside commits as fast as they come ---- */

/* Each transaction has one segment, whose name is its number. */
static int commits_on(struct one *one)
{
    struct pollfd told = {.fd = one->told[0], .events = POLLIN};
    STORE s = store_open("s");
    for (unsigned n = 1; poll(&told, 1, 0) == 0; n++) {
        char name[2][16];
        struct tamis_edit *e = edit_new(s);
        for (unsigned i = 0; i < 2; i++)
            snprintf(name[i], sizeof name[i], "%08u", n - i);
        OK(tamis_edit_put_bare(e, name[0], 8, NULL, NULL));
        if (n > 1)
            OK(tamis_edit_drop(e, name[1], 8, NULL, NULL));
        OK(tamis_edit_commit(e, NULL));
        if (n == 1)
            says(one, 'h');
    }
    return 0;
}

TEST_IN_DIR(readers_get_on_beside_commits_without_pause)
{
    struct one writer = {.work = commits_on, .plain = true};
    tamis_store_close(store_new("s"));
    start(&writer);
    IS(hears(writer.said[0]), 'h');
    for (int slot = 0; slot < 2; slot++) {
        STORE s = store_open("s");
        unsigned last = 0;
        if (!slot)
            catalog_env_close(s->catalog);
        for (unsigned n_lists = 0; n_lists < by_form(100, 1000);) {
            struct tamis_snapshot *snapshot;
            int rc = tamis_snapshot_current(s, &snapshot, NULL);
            if (rc == TAMIS_ERR_BUSY && !slot)
                continue; /* a commit was met too often: once more */
            OK(rc);
            IS(tamis_snapshot_info(snapshot).n_segments, 1);
            struct tamis_segment_info info = segment_at(snapshot, 0);
            unsigned number = (unsigned)strtoul((const char *)info.name, NULL, 10);
            tamis_snapshot_release(snapshot);
            assert_true(number >= last);
            n_lists += number > last;
            last = number;
        }
    }
    IS(write(writer.told[1], "g", 1), 1);
    IS(ended(&writer), 0);
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
