/* The parent: starts a writer, ends it by kill -9 in one way or another, starts the
 * next, and holds what readers and writers have seen against what must be.
 *
 *     kill [--cycles N] [--seed S]
 *
 * The seed decides which writer is killed how. The scheduler decides what its threads
 * were doing then, so a run cannot be repeated exactly. */
#include "tests/kill/kill.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HELD = 4 };
static const int64_t GIVE_UP_US = 20000000;

static struct {
    uint64_t rng, n_cycles;
    uint64_t n_random, n_phase, n_trapped, n_child;
    pid_t readers[N_READERS];
    int held[MAX_HELD]; /* ends of the pipes that children wait at, or -1 */
    /* The writer before left a child in this mode (or N_MODES): if it keeps a lock, the
     * next writer there does not get to work. */
    enum mode left;
    int bad;
} p;

/* ---- processes ---- */

/* Goes on in the new process only, where it returns 0. */
static pid_t start(void)
{
    pid_t pid = fork();
    if (pid < 0)
        exit(2);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < MAX_HELD; i++)
        if (p.held[i] >= 0)
            close(p.held[i]);
    return 0;
}

static pid_t start_writer(const struct orders *o)
{
    static void (*const lives[N_MODES])(const struct orders *) = {store_writer,
                                                                  lone_writer, creator};
    pid_t pid = start();
    if (pid)
        return pid;
    trap_set(o);
    lives[o->mode](o);
    _exit(0);
}

static void failed(const char *what, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "LOST: %s died of signal %d\n", what, WTERMSIG(status));
    else if (WEXITSTATUS(status) != 3) /* 3 has told by itself */
        fprintf(stderr, "LOST: %s ended with %d\n", what, WEXITSTATUS(status));
    p.bad = 1;
}

/* Readers that ended, children of dead writers. */
static void reap(bool all)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, all ? 0 : WNOHANG)) > 0) {
        bool is_reader = false;
        for (int i = 0; i < N_READERS; i++)
            is_reader |= pid == p.readers[i];
        if (status || (is_reader && !all))
            failed(is_reader ? "a reader" : "a writer's child", status);
    }
}

/* ---- one cycle ---- */

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Waits until the process has ended, but no longer; has it? */
static bool ends_within(int pidfd, int64_t us)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    return ppoll(&poll_fd, 1, &t, NULL) > 0;
}

static void await_phase(int pidfd, enum phase phase)
{
    int64_t give_up = now_us() + 40000;
    while (shared->phase != phase && now_us() < give_up && !ends_within(pidfd, 0))
        sched_yield();
    ends_within(pidfd, (int64_t)rng_below(&p.rng, 300));
}

/* A writer that waits for a lock of the dead would wait for ever: now and then one is
 * given the time to get to work. */
static void await_work(int pidfd, enum mode mode)
{
    static const char *const what[] = {"of a store", "of a lone filter",
                                       "who creates a store"};
    int64_t give_up = now_us() + GIVE_UP_US;
    while (!shared->ready && !ends_within(pidfd, 100))
        if (now_us() > give_up) {
            fprintf(stderr, "LOST: a writer %s does not get to work\n", what[mode]);
            p.bad = 1;
            return;
        }
}

static void end_writer(pid_t pid, const struct orders *o)
{
    int status, pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    uint64_t *kind = &p.n_random;
    if (pidfd < 0)
        exit(2);
    if (o->trap) {
        if (ends_within(pidfd, 100000))
            kind = &p.n_trapped;
    } else if (!o->patient && rng_below(&p.rng, 2)) {
        await_phase(pidfd, 1 + (enum phase)rng_below(&p.rng, N_PHASES - 1));
        kind = &p.n_phase;
    } else {
        if (o->patient)
            await_work(pidfd, o->mode);
        ends_within(pidfd, (int64_t)rng_below(&p.rng, 40000));
    }
    while (shared->waiting && !ends_within(pidfd, 1000))
        ; /* until it has the lock, or gives up and tells */
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        exit(2);
    close(pidfd);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        failed("a writer", status);
    (*kind)++;
}

static void release_child(int slot)
{
    if (p.held[slot] >= 0)
        close(p.held[slot]);
    p.held[slot] = -1;
}

static void cycle(uint64_t number)
{
    struct orders o = draw_orders(&p.rng, p.left);
    uint64_t n_children = shared->n_children;
    int slot = (int)(number % MAX_HELD);
    /* A child lives through the next three writers' lives. */
    release_child(slot);
    if (pipe(o.hold) != 0)
        exit(2);
    shared->phase = PHASE_NONE;
    shared->ready = shared->waiting = 0;
    pid_t pid = start_writer(&o);
    end_writer(pid, &o);
    close(o.hold[0]);
    p.held[slot] = o.hold[1];
    bool left = shared->n_children > n_children;
    p.n_child += left;
    p.left = left ? o.mode : N_MODES;
    reap(false);
}

