/* The crash-state explorer: runs workloads of the real library, and at each of their
 * system calls builds the disk states that a power cut could leave there (disk.h). Each
 * is opened and held against what had been promised (check.c).
 *
 *     explore [--states N] [--seed S] [--jobs J] [--workload NAME] [--round R]
 *             [--script TEXT]
 *
 * While few things are undecided every combination is tried; beyond, the ones most
 * likely to hurt and random ones. A state counts once, by a hash of all that can be
 * seen of it; it is checked again when more has been promised meanwhile. Rounds differ
 * by their random numbers and follow each other until N states were seen. Jobs share
 * the states of each run by their hashes. */
#include "tests/crash/check.h"

#include <poll.h>
#include <time.h>

/* The cost that one level of cuts may have at one event. */
struct budget {
    uint64_t exhaustive; /* combinations up to this number are all tried */
    unsigned n_random;
    unsigned deep; /* one state in `deep` is recorded and cut again */
};

/* ---- the states of an event to look at: every combination while there are few, else
 * those most likely to hurt, and random ones ---- */

static void consider(struct run *r);
/* The item that decides for this one; itself for nearly all. */
static uint16_t leader[DISK_MAX_ITEMS];

/* LMDB writes whole pages: a page of a catalog that is not synced is there, or not. Its
 * meta pages, the first two, may be torn like everything else. */
static void find_leaders(const struct run *r)
{
    enum { META_SECTORS = 2 * PAGE_BYTES / SECTOR_BYTES };
    for (size_t i = 0; i < r->items.n; i++) {
        const struct disk_item *item = &r->items.item[i], *before = item - 1;
        bool same_page =
            i && item->kind == DISK_SECTOR && r->disk.files[item->file].lmdb &&
            item->sector >= META_SECTORS && before->kind == DISK_SECTOR &&
            before->file == item->file &&
            before->sector / SECTORS_PER_PAGE == item->sector / SECTORS_PER_PAGE;
        leader[i] = same_page ? leader[i - 1] : (uint16_t)i;
    }
}

static void consider_one(struct run *r)
{
    for (size_t i = 0; i < r->items.n; i++)
        if (leader[i] != i)
            r->state.choice[i] = r->state.choice[leader[i]]
                                     ? (uint8_t)(r->items.item[i].n_choices - 1)
                                     : 0;
    consider(r);
}

static void every_combination(struct run *r)
{
    uint8_t *choice = r->state.choice;
    size_t n = r->items.n, i;
    memset(choice, 0, n);
    do {
        consider_one(r);
        for (i = 0; i < n; i++) {
            if (leader[i] != i)
                continue;
            if (++choice[i] < r->items.item[i].n_choices)
                break;
            choice[i] = 0;
        }
    } while (i < n);
}

enum area {
    AREA_IDENTITY,
    AREA_A,
    AREA_B,
    AREA_FLOORS,
    AREA_OTHER,
    AREA_BITS,
    N_AREAS
};

/* The use of a sector, by the newest header that the file has had. */
static enum area area_of(const struct disk_file *f, const struct commit *c, size_t at)
{
    (void)f;
    if (at < 3 * (size_t)PAGE_BYTES)
        return at < PAGE_BYTES ? AREA_IDENTITY : at < 2 * PAGE_BYTES ? AREA_A : AREA_B;
    for (size_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *d = &c->stages[i];
        if (at >= d->offset && at < d->offset + d->length)
            return AREA_BITS;
        if (at >= d->floors_offset &&
            at < d->floors_offset + floors_bytes(d->length / PAGE_BYTES))
            return AREA_FLOORS;
    }
    return AREA_OTHER;
}

static void find_areas(const struct run *r, uint8_t *areas)
{
    struct commit c[DISK_MAX_FILES];
    memset(c, 0, sizeof c);
    for (size_t i = 0; i < r->disk.n_files; i++) {
        const struct disk_file *f = &r->disk.files[i];
        struct identity id;
        struct slot_health health;
        if (identity_decode(f->live, (size_t)f->live_bytes, &id).code == VERDICT_OK &&
            f->live_bytes >= identity_header_bytes(&id))
            commit_choose_slot(f->live, &id, f->live_bytes, &c[i], &health);
    }
    for (size_t i = 0; i < r->items.n; i++) {
        const struct disk_item *item = &r->items.item[i];
        areas[i] = N_AREAS;
        if (item->kind == DISK_SECTOR)
            areas[i] = (uint8_t)area_of(&r->disk.files[item->file], &c[item->file],
                                        (size_t)item->sector * SECTOR_BYTES);
    }
}

static uint8_t newest(const struct disk_item *item)
{
    return (uint8_t)(item->n_choices - 1);
}

/* Names and lengths as they were, or as they are. */
static void set_rest(struct run *r, bool new)
{
    for (size_t i = 0; i < r->items.n; i++)
        if (r->items.item[i].kind != DISK_SECTOR)
            r->state.choice[i] = new ? newest(&r->items.item[i]) : 0;
}

