/* The history of a run: its promises (tests/steps), each with the length of the disk's
 * log at that moment. From it follows what a disk must have, and may have, after a cut
 * at any point.
 *
 * An intention is stamped before the call, an acknowledgement after it has returned:
 * one that is stamped n holds of every cut at n or later. */
#ifndef TAMIS_TESTS_POWERCUT_HISTORY_H
#define TAMIS_TESTS_POWERCUT_HISTORY_H

#include "tests/crash/disk/disk.h" /* random numbers */
#include "tests/powercut/device.h"
#include "tests/steps/steps.h"

enum { MAX_MOMENTS = 8192, MAX_LIVES = 6, FINDING_BYTES = 1200 };

struct moment {
    uint64_t at;
    uint32_t n_unsynced; /* files that were never synced: a power cut must lose some */
    struct promises promises;
};

/* In memory that processes share. */
struct history {
    uint64_t seed;
    struct device *device;
    struct rng rng;
    struct promises now;
    uint32_t first_unsynced, n_unsynced, n_moments, n_lives;
    char script[MAX_LIVES][SCRIPT_BYTES]; /* of the engine's processes */
    struct moment moment[MAX_MOMENTS];
};

struct history *history_create(uint64_t seed);
void history_free(struct history *h);
/* Notes the state of its promises now. */
void history_note(struct history *h);
/* The state of its promises at the time of the cut. */
const struct moment *history_at(const struct history *h, uint64_t cut);

/* ---- life.c ---- */

/* Both: 0, or the status of a process that did not end well.
 *
 * An engine that lives in `dir`: several processes one after the other, some of which
 * end without closing anything; another calls for write-back and syncs meanwhile. */
int life_run(struct history *h, const char *dir);
/* Before that, after a power cut: what is found on the disk, promised or not, is
 * durable there, and so must be there from now on. */
int life_resume(struct history *h, const struct history *before, uint64_t cut,
                const char *dir);

/* ---- check.c ---- */

/* Written by the process that checks, read by the one that waits for it. */
struct finding {
    bool wrong;       /* and what: */
    bool file_system; /* the file system itself reports that it is damaged */
    char what[FINDING_BYTES];
    unsigned n_unsynced, n_unsynced_lost;
    unsigned n_keys; /* asked for, all acknowledged */
    bool went_on;
};

/* In a process of its own, which ends with this: looks at what is mounted at `dir` as
 * of the cut. go_on: an engine comes back, replays and goes on; then all is looked at
 * once more. */
_Noreturn void check_run(const struct history *h, uint64_t cut, const char *dir,
                         bool go_on, struct finding *out);
/* For all processes: the place of messages; NULL: stderr. */
extern struct finding *finding;
void file_unsynced(const char *dir, uint32_t number, char path[2 * STEPS_PATH_BYTES]);
void player_begin(struct player *p, struct promises *promises, const char *dir);

#endif
