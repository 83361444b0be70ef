/* Threads are cancelled and processes are stopped at every call that may block: each
 * scenario is run once to see which calls its public functions make, then again for
 * each of these calls. Meanwhile, and afterwards, others must be able to go on.
 *
 *     faults --stops [--brief] [--only SCENARIO[:NTH]]
 *
 * stops.txt has every public function, with the calls that it makes behind "--". What
 * is new there fails the test: `make stops-table` takes it over. */
#include "tests/faults/run.h"

/* A run with a call that hangs is ended; EVERY: as often as one scenario repeats a call
 * of a function; ENOUGH failures end the test. */
enum {
    HANG_SECONDS = 120,
    EVERY = 8,
    ENOUGH = 20,
    MAX_POINTS = 1 << 18,
    MAX_JOBS = 256
};

#define X(name) #name,
static const char *const functions[] = {FUNCTIONS(X)};
#undef X

/* Shared by all processes. */
static struct common {
    atomic_uint next, failed, missed;
    struct halts of[MAX_SCENARIOS];
    bool has_store[MAX_SCENARIOS]; /* that can be opened before the scenario */
    struct halt at[MAX_JOBS];      /* where it happened */
    uint32_t n_points;
    struct point {
        uint32_t scenario, nth;
        uint16_t act;
        bool early; /* another process has the store open before */
    } points[MAX_POINTS];
} * common;

static const char *where(struct halt at)
{
    static char text[128];
    snprintf(text, sizeof text, "%s at %s()", functions[at.function],
             call_types[at.call].name);
    return text;
}

static void hangs(int signal)
{
    (void)signal;
    watch.went_on = false;
    fail_run("it hangs: %s", where(*watch.at));
}

/* A process that ends with this one. */
static pid_t start_process(void)
{
    pid_t child = process_start(HANG_SECONDS);
    if (child == 0)
        signal(SIGALRM, hangs);
    return child;
}

static bool ended_well(pid_t child)
{
    return process_end(child) == 0;
}

/* ---- the others ---- */

static struct {
    bool has_store, early;
    pid_t stopped;      /* that process, or 0 */
    int64_t timeout_ms; /* of all calls */
    int waits_in;       /* a pipe, or -1: they must not wait */
} others;

static void must_wait(bool certain)
{
    static unsigned pauses;
    enum { MANY = 1000 };
    if (others.waits_in >= 0) {
        on_wait = NULL;
        (void)!write(others.waits_in, "w", 1);
    } else if (certain || ++pauses > MANY) {
        fail_run("%s waits in %s() for the one at %s", functions[spot.function],
                 call_types[spot.call].name, where(*watch.at));
    }
}

/* Busy, and it says for whom? A lock is taken before its holder tells others its pid,
 * and let go after that. */
static bool is_busy(int rc, const struct tamis_diag *diag)
{
    char name[32];
    bool telling = watch.at->call == CALL_fstatat || watch.at->call == CALL_fcntl ||
                   watch.at->call == CALL_flock;
    snprintf(name, sizeof name, "process %d ", (int)others.stopped);
    return rc == TAMIS_ERR_BUSY && others.timeout_ms &&
           (strstr(diag->what, name) ||
            (telling && strstr(diag->what, "another process")));
}

static struct tamis_store *open_theirs(const struct run *r, bool must)
{
    struct tamis_open_options opt = {.size = sizeof opt,
                                     .timeout_ms = others.timeout_ms};
    struct tamis_diag diag;
    struct tamis_store *s;
    int rc = tamis_store_open(in_dir(r, "store"), &opt, &s, &diag);
    CHECK(rc == 0 || !must || is_busy(rc, &diag), "opening the store: %s", diag.what);
    return s;
}

