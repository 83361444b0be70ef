/* The crash-state explorer: runs workloads of the real library, and at each of their
 * system calls builds the disk states that a power cut could leave there (disk.h). Each
 * is opened and held against what had been promised (check.c).
 *
 *     explore [--states N] [--seed S] [--jobs J] [--workload NAME] [--round R]
 *
 * While few things are undecided every combination is tried; beyond, the ones most
 * likely to hurt and random ones. A state counts once, by a hash of all that can be
 * seen of it; it is checked again when more has been promised meanwhile. Rounds differ
 * by their random numbers and follow each other until N states were seen. Jobs share
 * the states of each run by their hashes. */
#include "tests/crash/check.h"
#include "tests/crash/choose.h"
#include "tests/crash/workloads/workload.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKLOADS = 32, MAX_JOBS = 64 };

/* Shared by the jobs. */
struct tally {
    atomic_uint_least64_t n, checks, by_workload[MAX_WORKLOADS], by_level[MAX_LEVEL];
    atomic_uint_least64_t rounds, helper_adds;
    atomic_bool failed; /* one job has: the others need not go on */
    uint64_t mask;
    atomic_uint_least64_t slots[]; /* hashes of the states seen, 0: free */
};

static struct {
    struct tally *tally;
    struct budget budget[MAX_LEVEL];
    unsigned n_jobs, job, workload;
    uint64_t *seen; /* of this run: states with their promises */
    size_t n_seen, n_seen_slots;
} x;

/* ---- sets of hashes ---- */

static bool tally_add(uint64_t hash)
{
    struct tally *t = x.tally;
    if (hash == 0)
        hash = 1;
    for (uint64_t i = hash & t->mask;; i = (i + 1) & t->mask) {
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&t->slots[i], &found, hash))
            return true;
        if (found == hash)
            return false;
    }
}

static void seen_clear(void)
{
    memset(x.seen, 0, x.n_seen_slots * sizeof *x.seen);
    x.n_seen = 0;
}

static bool seen_put(uint64_t *slots, size_t n_slots, uint64_t hash)
{
    size_t i = hash % n_slots;
    while (slots[i] && slots[i] != hash)
        i = (i + 1) % n_slots;
    bool fresh = slots[i] == 0;
    slots[i] = hash;
    return fresh;
}

static bool seen_add(uint64_t hash)
{
    if (x.n_seen * 2 >= x.n_seen_slots) {
        size_t n = x.n_seen_slots ? x.n_seen_slots * 2 : 1 << 16;
        uint64_t *slots = calloc(n, sizeof *slots);
        if (!slots)
            abort();
        for (size_t i = 0; i < x.n_seen_slots; i++)
            if (x.seen[i])
                seen_put(slots, n, x.seen[i]);
        free(x.seen);
        x.seen = slots;
        x.n_seen_slots = n;
    }
    bool fresh = seen_put(x.seen, x.n_seen_slots, hash ? hash : 1);
    x.n_seen += fresh;
    return fresh;
}

/* ---- one state ---- */

static uint64_t promise_hash(const struct promise *p)
{
    return mix64(mix64(p->watermark, p->stages),
                 (uint64_t)p->created | (uint64_t)p->sealed << 1) +
           p->lost_page;
}

static void consider(struct run *r)
{
    if (atomic_load_explicit(&x.tally->failed, memory_order_relaxed))
        _exit(0);
    uint64_t hash = disk_hash(&r->state);
    if (r->aside)
        hash = mix64(hash, r->aside);
    /* Each job goes through all runs, and checks its part of their states. */
    if (r->level == 0 && hash / 8 % x.n_jobs != x.job)
        return;
    if (!seen_add(mix64(hash, promise_hash(&r->promise) + r->promised_aside)))
        return;
    if (tally_add(hash)) {
        x.tally->n++;
        x.tally->by_workload[x.workload]++;
        x.tally->by_level[r->level]++;
    }
    x.tally->checks++;
    unsigned deep = x.budget[r->level].deep;
    /* A long replay would be cut at each of its adds. */
    bool brief = r->promise.n_keys - r->promise.watermark <= 24;
    r->check(r, &r->state, hash, deep && brief && hash / 65536 % deep == 0);
}

static void explore(struct run *r)
{
    choose_states(r, &x.budget[r->level], consider);
}

