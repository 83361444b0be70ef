/* One run: begin, faults, check, and nothing left behind. */
#include "tests/faults/run.h"

void fail_run(const char *format, ...)
{
    char text[1024];
    va_list args;
    if (watch.went_on) /* others have changed the files that it checks */
        _exit(0);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "    %s\n", text);
    script_failed(text);
    _exit(1);
}

bool damage_expected;

/* ---- calls ---- */

/* The code makes sense, and the diag says the same. */
static void check_code(const struct run *r, int rc, const char *call)
{
    const char *text = tamis_strerror(rc);
    CHECK(strncmp(text, "unknown", 7) != 0, "%s: code %d is none of ours", call, rc);
    CHECK(r->diag.code == NO_DIAG || r->diag.code == rc,
          "%s returned %d (%s), its diag has %d (%s)", call, rc, text, r->diag.code,
          r->diag.what);
}

int may(struct run *r, int rc, const char *call)
{
    return may_for(r, 0, rc, call);
}

int may_for(struct run *r, int expected, int rc, const char *call)
{
    check_code(r, rc, call);
    if (rc == expected)
        return rc;
    CHECK(rc != 0, "%s: a success that cannot be", call);
    CHECK(tally.fired > 0 || watch.went_on, "%s: %s (%s), though nothing has failed",
          call, tamis_strerror(rc), r->diag.what);
    CHECK(faults_excuse() || watch.went_on, "%s: %s (%s), for a fault to be got around",
          call, tamis_strerror(rc), r->diag.what);
    r->n_failed++;
    return rc;
}

/* ---- files ---- */

const char *in_dir(const struct run *r, const char *name)
{
    static char paths[8][PATH_BYTES + 256];
    static unsigned next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", r->dir, name);
    return p;
}

/* ---- what must be as before ---- */

static unsigned count_descriptors(void)
{
    enum { MOST = 48 };
    unsigned n = 0;
    for (int fd = 0; fd < MOST; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* `first`: a process's first run, which takes memory for the process's life. */
static void expect_nothing_held(unsigned descriptors, bool first)
{
    if (first)
        tally.memory = tally.mappings = 0;
    CHECK(tally.memory == 0, "leak: %ld allocations", tally.memory);
    CHECK(tally.mappings == 0, "leak: %ld mappings", tally.mappings);
    CHECK(tally.dirs == 0, "leak: %ld directory streams", tally.dirs);
    CHECK(tally.txns == 0, "leak: %ld transactions", tally.txns);
    CHECK(tally.cursors == 0, "leak: %ld cursors", tally.cursors);
    CHECK(tally.envs == 0, "leak: %ld environments", tally.envs);
    unsigned now = count_descriptors();
    CHECK(now == descriptors, "leak: %d descriptors", (int)(now - descriptors));
}

static unsigned n_runs;

void run_scenario(const struct scenario *s, const struct plan *plan, const char *dir)
{
    struct run r = {.plan = plan};
    snprintf(r.dir, sizeof r.dir, "%s", dir);
    tree_remove(dir);
    CHECK(mkdir(dir, 0700) == 0, "mkdir %s: %s", dir, strerror(errno));
    struct plan first;
    const char *text = s->first ? s->first + (s->first[0] == '>') : NULL;
    CHECK(!text || plan_parse(text, &first), "no such fault: %s", text);
    unsigned descriptors = count_descriptors();
    memset(&tally, 0, sizeof tally);
    damage_expected = plan && plan->call == CALL_pread && plan->fault->effect == NONE;
    wrap_begin(2); /* else files of the body might get names that these have */
    script_prepare(&r, s);
    if (s->prepare)
        s->prepare(&r);
    faults_begin(plan, s->first ? &first : NULL, s->old_system);
    (s->body ? s->body : script_body)(&r);
    CHECK(!plan || tally.planned,
          "the fault did not strike: the run is not repeatable");
    faults_end();
    struct tally counted = tally;
    tally.fired = 0;
    r.littered =
        plan && (plan->call == CALL_unlinkat || plan->call == CALL_unlink ||
                 plan->call == CALL_rmdir ||
                 (plan->call == CALL_renameat2 && plan->fault->effect == DONE));
    CHECK(!counted.homeless, "space that could not be had was mapped for writing");
    (s->check ? s->check : script_check)(&r);
    expect_nothing_held(descriptors, s->cold || n_runs++ == 0);
    tally = counted; /* the counts of the body alone, for the driver */
}

_Noreturn void model_broken(const char *text)
{
    fail_run("lost: %s", text);
}
