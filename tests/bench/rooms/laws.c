/* Laws of a store of any size. With all but 100 segments packed, a million segments may
 * cost 1.5 times what a thousand cost: an edit, a snapshot, an open, a name looked up,
 * a process. And many single edits, packed now and then, cost the same each, and packs
 * write and take little more than what lives.
 *
 * Names are random numbers. A segment has 5 to 5,000 keys, half of them fewer than ten:
 * 5 / u, for a random u up to 1. So 40 on average; sizes that are evenly spread would
 * take an hour to build. Both stores have eight packs. */
#include "tests/bench/bench.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { PACKS = 8, LOOSE = 100, FEWEST_KEYS = 5, MOST_KEYS = 5000 };

struct site {
    char path[512];
    uint64_t n;    /* packed segments: numbers 0 .. n - 1 */
    uint64_t next; /* the segment that is put next */
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    char names[PACKS][17]; /* one of each pack */
};

/* ---- segments by number ---- */

static const char *number_name(uint64_t number)
{
    static char name[17];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)mixed(number));
    return name;
}

static uint64_t number_keys(uint64_t number)
{
    double u = (double)((mixed(number + ABSENT_KEYS) >> 11) + 1) / 0x1p53;
    return u * MOST_KEYS < FEWEST_KEYS ? MOST_KEYS : (uint64_t)(FEWEST_KEYS / u);
}

static struct tamis_builder *number_builder(struct tamis_edit *edit, uint64_t name,
                                            uint64_t number, uint64_t n_keys)
{
    static uint64_t hashes[MOST_KEYS];
    hashes_fill(number * MOST_KEYS, n_keys, hashes);
    return segment_builder(edit, number_name(name), 0.0001, hashes, n_keys);
}

static void number_put(struct tamis_edit *edit, uint64_t name, uint64_t number,
                       uint64_t n_keys)
{
    segment_put(edit, number_builder(edit, name, number, n_keys));
}

/* ---- stores, in memory where the system has such a place ---- */

static char place[256];

static void place_remove(void)
{
    tree_remove(place);
}

static struct site site_of(const char *name, uint64_t n)
{
    struct site s = {.n = n, .next = n + LOOSE};
    if (!*place) {
        bool shm = access("/dev/shm", W_OK) == 0;
        snprintf(place, sizeof place, "%s/tamis-bench-%ld",
                 shm ? "/dev/shm" : bench.dir, (long)getpid());
        mkdir(place, 0700);
        atexit(place_remove);
    }
    snprintf(s.path, sizeof s.path, "%s/%s", place, name);
    s.store = store_of(s.path, 0, 0);
    return s;
}

static void look_anew(struct site *s)
{
    struct tamis_snapshot *before = s->snapshot;
    s->snapshot = snapshot_of(s->store);
    if (before)
        tamis_snapshot_release(before);
}

/* ---- the most private memory while packs are made, beside their buffers ---- */

static atomic_bool watching;
static double least_kib, most_kib;

static void *watch_memory(void *none)
{
    for (; atomic_load(&watching); usleep(500)) {
        double kib = number_in("/proc/self/status", "RssAnon");
        most_kib = kib > most_kib ? kib : most_kib;
    }
    return none;
}

static void watch(pthread_t *thread)
{
    malloc_trim(0);
    least_kib = most_kib = number_in("/proc/self/status", "RssAnon");
    atomic_store(&watching, true);
    pthread_create(thread, NULL, watch_memory, NULL);
}

static void watch_end(pthread_t thread, uint64_t n_columns)
{
    static double most;
    double limit = 64 * (double)n_columns / 1e6 + 10;
    atomic_store(&watching, false);
    pthread_join(thread, NULL);
    double mb = (most_kib - least_kib) * 1024 / 1e6;
    most = mb / limit > most ? mb / limit : most;
    mb = most * limit;
    figure_set("law_pack_memory", 0, &mb, &limit, 1);
}

