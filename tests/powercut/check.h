/* The checks of a file system that comes back after a power cut. */
#ifndef TAMIS_TESTS_POWERCUT_CHECK_H
#define TAMIS_TESTS_POWERCUT_CHECK_H

#include "tests/powercut/history.h"

enum { FINDING_BYTES = 1200 };

/* Written by the process that checks, read by the one that waits for it. */
struct finding {
    bool wrong;       /* and what: */
    bool file_system; /* the file system itself reports that it is damaged */
    char what[FINDING_BYTES];
    /* Files that nobody synced. */
    unsigned n_unsynced, n_unsynced_lost;
    unsigned n_keys; /* asked for, all acknowledged */
    bool went_on;
};

/* In a process of its own, which ends with this: looks at what is mounted at `dir` as
 * of the cut. go_on: a writer reopens, replays and goes on, and an edit follows; then
 * all is looked at once more. */
_Noreturn void check_run(const struct history *h, uint64_t cut, const char *dir,
                         bool go_on, struct finding *out);

#endif
