/* Every call fails: each scenario is run once to count its calls, then again for each
 * call, each of its occurrences and each way in which it can fail, once and for ever.
 *
 *     faults [--jobs N] [--brief|--single] [--only SCENARIO[:CALL:NTH:FAULT:once|ever]]
 *
 * --only takes patterns: 'repair*:pread:*'. --script stands in for the one scenario's.
 * A scenario runs in a process of its own; when a run crashes, hangs or finds something
 * wrong, its fault point is printed, in the words that --only takes, and the rest goes
 * on in a new process. */
#include "tests/faults/run.h"

#include <fnmatch.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>

enum { MAX_BROKEN = 10, POINT_BYTES = 128, HANG_SECONDS = 120 };

/* Shared with the process that runs a scenario. */
static struct shared {
    atomic_uint next_scenario;
    struct progress {
        uint64_t n_points, next; /* fault points done; the number of the next one */
        uint64_t broken;
        char point[POINT_BYTES];
        uint64_t struck[N_CALLS];
        struct tally counted; /* by a process of its own */
    } of[MAX_SCENARIOS], smaller;
    char said[SAID_BYTES];
} * shared;

const struct scenario *scenarios[MAX_SCENARIOS];
size_t n_scenarios;
static const char *only = "", *only_script, *program;
char root[ROOT_BYTES];
long jobs;
bool brief;         /* one fault a call, once, and not of all calls */
static bool single; /* of all calls, for coverage; all faults at the first */
static bool stops;  /* the other way: stops.c */

/* ---- the points of one scenario ---- */

struct walk {
    const struct scenario *scenario;
    struct progress *progress;
    uint64_t number;
    char dir[PATH_BYTES];
};

static bool selected(const char *point)
{
    return !strchr(only, ':') || fnmatch(only, point, 0) == 0;
}

static void run_one(struct walk *w, const struct plan *plan)
{
    alarm(HANG_SECONDS);
    if (!w->scenario->cold) {
        run_scenario(w->scenario, plan, w->dir);
        return;
    }
    pid_t child = process_start(HANG_SECONDS);
    if (child == 0) {
        run_scenario(w->scenario, plan, w->dir);
        w->progress->counted = tally;
        exit(0);
    }
    int status = process_end(child);
    if (status)
        fail_run("the process of this run ended with status %d", status);
    tally = w->progress->counted; /* this process stays cold */
}

/* Returns whether the call came again after the fault, as far as is known: if it did
 * not, the run is the one in which it fails for ever. */
static bool point(struct walk *w, enum call call, uint64_t nth, const struct fault *f,
                  bool ever)
{
    char text[POINT_BYTES];
    struct plan plan = {call, nth, f, ever};
    if (w->number++ < w->progress->next)
        return true;
    snprintf(text, sizeof text, "%s:%s:%llu:%s:%s", w->scenario->name,
             call_types[call].name, (unsigned long long)nth, f->name,
             ever ? "ever" : "once");
    w->progress->next = w->number;
    if (!selected(text))
        return true;
    memcpy(w->progress->point, text, sizeof text);
    w->progress->n_points++;
    w->progress->struck[call]++;
    run_one(w, &plan);
    return tally.called[call] > nth;
}

/* Where space can run out: before each write, and in the middle of it. */
static void points_of_space(struct walk *w, const struct tally *counted, bool after)
{
    const struct fault *f = &call_types[CALL_space].faults[0];
    for (size_t i = after ? counted->n_marks_before : 0; i < counted->n_marks; i++) {
        uint64_t at = counted->marks[i];
        uint64_t end =
            i + 1 < counted->n_marks ? counted->marks[i + 1] : counted->bytes;
        point(w, CALL_space, at + 1, f, true);
        uint64_t half = (end - at) / 2 & ~UINT64_C(511); /* whole sectors */
        if (half)
            point(w, CALL_space, at + half + 1, f, true);
    }
}

/* In a brief round one of each call, and of those that come again and again a few. */
static size_t n_faults(uint64_t nth)
{
    enum { FIRST = 3, EVERY = 8 };
    if (!brief)
        return single && nth > 1 ? 1 : MAX_FAULTS;
    return nth <= FIRST || nth % EVERY == 0;
}

static void all_points(struct walk *w)
{
    static struct tally counted;
    strcpy(w->progress->point, "(no fault)");
    script_said = NULL; /* no smaller script is one that fails without a fault */
    if (!w->scenario->cold)
        run_one(w, NULL); /* warm: what is done once is done */
    run_one(w, NULL);
    counted = tally;
    script_said = shared->said;
    bool after = w->scenario->first && w->scenario->first[0] == '>';
    for (enum call call = 0; call < CALL_space; call++) {
        const struct fault *f = call_types[call].faults;
        uint64_t before = after ? counted.before[call] : 0;
        for (uint64_t n = before + 1; n <= counted.called[call]; n++)
            for (size_t i = 0; i < n_faults(n) && f[i].name; i++) {
                if (point(w, call, n, &f[i], false) && !brief && !single)
                    point(w, call, n, &f[i], true);
                else
                    w->number++; /* a walk that goes on must count the same */
            }
    }
    points_of_space(w, &counted, after);
}

static void run_scenario_process(size_t index)
{
    struct walk w = {scenarios[index], &shared->of[index], 0, ""};
    snprintf(w.dir, sizeof w.dir, "%.400s/%s", root, w.scenario->name);
    all_points(&w);
    exit(0);
}

