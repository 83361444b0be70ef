/* Damages files of every kind, one process a kind, and prints what came of it. */
#include "tests/rot/rot.h"

#include <inttypes.h>
#include <time.h>

static struct tally *tallies; /* shared with the children; the last is the stores' */
struct tally *tally;
uint64_t every = 48;
static uint64_t seed = 1, only = UINT64_MAX, only_trial;
static const char *program;
static struct {
    uint64_t job, number, random;
} now; /* the trial */

const char *const count_names[N_COUNTS] = {
    [REFUSED] = "refused",
    [DAMAGED] = "damaged",
    [UNHARMED] = "unharmed",
    [SESSIONS] = "writers found damage",
    [SESSIONS_REFUSED] = "writers refused",
    [SEALS] = "writers sealed",
    [PAGES_KEPT] = "bad pages, none laundered",
    [OF_A_STORE] = "damages in a store",
    [ATTACHED] = "attachments",
    [ATTACH_REFUSED] = "attachments refused",
};

/* ---- trials ---- */

uint64_t random_u64(void)
{
    return draw(&now.random);
}

uint64_t random_below(uint64_t n)
{
    return random_u64() % n;
}

static void start(uint64_t number)
{
    now.number = number;
    now.random = (seed << 40) + (now.job << 32) + number;
}

bool trial(void)
{
    start(now.number + 1);
    return !only_trial || now.number == only_trial;
}

void lost(const char *format, ...)
{
    va_list ap;
    char text[1000];
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fprintf(stderr, "LOST: %s\n  again: %s --seed %llu --every %llu --only %llu:%llu\n",
            text, program, (unsigned long long)seed, (unsigned long long)every,
            (unsigned long long)now.job, (unsigned long long)now.number);
    _exit(1);
}

_Noreturn void model_broken(const char *text)
{
    lost("%s", text);
}

/* A reader that meets a slot that is not whole waits before it looks again. Nobody
 * writes here, so the library's waits are cut short: it is most of the time. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted, (void)left;
    return 0;
}

static void fixed_random(void *buf, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)buf)[i] = (uint8_t)(random_u64() >> 24);
}

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

/* ---- jobs: a kind of file, or the store, in a process of its own ---- */

static void run_job(const char *root, uint64_t job)
{
    static struct kind k;
    struct file f;
    char dir[STEPS_PATH_BYTES];
    now.job = job;
    start(0);
    tally = &tallies[job];
    io_calls.random = fixed_random;
    io_calls.fsync = io_calls.fdatasync = no_sync; /* files in memory */
    snprintf(dir, sizeof dir, "%.300s/%llu", root, (unsigned long long)job);
    CHECK(mkdir(dir, 0700) == 0);
    if (job == N_KINDS) {
        stores_try(dir);
        return;
    }
    kind_make(&k, job, dir);
    file_open(&f, &k, NULL);
    damages_try(&f);
    sessions_try(&f);
    file_close(&f);
}

/* As many at a time as there are processors; the store first, which takes longest. */
static bool run_all(const char *root)
{
    long room = sysconf(_SC_NPROCESSORS_ONLN);
    bool good = true;
    int status;
    for (uint64_t i = 0, running = 0; i <= N_KINDS || running;) {
        uint64_t job = (i + N_KINDS) % (N_KINDS + 1);
        if (i <= N_KINDS && only != UINT64_MAX && job != only) {
            i++;
        } else if (i <= N_KINDS && running < (uint64_t)room) {
            if (process_start(0) == 0) {
                run_job(root, job);
                exit(0);
            }
            running++;
            i++;
        } else {
            CHECK(wait(&status) > 0);
            running--;
            if (WIFSIGNALED(status))
                fprintf(stderr, "a process died of signal %d\n", WTERMSIG(status));
            good &= status == 0;
        }
    }
    return good;
}

/* ---- the table ---- */

/* Does SPEC.md name it? */
static bool spec_names(const char *exception)
{
    char line[400], wanted[64];
    bool in = false, found = false;
    FILE *f = fopen(TAMIS_SOURCE_DIR "/SPEC.md", "r");
    CHECK(f);
    snprintf(wanted, sizeof wanted, "| %s |", exception);
    while (fgets(line, sizeof line, f)) {
        in = in ? line[0] == '|' : strstr(line, "<!-- table: exceptions -->") != NULL;
        found |= in && strncmp(line, wanted, strlen(wanted)) == 0;
    }
    fclose(f);
    return found;
}

static void print_sums(const char *title, const char *const names[], const uint64_t *n,
                       size_t n_names)
{
    printf("%s:\n", title);
    for (size_t i = 0; i < n_names; i++)
        if (names[i])
            printf("  %-34s %9llu\n", names[i], (unsigned long long)n[i]);
}

static uint64_t print_kinds(struct tally *all)
{
    uint64_t *sum = (uint64_t *)all, n = 0;
    for (size_t job = 0; job <= N_KINDS; job++) {
        const struct tally *t = &tallies[job];
        uint64_t damages = t->n[SESSIONS] + t->n[OF_A_STORE] + t->n[ATTACHED];
        for (size_t i = 0; i < N_PARTS; i++)
            damages += t->damages[i];
        printf("%-34s %8llu damages;", job < N_KINDS ? kind_name(job) : "a store",
               (unsigned long long)damages);
        for (size_t e = LOST + 1; e < N_EXCEPTIONS; e++)
            if (t->exceptions[e])
                printf(" %s %llu", exception_names[e],
                       (unsigned long long)t->exceptions[e]);
        putchar('\n');
        for (size_t i = 0; i < sizeof *t / sizeof *sum; i++)
            sum[i] += ((const uint64_t *)t)[i];
        n += damages;
    }
    return n;
}

/* All that SPEC.md names must have been seen, and nothing else. */
static bool exceptions_fit(const struct tally *all)
{
    bool good = true;
    for (size_t e = LOST + 1; e < N_EXCEPTIONS; e++) {
        bool named = spec_names(exception_names[e]),
             seen = all->exceptions[e] || only != UINT64_MAX;
        if (!named || !seen)
            printf("FAILED: %s is not %s\n", exception_names[e],
                   named ? "seen: does SPEC.md name too much?" : "named by SPEC.md");
        good &= named && seen;
    }
    return good;
}

static bool report(bool good)
{
    struct tally all = {0};
    uint64_t n = print_kinds(&all);
    print_sums("damages", part_names, all.damages, N_PARTS);
    print_sums("readers that answered", view_names, all.asked, N_VIEWS);
    print_sums("exceptions, in damages", exception_names, all.exceptions, N_EXCEPTIONS);
    print_sums("counts", count_names, all.n, N_COUNTS);
    good &= exceptions_fit(&all) && n;
    printf("rot: %llu damages: %s\n", (unsigned long long)n,
           good ? "0 lost"
                : "FAILED: keys are lost, damage is laundered, or see above");
    return good;
}

int main(int argc, char **argv)
{
    char root[ROOT_BYTES];
    const char *again = "";
    const struct known_option known[] = {{"every", .number = &every},
                                         {"seed", .number = &seed},
                                         {"only", .text = &again},
                                         {0}};
    program = argv[0];
    if (!options_read(argc, argv, known) || every == 0)
        return 2;
    sscanf(again, "%" SCNu64 ":%" SCNu64, &only, &only_trial);
    tree_root(root, "rot");
    tallies = memory_shared((N_KINDS + 1) * sizeof *tallies);
    bool good = run_all(root);
    tree_remove(root);
    return report(good) ? 0 : 1;
}
