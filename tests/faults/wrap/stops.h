/* Where a thread is in the library: in which public function, at which call that may
 * block, and with how many locks. tests/faults/stops.c has threads cancelled and
 * processes stopped there. */
#ifndef TAMIS_FAULTS_WRAP_STOPS_H
#define TAMIS_FAULTS_WRAP_STOPS_H

#include "tests/faults/wrap/wrap.h"

enum { MAX_HALTS = 1 << 16, MAX_ENTRIES = 1 << 15, MAX_FUNCTIONS = 256, N_STATES = 8 };

/* The calls of public functions in one run, and the blocking calls that these make. */
struct halts {
    uint64_t n, n_entered;
    struct halt {
        uint16_t function, call, entry;
        uint16_t state; /* locks in memory; can the thread be cancelled? */
    } of[MAX_HALTS];
    bool called[MAX_FUNCTIONS];
    uint16_t locks_after[MAX_ENTRIES]; /* on files, after each call that blocked */
};

struct watch {
    enum { WATCH_COUNT, WATCH_CANCEL, WATCH_STOP } act;
    uint64_t nth;        /* at which blocking call; from 1 */
    struct halts *steps; /* WATCH_COUNT: filled. Else they were counted before */
    uint64_t n, n_entered, n_at_entry;
    struct halt *at;       /* where it happened, for all processes */
    unsigned locks_before; /* on files, when the function was called */
    bool went_on;          /* after a stop, in which others changed things */
};
extern struct watch watch;

extern _Thread_local struct spot {
    bool watched;
    int depth; /* of public functions */
    int function, call;
    int locks; /* in memory, those of LMDB included */
} spot;

/* The locks that this process's descriptors have. */
unsigned file_locks(void);
/* Is called before a call waits for another process, or NULL; `certain` unless it is a
 * pause after which the library may give up waiting. */
extern void (*on_wait)(bool certain);

/* Around each call of a public function, by the macros of public.h. */
int public_enter(int function);
void public_leave(int *entered);
#define PUBLIC(n, function, call) PUBLIC_(n, function, call)
#define PUBLIC_(n, function, call)                                                     \
    __extension__({                                                                    \
        int entered_##n __attribute__((cleanup(public_leave))) =                       \
            public_enter(function);                                                    \
        (void)entered_##n;                                                             \
        call;                                                                          \
    })

/* libc's own, counted. */
int plain_lock(pthread_mutex_t *m);
int plain_unlock(pthread_mutex_t *m);

#endif
