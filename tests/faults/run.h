/* One run of a scenario: a directory of its own, calls that may fail when a fault has
 * struck and not otherwise, and what must hold afterwards. */
#ifndef TAMIS_FAULTS_RUN_H
#define TAMIS_FAULTS_RUN_H

#include <stdlib.h>
#include <string.h>

#include "tests/support/internals.h"
#include "tests/faults/wrap/wrap.h"
#include "tests/model/model.h"

enum { PATH_BYTES = 512, MAX_KEYS = 2048 };

struct run {
    char dir[PATH_BYTES];
    struct tamis_diag diag;
    const struct plan *plan; /* NULL: nothing fails */
    unsigned n_failed;       /* calls that failed for the fault */
    /* In check(): names may be left, or be there after a failure. What unlinking could
     * not remove, or was renamed, and the call said that it was not. */
    bool littered;
    bool panicked; /* the scenario itself has LMDB give up */
};

struct scenario {
    const char *name;
    void (*prepare)(struct run *r); /* nothing fails; may be NULL */
    void (*body)(struct run *r);    /* what is counted, and fails */
    void (*check)(struct run *r);   /* nothing fails: what was promised, the next try */
    bool old_system;                /* without openat2, RENAME_NOREPLACE, O_TMPFILE */
    bool cold;                      /* each run in a process of its own */
    /* A fault that strikes in every run, or NULL; with ">" in front the others strike
     * only after it, for another scenario has those before. */
    const char *first;
};
extern const struct scenario filter_scenarios[], derive_scenarios[], writer_scenarios[],
    store_scenarios[], segment_scenarios[], edit_scenarios[], repair_scenarios[],
    backup_scenarios[], pack_scenarios[];

/* Says what is wrong with this run, and ends its process. */
void fail_run(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define CHECK(condition, ...)                                                          \
    do {                                                                               \
        if (!(condition))                                                              \
            fail_run(__VA_ARGS__);                                                     \
    } while (0)

/* A call of the library that may fail, but only once a fault has struck, and not if it
 * is one that nobody may notice. Those that take a diag take &r->diag. */
enum { NO_DIAG = 123456 };
int tried(struct run *r, int rc, const char *call);
#define TRY(r, call) ((r)->diag.code = NO_DIAG, tried((r), IN_LIB(call), #call))
/* The same for one that fails with `code` when nothing goes wrong. */
#define TRY_FOR(r, expected, call)                                                     \
    ((r)->diag.code = NO_DIAG, tried_for((r), (expected), IN_LIB(call), #call))
int tried_for(struct run *r, int expected, int rc, const char *call);
/* One that must succeed. */
#define MUST(r, call)                                                                  \
    do {                                                                               \
        int rc_ = IN_LIB(call);                                                        \
        CHECK(rc_ == 0, "%s: %s (%s)", #call, tamis_strerror(rc_), (r)->diag.what);    \
    } while (0)

void run_scenario(const struct scenario *s, const struct plan *plan, const char *dir);

/* A path in the run's directory; several may be in use at once. */
const char *in_dir(const struct run *r, const char *name);
/* Is this all that the directory holds, dots apart? Names end with a NULL. */
void expect_names(const char *dir, const char *const *names);
/* Nothing else, at least. */
void expect_only(const char *dir, const char *const *names);
bool is_there(const char *path);
void remove_dir(const char *path);
void poke(const char *path, off_t at, const void *bytes, size_t n);
/* A number for all names and bytes below, but those of LMDB's lock file. */
uint64_t tree_of(const char *dir);
void copy_file(const char *from, const char *to);

/* Keys may be MAYBE for DAMAGED too: the scenario has damaged a page, or a writer found
 * the file shorter than its floors and has condemned their pages. */
extern bool damage_expected;

/* ---- keys: numbers, by their hashes ---- */
uint64_t hash_of(uint64_t i);
void hashes_of(uint64_t from, uint64_t n, uint64_t *hashes);
/* Keys 0 .. n - 1 are there, with the reason HIT. */
void expect_numbers(struct tamis_filter *f, uint64_t n);
/* None of them is ABSENT, whatever the reason. */
void expect_none_absent(struct tamis_filter *f, uint64_t n);
/* The file opens, has these keys, and each of its pages is good. */
void expect_file(struct run *r, const char *path, uint64_t n);

#endif
