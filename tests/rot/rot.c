/* Damages files of every kind, one process a kind, and prints what came of it. */
#include "tests/rot/rot.h"

#include <ftw.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct tally *tallies; /* shared with the children; the last is the stores' */
struct tally *tally;

static struct effort effort = {48, 600, 200, 100};
static uint64_t seed = 1, only = UINT64_MAX, turn;

uint64_t random_state;

uint64_t random_u64(void)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t random_below(uint64_t n)
{
    return random_u64() % n;
}

/* A reader that meets a slot that is not whole waits before it looks again. Nobody
 * writes here, so the library's waits are cut short: it is most of the time. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted, (void)left;
    return 0;
}

/* ---- one kind, in a process of its own ---- */

/* Something is broken for good: no need to go on for hours. */
bool enough(void)
{
    return tally->n_lost > 100;
}

static void visit(void *ctx, const struct damage *d, size_t n, enum damage_class class)
{
    if (!enough())
        readers_try(ctx, d, n, class, turn++);
}

static void run_kind(size_t i, const char *dir)
{
    struct kind k;
    struct file f;
    struct effort e = effort;
    random_state = seed * 1000 + i;
    tally = &tallies[i];
    kind_make(&k, i, dir);
    file_open(&f, &k);
    if (k.large) {
        e.n_pairs /= 4;
        e.n_writers /= 4;
    }
    damages_each(&k, &e, seed, visit, &f);
    sessions_run(&f, &e);
    file_close(&f);
}

static void run_stores(const char *dir)
{
    random_state = seed * 1000 + N_KINDS;
    tally = &tallies[N_KINDS];
    stores_run(dir, &effort);
}

/* As many at a time as there are processors. */
static bool run_all(const char *dir)
{
    long room = sysconf(_SC_NPROCESSORS_ONLN);
    bool good = true;
    int status;
    for (size_t i = 0, running = 0; i <= N_KINDS || running;) {
        if (i <= N_KINDS && running < (size_t)room) {
            /* The stores first, which take longest. */
            size_t job = (i++ + N_KINDS) % (N_KINDS + 1);
            if (only <= N_KINDS && job != only)
                continue;
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                if (job == N_KINDS)
                    run_stores(dir);
                else
                    run_kind(job, dir);
                exit(0);
            }
            running++;
            continue;
        }
        CHECK(wait(&status) > 0);
        running--;
        if (WIFSIGNALED(status))
            fprintf(stderr, "a process died of signal %d\n", WTERMSIG(status));
        good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return good;
}

/* ---- what SPEC.md names ---- */

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

/* ---- the table ---- */

static uint64_t damages_of(const struct tally *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < N_CLASSES; i++)
        n += t->damages[i];
    return n;
}

static void print_kinds(void)
{
    printf("%-34s %8s %8s %8s %8s %8s  %s\n", "kind", "damages", "refused", "damaged",
           "unharmed", "sessions", "exceptions");
    for (size_t i = 0; i < N_KINDS; i++) {
        const struct tally *t = &tallies[i];
        printf("%-34s %8llu %8llu %8llu %8llu %8llu ", kind_name(i),
               (unsigned long long)damages_of(t), (unsigned long long)t->refused,
               (unsigned long long)t->damaged, (unsigned long long)t->unharmed,
               (unsigned long long)t->sessions);
        for (size_t e = LOST + 1; e < N_EXCEPTIONS; e++)
            if (t->exceptions[e])
                printf(" %s %llu", exception_names[e],
                       (unsigned long long)t->exceptions[e]);
        putchar('\n');
    }
}

static void print_classes(void)
{
    uint64_t n[N_CLASSES] = {0}, asked[N_VIEWS] = {0};
    for (size_t i = 0; i < N_KINDS; i++) {
        for (size_t c = 0; c < N_CLASSES; c++)
            n[c] += tallies[i].damages[c];
        for (size_t v = 0; v < N_VIEWS; v++)
            asked[v] += tallies[i].asked[v];
    }
    puts("damages:");
    for (size_t c = 0; c < N_CLASSES; c++)
        printf("  %-34s %9llu\n", class_names[c], (unsigned long long)n[c]);
    puts("readers that answered:");
    for (size_t v = 0; v < N_VIEWS; v++)
        printf("  %-34s %9llu\n", view_names[v], (unsigned long long)asked[v]);
}