static void ask_all(const struct run *r, struct tamis_store *s)
{
    static const char *const files[] = {"f", "sealed", "built", "old"};
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag;
    struct tamis_filter *f;
    struct tamis_writer *w;
    struct tamis_domain domain = tamis_store_domain(s);
    struct tamis_key key = tamis_key_of(&domain, "k", 1);
    CHECK(tamis_snapshot_current(s, &snapshot, &diag) == 0, "a snapshot: %s",
          diag.what);
    ASK(snapshot, ALL, KEYS(&key, 1));
    tamis_snapshot_release(snapshot);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (tamis_filter_open(in_dir(r, files[i]), NULL, &f, NULL) == 0)
            tamis_filter_probe(f, &key, NULL);
        tamis_filter_close(f);
        if (tamis_writer_open(in_dir(r, files[i]), NULL, &w, NULL) == 0)
            tamis_writer_close(w, NULL);
    }
}

/* False: busy. */
static bool edit_once(struct tamis_store *s, bool drop)
{
    struct tamis_edit_options opt = {.size = sizeof opt,
                                     .timeout_ms = others.timeout_ms};
    struct tamis_diag diag;
    struct tamis_edit *e;
    struct tamis_builder *b = NULL;
    char name[32];
    size_t n = (size_t)snprintf(name, sizeof name, "of process %d", (int)getpid());
    int rc = tamis_edit_begin(s, &opt, &e, &diag);
    if (!rc && drop)
        rc = tamis_edit_drop(e, name, n, NULL, &diag);
    else if (!rc && !(rc = tamis_edit_builder(e, name, n, 0, NULL, &b, &diag)))
        rc = tamis_edit_put(e, b, NULL, &diag);
    tamis_builder_free(b);
    bool ended = !rc && (rc = tamis_edit_commit(e, &diag)) != TAMIS_ERR_BUSY;
    /* The process that went on may have dropped segments that it does not know. */
    CHECK(rc == 0 || is_busy(rc, &diag) || (drop && rc == TAMIS_ERR_NO_SEGMENT),
          "an edit: %s", diag.what);
    if (!ended)
        tamis_edit_abort(e);
    return rc == 0;
}

/* Makes the calls that any user of a store makes. */
static void use_all(const struct run *r)
{
    struct tamis_store *s = open_theirs(r, others.has_store);
    if (others.early)
        raise(SIGSTOP); /* until the other one is */
    if (!s && others.stopped)
        return;
    if (!s) {
        struct tamis_open_options o = {.size = sizeof o, .create = TAMIS_CREATE_NEW};
        if (tamis_store_open(in_dir(r, "store"), &o, &s, NULL) != 0)
            tamis_store_repair(in_dir(r, "store"), NULL, NULL, NULL);
        tamis_store_close(s);
        s = open_theirs(r, true);
    }
    ask_all(r, s);
    if (edit_once(s, false))
        edit_once(s, true);
    tamis_store_close(s);
}

static pid_t start_other(const char *dir, pid_t stopped, int64_t timeout_ms,
                         int waits_in)
{
    struct run r = {0};
    pid_t child = start_process();
    if (child)
        return child;
    snprintf(r.dir, sizeof r.dir, "%s", dir);
    others.stopped = stopped;
    others.timeout_ms = timeout_ms;
    others.waits_in = waits_in;
    wrap_begin((uint64_t)getpid()); /* else its files get names that others have */
    on_wait = must_wait;
    use_all(&r);
    exit(0);
}

/* ---- the process that is cancelled or stopped ---- */

static struct {
    const struct scenario *scenario;
    struct run run;
    struct spot end; /* where the thread was when it ended */
} the;

static void note_end(void *unused)
{
    (void)unused;
    the.end = spot;
}

static void *body_thread(void *unused)
{
    (void)unused;
    pthread_cleanup_push(note_end, NULL);
    spot.watched = true;
    (the.scenario->body ? the.scenario->body : script_body)(&the.run);
    spot.watched = false;
    pthread_testcancel();
    pthread_cleanup_pop(1);
    return NULL;
}

