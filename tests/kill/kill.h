/* kill -9: a writer process dies again and again, at random instants and at chosen
 * system calls, while readers ask all along. What the processes share, and agree on.
 *
 * The keys are two logs, one for the store and one for lone filters: the key at a
 * position is a function of the seed. The dead lose no page cache, so readers must see
 * every add that had finished, whether its writer lives or not; and the next writer
 * must find the watermark that was acknowledged, or a later one that was asked for. */
#ifndef TAMIS_TESTS_KILL_H
#define TAMIS_TESTS_KILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/model/model.h"
#include "tests/support/internals.h"

enum mode { MODE_STORE, MODE_LONE, MODE_CREATE, N_MODES };
enum {
    N_READERS = 2,
    N_ADDERS = 2,
    STORE_KEYS = 12000, /* of a growing segment, then it is sealed */
    LONE_KEYS = 40000,  /* of a lone filter */
    MERGED = 3,         /* segments "g<3i>" to "g<3i+2>" become "m<i>" */
    KEPT = 4,           /* so many of those are kept, older ones are dropped */
    PATH_BYTES = 300,
};

enum phase {
    PHASE_NONE,
    PHASE_OPEN,
    PHASE_ADD,
    PHASE_COMMIT,
    PHASE_SEAL,
    PHASE_EDIT,
    PHASE_CREATE,
    PHASE_CLOSE,
    N_PHASES
};

struct log {
    /* Positions below it that are the adder's (position % N_ADDERS) have been added. */
    _Atomic uint64_t added[N_ADDERS];
    _Atomic uint64_t asked, acked; /* watermarks: before the call, and after it */
};

struct shared {
    struct log log[2]; /* MODE_STORE, MODE_LONE */
    _Atomic uint64_t edits_asked, edits_acked;
    _Atomic uint64_t forgotten;               /* positions below it may be dropped */
    _Atomic uint64_t lone_made, lone_dropped; /* filters, by number */
    _Atomic uint64_t store_made;              /* of MODE_CREATE: it is acknowledged */
    _Atomic uint64_t phase, ready; /* of the writer: what it is at; it works */
    _Atomic uint64_t waiting;      /* for a lock: not to be killed before it has it */
    _Atomic uint64_t stop;         /* 1: writers, 2: readers as well */
    _Atomic uint64_t n_commits, n_seals, n_edits, n_growths, n_created, n_replayed;
    _Atomic uint64_t n_children, n_refused; /* forked; of them, saw TAMIS_ERR_FORKED */
    _Atomic uint64_t n_asked, n_strangers, n_strangers_absent;
    _Atomic uint64_t n_reasons[16]; /* of the answers to added keys */
    _Atomic uint64_t n_lost, n_busy;
};

/* How a writer is to end, and what it is to leave behind. */
enum trap_kind {
    TRAP_NONE,
    TRAP_ANY,
    TRAP_WRITE,
    TRAP_SYNC,
    TRAP_SPACE,
    TRAP_NAME,
    TRAP_LOCK,
    N_TRAPS
};
enum trap_when { TRAP_BEFORE, TRAP_HALF, TRAP_AFTER };
enum child { CHILD_NONE, CHILD_OF_MAIN, CHILD_OF_THREAD, CHILD_OF_TRAP };

struct orders {
    enum mode mode;
    enum trap_kind trap; /* dies at the n-th call of this kind */
    enum trap_when when;
    uint64_t nth;
    enum phase armed; /* only calls in this phase count, if it is one */
    enum child child;
    bool slow;    /* syncs take as long as on a disk */
    bool patient; /* it is given the time to get to work */
    int hold[2];  /* a pipe: the child lives until its other end is closed */
    uint64_t seed;
};

/* ---- common.c ---- */
extern struct shared *shared;
extern char test_dir[PATH_BYTES];
extern uint64_t run_seed;

uint64_t mix64(uint64_t a, uint64_t b);
uint64_t rng_next(uint64_t *state);
uint64_t rng_below(uint64_t *state, uint64_t n);
/* A key that was never added, if `stranger`. */
struct tamis_key key_at(const struct tamis_domain *d, enum mode log, uint64_t position,
                        bool stranger);
struct tamis_domain the_domain(void);
const char *path_to(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints what was lost; the process ends, the run fails. */
_Noreturn void lost(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The call must succeed. */
void must(int rc, const char *doing, const struct tamis_diag *diag);
/* After TAMIS_ERR_BUSY; false when it has been that for too long. */
bool try_again(void);
void raise_to(_Atomic uint64_t *v, uint64_t at_least);

/* ---- orders.c ---- */
/* left: the mode in which the last writer left a child, or N_MODES. */
struct orders draw_orders(uint64_t *rng, enum mode left);

/* ---- trap.c ---- */
void trap_set(const struct orders *o);
void trap_allow_child(bool yes);

/* ---- child.c ---- */
/* The objects that a forked child tries, if they are open and nobody is closing them.
 */
struct live {
    struct tamis_writer *writer;
    struct tamis_store *store;
    struct tamis_filter *filter;
    uint64_t filter_number;
    bool alone; /* one thread has the writer to itself */
};
extern struct live live;
void child_leave(const struct orders *o, bool tries);
void child_thread(const struct orders *o);

/* ---- adders.c ---- */
/* Replays the log from `from`, and adds up to `end` from two threads while this one
 * commits; returns when all is added, not yet committed. */
void add_and_commit(const struct orders *o, uint64_t *rng, struct tamis_writer *w,
                    enum mode log, uint64_t from, uint64_t end);
/* The watermark that a writer reports: none acknowledged is lost, none is invented. */
uint64_t resume_from(struct tamis_writer *w, enum mode log, uint64_t base);

/* ---- store.c, lone.c, create.c: a writer's life ---- */
void store_writer(const struct orders *o);
void lone_writer(const struct orders *o);
void creator(const struct orders *o);
/* The list of a snapshot: "m<first>" to "m<merged - 1>", "g<3 * merged>" to "g<end -
 * 1>" and "mark", whose rank is the number of the last edit. Nothing else can be left
 * of whole edits. */
struct listed { /* listed.c */
    uint64_t mark, first, merged, end;
    bool throwaway;   /* "t", a growing segment that every other edit drops */
    bool last_sealed; /* "g<end - 1>", or there is none */
    size_t n_files;
};
struct listed expect_listed(struct tamis_snapshot *snapshot);
struct tamis_store *open_store(const char *path);
struct tamis_snapshot *snapshot_of(struct tamis_store *s);
void create_store(void);

/* ---- reader.c ---- */
void reader(unsigned number);
/* Every key that must be there is asked for, every page is checked. */
void check_all(void);

#endif
