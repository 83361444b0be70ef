/* kill -9: a process plays a script of steps (tests/steps) and dies at a call that
 * changes files or locks, or at any moment. The next one finds what the dead have left,
 * holds it against the promises, goes on, and may die, too. The dead lose no page
 * cache, so each add that had returned must be there; none of their locks, and nothing
 * half done of theirs, is in the way of those that go on.
 *
 *   cases.c     the templates of the scripts
 *   life.c      what a process does that is to die: checks, plays, adds from threads;
 *               and one that lives on beside, with all open since before the deaths
 *   trap.c      kills at the n-th call; a child that was forked there outlives it
 *   kill.c      options, processes, counts */
#ifndef TAMIS_TESTS_KILL_H
#define TAMIS_TESTS_KILL_H

#include "tests/steps/steps.h"

struct template
{
    const char *name;
    bool forks;    /* no store is opened or closed behind "now", by no word */
    bool is_asked; /* its growing filters stay: the witness asks all the time */
    const char *text;
};
extern const struct template templates[];
extern const size_t n_templates;

struct death {
    uint64_t at_call; /* 0: none */
    enum when { BEFORE, WITHIN, AFTER } when;
    uint64_t at_tick;       /* of those that the parent waits for, to kill; 0: none */
    bool forks;             /* at that call */
    uint64_t forks_at_tick; /* at any moment, from another thread; 0: it does not */
};

/* All processes have it. */
struct shared {
    struct promises promises;
    struct player player;               /* `at` and `done` are for the next process */
    _Atomic uint32_t done[MAX_OBJECTS]; /* of a growing filter's log: adds returned */
    bool cut_opening;                   /* one has died before the store was open */
    _Atomic bool is_settling; /* an edit has returned, promises have not changed */
    _Atomic uint64_t n_calls, n_ticks; /* of this process; ticks: adds as well */
    _Atomic uint64_t n_asked, n_added, n_forked;
};
extern struct shared *shared;

struct life {
    const struct template *template;
    struct script script;
    char dir[STEPS_PATH_BYTES];
    uint64_t rng;
    uint32_t number; /* of the process: how many have died */
    int hold[2];     /* a pipe: forked children live until its other end is closed */
};

/* ---- life.c ---- */
/* Plays the steps before "now", in which no process dies. */
void live_prelude(const struct life *l);
void live(const struct life *l, const struct death *d);
/* While other threads add n keys, if there are any: no longer than they do. */
void await_adders(uint64_t n, uint64_t patience);

/* Whenever a byte comes, it looks at everything and answers by one. */
void witness(const struct life *l, int asked);

/* ---- trap.c ---- */
void trap_set(const struct life *l, const struct death *d);
void trap_off(void);
void tick(void);

#endif