static void *use_thread(void *unused)
{
    (void)unused;
    use_all(&the.run);
    return NULL;
}

/* Was it cancelled? */
static bool run_thread(void *(*fn)(void *))
{
    pthread_t thread;
    void *end;
    CHECK(pthread_create(&thread, NULL, fn, NULL) == 0 &&
              pthread_join(thread, &end) == 0,
          "no thread");
    return end == PTHREAD_CANCELED;
}

/* Made whole, cancelled or not: probes, and calls that end an object or whose outcome
 * the caller must know. */
static const char whole[] =
    "store_open store_close store_repair store_orphans writer_close writer_commit "
    "writer_seal edit_commit edit_abort filter_probe filter_probe_batch "
    "snapshot_probe snapshot_query inline_ask_few";

/* A call that was cut short has no lock of its own left. */
static void expect_no_locks(void)
{
    const struct halts *s = watch.steps;
    struct halt at = {(uint16_t)the.end.function, (uint16_t)the.end.call, 0, 0};
    CHECK(the.end.locks == 0, "%s, cancelled, keeps %d locks in memory", where(at),
          the.end.locks);
    if (!the.end.depth || watch.n_entered > s->n_entered)
        return;
    unsigned now = file_locks(), done = s->locks_after[watch.n_entered - 1];
    CHECK(now == done || now == watch.locks_before,
          "%s, cancelled, has %u locks on files; before %u, else afterwards %u",
          where(at), now, watch.locks_before, done);
    CHECK(tally.txns == 0, "%s, cancelled, keeps a transaction", where(at));
    CHECK(!strstr(whole, functions[at.function] + strlen("tamis_")), "%s is cut short",
          where(at));
}

/* A call has joined the threads that it began, cancelled or not. A thread may stay a
 * moment longer in /proc. */
static void expect_one_thread(void)
{
    struct stat tasks;
    while (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3)
        sched_yield(); /* until it is said to hang */
}

/* Ends with 0 if there is no such call; is stopped where others are to look. */
static void run_watched(const struct scenario *s, const char *dir, struct watch w)
{
    struct plan first;
    const char *text = s->first ? s->first + (s->first[0] == '>') : NULL;
    tree_remove(dir);
    CHECK(mkdir(dir, 0700) == 0, "mkdir %s: %s", dir, strerror(errno));
    CHECK(!text || plan_parse(text, &first), "no such fault: %s", text);
    the.scenario = s;
    snprintf(the.run.dir, sizeof the.run.dir, "%s", dir);
    wrap_begin(2);
    script_prepare(&the.run, s);
    if (s->prepare)
        s->prepare(&the.run);
    if (w.act == WATCH_COUNT || others.early)
        raise(SIGSTOP); /* until the other one has opened the store */
    faults_begin(NULL, text ? &first : NULL, s->old_system);
    watch = w;
    bool cut = run_thread(body_thread);
    faults_end();
    expect_one_thread();
    if (w.act == WATCH_COUNT) {
        w.steps->n = watch.n;
        w.steps->n_entered = watch.n_entered;
        CHECK(watch.n <= MAX_HALTS && watch.n_entered <= MAX_ENTRIES, "too many calls");
    }
    if (!cut || w.act != WATCH_CANCEL)
        exit(0);
    expect_no_locks();
    if (!text || first.fault->effect != PANIC) /* else the store must be opened anew */
        run_thread(use_thread);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(ended_well(child), "no fork");
    raise(SIGSTOP);
}

/* ---- one point ---- */

static bool is_stopped(pid_t child, int *status)
{
    CHECK(waitpid(child, status, WUNTRACED) == child, "no process");
    return WIFSTOPPED(*status);
}