/* Packs, in which every page is checked, and loose segments. */
static void site_fill(struct site *s)
{
    struct tamis_packer_options options = {.size = sizeof options, .spool_dir = place};
    struct tamis_diag diag = {0};
    struct tamis_edit *edit;
    struct tamis_packer *packer;
    struct tamis_pack_info pack;
    uint64_t done = 0;
    pthread_t watcher;
    for (uint64_t i = 1; i <= PACKS; i++) {
        watch(&watcher);
        edit = edit_of(s->store);
        must(tamis_edit_packer(edit, &options, &packer, &diag), &diag, "packer");
        for (; done < s->n * i / PACKS; done++) {
            struct tamis_builder *builder =
                number_builder(edit, done, done, number_keys(done));
            must(tamis_packer_take(packer, builder, &diag), &diag, "take");
            tamis_builder_free(builder);
        }
        must(tamis_edit_put_packed(edit, packer, NULL, &diag), &diag, "packing");
        tamis_packer_free(packer);
        edit_done(edit);
        watch_end(watcher, s->n / PACKS);
    }
    edit = edit_of(s->store);
    for (; done < s->n + LOOSE; done++)
        number_put(edit, done, done, FEWEST_KEYS);
    edit_done(edit);
    look_anew(s);
    for (size_t i = 0; tamis_snapshot_pack_info(s->snapshot, i, &pack) == 0; i++)
        must(tamis_filter_verify(pack.pack, &(struct tamis_verify){0}, NULL), NULL,
             "verify");
}

/* ---- what both do: prepared, done, undone ---- */

static void put_next(struct site *s)
{
    struct tamis_edit *edit = edit_of(s->store);
    number_put(edit, s->next, s->next, FEWEST_KEYS);
    edit_done(edit);
}

static void drop_next(struct site *s)
{
    struct tamis_edit *edit = edit_of(s->store);
    must(tamis_edit_drop(edit, number_name(s->next++), 16, NULL), NULL, "drop");
    edit_done(edit);
}

static void shut(struct site *s)
{
    tamis_snapshot_release(s->snapshot);
    s->snapshot = NULL;
    tamis_store_close(s->store);
}

static void open_store(struct site *s)
{
    must(tamis_store_open(s->path, NULL, &s->store, NULL), NULL, s->path);
}

static void open_anew(struct site *s)
{
    shut(s);
    open_store(s);
}

static void draw_names(struct site *s)
{
    static uint64_t n_drawn;
    for (uint64_t i = 0; i < PACKS; i++)
        strcpy(s->names[i], number_name((s->n * i + mixed(++n_drawn) % s->n) / PACKS));
}

static void find_names(struct site *s)
{
    struct tamis_target target;
    for (size_t i = 0; i < PACKS; i++)
        must(tamis_snapshot_find(s->snapshot, s->names[i], 16, NULL, 0, 0, &target),
             NULL, "find");
}

static void rest(struct site *s)
{
    (void)s;
}

/* What closes the store stands last. */
static const struct law {
    const char *id, *steps_id;
    void (*before)(struct site *), (*run)(struct site *), (*after)(struct site *);
    unsigned times;
} laws[] = {
    {"law_commit", "law_commit_steps", rest, put_next, drop_next, 1},
    {"law_snapshot", "law_snapshot_steps", put_next, look_anew, drop_next, 1},
    {"law_find", "law_find_steps", draw_names, find_names, rest, PACKS},
    {"law_open", "law_open_steps", shut, open_store, look_anew, 1},
    {"law_first", "law_first_steps", open_anew, look_anew, rest, 1},
};
static const struct law *law;

/* ---- the processor's time, and instructions ---- */

static double law_ns(void *site)
{
    enum { TIMES = 10 };
    double ns = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        law->before(site);
        uint64_t began = cpu_ns();
        law->run(site);
        ns += (double)(cpu_ns() - began);
        law->after(site);
    }
    return ns / TIMES / law->times;
}

static volatile sig_atomic_t stepping;
static volatile uint64_t n_steps;

