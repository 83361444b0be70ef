/* A fork at a bad moment (R14): while a child has not closed its copies yet, and after
 * a registration of fork handlers that failed. */
#include "tests/support/store_support.h"

#include <sys/file.h>
#include <sys/ptrace.h>

/* ---- registrations, counted and made to fail ---- */

typedef void handler(void);
extern void *__dso_handle;
int __register_atfork(handler *, handler *, handler *, void *);

static handler *tried[8], *installed[8];
static size_t n_tried, n_installed, fail_at;

/* In the place of libc's. */
int pthread_atfork(handler *before, handler *parent, handler *child)
{
    assert_true(n_tried < 8);
    tried[n_tried++] = before;
    if (n_tried == fail_at)
        return ENOMEM;
    int rc = __register_atfork(before, parent, child, __dso_handle);
    if (!rc)
        installed[n_installed++] = before;
    return rc;
}

/* ---- a child that stays in its first handler ---- */

static bool lingering;
static int may_go[2];

static void linger(void)
{
    char c;
    if (lingering && read(may_go[0], &c, 1) < 0)
        _exit(1);
}

/* The child has copies of all descriptors until it is let go. */
static pid_t fork_lingering(void)
{
    OK(pipe(may_go));
    lingering = true;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(0);
    lingering = false;
    return child;
}

static void let_go(pid_t child)
{
    int status;
    IS(write(may_go[1], "g", 1), 1);
    IS(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(may_go[0]);
    close(may_go[1]);
}

static int lock_of(const char *name)
{
    FD fd = open(path_of(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    int rc = dir_lock(fd, LOCK_EX | LOCK_NB);
    return rc;
}

/* ---- tests ---- */

static int create_one(void *ctx)
{
    return create_store(path_of("first"), NULL, NULL);
}

/* Handlers registered first lock last. If fork.c's handlers came after those of the
 * registry, a fork would take the two locks in another order than closing a store. The
 * first test: handlers are registered once in a process. */
TEST(handlers_keep_their_order)
{
    struct tamis_store *s;
    in_child(create_one, NULL);
    IS(n_tried, 0);
    fail_at = 1;
    IS(tamis_store_open(path_of("first"), NULL, &s, NULL), ENOMEM);
    s = store_open("first");
    tamis_store_close(s);
    IS(n_installed, 2);
    assert_true(installed[0] == tried[0] && installed[1] != tried[0]);
}

TEST(an_edit_that_ends_leaves_no_lock_to_a_child)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    pid_t child = fork_lingering();
    IS(lock_of("s/filters"), EWOULDBLOCK);
    tamis_edit_abort(e);
    OK(lock_of("s/filters"));
    tamis_store_close(s);
    OK(lock_of("s"));
    let_go(child);
}

/* ---- a child that outlives its parent ---- */

static int stays[2]; /* closed: it may end */

/* A killed engine whose forked child lives on, without an exec. The engine waits until
 * the child's handlers have run: before that, the child holds the lock file, too. */
static int open_fork_and_die(void *ctx)
{
    char c = 0;
    int runs[2];
    struct tamis_store *s = store_open("heir");
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(pipe(runs));
    pid_t child = fork();
    close(runs[child ? 1 : 0]);
    if (child != 0)
        _exit(child < 0 || read(runs[0], &c, 1) != 1 ? 2 : s && snap ? 0 : 3);
    if (write(runs[1], &c, 1) != 1)
        _exit(1);
    close(stays[1]);
    while (read(stays[0], &c, 1) < 0)
        ;
    _exit(0);
}

TEST(a_child_keeps_no_lock_file_in_use)
{
    tamis_store_close(store_new("heir"));
    OK(pipe(stays));
    in_child(open_fork_and_die, NULL);
    OK(unlink(path_of("heir/catalog.lmdb-lock")));
    tamis_store_close(store_open("heir"));
    close(stays[0]);
    close(stays[1]);
}

/* The parent lives, and opens or repairs the store that it has closed. */
TEST(a_store_goes_on_while_a_child_lives)
{
    char c;
    for (int lost = 0; lost < 2; lost++) {
        struct tamis_store *s = store_new("again");
        put_segment(s, "a", 0, 10);
        OK(pipe(stays));
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(stays[1]);
            while (read(stays[0], &c, 1) < 0)
                ;
            _exit(0);
        }
        tamis_store_close(s);
        OK(unlink(path_of(lost ? "again/catalog.lmdb" : "again/catalog.lmdb-lock")));
        if (lost)
            OK(tamis_store_repair(path_of("again"), NULL, NULL, NULL));
        tamis_store_close(store_open("again"));
        close(stays[0]);
        close(stays[1]);
        IS(waitpid(child, NULL, 0), child);
        remove_tree("again");
    }
}

/* ---- a fork after any instruction of another thread ---- */

/* The plane of the only segment is made while its parent looks on. */
static void offer_traced(struct tamis_snapshot *snap)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(2); /* not allowed here */
    raise(SIGSTOP);
    planes_offer(snap, 0);
    raise(SIGSTOP); /* the parent does not look at the end of the process */
    _exit(plane_is_ready(snap, 0, stage_epoch()) ? 0 : 1);
}

