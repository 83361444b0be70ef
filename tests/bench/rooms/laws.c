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
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
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

/* ---- stores ---- */

static struct site site_of(const char *name, uint64_t n)
{
    struct site s = {.n = n, .next = n + LOOSE};
    snprintf(s.path, sizeof s.path, "%s/%s", memory_dir(), name);
    s.store = store_new(s.path);
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
    struct tamis_packer_options options = {.size = sizeof options,
                                           .spool_dir = memory_dir()};
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
    must(tamis_edit_drop(edit, number_name(s->next++), 16, NULL, NULL), NULL, "drop");
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

/* Laws that close the store stand last. */
static const struct law {
    const char *id;
    void (*before)(struct site *), (*run)(struct site *), (*after)(struct site *);
    unsigned times;
} laws[] = {
    {"law_commit_steps", rest, put_next, drop_next, 1},
    {"law_snapshot_steps", put_next, look_anew, drop_next, 1},
    {"law_find_steps", draw_names, find_names, rest, PACKS},
    {"law_open_steps", shut, open_store, look_anew, 1},
    {"law_first_steps", open_anew, look_anew, rest, 1},
};

/* ---- instructions ---- */

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

static double law_steps(const struct law *law, struct site *site)
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

static void obey(const struct law *law, struct site *many, struct site *few)
{
    if (!wanted(law->id))
        return;
    double of_many = law_steps(law, many), of_few = law_steps(law, few);
    if (of_few > 0)
        figure_set(law->id, 0, &of_many, &of_few, 1);
    else
        figure_detail(law->id, "instructions are counted on x86-64 alone");
}

/* ---- processes ---- */

static double ns_of(struct timeval t)
{
    return 1e9 * (double)t.tv_sec + 1e3 * (double)t.tv_usec;
}

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
    return ns_of(used.ru_utime) + ns_of(used.ru_stime);
}

/* Says how many KiB of private memory 10,000 keys, half of them present, and a list of
 * all segments take. Then it waits to be killed. */
void guest(const char *path, uint64_t n)
{
    static const char file[] = "/proc/self/smaps_rollup", of[] = "Anonymous";
    struct tamis_segment_info info;
    struct site s = {.n = n};
    uint64_t hash;
    double kib = number_in(file, of);
    snprintf(s.path, sizeof s.path, "%s", path);
    open_store(&s);
    look_anew(&s);
    for (uint64_t i = 0; i < 10000; i++) {
        hashes_fill(i % 2 ? mixed(i) % n * MOST_KEYS : ABSENT_KEYS + i, 1, &hash);
        struct tamis_key key =
            (struct tamis_key){.tag = bench.domain.tag, .hash = hash};
        const struct tamis_query q = {
            .size = sizeof q, .all = 1, .keys = &key, .n_keys = 1};
        if (tamis_snapshot_query(s.snapshot, &q, NULL) && i % 2)
            give_up("a present key is ABSENT");
    }
    for (size_t i = 0; tamis_snapshot_next(s.snapshot, &i); i++)
        must(tamis_snapshot_segment(s.snapshot, i, &info), NULL, "segment");
    printf("%ld %f\n", (long)getpid(), number_in(file, of) - kib);
    fflush(stdout);
    pause();
}

/* The most private memory of some guests at once; *pss is their memory together. */
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
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++)
        obey(&laws[i], &many, &few);
    compare("law_probe", probe_ns, &many, probe_ns, &few);
    if (wanted("law_memory"))
        obey_memory(&many, &few);
    pthread_t watcher;
    watch(&watcher);
    store_pack(many.store, TAMIS_REPACK_ALL);
    watch_end(watcher, many.n);
    figure_detail("law_probe", "%llu packed segments beside %llu",
                  (unsigned long long)many.n, (unsigned long long)few.n);
    shut(&few), shut(&many);
}

/* ---- the system calls of an edit, bare ---- */

/* Used by this process: nanoseconds of the processor, calls and bytes. */
enum used { USER, SYSTEM, READS, READ, WRITES, WRITTEN, N_USED };

/* Call it with -1 before, and with 1 after. */
static void use(double used[N_USED], double sign)
{
    static const char *const keys[] = {"syscr", "rchar", "syscw", "wchar"};
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    used[USER] += sign * ns_of(r.ru_utime);
    used[SYSTEM] += sign * ns_of(r.ru_stime);
    for (size_t i = READS; i < N_USED; i++)
        used[i] += sign * number_in("/proc/self/io", keys[i - READS]);
}