/* ---- rounds ---- */

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void run_workload(unsigned number, unsigned round, const char *dir)
{
    static struct run *r;
    static uint64_t keys[MAX_KEYS];
    char own[RUN_PATH_BYTES];
    uint64_t seed = mix64(mix64(run_seed, round), number);
    snprintf(own, sizeof own, "%.200s/0", dir);
    if (!r)
        r = malloc(sizeof *r);
    if (!r || mkdir(own, 0700) != 0)
        abort();
    memset(r, 0, sizeof *r);
    x.workload = number;
    seen_clear();
    for (size_t i = 0; i < MAX_KEYS; i++)
        keys[i] = mix64(seed, i + 1);
    record_begin(r, workloads[number].name, own, seed);
    r->promise.keys = keys;
    r->round = round;
    r->on_event = explore;
    r->check = check_state;
    recording = r;
    workloads[number].run(r);
    recording = NULL;
    record_end(r);
    nftw(own, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_job(const char *dir, const char *only, long only_round)
{
    seen_add(1);
    record_install();
    check_open_images(dir);
    for (unsigned round = only_round < 0 ? 0 : (unsigned)only_round;; round++) {
        for (unsigned i = 0; i < n_workloads; i++)
            if ((!only || strcmp(only, workloads[i].name) == 0) &&
                (only_round >= 0 || round == 0 || x.tally->n < run_states))
                run_workload(i, round, dir);
        if (x.job == 0) {
            x.tally->rounds++;
            x.tally->helper_adds = run_helper_adds;
        }
        if (only_round >= 0 || x.tally->n >= run_states)
            break;
    }
    check_close_images(dir);
}

/* ---- the command ---- */

static void set_budgets(uint64_t n_states)
{
    bool large = n_states > 1000000;
    x.budget[0] =
        large ? (struct budget){8192, 400, 256} : (struct budget){1024, 60, 128};
    x.budget[1] = (struct budget){16, 8, 256};
    x.budget[2] = (struct budget){4, 4, 0};
}

static void make_tally(uint64_t n_states)
{
    uint64_t n = 1 << 20;
    while (n < n_states * 2 + (1 << 20))
        n *= 2;
    size_t bytes = sizeof *x.tally + (size_t)n * sizeof x.tally->slots[0];
    x.tally =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (x.tally == MAP_FAILED)
        abort();
    x.tally->mask = n - 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every half second, for who looks on. */
static void progress(void)
{
    poll(NULL, 0, 500);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%llu of %llu states ", (unsigned long long)x.tally->n,
                (unsigned long long)run_states);
}

static int run_jobs(const char *dir, const char *only, long only_round)
{
    int bad = 0, status;
    for (x.job = 0; x.job < x.n_jobs; x.job++) {
        char own[RUN_PATH_BYTES];
        snprintf(own, sizeof own, "%.200s/job%u", dir, x.job);
        if (mkdir(own, 0700) != 0)
            return 2;
        pid_t child = fork();
        if (child < 0)
            return 2;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_job(own, only, only_round);
            _exit(0);
        }
    }
    for (unsigned n = x.n_jobs; n > 0;) {
        pid_t child = waitpid(-1, &status, WNOHANG);
        if (child == 0) {
            progress();
            continue;
        }
        n--;
        if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        if (child > 0 && WIFSIGNALED(status))
            fprintf(stderr, "LOST: a job died of signal %d\n", WTERMSIG(status));
        bad = 1;
        x.tally->failed = true;
    }
    return bad;
}

static void report(double seconds, int bad)
{
    uint64_t n = x.tally->n;
    for (unsigned i = 0; i < n_workloads; i++)
        printf("%-12s %10llu states %5.1f %%\n", workloads[i].name,
               (unsigned long long)x.tally->by_workload[i],
               100.0 * (double)x.tally->by_workload[i] / (double)(n ? n : 1));
    printf("%llu distinct states (%llu after a second cut, %llu after a third), %llu "
           "checks, %llu rounds, seed %llu, %.1f s, %.0f states/s\n",
           (unsigned long long)n, (unsigned long long)x.tally->by_level[1],
           (unsigned long long)x.tally->by_level[2],
           (unsigned long long)x.tally->checks, (unsigned long long)x.tally->rounds,
           (unsigned long long)run_seed, seconds, (double)n / seconds);
    printf("%llu adds of a second thread while the first was at a call\n",
           (unsigned long long)x.tally->helper_adds);
    puts(bad ? "FAILED" : "0 lost");
}

static int usage(void)
{
    fputs("usage: explore [--states N] [--seed S] [--jobs J] [--workload NAME] "
          "[--round R]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *only = NULL, *tmp = getenv("TMPDIR");
    long only_round = -1, n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    char dir[RUN_PATH_BYTES];
    run_states = 200000;
    x.n_jobs = n_cores < 1 ? 1 : n_cores > MAX_JOBS ? MAX_JOBS : (unsigned)n_cores;
    run_seed = 1;
    for (int i = 1; i + 1 < argc || i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value)
            return usage();
        if (strcmp(argv[i], "--states") == 0)
            run_states = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            run_seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--jobs") == 0)
            x.n_jobs = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--workload") == 0)
            only = value;
        else if (strcmp(argv[i], "--round") == 0)
            only_round = strtol(value, NULL, 10);
        else
            return usage();
    }
    if (x.n_jobs < 1 || x.n_jobs > MAX_JOBS)
        return usage();
    snprintf(dir, sizeof dir, "%.150s/tamis-crash.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm"
             : tmp                         ? tmp
                                           : "/tmp");
    if (!mkdtemp(dir))
        return perror(dir), 2;
    set_budgets(run_states);
    make_tally(run_states);
    double began = now();
    int bad = run_jobs(dir, only, only_round);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    report(now() - began, bad);
    return bad;
}
