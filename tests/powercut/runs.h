/* One run after the other: recorded, then cut in many places, and each state that a cut
 * leaves mounted and checked. */
#ifndef TAMIS_TESTS_POWERCUT_RUNS_H
#define TAMIS_TESTS_POWERCUT_RUNS_H

#include "tests/powercut/history.h"
#include "tests/powercut/host.h"

/* The wishes of the command line. per_run: states of one run. */
struct wanted {
    const char *fs; /* one of them; NULL: all */
    uint64_t n_states, seed, per_run;
};
extern struct wanted wanted;

/* Hashes. */
struct set {
    uint64_t *slot;
    size_t n, room; /* a power of two */
};

/* The beginning of a run: a new file system, or the remains of another after a cut. */
struct start {
    struct host_made made;
    struct history *before; /* NULL: new */
    uint64_t cut;
    unsigned generation;
};
void start_end(struct start *s);

struct tally {
    const struct host_fs *fs;
    char dir[HOST_PATH_BYTES], mount[HOST_PATH_BYTES + 8];
    struct finding *finding;
    struct set images, states; /* distinct; states: with what was acknowledged */
    uint64_t n_runs, n_continued, n_unmountable, n_damaged, n_lost, n_went_on, n_keys;
    uint64_t n_unsynced, n_unsynced_lost, n_entries, n_flushes, n_in_doubt;
};

/* next: where another run may go on; its bytes are NULL if there is no such state. */
void run_and_cut(struct tally *t, const struct start *from, struct start *next);

#endif
