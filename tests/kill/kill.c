/* The parent: draws scripts, lets processes live and die, and counts.
 *
 *     kill [--cycles N] [--every E] [--seed S] [--only CASE:N]
 *
 * In each case a life ends at each E-th call, and at some moments, which have the
 * numbers behind those of the calls. */
#include "tests/kill/kill.h"

#include <inttypes.h>
#include <sched.h>
#include <sys/socket.h>

enum { HANG_SECONDS = 60, MOMENTS = 6, MOST_DEATHS = 4 };

struct shared *shared;
static uint64_t seed = 1, n_cycles = 300, every = 12, only_case = UINT64_MAX, only_life;
static uint64_t n_killed, n_at_calls, n_lives, n_cases, n_asked, n_added, n_forked;
static const char *program;
static char root[ROOT_BYTES];
static struct {
    uint64_t number, life;
} now;
static struct {
    pid_t pid;
    int ask; /* a socket */
} beside;    /* the witness */

_Noreturn void model_broken(const char *text)
{
    fprintf(stderr, "LOST: %s\n", text);
    _exit(3);
}

/* ---- processes ---- */

static void fail(const char *what, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "LOST: %s died of signal %d%s\n", what, WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? ": it hangs" : "");
    if (beside.pid)
        kill(beside.pid, SIGKILL);
    fprintf(stderr, "FAILED: %s --seed %llu --only %llu:%llu\n", program,
            (unsigned long long)seed, (unsigned long long)now.number,
            (unsigned long long)now.life);
    exit(1);
}

/* True: it was killed, and not while it noted what an edit had come to. */
static bool live_and_die(const struct life *l, const struct death *d)
{
    int status = 0;
    shared->n_calls = shared->n_ticks = 0;
    pid_t pid = process_start(HANG_SECONDS);
    if (pid == 0) {
        live(l, d);
        _exit(0);
    }
    pid_t ended = 0;
    while (d->at_tick && !ended && shared->n_ticks < d->at_tick) {
        ended = waitpid(pid, &status, WNOHANG);
        sched_yield();
    }
    if (d->at_tick && !ended)
        kill(pid, SIGKILL);
    if (!ended)
        status = process_end(pid);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (status && !killed)
        fail("a process", status);
    n_killed += killed;
    n_at_calls += killed && d->at_call;
    return killed && (d->at_call || !shared->is_settling);
}

/* Waits for the witness's answer: it is there, or it has looked. */
static void await_witness(void)
{
    char byte;
    if (read(beside.ask, &byte, 1) != 1)
        fail("the witness", process_end(beside.pid));
}

