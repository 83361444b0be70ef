/* For all tests: a directory of their own, repeatable random numbers, damage, and keys.
 * Functions are static, so that each test stays one file; what changes is SHARED, as
 * the objects that serve many tests (shop/) want the same. */
#ifndef TAMIS_TESTS_SUPPORT_H
#define TAMIS_TESTS_SUPPORT_H

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "format/checksum.h"
#include "lib/filter/view.h"
#include "lib/writer/inside.h"
#include "internals.h"
#include "unit/unit.h"
#include "unit/closed.h"
#include "unit/dir.h"

/* Is this built with a sanitizer? It keeps what was freed, and takes more for each. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Removes a name in the test's directory, with all files below it. */
static UNUSED void remove_tree(const char *name)
{
    nftw(path_of(name), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- two forms: `make unit` takes the brief one, `make unit-long` the other ---- */

static UNUSED unsigned by_form(unsigned brief, unsigned long_form)
{
    const char *wanted = getenv("TAMIS_TEST_LONG");
    return wanted && strcmp(wanted, "1") == 0 ? long_form : brief;
}

/* ---- random numbers: splitmix64 (Steele, Lea, Flood 2014) ---- */

SHARED uint64_t random_state = 1;

static UNUSED uint64_t random_u64(void)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static UNUSED uint64_t random_below(uint64_t n)
{
    return random_u64() % n;
}

/* For qsort(). */
static UNUSED int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ---- files ---- */

static UNUSED uint8_t *file_read(const char *path, size_t *n)
{
    FD fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_true(fd >= 0);
    OK(fstat(fd, &st));
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    *n = (size_t)st.st_size;
    IS(pread(fd, bytes, *n, 0), (ssize_t)*n);
    return bytes;
}

static UNUSED void file_write(const char *path, const void *bytes, size_t n)
{
    FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    IS(pwrite(fd, bytes, n, 0), (ssize_t)n);
}

/* Checks that a file has these bytes and no others. */
static UNUSED void file_has(const char *path, const void *bytes, size_t n)
{
    size_t n_now;
    FREED uint8_t *now = file_read(path, &n_now);
    IS(n_now, n);
    assert_memory_equal(now, bytes, n);
}

static UNUSED void file_poke(const char *path, uint64_t offset, const void *bytes,
                             size_t n)
{
    FD fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    IS(pwrite(fd, bytes, n, (off_t)offset), (ssize_t)n);
}

/* Changes any byte: a fixed value would be no change once in 256 runs. */
static UNUSED void flip(const char *path, uint64_t at)
{
    uint8_t byte = 0;
    FD fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= 0x10;
    IS(pwrite(fd, &byte, 1, (off_t)at), 1);
}

static UNUSED void file_copy(const char *from, const char *to)
{
    size_t n;
    FREED uint8_t *bytes = file_read(from, &n);
    file_write(to, bytes, n);
}

static UNUSED int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* How many names a directory has, dots not counted. */
static UNUSED size_t count_files(const char *path);
/* Mappings of this process with this in the name of their file, or all for "". */
static UNUSED size_t count_mappings(const char *text);

/* ---- keys and answers ---- */

static UNUSED enum tamis_answer ask(struct tamis_filter *f, uint64_t hash,
                                    enum tamis_reason *why)
{
    struct tamis_key key = {.tag = filter_domain(f).tag, .hash = hash};
    return tamis_filter_probe(f, &key, why);
}

/* How many of the hashes the filter says are absent. */
static UNUSED size_t count_absent(struct tamis_filter *f, const uint64_t *hashes,
                                  size_t n)
{
    uint64_t *absent = calloc((n + 63) / 64 + 1, sizeof *absent);
    size_t n_absent =
        tamis_filter_probe_batch(f, filter_domain(f).tag, hashes, n, absent, NULL);
    free(absent);
    return n_absent;
}

static UNUSED void random_hashes(uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hashes[i] = random_u64();
}

/* ---- filters ---- */

static UNUSED struct tamis_filter *open_as(const char *path,
                                           const struct tamis_filter_options *opt)
{
    struct tamis_filter *f = NULL;
    struct tamis_diag diag;
    if (tamis_filter_open(path, opt, &f, &diag) != 0)
        fail_msg("%s: %s", path, diag.what);
    return f;
}

static UNUSED struct tamis_filter *open_filter(const char *path)
{
    return open_as(path, NULL);
}

static UNUSED struct tamis_writer *open_writer(const char *path)
{
    struct tamis_writer *w = NULL;
    struct tamis_diag diag;
    if (tamis_writer_open(path, NULL, &w, &diag) != 0)
        fail_msg("%s: %s", path, diag.what);
    return w;
}

static UNUSED struct tamis_writer *create_writer(const char *path, double error,
                                                 double factor, uint64_t first_capacity)
{
    struct tamis_writer_options opt = {
        .size = sizeof opt,
        .growth = {error, factor, 0, first_capacity},
    };
    struct tamis_writer *w = NULL;
    struct tamis_diag diag;
    if (tamis_writer_create(path, &opt, &w, &diag) != 0)
        fail_msg("%s: %s", path, diag.what);
    return w;
}

static UNUSED void add_hashes(struct tamis_writer *w, const uint64_t *hashes, size_t n)
{
    OK(tamis_writer_add_hashes(w, w->domain.tag, hashes, n));
}

/* The commit record that counts, read without the library's own reader. */
static UNUSED struct commit commit_of(const char *path)
{
    size_t n;
    FREED uint8_t *header = file_read(path, &n);
    struct identity id;
    struct commit c;
    struct slot_health health;
    IS(identity_decode(header, n, &id).code, VERDICT_OK);
    IS(commit_choose_slot(header, &id, n, &c, &health).code, VERDICT_OK);
    return c;
}

/* Moves the stage of a filter that was sealed at birth to 2 MiB, behind a hole: no rule
 * says that areas lie close together (SPEC.md §6). */
static UNUSED void open_a_hole(const char *path)
{
    size_t n;
    uint8_t *bytes = file_read(path, &n), record[SLOT_BYTES] = {0};
    struct commit c = commit_of(path);
    struct stage_desc *s = &c.stages[0];
    uint64_t from = s->offset, by = HUGE_PAGE_BYTES - from;
    assert_true(c.n_stages == 1 && from == PAGE_BYTES);
    s->offset += by;
    s->digests_offset += s->digests_offset ? by : 0;
    c.committed_bytes += by;
    commit_encode(&c, SLOT_BIRTH, record);
    memcpy(bytes + commit_slot_offset(SLOT_BIRTH), record, BIRTH_BYTES);
    file_write(path, bytes, PAGE_BYTES);
    file_poke(path, from + by, bytes + from, n - from);
    free(bytes);
}

/* For tests of warming: hear() checks and notes progress, and ends it at stop_at. */
struct heard {
    unsigned n, stop_at;
    uint64_t done, total;
};

static UNUSED int hear(void *ctx, uint64_t done, uint64_t total)
{
    struct heard *h = ctx;
    assert_true(done > h->done && done <= total);
    assert_true(done - h->done <= 8 << 20);
    assert_true(!h->n || total == h->total);
    h->done = done;
    h->total = total;
    return ++h->n == h->stop_at;
}

/* ---- processes ---- */

/* Runs fn in a child; its result, 0 for good, is the child's exit code. */
static UNUSED void in_child(int (*fn)(void *), void *ctx)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(fn(ctx));
    IS(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    IS(WEXITSTATUS(status), 0);
}

/* Bytes in the kernel's own books of this process: of "VmRSS", "VmLck", ... */
static UNUSED uint64_t status_bytes(const char *field)
{
    char line[256];
    unsigned long long kib = 0;
    size_t n = strlen(field);
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, n) == 0)
            sscanf(line + n, ": %llu", &kib);
    fclose(f);
    return kib << 10;
}