/* ---- the scenarios side by side ---- */

static void report_broken(struct progress *p, int status)
{
    p->broken++;
    if (WIFSIGNALED(status))
        fprintf(stderr, "    %s\n",
                WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    fprintf(stderr, "FAILED %s\n", p->point);
}

/* ---- a failure, made smaller ---- */

struct again {
    struct scenario scenario;
    char points[POINT_BYTES]; /* the same fault, at any of its calls */
};

static void run_again(const char *text, void *ctx)
{
    struct again *a = ctx;
    struct walk w = {&a->scenario, &shared->smaller, 0, ""};
    memset(&shared->smaller, 0, sizeof shared->smaller);
    only = a->points;
    a->scenario.script = text;
    snprintf(w.dir, sizeof w.dir, "%.400s/%s", root, a->scenario.name);
    all_points(&w);
}

static void print_again(const struct scenario *s, const char *point)
{
    struct again a = {.scenario = *s};
    char text[SCRIPT_BYTES] = "", call[POINT_BYTES], rest[POINT_BYTES];
    snprintf(a.points, sizeof a.points, "%s", point);
    if (s->script && sscanf(point, "%*[^:]:%[^:]:%*u:%s", call, rest) == 2) {
        snprintf(a.points, sizeof a.points, "%s:%.40s:*:%.40s", s->name, call, rest);
        snprintf(text, sizeof text, "%s", s->script);
        script_shrink(text, run_again, &a);
    }
    fprintf(stderr, "  again: %s --only '%s'%s%s%s\n", program, a.points,
            *text ? " --script '" : "", text, *text ? "'" : "");
}

/* On one processor, where it can be: there it need not tell others of each page that it
 * unmaps. */
static void run_job(long job)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)job % CPU_SETSIZE, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (;;) {
        size_t i = atomic_fetch_add(&shared->next_scenario, 1);
        if (i >= n_scenarios)
            exit(0);
        struct progress *p = &shared->of[i];
        while (p->broken < MAX_BROKEN) {
            pid_t child = process_start(0);
            if (child == 0)
                run_scenario_process(i);
            int status = process_end(child);
            if (status == 0)
                break;
            report_broken(p, status);
            if (p->broken == 1)
                print_again(scenarios[i], p->point);
            if (p->next == 0)
                break; /* it fails without a fault */
        }
        printf("%-16s %6llu fault points, %llu failed\n", scenarios[i]->name,
               (unsigned long long)p->n_points, (unsigned long long)p->broken);
        fflush(stdout);
    }
}

static void collect(const struct scenario *s)
{
    char pattern[POINT_BYTES];
    snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(only, ":"), only);
    for (; s->name; s++) {
        if (*pattern && fnmatch(pattern, s->name, 0) != 0)
            continue;
        scenarios[n_scenarios++] = s;
        if (only_script) {
            static struct scenario small;
            small = *s;
            small.script = only_script;
            scenarios[n_scenarios - 1] = &small;
        }
    }
}

/* A call that no scenario makes is not tested, whatever the count says. */
static unsigned never_struck(void)
{
    unsigned n = 0;
    for (enum call call = 0; call <= CALL_space; call++) {
        uint64_t struck = 0;
        for (size_t i = 0; i < n_scenarios; i++)
            struck += shared->of[i].struck[call];
        if (struck)
            continue;
        fprintf(stderr, "FAILED no scenario calls %s\n", call_types[call].name);
        n++;
    }
    return n;
}

static int summarize(void)
{
    uint64_t n = 0, broken = 0;
    for (size_t i = 0; i < n_scenarios; i++) {
        n += shared->of[i].n_points;
        broken += shared->of[i].broken;
    }
    if (!*only)
        broken += never_struck();
    if (!broken && n)
        printf("%llu fault points of %zu scenarios: 0 crashes, 0 leaks, 0 lost\n",
               (unsigned long long)n, n_scenarios);
    printf("%llu passed, %llu failed\n",
           (unsigned long long)(n - (broken < n ? broken : n)),
           (unsigned long long)broken);
    return broken || !n ? 1 : 0;
}

int main(int argc, char **argv)
{
    uint64_t n_jobs = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    const struct known_option known[] = {
        {"brief", .flag = &brief},
        {"single", .flag = &single},
        {"stops", .flag = &stops},
        {"jobs", .number = &n_jobs},
        {"only", .text = &only},
        {"script", .text = &only_script},
        {0},
    };
    program = argv[0];
    if (!options_read(argc, argv, known))
        return 2;
    jobs = (long)n_jobs;
    collect(scripted_scenarios);
    if (stops) {
        collect(rest_scenarios);
        jobs *= 3; /* most of their time they wait */
    }
    if (!n_scenarios || jobs < 1)
        return 2;
    /* Memory that was given back serves the next run, without a fault a page. Only the
     * two MiB of zeros that LMDB takes for each environment are mapped. */
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    tree_root(root, "faults");
    shared = memory_shared(sizeof *shared);
    script_said = shared->said;
    fflush(stdout);
    int rc = stops ? stops_main(only) : 0;
    for (long j = 0; j < jobs && !stops; j++)
        if (fork() == 0)
            run_job(j);
    while (wait(NULL) > 0)
        ;
    tree_remove(root);
    return stops ? rc : summarize();
}