/* Only the slots, all but the floors, and so on. */
static void whole_areas(struct run *r)
{
    uint8_t areas[DISK_MAX_ITEMS];
    find_areas(r, areas);
    for (unsigned mask = 0; mask < 1U << N_AREAS; mask++) {
        for (size_t i = 0; i < r->items.n; i++)
            r->state.choice[i] = mask >> areas[i] & 1 ? newest(&r->items.item[i]) : 0;
        set_rest(r, true);
        consider_one(r);
        if (mask % 8 == 7) {
            set_rest(r, false);
            consider_one(r);
        }
    }
}

/* Each alone, and all but each: some of them where there are many. */
static void single_ones(struct run *r)
{
    const struct disk_items *items = &r->items;
    struct rng rng = {mix64(r->rng.state, r->event)};
    for (size_t n = 0; n < items->n && n < 64; n++) {
        size_t i = items->n <= 64 ? n : (size_t)rng_below(&rng, items->n);
        for (size_t k = 0; k < items->n; k++)
            r->state.choice[k] = 0;
        set_rest(r, true);
        r->state.choice[i] = newest(&items->item[i]);
        consider_one(r);
        for (size_t k = 0; k < items->n; k++)
            r->state.choice[k] = newest(&items->item[k]);
        r->state.choice[i] = 0;
        consider_one(r);
    }
}

static void random_ones(struct run *r, unsigned n)
{
    struct rng rng = {mix64(r->rng.state, r->event)};
    while (n-- > 0) {
        static const uint64_t density[] = {1, 4, 7};
        uint64_t of_eight = density[rng_below(&rng, 3)];
        for (size_t i = 0; i < r->items.n; i++) {
            const struct disk_item *item = &r->items.item[i];
            r->state.choice[i] = 0;
            if (item->kind != DISK_SECTOR)
                r->state.choice[i] = (uint8_t)rng_below(&rng, item->n_choices);
            else if (rng_below(&rng, 8) < of_eight)
                r->state.choice[i] =
                    (uint8_t)(1 + rng_below(&rng, item->n_choices - 1U));
        }
        consider_one(r);
    }
}

static void choose_states(struct run *r, const struct budget *b)
{
    /* Not from the run's numbers: how much is explored must not change the run. */
    struct rng rng = {mix64(r->rng.state, r->event)};
    uint64_t n = 1;
    disk_items(&r->disk, &rng, &r->items);
    r->state.disk = &r->disk;
    r->state.items = &r->items;
    find_leaders(r);
    for (size_t i = 0; i < r->items.n && n <= b->exhaustive; i++)
        if (leader[i] == i)
            n *= r->items.item[i].n_choices;
    if (n <= b->exhaustive) {
        every_combination(r);
        return;
    }
    if (r->level == 0) {
        whole_areas(r);
        single_ones(r);
    }
    random_ones(r, b->n_random);
}

enum { MAX_WORKLOADS = 32, MAX_JOBS = 64 };