/* Another process has the store open when this one goes on. */
static pid_t open_early(const char *dir, pid_t child)
{
    int status;
    CHECK(is_stopped(child, &status), "preparing");
    pid_t early = start_other(dir, child, -1, -1);
    CHECK(is_stopped(early, &status), "opening early");
    others.early = false;
    kill(child, SIGCONT);
    return early;
}

/* Beside a process that is stopped; then that goes on, or is killed. */
static bool beside_stopped(const char *dir, pid_t stopped, bool kill_it)
{
    int ends[2];
    char byte;
    bool ok = ended_well(start_other(dir, stopped, -1, -1));
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    pid_t editor = start_other(dir, stopped, 0, ends[1]);
    close(ends[1]);
    (void)!read(ends[0], &byte, 1); /* it waits, or has ended */
    close(ends[0]);
    kill(stopped, kill_it ? SIGKILL : SIGCONT);
    ok &= kill_it ? waitpid(stopped, NULL, 0) == stopped : ended_well(stopped);
    ok &= ended_well(editor);
    return ok && ended_well(start_other(dir, 0, 0, -1));
}

static bool run_point(uint32_t number, const char *dir)
{
    int status;
    const struct point *p = &common->points[number];
    struct watch w = {.act = p->act,
                      .nth = p->nth,
                      .steps = &common->of[p->scenario],
                      .at = watch.at};
    others.has_store = common->has_store[p->scenario];
    others.early = p->early && others.has_store;
    pid_t child = start_process(), early = 0;
    if (child == 0)
        run_watched(scenarios[p->scenario], dir, w);
    if (others.early)
        early = open_early(dir, child);
    bool stopped = is_stopped(child, &status);
    if (early)
        kill(early, SIGCONT);
    bool ok = !early || ended_well(early);
    if (!stopped) {
        ok = ok && status == 0;
        atomic_fetch_add(&common->missed, ok);
        fprintf(stderr, "not met: %s:%u, %s\n", scenarios[p->scenario]->name, p->nth,
                where(common->of[p->scenario].of[p->nth - 1]));
    } else if (ok && p->act == WATCH_STOP) {
        ok = beside_stopped(dir, child, p->nth % 2);
    } else {
        ok = ok && ended_well(start_other(dir, 0, 0, -1));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    if (!ok)
        fprintf(stderr, "FAILED %s:%u, %s\n", scenarios[p->scenario]->name, p->nth,
                p->act == WATCH_CANCEL ? "cancelled" : "stopped");
    return ok;
}

static bool count_scenario(uint32_t i, const char *dir)
{
    int status;
    struct run r = {0};
    struct watch w = {.act = WATCH_COUNT, .steps = &common->of[i], .at = watch.at};
    pid_t child = start_process();
    if (child == 0)
        run_watched(scenarios[i], dir, w);
    bool ok = is_stopped(child, &status);
    snprintf(r.dir, sizeof r.dir, "%s", dir);
    pid_t looks = ok ? start_process() : -1;
    if (looks == 0)
        _exit(open_theirs(&r, false) ? 0 : 1);
    common->has_store[i] = ok && ended_well(looks);
    kill(child, SIGCONT);
    ok = ok && ended_well(child);
    if (!ok)
        fprintf(stderr, "FAILED %s\n", scenarios[i]->name);
    return ok;
}

/* ---- all ---- */

/* Number by number, `jobs` at once. */
static void in_parallel(uint32_t n, bool fn(uint32_t number, const char *dir))
{
    char dir[PATH_BYTES];
    atomic_store(&common->next, 0);
    fflush(stdout);
    for (long j = 0; j < jobs; j++) {
        if (fork() != 0)
            continue;
        snprintf(dir, sizeof dir, "%.400s/job%ld", root, j);
        watch.at = &common->at[j % MAX_JOBS];
        for (uint32_t i;
             common->failed < ENOUGH && (i = atomic_fetch_add(&common->next, 1)) < n;)
            if (!fn(i, dir))
                atomic_fetch_add(&common->failed, 1);
        exit(0);
    }
    for (int status; wait(&status) > 0;)
        common->failed += status != 0; /* it did not do its part */
}

static void add_point(struct point p, bool wanted)
{
    if (wanted && common->n_points < MAX_POINTS)
        common->points[common->n_points++] = p;
}

/* In the brief form each call of each function is cancelled once in each state, and
 * stopped the last time. */
static void choose_points(uint32_t nth)
{
    static bool had[N_FUNCTIONS][N_CALLS][N_STATES];
    static struct point last[N_FUNCTIONS][N_CALLS];
    for (uint32_t i = 0; i < n_scenarios; i++) {
        static uint32_t times[N_FUNCTIONS][N_CALLS];
        memset(times, 0, sizeof times);
        for (uint32_t n = 0; n < common->of[i].n; n++) {
            struct halt at = common->of[i].of[n];
            bool *done = &had[at.function][at.call][at.state];
            struct point *p = &last[at.function][at.call];
            bool all = nth ? nth == n + 1 : ++times[at.function][at.call] <= EVERY;
            add_point((struct point){i, n + 1, WATCH_CANCEL, false},
                      brief ? !*done : all);
            add_point((struct point){i, n + 1, WATCH_STOP, false}, all && !brief);
            *done = true;
            *p = (struct point){i, n + 1, WATCH_STOP, true};
            add_point(*p, all && !brief && n % 2);
        }
    }
    for (int f = 0; f < N_FUNCTIONS && brief; f++)
        for (int c = 0; c < N_CALLS; c++)
            add_point(last[f][c], last[f][c].nth);
}

/* ---- the table ---- */

static bool seen[N_FUNCTIONS][N_CALLS], called[N_FUNCTIONS];

/* Some calls depend on the threads, on the file system, or on LMDB's version. */
static void note_calls(const struct halts *s)
{
    for (int f = 0; f < N_FUNCTIONS; f++)
        called[f] |= s->called[f];
    for (uint64_t n = 0; n < s->n; n++)
        seen[s->of[n].function][s->of[n].call] =
            s->of[n].call != CALL_pthread_cond_wait &&
            s->of[n].call != CALL_fallocate && s->of[n].call != CALL_ftruncate &&
            s->of[n].call != CALL_ioctl && s->of[n].call != CALL_lmdb_fcntl;
}

/* Are they those that a person has looked at? */
static bool table_fits(void)
{
    FILE *out = popen(TAMIS_SOURCE_DIR "/tests/faults/stops.sh " TAMIS_BUILD_DIR, "w");
    CHECK(out, "no shell");
    for (int f = 0; f < N_FUNCTIONS; f++) {
        fprintf(out, "%s --%s", functions[f] + strlen("tamis_"),
                called[f] ? "" : " in no scenario");
        for (int c = 0; c < N_CALLS; c++)
            if (seen[f][c])
                fprintf(out, " %s", call_types[c].name);
        fprintf(out, "\n");
    }
    return pclose(out) == 0;
}

int stops_main(const char *only)
{
    common = memory_shared(sizeof *common);
    in_parallel((uint32_t)n_scenarios, count_scenario);
    for (uint32_t i = 0; i < n_scenarios; i++)
        note_calls(&common->of[i]);
    choose_points(strchr(only, ':') ? (uint32_t)atol(strchr(only, ':') + 1) : 0);
    in_parallel(common->n_points, run_point);
    uint32_t failed = common->failed, n = common->n_points;
    failed += !*only && !table_fits();
    /* Threads that share work may leave fewer calls to the one that is watched. */
    if (common->missed > n / 100) {
        fprintf(stderr, "FAILED %u calls are not made a second time\n", common->missed);
        failed++;
    }
    printf("%u calls of %zu scenarios, cancelled or stopped: 0 lost\n"
           "%u passed, %u failed\n",
           n, n_scenarios, n - failed, failed);
    return failed || !n;
}
