/* Recording: a run of the real library on real files, each of its system calls that
 * write, and each store through its mappings, noted in a struct disk. */
#ifndef TAMIS_TESTS_CRASH_RECORD_H
#define TAMIS_TESTS_CRASH_RECORD_H

#include <sys/mman.h>

#include "lib/writer/inside.h"
#include "tests/crash/disk/disk.h"
#include "tests/steps/steps.h"

enum { RUN_PATH_BYTES = 256, MAX_LEVEL = 4 };

struct helper;
struct run {
    struct disk disk;
    struct rng rng;
    const char *workload, *script;
    char dir[RUN_PATH_BYTES];
    uint64_t dir_inode;
    struct promises promises;
    struct player player;
    struct helper *helper;  /* a second thread that adds, or NULL */
    size_t helper_object;   /* to this filter */
    int fd[DISK_MAX_FILES]; /* of ours, to look at the files */
    unsigned fail_sync;     /* the how many-th sync of a file from now fails */
    unsigned die_sync;      /* the writer is killed when it comes to that sync */
    bool is_killed;
    bool opening;     /* what it created: not recorded until it is open */
    bool sync_failed; /* in the call that is under way */
    unsigned round, event, level;
    uint64_t clock;
    struct run *parent;           /* the state under check there is where we began */
    const struct disk_state *now; /* under check */
    struct disk_items items;
    struct disk_state state;
    void (*on_event)(struct run *r); /* the explorer */
};

/* The run whose calls are recorded; NULL: calls are done, but for syncs, and not
 * noted. */
extern struct run *recording;

void record_install(void);
void record_begin(struct run *r, const char *dir, uint64_t seed);
void record_end(struct run *r);
/* Looks for stores through mappings, takes over what writers promise by now, and lets
 * the explorer have the states of this moment. */
void record_event(struct run *r);
/* Notes a call: the changes were not stored through a mapping. */
void record_call(struct run *r, bool by_mapping);
/* Only looks. */
void record_look(struct run *r);
/* The kernel failed to write the dirty pages back, and nobody was told. */
void record_lie(struct run *r);

/* No writer is open: their mappings are gone. */
void record_unmapped(void);
bool record_has_lied(const struct run *r);

/* An open file of the run's, known from now on, or NULL; is a directory recorded? */
struct disk_file *record_file(struct run *r, int fd);
bool record_dir(struct run *r, int fd, int *dir);

/* ---- calls.c ---- */
void calls_seed(uint64_t seed); /* for draws while nothing is recorded */

/* ---- trees of directories ---- */
/* Names of the run's tree that are not known yet (mkdir and open are no calls that are
 * recorded). durable: it all was there before. */
void tree_note(struct run *r, bool durable);
/* After what LMDB has written was looked at. */
void tree_settle(struct disk_file *f);
/* The state, as files and directories. */
void tree_put(const struct disk_state *s, const char *path);

/* ---- stores that change nothing ---- */
void touch_install(void);
void touch_watch(void *at, size_t n_bytes, off_t offset, struct disk_file *f);
void touch_take(void); /* pages stored to since are dirty */

/* A second thread, which adds a key now and then while a call of the first is at a
 * system call: in lock step, so that all is repeatable. */
void helper_start(struct run *r, size_t object);
void helper_turn(struct run *r); /* adds a key, up to where it has to wait for us */
void helper_stop(struct run *r);
void helper_join(struct run *r); /* its add has returned */

/* Prints what failed and how to come there again; does not return. */
_Noreturn void run_fail(const struct run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
extern uint64_t run_seed, run_states; /* of the command line */
extern uint64_t run_helper_adds; /* of second threads, while a call was under way */

#endif
