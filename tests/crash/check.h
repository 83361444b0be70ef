/* The checks of every state that a power cut leaves, and the workloads' own words. */
#ifndef TAMIS_TESTS_CRASH_CHECK_H
#define TAMIS_TESTS_CRASH_CHECK_H

#include "tests/crash/record/record.h"

/* Opens the state with the library and holds it against the run's promises; then an
 * engine comes back, repairs what was hurt, replays and goes on. `hash` is the state's:
 * all draws are from it. deep: the steps of that engine are recorded and cut again. */
void check_state(struct run *r, const struct disk_state *s, uint64_t hash, bool deep);

/* The run's player, which is recorded if the run is. */
void run_player(struct run *r);
/* Plays up to the next "now". */
void run_play(struct run *r, const struct script *s);

/* ---- own.c ---- */
int own_word(struct player *p, const struct step *s);

/* ---- workloads.c ---- */
struct workload {
    const char *name;
    unsigned every, first; /* one round in `every` has it */
    const char *template;
};
extern const struct workload workloads[];
extern const size_t n_workloads;

#endif