static void start_witness(const struct life *l)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        abort();
    beside.pid = process_start(HANG_SECONDS);
    if (beside.pid == 0) {
        close(ends[0]);
        close(l->hold[1]);
        witness(l, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    beside.ask = ends[0];
    await_witness();
}

static void ask_witness(void)
{
    (void)!write(beside.ask, "", 1);
    await_witness();
}

static void end_witness(void)
{
    close(beside.ask);
    int status = process_end(beside.pid);
    beside.pid = 0;
    if (status)
        fail("the witness", status);
}

/* ---- one life after the other ---- */

/* At a call, or at any moment; so do those that come after it, or they live. */
static struct death draw_death(struct life *l, uint64_t n_calls, uint64_t n_ticks,
                               uint64_t nth)
{
    struct death d = {0};
    if (l->number == MOST_DEATHS || (l->number && draw_below(&l->rng, 2)))
        return d;
    if (l->number)
        nth = 1 + draw_below(&l->rng, n_calls + n_calls / 4 + 1);
    if (nth > n_calls) {
        d.at_tick = 1 + draw_below(&l->rng, n_ticks);
        return d;
    }
    d.at_call = nth;
    d.when = (enum when)draw_below(&l->rng, 3);
    d.forks = l->template->forks && draw_below(&l->rng, 3) == 0;
    if (l->template->forks && draw_below(&l->rng, 4) == 0)
        d.forks_at_tick = 1 + draw_below(&l->rng, d.at_call);
    return d;
}

/* Life 0 ends by itself: how many calls and ticks are there? */
static void play_life(const struct life *first, uint64_t n_calls, uint64_t n_ticks)
{
    struct life l = *first;
    struct death d = {0};
    memset(shared, 0, sizeof *shared);
    l.rng = seed + (now.number << 32) + now.life;
    if (mkdir(l.dir, 0700) != 0 || pipe(l.hold) != 0)
        abort();
    pid_t pid = process_start(HANG_SECONDS);
    if (pid == 0) {
        live_prelude(&l);
        _exit(0);
    }
    int status = process_end(pid);
    if (status)
        fail("the beginning", status);
    bool watched = shared->promises.store == THERE || l.template->is_asked;
    watched &= !shared->promises.n_kept;
    if (watched)
        start_witness(&l);
    if (now.life)
        d = draw_death(&l, n_calls, n_ticks, now.life);
    while (live_and_die(&l, &d)) {
        if (watched)
            ask_witness();
        l.number++;
        d = draw_death(&l, n_calls, n_ticks, 0);
    }
    close(l.hold[0]);
    close(l.hold[1]); /* children end, and with them what they have inherited */
    if (watched && !shared->is_settling)
        ask_witness();
    if (watched)
        end_witness();
    tree_remove(l.dir);
    n_lives++;
    n_asked += shared->n_asked;
    n_added += shared->n_added;
    n_forked += shared->n_forked;
}

static void play_case(void)
{
    struct life l = {.template = &templates[now.number % n_templates]};
    char text[SCRIPT_BYTES];
    uint64_t rng = seed * 1000003 + now.number;
    script_draw(l.template->text, &rng, text);
    if (!script_parse(text, &l.script))
        abort();
    if (only_case != UINT64_MAX)
        printf("%s: %s\n", l.template->name, text);
    snprintf(l.dir, sizeof l.dir, "%s/case", root);
    now.life = 0;
    play_life(&l, 0, 0);
    uint64_t n_calls = shared->n_calls, n_ticks = shared->n_ticks;
    uint64_t first = 1 + draw_below(&rng, every), last = n_calls + MOMENTS;
    if (only_case != UINT64_MAX)
        first = last = only_life;
    for (now.life = first; now.life <= last && n_killed < n_cycles;
         now.life += now.life < n_calls ? every : 1)
        play_life(&l, n_calls, n_ticks);
    n_cases++;
}

/* ---- the run ---- */

static void remove_all(void)
{
    tree_remove(root);
}

/* A test without lives would lose no key: each part must have had its turn. */
static bool report(void)
{
    bool good = n_killed && n_asked && n_added && n_forked;
    printf(
        "%llu lives of %llu cases; killed %llu times, %llu of them at a call; %llu "
        "forked children outlived them; %llu keys added beside, %llu asked for\n%s\n",
        (unsigned long long)n_lives, (unsigned long long)n_cases,
        (unsigned long long)n_killed, (unsigned long long)n_at_calls,
        (unsigned long long)n_forked, (unsigned long long)n_added,
        (unsigned long long)n_asked,
        good || only_case != UINT64_MAX ? "0 lost" : "FAILED: not all was tried");
    return good || only_case != UINT64_MAX;
}

int main(int argc, char **argv)
{
    const char *only = "";
    const struct known_option known[] = {{"cycles", .number = &n_cycles},
                                         {"every", .number = &every},
                                         {"seed", .number = &seed},
                                         {"only", .text = &only},
                                         {0}};
    program = argv[0];
    if (!options_read(argc, argv, known) || every == 0)
        return 2;
    sscanf(only, "%" SCNu64 ":%" SCNu64, &only_case, &only_life);
    signal(SIGPIPE, SIG_IGN);
    tree_root(root, "kill");
    shared = memory_shared(sizeof *shared);
    atexit(remove_all);
    now.number = only_case != UINT64_MAX ? only_case : 0;
    do {
        play_case();
        now.number++;
    } while (only_case == UINT64_MAX && n_killed < n_cycles);
    return report() ? 0 : 1;
}