/* While its trap flag is set the processor stops after each instruction, but for those
 * of the kernel; after each byte of a copy that is one instruction. */
static void step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
#ifdef __x86_64__
    enum { TRAP_FLAG = 0x100 };
    static greg_t last;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    n_steps += registers[REG_RIP] != last;
    last = registers[REG_RIP];
    registers[REG_EFL] &= ~TRAP_FLAG;
    registers[REG_EFL] |= stepping ? TRAP_FLAG : 0;
#endif
}

static double law_steps(struct site *site)
{
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    law->before(site);
    n_steps = 0;
    stepping = 1;
    raise(SIGTRAP);
    law->run(site);
    stepping = 0;
    double n = (double)n_steps / law->times;
    law->after(site);
    return n;
}

static void obey(struct site *many, struct site *few)
{
    compare(law->id, law_ns, many, law_ns, few);
    if (!wanted(law->steps_id))
        return;
    double of_many = law_steps(many), of_few = law_steps(few);
    if (of_few > 0)
        figure_set(law->steps_id, 0, &of_many, &of_few, 1);
    else
        figure_detail(law->steps_id, "instructions are counted on x86-64 alone");
}

/* ---- processes ---- */

/* `tamis probe`, from its start to its end. */
static double probe_ns(void *site)
{
    struct site *s = site;
    char tamis[600], verb[] = "probe", key[] = "a key";
    char *argv[] = {tamis, verb, s->path, key, NULL};
    posix_spawn_file_actions_t unseen;
    struct rusage used;
    int status;
    pid_t pid;
    snprintf(tamis, sizeof tamis, "%.*s../../tamis",
             (int)(strrchr(bench.program, '/') + 1 - bench.program), bench.program);
    posix_spawn_file_actions_init(&unseen);
    posix_spawn_file_actions_addopen(&unseen, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, tamis, &unseen, NULL, argv, environ) != 0 ||
        wait4(pid, &status, 0, &used) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) % 10 != 0) /* 0, 10: MAYBE, ABSENT */
        give_up("%s probe failed", tamis);
    posix_spawn_file_actions_destroy(&unseen);
    return 1e9 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Says how many KiB of private memory 10,000 keys, half of them present, and a list of
 * all segments take. Then it waits to be killed. */
void guest(const char *path, uint64_t n)
{
    static const char file[] = "/proc/self/smaps_rollup", of[] = "Anonymous";
    struct tamis_segment_info info;
    struct site s = {.n = n};
    uint32_t segments[64];
    uint64_t hash;
    size_t n_maybe;
    double kib = number_in(file, of);
    snprintf(s.path, sizeof s.path, "%s", path);
    open_store(&s);
    look_anew(&s);
    for (uint64_t i = 0; i < 10000; i++) {
        hashes_fill(i % 2 ? mixed(i) % n * MOST_KEYS : ABSENT_KEYS + i, 1, &hash);
        struct tamis_key key = tamis_key_of_hash(bench.domain.tag, hash);
        if (tamis_snapshot_candidates(s.snapshot, &key, segments, 64, &n_maybe) ==
                TAMIS_ABSENT &&
            i % 2)
            give_up("a present key is ABSENT");
    }
    for (size_t i = 0; tamis_snapshot_next(s.snapshot, &i); i++)
        must(tamis_snapshot_segment(s.snapshot, i, &info), NULL, "segment");
    printf("%ld %f\n", (long)getpid(), number_in(file, of) - kib);
    fflush(stdout);
    pause();
}

