/* One run: begin, faults, check, and nothing left behind. */
#include "tests/faults/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

void fail_run(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "    ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
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

int tried(struct run *r, int rc, const char *call)
{
    return tried_for(r, 0, rc, call);
}

int tried_for(struct run *r, int expected, int rc, const char *call)
{
    check_code(r, rc, call);
    if (rc == expected)
        return rc;
    CHECK(rc != 0, "%s: a success that cannot be", call);
    CHECK(tally.fired > 0, "%s: %s (%s), though nothing has failed", call,
          tamis_strerror(rc), r->diag.what);
    CHECK(faults_excuse(), "%s: %s (%s), for a fault to be got around", call,
          tamis_strerror(rc), r->diag.what);
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

bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static size_t n_names(const char *const *names)
{
    size_t n = 0;
    while (names[n])
        n++;
    return n;
}

static size_t count_names(const char *dir, const char *const *names)
{
    DIR *d = opendir(dir);
    size_t n = n_names(names), found = 0;
    CHECK(d, "%s: no such directory", dir);
    for (const struct dirent *e; (e = readdir(d));) {
        size_t i = 0;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        while (i < n && strcmp(names[i], e->d_name) != 0)
            i++;
        CHECK(i < n, "left behind: %s/%s", dir, e->d_name);
        found++;
    }
    closedir(d);
    return found;
}

void expect_only(const char *dir, const char *const *names)
{
    count_names(dir, names);
}

void expect_names(const char *dir, const char *const *names)
{
    size_t found = count_names(dir, names), n = n_names(names);
    CHECK(found == n, "%s: %zu names, not %zu", dir, found, n);
}

void copy_file(const char *from, const char *to)
{
    static uint8_t bytes[1 << 20];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ssize_t n = pread(in, bytes, sizeof bytes, 0);
    CHECK(n >= 0 && pwrite(out, bytes, (size_t)n, 0) == n, "copying %s", from);
    close(in);
    close(out);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void remove_dir(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void poke(const char *path, off_t at, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, bytes, n, at) == (ssize_t)n, "changing %s", path);
    close(fd);
}

static uint64_t tree_sum;

static int sum_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    static uint8_t bytes[1 << 20];
    size_t n = strlen(path);
    (void)ftw;
    if (n > 5 && strcmp(path + n - 5, "-lock") == 0)
        return 0;
    uint64_t sum = XXH3_64bits_withSeed(path, n, (uint64_t)flag);
    if (S_ISREG(st->st_mode)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = pread(fd, bytes, sizeof bytes, 0);
        CHECK(got == st->st_size, "reading %s", path);
        close(fd);
        sum = XXH3_64bits_withSeed(bytes, (size_t)got, sum);
    }
    tree_sum += sum; /* in any order */
    return 0;
}

uint64_t tree_of(const char *dir)
{
    tree_sum = 0;
    nftw(dir, sum_one, 16, FTW_PHYS);
    return tree_sum;
}

static int seed_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)ftw;
    if (flag != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    image_seed(fd);
    close(fd);
    return 0;
}

/* ---- what must be as before ---- */

static unsigned count_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 100; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* `first`: a process's first run, when what it keeps for its life is taken. */
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
    remove_dir(dir);
    CHECK(mkdir(dir, 0700) == 0, "mkdir %s: %s", dir, strerror(errno));
    struct plan first;
    const char *text = s->first ? s->first + (s->first[0] == '>') : NULL;
    CHECK(!text || plan_parse(text, &first), "no such fault: %s", text);
    unsigned descriptors = count_descriptors();
    memset(&tally, 0, sizeof tally);
    damage_expected = plan && plan->call == CALL_pread && plan->fault->effect == NONE;
    wrap_begin(2); /* else files of the body might get names that these have */
    if (s->prepare)
        s->prepare(&r);
    faults_begin(plan, s->first ? &first : NULL, s->old_system);
    if (plan && plan->fault->effect == LOSE)
        nftw(dir, seed_one, 16, FTW_PHYS);
    s->body(&r);
    CHECK(!plan || tally.planned,
          "the fault did not strike: the run is not repeatable");
    faults_end();
    struct tally counted = tally;
    tally.fired = 0;
    r.littered =
        plan && (plan->call == CALL_unlinkat || plan->call == CALL_unlink ||
                 plan->call == CALL_rmdir ||
                 (plan->call == CALL_renameat2 && plan->fault->effect == DONE));
    image_lose(dir);
    CHECK(!counted.homeless, "space that could not be had was mapped for writing");
    s->check(&r);
    expect_nothing_held(descriptors, s->cold || n_runs++ == 0);
    if (!plan)
        tally = counted; /* the counts of the body alone, for the driver */
}

/* ---- keys ---- */

uint64_t hash_of(uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void hashes_of(uint64_t from, uint64_t n, uint64_t *hashes)
{
    for (uint64_t i = 0; i < n; i++)
        hashes[i] = hash_of(from + i);
}

static bool number(const void *ctx, uint64_t i, struct tamis_key *out)
{
    *out = tamis_key_of_hash(*(const uint64_t *)ctx, hash_of(i));
    return true;
}

_Noreturn void model_broken(const char *text)
{
    fail_run("lost: %s", text);
}

void expect_numbers(struct tamis_filter *f, uint64_t n)
{
    uint64_t tag = tamis_filter_domain(f).tag;
    struct promised_keys keys = {number, &tag, n};
    IN_LIB_VOID(expect_keys("the filter", f, &keys, damage_expected));
}

void expect_none_absent(struct tamis_filter *f, uint64_t n)
{
    uint64_t tag = tamis_filter_domain(f).tag;
    struct promised_keys keys = {number, &tag, n};
    IN_LIB_VOID(expect_keys("the filter", f, &keys, true));
}

void expect_file(struct run *r, const char *path, uint64_t n)
{
    struct tamis_filter *f;
    MUST(r, tamis_filter_open(path, NULL, &f, &r->diag));
    uint64_t tag = tamis_filter_domain(f).tag;
    struct promised_filter p = {.keys = {number, &tag, n},
                                .rotten_slot = true, /* a fault may leave one behind */
                                .any_damage = damage_expected};
    IN_LIB_VOID(expect_filter(path, f, &p));
    IN_LIB_VOID(tamis_filter_close(f));
}
