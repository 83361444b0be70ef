/* The checks of every state that a power cut leaves. */
#ifndef TAMIS_TESTS_CRASH_CHECK_H
#define TAMIS_TESTS_CRASH_CHECK_H

#include "tests/crash/record/record.h"
#include "tests/model/model.h"

/* Files that states are written to, one a level, under `dir`. */
void check_open_images(const char *dir);
void check_close_images(const char *dir);

/* Opens the state with the library and holds it against the run's promises; then a
 * writer opens it, replays and goes on. `hash` is the state's: what is drawn is drawn
 * from it. deep: what that writer does is recorded and cut again. */
void check_state(struct run *r, const struct disk_state *s, uint64_t hash, bool deep);

/* A reader finds all that was promised, but for the newest watermark if a slot is
 * rotten. */
void expect_promises(const struct run *r, struct tamis_filter *f, bool rotten);

/* The first n keys of the log are all MAYBE, and because they are there. */
void expect_log(const struct run *r, struct tamis_filter *f, size_t n);
/* The promises of the run's filter as the model has them. Failures are the run's from
 * now on. */
struct promised_filter promised_by(const struct run *r, bool rotten);
/* Keys of the run's log from a position on. */
struct log_part {
    const struct run *run;
    size_t from;
};
bool key_of_part(const void *log_part, uint64_t i, struct tamis_key *out);

/* ---- session.c ---- */
/* A session: opens the filter, replays from its watermark, adds more, commits, and
 * closes, dies or seals. f: a reader that looks on, or NULL. Recorded if the run is. */
void session(struct run *r, struct tamis_filter *f, bool may_seal);
/* Ends as kill -9 does: nothing is written, the lock is gone. */
void session_kill(struct run *r);
/* The same in the middle of a commit: when it comes to its first or second sync. */
void session_kill_in_commit(struct run *r, unsigned at_sync);
void session_add(struct run *r, size_t position);
void session_commit(struct run *r);
void session_close(struct run *r);
void session_seal(struct run *r);

#endif