/* The most private memory of some guests at once; *pss is what they have together. */
static double guests_memory(struct site *s, double *pss)
{
    FILE *guests[16];
    long pids[16];
    char text[1200];
    double most = 0, kib;
    const unsigned n = bench.sizes.guests;
    snprintf(text, sizeof text, "exec '%s' --guest %llu '%s' %llu", bench.program,
             (unsigned long long)bench.seed, s->path, (unsigned long long)s->n);
    for (unsigned i = 0; i < n; i++)
        guests[i] = popen(text, "re");
    for (unsigned i = 0; i<n; i++, most = kib> most ? kib : most)
        if (!guests[i] || fscanf(guests[i], "%ld %lf", &pids[i], &kib) != 2)
            give_up("law_memory: %s failed", text);
    *pss = 0;
    for (unsigned i = 0; i < n; i++) {
        snprintf(text, sizeof text, "/proc/%ld/smaps_rollup", pids[i]);
        *pss += number_in(text, "Pss") / 1024;
    }
    for (unsigned i = 0; i < n; i++)
        kill((pid_t)pids[i], SIGKILL), pclose(guests[i]);
    return most / 1024;
}

static void obey_memory(struct site *many, struct site *few)
{
    double pss, limit = 8;
    double of_few = guests_memory(few, &pss), of_many = guests_memory(many, &pss);
    figure_set("law_memory", 0, &of_many, &limit, 1);
    figure_detail("law_memory", "%.2f MB if few; %u processes have %.1f MB together",
                  of_few, bench.sizes.guests, pss);
}

void room_laws(void)
{
    struct site few = site_of("few", bench.sizes.few_packed),
                many = site_of("many", bench.sizes.many_packed);
    site_fill(&few), site_fill(&many);
    for (law = laws; law < laws + sizeof laws / sizeof laws[0]; law++)
        obey(&many, &few);
    compare("law_probe", probe_ns, &many, probe_ns, &few);
    if (wanted("law_memory"))
        obey_memory(&many, &few);
    pthread_t watcher;
    watch(&watcher);
    store_pack(many.store, TAMIS_REPACK_ALL);
    watch_end(watcher, many.n);
    figure_detail("law_commit", "%llu packed segments beside %llu",
                  (unsigned long long)many.n, (unsigned long long)few.n);
    shut(&few), shut(&many);
}

/* ---- many edits, packed now and then ---- */

/* MB of the disk for filters and packs. */
static double space_of(const struct site *s)
{
    char command[600];
    double n_bytes;
    snprintf(command, sizeof command, "du -s -B1 '%s/filters'", s->path);
    FILE *du = popen(command, "re");
    if (!du || fscanf(du, "%lf", &n_bytes) != 1)
        give_up("%s failed", command);
    pclose(du);
    return n_bytes / 1e6;
}

/* A new segment, or each third time another one's new filter. */
static void edit_once(struct site *s, uint64_t number)
{
    struct tamis_edit *edit = edit_of(s->store);
    bool old = number % 3 == 2;
    uint64_t name = old ? mixed(number) % s->n : s->n++;
    if (old)
        must(tamis_edit_drop(edit, number_name(name), 16, NULL), NULL, "drop");
    number_put(edit, name, number, number_keys(number));
    edit_done(edit);
}

void room_law_edits(void)
{
    struct site s = site_of("edited", 0);
    const uint64_t n = bench.sizes.edits;
    uint64_t began = cpu_ns();
    double half = 0, written = 0;
    for (uint64_t i = 1; i <= n; i++) {
        edit_once(&s, i - 1);
        if (i % (n / bench.sizes.packings) == 0) {
            written -= number_in("/proc/self/io", "wchar") / 1e6;
            store_pack(s.store, TAMIS_REPACK_AUTO);
            written += number_in("/proc/self/io", "wchar") / 1e6;
        }
        if (i == n / 2)
            half = (double)(cpu_ns() - began) / (double)i;
    }
    double all = (double)(cpu_ns() - began) / (double)n, space = space_of(&s);
    store_pack(s.store, TAMIS_REPACK_ALL);
    double lives = space_of(&s);
    look_anew(&s);
    if (tamis_snapshot_n_segments(s.snapshot) != s.n)
        wrong("law_edits: segments are lost");
    figure_set("law_edits", 0, &all, &half, 1);
    figure_set("law_edits_written", 0, &written, &space, 1);
    figure_set("law_edits_space", 0, &space, &lives, 1);
    figure_detail("law_edits", "%llu", (unsigned long long)n);
    shut(&s);
}
