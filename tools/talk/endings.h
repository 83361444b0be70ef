/* Delays a terminating signal until the file being written is complete or removed. */
#ifndef TAMIS_TOOLS_ENDINGS_H
#define TAMIS_TOOLS_ENDINGS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { N_ENDINGS = 9 };
struct endings {
    struct sigaction actions[N_ENDINGS];
    struct rlimit limit;
};

/* Until endings_let(), a terminating signal is noted in endings_came. */
void endings_note(struct endings *before);
/* The same, and it makes the next write fail. Either way complain() prints nothing,
 * unless complain_despite_signals() was called. If the work `failed` then,
 * endings_let() raises the signal and does not return. */
void endings_catch(struct endings *before);
void endings_let(const struct endings *before, bool failed);
/* The signal that came meanwhile, else 0. Work that does not write looks at it. */
extern volatile sig_atomic_t endings_came;
/* The same, after noting one that is held off. */
bool endings_due(void);

/* Blocks all of them but SIGPIPE until the process exits: an edit is about
 * to be committed, and its report states the outcome. */
void endings_hold(void);
/* Unblocks them before the next edit. A signal that came meanwhile takes effect. */
void endings_release(void);

#endif
