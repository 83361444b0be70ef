/* Counts what is flushed: the linker sends fsync and fdatasync here (--wrap). */
#include "tests/bench/bench.h"

int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);

static unsigned count;
static bool skipped;

void flushes_skip(bool on)
{
    skipped = on;
}

unsigned n_flushes(void)
{
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

int __wrap_fsync(int fd)
{
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    return skipped ? 0 : __real_fsync(fd);
}

int __wrap_fdatasync(int fd)
{
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    return skipped ? 0 : __real_fdatasync(fd);
}
