/* Recording: a run of the real library on real files, each of its system calls that
 * write, and each store through its mappings, noted in a struct disk. */
#ifndef TAMIS_TESTS_CRASH_RECORD_H
#define TAMIS_TESTS_CRASH_RECORD_H

#include "lib/writer/inside.h"
#include "tests/crash/disk/disk.h"

/* The promises to the caller of the library, which must survive. The keys
 * are a log, the watermark a position in it: all keys before it are in. */
struct promise {
    const uint64_t *keys;
    uint64_t tag;
    size_t n_keys;      /* given to an add so far, finished or not */
    bool created;       /* the file is there, under its name */
    bool sealed;        /* and whole: its builder or seal has returned */
    uint64_t watermark; /* at least */
    uint64_t asked;     /* the greatest that a commit was called with */
    uint32_t stages;    /* at least */
    /* The page, at this byte of the file, that has lost a sector to rot (0: none): it
     * fails its check for as long as the filter is open (R8). */
    uint64_t lost_page;
};

enum { RUN_PATH_BYTES = 256, MAX_LEVEL = 4, MAX_KEYS = 32768 };
#define RUN_FILE "f" /* the name of the filter in its directory */

struct helper;
struct store_run;
struct run;
typedef void check_fn(struct run *r, const struct disk_state *s, uint64_t hash,
                      bool deep);

struct run {
    struct disk disk;
    struct promise promise;
    struct rng rng;
    const char *workload;
    char dir[RUN_PATH_BYTES], path[RUN_PATH_BYTES + 8];
    uint64_t dir_inode;
    bool tree;              /* what is in directories below is recorded too */
    struct tamis_writer *w; /* while it is open */
    struct helper *helper;  /* a second thread that adds, or NULL */
    int fd[DISK_MAX_FILES]; /* of ours, to look at the files */
    unsigned fail_sync;     /* the how many-th sync of a file from now fails */
    unsigned die_sync;      /* the writer is killed when it comes to that sync */
    bool is_killed;
    unsigned round, event, level;
    uint64_t clock;
    struct run *parent;           /* the state under check there is where we began */
    const struct disk_state *now; /* under check */
    struct disk_items items;
    struct disk_state state;
    void (*on_event)(struct run *r); /* the explorer */
    check_fn *check;                 /* what must hold of a state */
    struct store_run *store;         /* a run of a store, not of one filter */
    /* Hashes of what belongs to the state and is not in `disk`, and of promises
     * beyond those above. */
    uint64_t aside, promised_aside;
};

/* The run whose calls are recorded; NULL: calls are done, but for syncs, and not
 * noted. */
extern struct run *recording;

void record_install(void);
void record_begin(struct run *r, const char *workload, const char *dir, uint64_t seed);
void record_end(struct run *r);
/* Looks for stores through mappings, takes over what the writer promises by now, and
 * lets the explorer have the states of this moment. */
void record_event(struct run *r);
/* The same, of a call: what has changed was not stored through a mapping. */
void record_call(struct run *r, bool by_mapping);
/* Only looks. */
void record_look(struct run *r);
/* The file, which exists and is durable. */
void record_adopt(struct run *r, const void *bytes, size_t n_bytes);
/* The kernel failed to write the dirty pages back, and nobody was told. */
void record_lie(struct run *r);

/* The run's writer is closed: its mappings are gone. */
void record_unmapped(const struct run *r);

/* An open file of the run's, known from now on, or NULL; is a directory recorded? */
struct disk_file *record_file(struct run *r, int fd);
bool record_dir(struct run *r, int fd, int *dir);

/* ---- calls.c ---- */
void calls_seed(uint64_t seed); /* of what is drawn while nothing is recorded */

/* ---- tree.c ---- */
/* Names of the run's tree that are not known yet (mkdir and open are no calls that are
 * recorded). durable: it all was there before. */
void tree_note(struct run *r, bool durable);
/* After what LMDB has written was looked at. */
void tree_settle(struct disk_file *f);
void tree_clear(const char *path);
/* Hashes all names and contents, but for locks. */
uint64_t tree_hash(const char *path);
/* The state, as files and directories. */
void tree_put(const struct disk_state *s, const char *path);

/* ---- touch.c ---- */
void touch_install(void);
void touch_watch(void *at, size_t n_bytes, off_t offset, struct disk_file *f);
void touch_take(void); /* pages stored to since are dirty */

/* ---- helper.c ---- */
/* A second thread, which adds a key now and then while a call of the first is at a
 * system call: in lock step, so that all is repeatable. */
void helper_start(struct run *r);
void helper_turn(struct run *r); /* adds a key, up to where it has to wait for us */
void helper_stop(struct run *r);
void helper_join(struct run *r); /* its add has returned */

/* Prints what failed and how to come there again; does not return. */
_Noreturn void run_fail(const struct run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
extern uint64_t run_seed, run_states; /* of the command line */
extern uint64_t run_helper_adds; /* of second threads, while a call was under way */

#endif