/* ---- mounts, which end with the process that asks for them ---- */

/* In a chroot whose root is no mount, that mount is somewhere above. */
static UNUSED bool make_private_above(void)
{
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = chroot(test_dir) == 0 && fchdir(root) == 0;
    for (int up = 0; good && up < 64; up++)
        good = chdir("..") == 0;
    good = good && mount("none", ".", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    return good && fchdir(root) == 0 && chroot(".") == 0 && fchdir(here) == 0;
}

/* False: this process may not mount. */
static UNUSED bool own_mounts(void)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ||
           make_private_above();
}

/* ---- faults: system calls that fail when told to ---- */

enum call {
    CALL_PWRITE,
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_FALLOCATE,
    CALL_RENAME,
    N_CALLS
};

/* The calls numbered fail_at (from 1) and up fail, n_failing of them. Those that sync
 * do nothing else: what these tests look at is the page cache, and disks are slow. */
SHARED struct fault {
    unsigned long n, fail_at, n_failing;
    int error;
} faults[N_CALLS];
SHARED struct io_calls calls_before;

static bool fault_due(enum call call)
{
    struct fault *f = &faults[call];
    f->n++;
    if (!f->fail_at || f->n < f->fail_at || f->n - f->fail_at >= f->n_failing)
        return false;
    errno = f->error;
    return true;
}

