/* How a time is taken: a monotonic clock; one core for everything but what needs two;
 * both sides of a figure in each round, each first in turn; medians. */
#include "tests/bench/bench.h"

#include <sched.h>
#include <time.h>

volatile uint64_t sink;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static cpu_set_t all_cores;

/* To the last core that we may use: the first one takes most interrupts. */
void pin(void)
{
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof all_cores, &all_cores) != 0)
        return;
    for (size_t core = CPU_SETSIZE; core-- > 0;)
        if (CPU_ISSET(core, &all_cores)) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

void unpin(void)
{
    sched_setaffinity(0, sizeof all_cores, &all_cores);
}

/* ---- answers ---- */

enum { OURS, PEER };

/* One side's answers so far. */
struct tally {
    const char *who;
    uint64_t n_lost, n_asked, n_maybe; /* present keys that are ABSENT; absent keys */
};

static void count(struct tally *t, const struct piece *p, size_t n_absent)
{
    if (p->present) {
        t->n_lost += n_absent;
    } else {
        t->n_asked += p->n;
        t->n_maybe += p->n - n_absent;
    }
}

/* If 400 are expected their standard deviation is 5%: 1.3 times as many are no chance.
 * If fewer are, five deviations more are. */
static void judge(const char *id, const struct tally *t, double error)
{
    double expected = error * (double)t->n_asked, most = 1.3 * expected;
    if (expected < 400)
        most += 5 * sqrt(expected) + 1;
    if (t->n_lost)
        wrong("%s: %llu present keys are ABSENT, by %s", id,
              (unsigned long long)t->n_lost, t->who);
    if ((double)t->n_maybe > most)
        wrong("%s: error %g, planned was %g, by %s", id,
              (double)t->n_maybe / (double)t->n_asked, error, t->who);
}

/* Once without a clock, to warm up: then both get the same keys. */
static void warm_up(const char *id, const struct contest *c, const struct piece *p)
{
    size_t n_ours = c->ours.ask(c->ours.subject, p);
    size_t n_peer = c->peer.ask(c->peer.subject, p);
    if (c->same && n_ours != n_peer)
        wrong("%s: the two differ: ABSENT %zu times, by the peer %zu", id, n_ours,
              n_peer);
}

/* ---- the two races ---- */

void contest(const char *id, struct contest c)
{
    static double ns[2][2][MOST_ROUNDS]; /* by piece, by side */
    unsigned rounds = bench.sizes.rounds;
    const struct asker *sides[2] = {&c.ours, &c.peer};
    struct tally tallies[2] = {{.who = "tamis"}, {.who = "the peer"}};
    if (!wanted(id))
        return;
    for (int present = c.work; present < 2; present++)
        warm_up(id, &c, piece_next(c.source, present));
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned turn = c.work ? 2 : 0; turn < 4; turn++) {
            unsigned present = turn / 2, side = (turn + r) % 2;
            const struct piece *p = piece_next(c.source, present);
            uint64_t began = now_ns();
            size_t n_absent = sides[side]->ask(sides[side]->subject, p);
            ns[present][side][r] = (double)(now_ns() - began) / (double)p->n;
            sink += n_absent;
            if (sides[side]->error > 0)
                count(&tallies[side], p, n_absent);
        }
    for (unsigned present = c.work; present < 2; present++)
        figure_set(id, present - c.work, ns[present][OURS], ns[present][PEER], rounds);
    for (unsigned side = 0; side < 2; side++)
        judge(id, &tallies[side], sides[side]->error);
}

void compare(const char *id, work_fn *ours, void *our_subject, work_fn *peer,
             void *peer_subject)
{
    unsigned rounds = bench.sizes.rounds;
    double ns[2][MOST_ROUNDS];
    if (!wanted(id))
        return;
    ours(our_subject);
    peer(peer_subject);
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned turn = 0; turn < 2; turn++) {
            unsigned side = (turn + r) % 2;
            ns[side][r] = side == OURS ? ours(our_subject) : peer(peer_subject);
        }
    figure_set(id, 0, ns[OURS], ns[PEER], rounds);
}
