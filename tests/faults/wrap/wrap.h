/* Calls that fail when told to. The library's objects are linked with --wrap for every
 * function of calls.txt: each call of theirs passes through a wrapper of this folder.
 * LMDB's own calls pass through below.c. Only calls inside IN_LIB() count. */
#ifndef TAMIS_FAULTS_WRAP_H
#define TAMIS_FAULTS_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/faults/wrap/calls.h"

enum call {
#define X(name, ...) CALL_##name,
    CALLS(X)
#undef X
        N_CALLS
};

enum effect {
    FAIL,  /* nothing is done, and the call fails */
    DONE,  /* it is done, and the call fails all the same */
    HALF,  /* half of the bytes */
    NONE,  /* no bytes, no error: the end of a file */
    PANIC, /* a commit whose last page is in doubt: done, but LMDB gives up */
    DOUBT, /* the same, not done */
};

struct fault {
    const char *name; /* "EIO", ... */
    int code;
    enum effect effect;
    bool unseen;      /* the library must get around it */
    uint64_t at_most; /* times in a row; 0: any number */
};
enum { MAX_FAULTS = 9 };
struct call_type {
    const char *name;
    struct fault faults[MAX_FAULTS];
};
extern const struct call_type call_types[N_CALLS];

/* The call that fails: number `nth` (from 1) and, if `ever`, all that follow. For
 * CALL_space: all writes once `nth` - 1 bytes are written. */
struct plan {
    enum call call;
    uint64_t nth;
    const struct fault *fault;
    bool ever;
};

/* The marks of one run, from faults_begin(). */
enum { MAX_MARKS = 1024 };
struct tally {
    uint64_t called[N_CALLS];
    uint64_t before[N_CALLS];           /* the same, when the first fault struck */
    uint64_t fired;                     /* times that a fault struck */
    uint64_t planned;                   /* and of these the planned one */
    uint64_t bytes;                     /* written */
    uint64_t marks[MAX_MARKS], n_marks; /* how many, before each write */
    uint64_t n_marks_before;
    uint64_t syncs_failed; /* fdatasync of the library */
    bool preceded;         /* a fault strikes in every run */
    bool no_map_full;      /* where it is only read, the map cannot be full */
    bool excused;          /* the fault struck where it never does: it may be noticed */
    bool homeless;         /* space that could not be had was mapped for writing (R1) */
    long memory, dirs, mappings, envs, txns, cursors; /* taken and not given back */
};
extern struct tally tally;

/* plan NULL: count only. `first` (may be NULL): a fault that strikes in every run, so
 * that the ways out of it are seen to fail as well. */
void faults_begin(const struct plan *plan, const struct plan *first, bool old_system);
/* "CALL:NTH:FAULT:once|ever"; false if there is none such. */
bool plan_parse(const char *text, struct plan *plan);
void faults_end(void);                /* from now on nothing fails */
void faults_pause(bool pause);        /* another process is at work, so to speak */
const struct plan *faults_plan(void); /* NULL: none */
bool faults_excuse(void);             /* may a call fail? */
/* Before each call, of the library or LMDB (stops.c). */
void at_call(enum call call);
/* The fault that strikes this call, or NULL; fault_at() outside of IN_LIB, too. */
const struct fault *fault_at(enum call call);
const struct fault *fault_of(enum call call);
/* This process ends once LMDB has written a meta page, before it tells its readers. */
extern bool die_after_meta;
/* How many of n bytes there is space for. */
size_t space_for(size_t n);

extern _Thread_local int in_lib; /* inside of IN_LIB() of tests/steps/steps.h */
extern bool in_new_catalog;      /* whose map cannot be full */

/* For the wrappers: a failure that does nothing, errno set; what else a fault does is
 * the wrapper's. */
const struct fault *due(enum call call);
#define FAIL_AS(call, value)                                                           \
    do {                                                                               \
        if (due(call))                                                                 \
            return value;                                                              \
    } while (0)
int late(const struct fault *f, int result); /* it is done; now it fails */

/* Begins the wrapper of a call. */
#define WRAPPER(type, name, parameters)                                                \
    type __real_##name parameters;                                                     \
    type __wrap_##name parameters;                                                     \
    type __wrap_##name parameters
/* For a call that does nothing when it fails, or returns its error then. */
#define WRAP(type, name, failed, parameters, ...)                                      \
    WRAPPER(type, name, parameters)                                                    \
    {                                                                                  \
        FAIL_AS(CALL_##name, failed);                                                  \
        return __real_##name(__VA_ARGS__);                                             \
    }
#define WRAP_CODE(name, parameters, ...)                                               \
    WRAPPER(int, name, parameters)                                                     \
    {                                                                                  \
        const struct fault *f = fault_at(CALL_##name);                                 \
        return f ? f->code : __real_##name(__VA_ARGS__);                               \
    }
/* The caller gives back the result. */
#define WRAP_TAKER(type, name, count, parameters, ...)                                 \
    WRAPPER(type, name, parameters)                                                    \
    {                                                                                  \
        FAIL_AS(CALL_##name, NULL);                                                    \
        type taken = __real_##name(__VA_ARGS__);                                       \
        tally.count += in_lib && taken;                                                \
        return taken;                                                                  \
    }

void wrap_begin(uint64_t seed); /* of random numbers */
bool faults_old_system(void);

/* The system calls themselves, past everything (below.c). */
ssize_t plain_pread(int fd, void *buf, size_t n, off_t at);
ssize_t plain_pwrite(int fd, const void *buf, size_t n, off_t at);
int plain_fdatasync(int fd);
int plain_ftruncate(int fd, off_t n);
void *plain_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int plain_fcntl(int fd, int cmd, long argument);
int plain_flock(int fd, int how);
int plain_close(int fd);
int plain_openat(int dir, const char *path, int flags, mode_t mode);

#endif