static ssize_t faulty_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    return fault_due(CALL_PWRITE) ? -1 : calls_before.pwrite(fd, buf, n, offset);
}

static int faulty_fdatasync(int fd)
{
    return fault_due(CALL_FDATASYNC) ? -1 : 0;
}

static int faulty_fsync(int fd)
{
    return fault_due(CALL_FSYNC) ? -1 : 0;
}

static int faulty_fallocate(int fd, int mode, off_t offset, off_t n)
{
    return fault_due(CALL_FALLOCATE) ? -1 : calls_before.fallocate(fd, mode, offset, n);
}

static int faulty_rename(int from_dir, const char *from, int to_dir, const char *to,
                         unsigned flags)
{
    return fault_due(CALL_RENAME)
               ? -1
               : calls_before.renameat2(from_dir, from, to_dir, to, flags);
}

/* Counts calls from now on, and lets them fail as faults[] says. */
static UNUSED int faults_on(void **state)
{
    memset(faults, 0, sizeof faults);
    calls_before = io_calls;
    io_calls.pwrite = faulty_pwrite;
    io_calls.fdatasync = faulty_fdatasync;
    io_calls.fsync = faulty_fsync;
    io_calls.fallocate = faulty_fallocate;
    io_calls.renameat2 = faulty_rename;
    return 0;
}

static UNUSED int faults_off(void **state)
{
    io_calls = calls_before;
    return 0;
}

#define TEST_WITH_FAULTS(name) TEST_WITH(faults_on, faults_off, name)

/* Each test with a directory of its own, and with faults. */
static UNUSED int dir_and_faults_on(void **state)
{
    return test_dir_create(state) || faults_on(state);
}

static UNUSED int dir_and_faults_off(void **state)
{
    return faults_off(state) || test_dir_remove(state);
}

#define TEST_IN_DIR_WITH_FAULTS(name)                                                  \
    TEST_WITH(dir_and_faults_on, dir_and_faults_off, name)

/* From now on the nth such call fails, once; a disk that reports an error once and
 * then lies is the hard case (R4). */
static UNUSED void fail_once(enum call call, unsigned long nth, int error)
{
    faults[call] = (struct fault){0, nth, 1, error};
}

static UNUSED void fail_from_now(enum call call, int error)
{
    faults[call] = (struct fault){0, 1, ~0UL, error};
}

static UNUSED void fail_never(void)
{
    memset(faults, 0, sizeof faults);
}

/* Rot that came before the digests: pages of a file sealed at birth that are good and
 * say something else. */
static UNUSED void reseal_file(const char *name)
{
    size_t n_bytes;
    FREED uint8_t *b = file_read(path_of(name), &n_bytes);
    struct identity id;
    struct commit c;
    IS(identity_decode(b, n_bytes, &id).code, VERDICT_OK);
    IS(commit_decode(b + IDENTITY_BYTES, SLOT_BIRTH, &id, n_bytes, &c).code,
       VERDICT_OK);
    for (size_t i = 0; i < c.n_stages; i++) {
        struct stage_desc *s = &c.stages[i];
        struct digest_tree t;
        digest_tree_of(s->length / PAGE_BYTES, &t);
        uint8_t *digests = b + s->digests_offset;
        for (uint64_t p = 0; p < s->length / PAGE_BYTES; p++) {
            struct le64 d = le64_of(page_digest(b + s->offset + p * PAGE_BYTES));
            if (t.n_bytes)
                memcpy(digests + p * DIGEST_BYTES, &d, sizeof d);
            s->root = le64_get(d);
        }
        if (t.n_bytes)
            s->root = digest_tree_finish(&t, digests);
    }
    c.table_digest = 0;
    commit_encode(&c, SLOT_BIRTH, b + IDENTITY_BYTES);
    file_write(path_of(name), b, n_bytes);
}

#include <dirent.h>
static size_t count_mappings(const char *text)
{
    char line[4096];
    size_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        n += strstr(line, text) != NULL;
    fclose(maps);
    return n;
}

static size_t count_files(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

/* Makes no stage settled. */
static UNUSED void commit_unsettle(struct commit *c)
{
    for (size_t i = 0; i < c->n_settled; i++)
        c->stages[i].digests_offset = c->stages[i].root = 0;
    c->n_settled = 0;
}

#endif