/* ---- the run ---- */

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void wait_for(pid_t pid, const char *what)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || status)
        failed(what, status);
}

/* The last writers end by themselves; then everything is looked at. */
static void finish(void)
{
    shared->stop = 1;
    for (enum mode mode = MODE_STORE; mode < N_MODES && !p.bad; mode++) {
        struct orders o = {.mode = mode, .seed = rng_next(&p.rng)};
        wait_for(start_writer(&o), "the last writer");
    }
}

static void begin(void)
{
    pid_t pid = start();
    if (pid == 0) {
        create_store();
        _exit(0);
    }
    wait_for(pid, "creating the store");
    for (unsigned i = 0; i < N_READERS && !p.bad; i++) {
        p.readers[i] = start();
        if (p.readers[i] == 0) {
            reader(i);
            _exit(0);
        }
    }
}

static void look_at_all(void)
{
    pid_t pid = start();
    if (pid == 0) {
        check_all();
        _exit(0);
    }
    wait_for(pid, "the look at everything");
}

/* Readers must have been able to say ABSENT, or "0 lost" means nothing. */
static void expect_answers(void)
{
    uint64_t n = shared->n_strangers;
    if (!p.bad && (n < 1000 || shared->n_strangers_absent < n / 10 * 9)) {
        fprintf(stderr, "LOST: of %llu keys never added only %llu are ABSENT\n",
                (unsigned long long)n, (unsigned long long)shared->n_strangers_absent);
        p.bad = 1;
    }
    if (shared->n_reasons[TAMIS_DAMAGED] || shared->n_reasons[TAMIS_MISMATCH]) {
        fputs("LOST: whole filters were taken for damaged ones\n", stderr);
        p.bad = 1;
    }
}

static void report(double seconds)
{
    const struct shared *s = shared;
    typedef unsigned long long n;
    printf(
        "%llu cycles: killed at random instants %llu, in a phase %llu, at a call %llu; "
        "%llu left a forked child (%llu tried to write)\n",
        (n)p.n_cycles, (n)p.n_random, (n)p.n_phase, (n)p.n_trapped, (n)p.n_child,
        (n)s->n_refused);
    printf("%llu keys in segments, %llu in lone filters, %llu replayed; %llu commits, "
           "%llu growths, %llu seals, %llu edits, %llu created\n",
           (n)s->log[0].added[0], (n)s->log[1].added[0], (n)s->n_replayed,
           (n)s->n_commits, (n)s->n_growths, (n)s->n_seals, (n)s->n_edits,
           (n)s->n_created);
    printf("%llu keys asked for by readers:", (n)s->n_asked);
    for (int i = 0; i < 9; i++)
        if (s->n_reasons[i])
            printf(" %s %llu", tamis_reason_name((enum tamis_reason)i),
                   (n)s->n_reasons[i]);
    printf("; of %llu never added %llu ABSENT; seed %llu, %.1f s\n", (n)s->n_strangers,
           (n)s->n_strangers_absent, (n)run_seed, seconds);
    puts(p.bad || s->n_lost ? "FAILED" : "0 lost");
}

static int run(void)
{
    int64_t began = now_us();
    begin();
    for (uint64_t i = 0; i < p.n_cycles && !p.bad && !shared->n_lost; i++)
        cycle(i);
    if (!p.bad && !shared->n_lost)
        finish();
    shared->stop = 2;
    for (int i = 0; i < MAX_HELD; i++)
        release_child(i);
    reap(true);
    if (!p.bad && !shared->n_lost)
        look_at_all();
    expect_answers();
    report((double)(now_us() - began) * 1e-6);
    return p.bad || shared->n_lost ? 1 : 0;
}

static void prepare(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(test_dir, sizeof test_dir, "%.200s/tamis-kill.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm"
             : tmp                         ? tmp
                                           : "/tmp");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(test_dir) ||
        mkdir(path_to("lone"), 0700) != 0) {
        perror("kill");
        exit(2);
    }
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < MAX_HELD; i++)
        p.held[i] = -1;
    p.left = N_MODES;
    p.rng = mix64(run_seed, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int main(int argc, char **argv)
{
    run_seed = 1;
    p.n_cycles = 300;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--cycles") == 0)
            p.n_cycles = strtoull(argv[i + 1], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            run_seed = strtoull(argv[i + 1], NULL, 10);
        else
            return fputs("usage: kill [--cycles N] [--seed S]\n", stderr), 2;
    }
    prepare();
    int bad = run();
    nftw(test_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return bad;
}