#define MUST_DO(call)                                                                  \
    ((call) < 0 ? give_up("%s failed in %s", #call, memory_dir()) : (void)0)

/* The files of a store; meta is its catalog, open for O_DSYNC. */
struct bare {
    int dir, lock, catalog, meta;
    char path[512], file[600];
};

static struct bare bare_new(void)
{
    struct bare b;
    char name[700];
    snprintf(b.path, sizeof b.path, "%s/bare", memory_dir());
    MUST_DO(mkdir(b.path, 0700));
    MUST_DO(b.dir = open(b.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    snprintf(b.file, sizeof b.file, "%s/catalog.lmdb", b.path);
    snprintf(name, sizeof name, "%s-lock", b.file);
    MUST_DO(b.lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    MUST_DO(ftruncate(b.lock, 1 << 16));
    MUST_DO(b.catalog = open(b.file, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    MUST_DO(b.meta = open(b.file, O_WRONLY | O_DSYNC | O_CLOEXEC));
    MUST_DO(ftruncate(b.catalog, 1 << 24));
    return b;
}

static void bare_lock(int fd, int type, off_t at, off_t n)
{
    struct flock l = {.l_type = (short)type, .l_start = at, .l_len = n};
    MUST_DO(fcntl(fd, F_OFD_SETLK, &l));
}

static const char *bare_name(uint64_t number)
{
    static char name[48];
    snprintf(name, sizeof name, "%032llx.tamis", (unsigned long long)number);
    return name;
}

static void bare_file(int dir, uint64_t number)
{
    const char *name = bare_name(number),
               temp[] = "0123456789abcdef0123456789abcdef.tamis.01234567.tmp";
    char bytes[PAGE_BYTES] = {0}, *bits;
    struct statfs fs;
    struct stat st;
    int fd;
    for (size_t i = 0; i < 3; i++)
        MUST_DO(getrandom(bytes, i < 2 ? 16 : 4, 0));
    MUST_DO(fd = openat(dir, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    MUST_DO(fstatfs(fd, &fs));
    bits = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    memcpy(bits, bytes, PAGE_BYTES);
    MUST_DO(pwrite(fd, bits, PAGE_BYTES, PAGE_BYTES));
    munmap(bits, PAGE_BYTES);
    MUST_DO(pwrite(fd, bytes, PAGE_BYTES, 0));
    MUST_DO(fstatat(dir, "..", &st, 0));
    MUST_DO(fstat(fd, &st));
    MUST_DO(fsync(fd));
    MUST_DO(renameat2(dir, temp, dir, name, RENAME_NOREPLACE));
    MUST_DO(close(fd));
    MUST_DO(fsync(dir));
}

/* Makes the calls that strace shows of edit_once(), by kinds, without those for a
 * tombstone. It reads and writes the catalog by as many calls, of as many bytes, as the
 * edits before made. */
static void bare_edit(const struct bare *b, uint64_t number, const double each[N_USED])
{
    enum { LOOKS = 5, FILE_WRITES = 2 };
    static char bytes[1 << 20];
    const int gates = number % 3 == 2 ? 6 : 5;
    double n_reads = round(each[READS]) - gates - 2 * LOOKS;
    double n_writes = round(each[WRITES]) - FILE_WRITES - 1;
    double read = (each[READ] - gates * 128 - 2 * LOOKS * 152) / n_reads;
    double write = (each[WRITTEN] - FILE_WRITES * PAGE_BYTES) / n_writes;
    struct statfs fs;
    struct stat st;
    int dir;
    MUST_DO(fstatfs(b->dir, &fs));
    MUST_DO(dir = openat(b->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    MUST_DO(flock(dir, LOCK_SH | LOCK_NB));
    bare_lock(dir, F_RDLCK, getpid(), 1);
    for (int i = 0; i < gates; i++) {
        bare_lock(b->lock, F_WRLCK, 0, 1);
        bare_lock(b->lock, F_RDLCK, 1 + getpid(), 1);
        MUST_DO(fstat(b->lock, &st));
        MUST_DO(pread(b->lock, bytes, 128, 0));
        bare_lock(b->lock, F_UNLCK, 0, 1 << 30);
    }
    for (int i = 0; i < LOOKS; i++) {
        for (int k = 0; k < 3; k++)
            MUST_DO(lstat(b->file, &st));
        for (int k = 0; k < 2; k++)
            MUST_DO(pread(b->catalog, bytes, 152, k * PAGE_BYTES));
    }
    bare_file(dir, number);
    MUST_DO(fstat(b->catalog, &st));
    for (double i = 0; i < n_reads; i++)
        MUST_DO(pread(b->catalog, bytes, (size_t)read, (off_t)(i * read)));
    for (double i = 1; i <= n_writes; i++)
        MUST_DO(pwrite(b->catalog, bytes, (size_t)write, (off_t)(i * write)));
    MUST_DO(fdatasync(b->catalog));
    MUST_DO(pwrite(b->meta, bytes, 120, PAGE_BYTES));
    bare_lock(dir, F_UNLCK, 0, 1 << 30);
    MUST_DO(flock(dir, LOCK_UN));
    MUST_DO(close(dir));
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
        must(tamis_edit_drop(edit, number_name(name), 16, NULL, NULL), NULL, "drop");
    number_put(edit, name, number, number_keys(number));
    edit_done(edit);
}

void room_law_edits(void)
{
    struct site s = site_of("edited", 0);
    struct bare b = bare_new();
    const uint64_t n = bench.sizes.edits, group = n / bench.sizes.packings;
    double edits[N_USED] = {0}, packings[N_USED] = {0}, bare[N_USED] = {0};
    double half = 0, limit = 60e3;
    for (uint64_t at = 0; at < n; at += group) {
        double each[N_USED] = {0};
        use(each, -1);
        for (uint64_t i = at; i < at + group; i++)
            edit_once(&s, i);
        use(each, 1);
        for (size_t i = 0; i < N_USED; i++)
            edits[i] += each[i] / (double)n, each[i] /= (double)group;
        use(packings, -1 / (double)n);
        store_pack(s.store, TAMIS_REPACK_AUTO);
        use(packings, 1 / (double)n);
        use(bare, -1 / (double)n);
        for (uint64_t i = at; i < at + group; i++)
            bare_edit(&b, i, each);
        use(bare, 1 / (double)n);
        for (uint64_t i = at; i < at + group; i++)
            MUST_DO(unlinkat(b.dir, bare_name(i), 0));
        if (at + group == n / 2)
            half =
                2 * (edits[USER] + edits[SYSTEM] + packings[USER] + packings[SYSTEM]);
    }
    double user = edits[USER] + packings[USER];
    double all = user + edits[SYSTEM] + packings[SYSTEM];
    double written = packings[WRITTEN] * (double)n / 1e6, space = space_of(&s);
    store_pack(s.store, TAMIS_REPACK_ALL);
    double lives = space_of(&s);
    look_anew(&s);
    if (tamis_snapshot_info(s.snapshot).n_segments != s.n)
        wrong("law_edits: segments are lost");
    figure_set("law_edits", 0, &all, &half, 1);
    figure_set("law_edits_user", 0, &user, &limit, 1);
    figure_set("law_edits_system", 0, &edits[SYSTEM], &bare[SYSTEM], 1);
    figure_set("law_edits_written", 0, &written, &space, 1);
    figure_set("law_edits_space", 0, &space, &lives, 1);
    figure_detail("law_edits", "%llu", (unsigned long long)n);
    figure_detail("law_edits_user", "%.1f us without packing", edits[USER] / 1e3);
    figure_detail("law_edits_system", "%.1f calls that read, %.1f that write",
                  edits[READS], edits[WRITES]);
    shut(&s);
}

/* ---- syncs ---- */

/* These stand in for libc's functions, for LMDB, too. A write to a file that is open
 * for O_DSYNC is as good as a sync after it. */
static bool counts_syncs;
static double n_syncs;

__attribute__((visibility("default"))) int fsync(int fd)
{
    n_syncs++;
    return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    n_syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *bytes,
                                                      size_t n, off_t at)
{
    n_syncs += counts_syncs && fcntl(fd, F_GETFL) & O_DSYNC;
    return syscall(SYS_pwrite64, fd, bytes, n, at);
}

void room_law_syncs(void)
{
    enum { TMPFS = 0x01021994 };
    const uint64_t n = bench.sizes.edits / 10;
    struct site s = {0};
    struct statfs fs;
    double limit = 4, n_of[2] = {0}, syncs[2] = {0}; /* of new ones, of replacements */
    MUST_DO(statfs(bench.dir, &fs));
    if (fs.f_type == TMPFS) {
        figure_detail("law_syncs", "%s is a tmpfs, no disk", bench.dir);
        return;
    }
    snprintf(s.path, sizeof s.path, "%s", path_in("synced"));
    s.store = store_new(s.path);
    for (uint64_t i = 0; i < n; i++) {
        n_syncs = 0, counts_syncs = true;
        edit_once(&s, i);
        counts_syncs = false;
        n_of[i % 3 == 2]++, syncs[i % 3 == 2] += n_syncs;
        if (i % (n / 10) == 0)
            store_pack(s.store, TAMIS_REPACK_AUTO);
    }
    for (size_t i = 0; i < 2; i++)
        syncs[i] /= n_of[i];
    figure_set("law_syncs", 0, &syncs[0], &limit, 1);
    figure_detail("law_syncs", "%llu edits; %.2f of one that replaces a segment",
                  (unsigned long long)n, syncs[1]);
    tamis_store_close(s.store);
    tree_remove(s.path);
}