static bool print_exceptions(void)
{
    bool good = true;
    puts("exceptions, in damages:");
    for (size_t e = LOST + 1; e < N_EXCEPTIONS; e++) {
        uint64_t n = 0;
        for (size_t i = 0; i <= N_KINDS; i++)
            n += tallies[i].exceptions[e];
        bool named = spec_names(exception_names[e]);
        printf("  %-34s %9llu%s%s\n", exception_names[e], (unsigned long long)n,
               named ? "" : "  NOT NAMED BY SPEC.md",
               n || only <= N_KINDS ? "" : "  NOT SEEN: does SPEC.md name too much?");
        good &= named && (n > 0 || only <= N_KINDS);
    }
    return good;
}

static bool print_all(void)
{
    const struct tally *s = &tallies[N_KINDS];
    uint64_t n = 0, n_lost = 0, sessions = 0, seals = 0, refused = 0, kept = 0;
    print_kinds();
    print_classes();
    for (size_t i = 0; i <= N_KINDS; i++) {
        n += damages_of(&tallies[i]);
        n_lost += tallies[i].n_lost;
        sessions += tallies[i].sessions;
        refused += tallies[i].sessions_refused;
        seals += tallies[i].seals;
        kept += tallies[i].pages_kept;
    }
    printf("writers: %llu found damage, %llu refused, %llu sealed; %llu bad pages, "
           "none laundered\n",
           (unsigned long long)sessions, (unsigned long long)refused,
           (unsigned long long)seals, (unsigned long long)kept);
    printf("stores: %llu damages, %llu attachments (%llu refused)\n",
           (unsigned long long)s->in_store, (unsigned long long)s->attached,
           (unsigned long long)s->attach_refused);
    bool good = print_exceptions();
    n += sessions + s->in_store + s->attached;
    printf("rot: %llu damages: %llu lost (present keys answered ABSENT, or damage "
           "laundered)\n",
           (unsigned long long)n, (unsigned long long)n_lost);
    return good && n_lost == 0 && n > 0;
}

/* ---- options ---- */

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t v = strtoull(argv[i + 1], NULL, 10);
        uint64_t *to = strcmp(argv[i], "--every") == 0     ? &effort.every
                       : strcmp(argv[i], "--pairs") == 0   ? &effort.n_pairs
                       : strcmp(argv[i], "--writers") == 0 ? &effort.n_writers
                       : strcmp(argv[i], "--stores") == 0  ? &effort.n_stores
                       : strcmp(argv[i], "--seed") == 0    ? &seed
                       : strcmp(argv[i], "--only") == 0    ? &only
                                                           : NULL;
        if (!to || (to == &effort.every && v == 0))
            return false;
        *to = v;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    char dir[] = "/dev/shm/tamis-rot.XXXXXX", other[512];
    const char *tmp = getenv("TMPDIR"), *in = mkdtemp(dir);
    if (!read_options(argc, argv)) {
        fprintf(stderr, "usage: rot [--every N] [--pairs N] [--writers N] [--stores N] "
                        "[--seed S] [--only KIND]\n");
        return 2;
    }
    if (!in) {
        snprintf(other, sizeof other, "%s/tamis-rot.XXXXXX", tmp ? tmp : "/tmp");
        in = mkdtemp(other);
    }
    CHECK(in);
    tallies = mmap(NULL, (N_KINDS + 1) * sizeof *tallies, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(tallies != MAP_FAILED);
    bool good = run_all(in);
    nftw(in, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    bool good_table = print_all();
    if (!good)
        puts("a process died");
    return good && good_table ? 0 : 1;
}
