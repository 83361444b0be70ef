/* Random numbers, files in memory, and system calls without disks or surprises: what
 * the fuzz targets stand on. */
#include "fuzz/fuzz.h"

void fuzz_broken(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

_Noreturn void model_broken(const char *text)
{
    fuzz_broken("model", 0, text);
}

/* ---- numbers ---- */

uint64_t get_number(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

double get_real(const uint8_t *p)
{
    uint64_t bits = get_number(p, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ---- calm system calls ---- */

static uint64_t random_state, clock_now;

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

static bool too_far(uint64_t offset, uint64_t n)
{
    if (offset <= FUZZ_MAX_FILE && n <= FUZZ_MAX_FILE - offset)
        return false;
    errno = ENOSPC;
    return true;
}

static ssize_t near_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    return too_far((uint64_t)offset, n) ? -1 : pwrite(fd, buf, n, offset);
}

static int near_fallocate(int fd, int mode, off_t offset, off_t n)
{
    return too_far((uint64_t)offset, (uint64_t)n) ? -1 : fallocate(fd, mode, offset, n);
}

static void known_random(void *buf, size_t n)
{
    uint8_t *p = buf;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)draw(&random_state);
}

static uint64_t known_now(void)
{
    return clock_now += 1000000;
}

void fuzz_restart(void)
{
    random_state = 1;
    clock_now = UINT64_C(1700000000000000);
}

void fuzz_calm_io(void)
{
    io_calls.pwrite = near_pwrite;
    io_calls.fdatasync = no_sync;
    io_calls.fsync = no_sync;
    io_calls.fallocate = near_fallocate;
    io_calls.random = known_random;
    io_calls.now = known_now;
    fuzz_restart();
}

/* ---- files ---- */

static char dir[ROOT_BYTES];

static void remove_dir(void)
{
    tree_remove(dir);
}

const char *fuzz_dir(void)
{
    if (!dir[0]) {
        tree_root(dir, "fuzz");
        atexit(remove_dir);
    }
    return dir;
}

static int memory_fd = -1;

int memory_file(const void *bytes, size_t n)
{
    if (memory_fd < 0)
        memory_fd = memfd_create("tamis-fuzz", MFD_CLOEXEC);
    if (memory_fd < 0 || ftruncate(memory_fd, 0) != 0 ||
        pwrite(memory_fd, bytes, n, 0) != (ssize_t)n) {
        perror("memfd");
        exit(2);
    }
    return memory_fd;
}

const char *memory_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory_fd);
    return path;
}
