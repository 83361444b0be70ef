/* Random numbers, files in memory, and system calls without disks or surprises: what
 * the fuzz targets stand on. */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

uint64_t rng_u64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t rng_below(uint64_t *state, uint64_t n)
{
    return n ? rng_u64(state) % n : 0;
}

uint8_t input_u8(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

uint64_t input_u64(struct input *in)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)input_u8(in) << (8 * i);
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
        p[i] = (uint8_t)rng_u64(&random_state);
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

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void fuzz_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char dir[256];

static void remove_dir(void)
{
    fuzz_remove(dir);
}

const char *fuzz_dir(void)
{
    if (!dir[0]) {
        const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(dir, sizeof dir, "%s/tamis-fuzz.XXXXXX", tmp);
        if (!mkdtemp(dir)) {
            perror(dir);
            exit(2);
        }
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