/* Shared by the jobs. */
struct tally {
    struct at_work { /* what a job is at */
        char script[SCRIPT_BYTES];
        unsigned round;
    } at_work[MAX_JOBS];
    char said[SAID_BYTES];
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
    const char *script; /* the only one, or NULL */
    uint64_t *seen;     /* of this run: states with their promises */
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

static uint64_t promise_hash(const struct promises *p)
{
    uint64_t hash = mix64((uint64_t)p->store * 4 + p->backup, p->repaired);
    for (size_t i = 0; i < p->n_objects; i++) {
        const struct object *o = &p->object[i];
        hash = mix64(mix64(hash, (uint64_t)o->standing * 8 + o->seal),
                     mix64(mix64(o->watermark, o->stages), o->rank)) +
               o->lost_page;
    }
    return hash;
}

/* A long replay would be cut at each of its adds. */
static bool is_brief(const struct promises *p)
{
    uint32_t n = 0;
    for (size_t i = 0; i < p->n_objects; i++)
        n += p->object[i].n_added - p->object[i].watermark;
    return n <= 24;
}

static void consider(struct run *r)
{
    if (atomic_load_explicit(&x.tally->failed, memory_order_relaxed))
        _exit(0);
    uint64_t hash = disk_hash(&r->state);
    /* Each job goes through all runs, and checks its part of their states. */
    if (r->level == 0 && hash / 8 % x.n_jobs != x.job)
        return;
    if (!seen_add(mix64(hash, promise_hash(&r->promises))))
        return;
    if (tally_add(hash)) {
        x.tally->n++;
        x.tally->by_workload[x.workload]++;
        x.tally->by_level[r->level]++;
    }
    x.tally->checks++;
    unsigned deep = x.budget[r->level].deep;
    if (deep && r->promises.store == COMING)
        deep = 1; /* a creation has few states, and each is created over */
    check_state(r, &r->state, hash,
                deep && is_brief(&r->promises) && hash / 65536 % deep == 0);
}

static void explore(struct run *r)
{
    choose_states(r, &x.budget[r->level]);
}

/* ---- rounds ---- */

static void run_script(const char *text, const char *dir, uint64_t seed, unsigned round)
{
    static struct run *r;
    char own[RUN_PATH_BYTES];
    struct script script;
    snprintf(own, sizeof own, "%.200s/0", dir);
    if (!r)
        r = malloc(sizeof *r);
    if (!r || !script_parse(text, &script) || mkdir(own, 0700) != 0)
        abort();
    struct at_work *at_work = &x.tally->at_work[x.job];
    snprintf(at_work->script, sizeof at_work->script, "%s", text);
    at_work->round = round;
    seen_clear();
    memset(r, 0, sizeof *r);
    r->workload = workloads[x.workload].name;
    r->script = text;
    r->round = round;
    r->on_event = explore;
    record_begin(r, own, seed);
    run_player(r);
    bool prepares = strstr(text, "now;");
    if (prepares) {
        run_play(r, &script);
        tree_note(r, true);
    }
    recording = r;
    if (prepares)
        record_event(r);
    run_play(r, &script);
    if (r->helper)
        helper_stop(r);
    record_event(r);
    recording = NULL;
    player_end(&r->player);
    record_end(r);
    tree_remove(own);
}

static void run_workload(unsigned number, unsigned round, const char *dir)
{
    const struct workload *w = &workloads[number];
    char text[SCRIPT_BYTES];
    uint64_t seed = mix64(run_seed, round), rng = mix64(seed, number);
    if (round % w->every != w->first)
        return;
    x.workload = number;
    script_draw(w->template, &rng, text);
    run_script(text, dir, seed, round);
}

static void run_job(const char *dir, const char *only, long only_round)
{
    seen_add(1);
    record_install();
    if (x.script) {
        unsigned round = only_round < 0 ? 0 : (unsigned)only_round;
        run_script(x.script, dir, mix64(run_seed, round), round);
        return;
    }
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
    x.tally = memory_shared(bytes);
    x.tally->mask = n - 1;
    script_said = x.tally->said;
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

/* The number of the job that has failed, or -1. */
static int run_jobs(const char *dir, const char *only, long only_round)
{
    int bad = -1, status;
    pid_t pid[MAX_JOBS];
    for (x.job = 0; x.job < x.n_jobs; x.job++) {
        char own[RUN_PATH_BYTES];
        snprintf(own, sizeof own, "%.200s/job%u", dir, x.job);
        if (mkdir(own, 0700) != 0)
            abort();
        if ((pid[x.job] = process_start(0)) == 0) {
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
        for (unsigned i = 0; i < x.n_jobs && bad < 0; i++)
            bad = pid[i] == child ? (int)i : -1;
        x.tally->failed = true;
    }
    return bad;
}

/* ---- a failure, made smaller ---- */

struct again {
    char dir[RUN_PATH_BYTES];
    unsigned round;
};

static void run_again(const char *text, void *ctx)
{
    const struct again *a = ctx;
    tree_remove(a->dir);
    if (mkdir(a->dir, 0700) != 0)
        abort();
    x.tally->failed = false;
    memset(x.tally->slots, 0, (x.tally->mask + 1) * sizeof x.tally->slots[0]);
    x.job = 0;
    x.n_jobs = 1;
    record_install();
    run_script(text, a->dir, mix64(run_seed, a->round), a->round);
}

static void print_again(const char *program, const char *dir, const struct at_work *job)
{
    char text[SCRIPT_BYTES];
    struct again a = {.round = job->round};
    snprintf(a.dir, sizeof a.dir, "%.200s/small", dir);
    memcpy(text, job->script, sizeof text);
    script_shrink(text, run_again, &a);
    fprintf(stderr,
            "  again: %s --states %llu --seed %llu --round %u --jobs 1 --script '%s'\n",
            program, (unsigned long long)run_states, (unsigned long long)run_seed,
            a.round, text);
}

static void report(double seconds, bool bad)
{
    uint64_t n = x.tally->n;
    for (unsigned i = 0; i < n_workloads; i++)
        if (x.tally->by_workload[i])
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

int main(int argc, char **argv)
{
    const char *only = NULL;
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t round = UINT64_MAX, jobs = n_cores < 1 ? 1 : (uint64_t)n_cores;
    char dir[ROOT_BYTES];
    const struct known_option known[] = {
        {"states", .number = &run_states},
        {"seed", .number = &run_seed},
        {"jobs", .number = &jobs},
        {"workload", .text = &only},
        {"round", .number = &round},
        {"script", .text = &x.script},
        {0},
    };
    run_states = 200000;
    run_seed = 1;
    if (!options_read(argc, argv, known))
        return 2;
    x.n_jobs = jobs < MAX_JOBS ? (unsigned)jobs : MAX_JOBS;
    tree_root(dir, "crash");
    set_budgets(run_states);
    make_tally(run_states);
    double began = now();
    int bad = run_jobs(dir, only, round == UINT64_MAX ? -1 : (long)round);
    if (bad >= 0)
        print_again(argv[0], dir, &x.tally->at_work[bad]);
    tree_remove(dir);
    report(now() - began, bad >= 0);
    return bad >= 0;
}