/* Whole, or not begun? */
static bool plane_is_whole_in(pid_t child, const struct plane *at)
{
    long words[sizeof *at / sizeof(long)];
    struct plane p;
    for (size_t i = 0; i < N_OF(words); i++)
        words[i] = ptrace(PTRACE_PEEKDATA, child, (const long *)at + i, NULL);
    memcpy(&p, words, sizeof p);
    if (p.n_blocks)
        assert_true(p.bits && p.lanes && p.words && p.ring == plane_ring(p.words));
    return p.n_blocks != 0;
}

/* At the child's next instruction a scrub finds a page of the segment rotten: what
 * stage_mark_bad() does, as another thread. */
static void find_rotten_in(pid_t child, struct stage *stage)
{
    OK(ptrace(PTRACE_POKEDATA, child, &stage->state, (long)stage_number(stage, NEVER)));
    long word = ptrace(PTRACE_PEEKDATA, child, &trust_clock, NULL);
    OK(ptrace(PTRACE_POKEDATA, child, &trust_clock, word + (long)CLOCK_BAD));
}

/* The child is stopped after n instructions: a fork would find its memory as it is
 * then, and a page goes bad. False: it has no more of them. */
static bool offer_amid_rot(struct tamis_snapshot *snap, struct stage *stage, int n,
                           unsigned n_whole[2])
{
    int status = 0;
    bool more = true;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        offer_traced(snap);
    IS(waitpid(child, &status, 0), child);
    for (int i = 0; WIFSTOPPED(status) && more && i < n; i++) {
        OK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL));
        IS(waitpid(child, &status, 0), child);
        more = WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP;
    }
    if (WIFSTOPPED(status) && more) {
        n_whole[plane_is_whole_in(child, &snap->planes.plane[0])]++;
        find_rotten_in(child, stage);
    }
    while (WIFSTOPPED(status)) {
        OK(ptrace(PTRACE_CONT, child, NULL, NULL));
        IS(waitpid(child, &status, 0), child);
    }
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        return false;
    IS(WEXITSTATUS(status), more); /* not ready, but at the end */
    return more;
}

TEST(a_plane_is_ready_when_it_is_whole_and_good)
{
    unsigned n_whole[2] = {0};
    int n = 1;
    STORE s = store_new("planes");
    EDIT(s, put_keys(edit, "a", 0, 10, NULL));
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_filter *f = filter_at(snap, 0);
    verified(f); /* every page is good */
    while (offer_amid_rot(snap, &view_of(f)->stages[0], n, n_whole))
        n++;
    assert_true(n == 1 || (n_whole[0] && n_whole[1]));
}

int main(void)
{
    /* Before all others, and so first in the child. */
    if (__register_atfork(NULL, NULL, linger, __dso_handle) != 0)
        return 1;
    return run_listed_tests(test_dir_create, test_dir_remove);
}
