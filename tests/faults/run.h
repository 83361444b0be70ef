/* One run of a scenario: a directory of its own, calls that may fail when a fault has
 * struck and not otherwise, and what must hold afterwards. */
#ifndef TAMIS_FAULTS_RUN_H
#define TAMIS_FAULTS_RUN_H

#include "tests/steps/steps.h"
#include "tests/faults/wrap/stops.h"
#include "public.h" /* made by rules.mk: notes which function a run is in */

enum { PATH_BYTES = 512 };

struct run {
    char dir[PATH_BYTES];
    struct tamis_diag diag;
    const struct plan *plan; /* NULL: nothing fails */
    unsigned n_failed;       /* calls that failed for the fault */
    /* In check(): names may be left, or be there after a failure: an unlink failed, or
     * a rename took place, though the call said that it did not. */
    bool littered;
};

struct scenario {
    const char *name;
    const char *script; /* or NULL (scripted.c) */
    void (*prepare)(
        struct run *r); /* behind the script's; nothing fails; may be NULL */
    /* Counted, and calls fail; NULL: the script's. */
    void (*body)(struct run *r);
    /* Without a fault: checks promises, tries again; NULL: the script's check. */
    void (*check)(struct run *r);
    bool old_system; /* without openat2, RENAME_NOREPLACE, O_TMPFILE */
    bool cold;       /* each run in a process of its own */
    /* A fault that strikes in every run, or NULL; with ">" in front the others strike
     * only after it, for another scenario has those before. */
    const char *first;
    bool gets_around; /* what fails in every run is no reason to fail */
    bool must_fail;   /* it is one for the first step of the body */
};
extern const struct scenario scripted_scenarios[], rest_scenarios[];

/* ---- scripted.c ---- */
extern struct player the_player; /* of the run */
/* An entry of a table: its name, its script or NULL, and what else it has. */
#define SCENARIO(text, ...)                                                            \
    {                                                                                  \
        .name = text, .script = __VA_ARGS__                                            \
    }
void script_prepare(struct run *r, const struct scenario *s);
void script_body(struct run *r);
void script_check(struct run *r);
/* Nothing fails: the call must have returned what is expected. */
void script_must(struct player *p, int rc, int expected, const char *call);
/* Up to the next step of this word, which is not played. */
void script_skip(struct player *p, const char *word);
/* ---- own.c ---- */
/* "others" and "ours". */
int own_word(struct player *p, const struct step *s);
/* A commit whose process died before it told the others. */
void killed_prepare(struct run *r);
void killed_check(struct run *r);

/* ---- all runs (main.c), and the other way to make them (stops.c) ---- */
enum { MAX_SCENARIOS = 128 };
extern const struct scenario *scenarios[MAX_SCENARIOS];
extern size_t n_scenarios;
extern char root[ROOT_BYTES]; /* a directory for them */
extern long jobs;
extern bool brief;
int stops_main(const char *only);

/* Says what is wrong with this run, and ends its process. */
void fail_run(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define CHECK(condition, ...)                                                          \
    do {                                                                               \
        if (!(condition))                                                              \
            fail_run(__VA_ARGS__);                                                     \
    } while (0)

/* A call of the library that may fail, but only once a fault has struck, and not if no
 * caller may notice the fault. Calls that take a diag take &r->diag. */
int may(struct run *r, int rc, const char *call);
#define MAY(r, call) ((r)->diag.code = NO_DIAG, may((r), IN_LIB(call), #call))
int may_for(struct run *r, int expected, int rc, const char *call);
/* One that must succeed. */
#define MUST(r, call)                                                                  \
    do {                                                                               \
        int rc_ = IN_LIB(call);                                                        \
        CHECK(rc_ == 0, "%s: %s (%s)", #call, tamis_strerror(rc_), (r)->diag.what);    \
    } while (0)

void run_scenario(const struct scenario *s, const struct plan *plan, const char *dir);

/* A path in the run's directory; several may be in use at once. */
const char *in_dir(const struct run *r, const char *name);
/* Keys may be MAYBE for DAMAGED too: the scenario has damaged a page, or a writer found
 * the file shorter than its floors and has condemned their pages. */
extern bool damage_expected;

#endif
