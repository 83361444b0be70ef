/* Signals that end a command: held off until what it was writing is whole, or gone. */
#ifndef TAMIS_TOOLS_ENDINGS_H
#define TAMIS_TOOLS_ENDINGS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { N_ENDINGS = 5 };
struct endings {
    struct sigaction actions[N_ENDINGS];
    struct rlimit limit;
};

/* From here to endings_let() a signal to end makes the next write fail. If what was
 * done then has failed, the signal does what it does, and this does not return. */
void endings_catch(struct endings *before);
void endings_let(const struct endings *before, bool failed);

/* From here to the end of the process a signal to end waits, and is forgotten: an edit
 * is about to be committed, and its report says what has become of it. SIGQUIT is not
 * held off. */
void endings_hold(void);

#endif
