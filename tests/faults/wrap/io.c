/* The wrappers around reading, writing, syncing and mapping. */
#include "tests/faults/wrap/wrap.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

static uint64_t random_state;

static struct refusal {
    ino_t inode;
    off_t at, n;
} refused;

/* Calls of the images do not count as the library's. */
#define ASIDE(call)                                                                    \
    do {                                                                               \
        int depth_ = in_lib;                                                           \
        in_lib = 0;                                                                    \
        if (depth_)                                                                    \
            call;                                                                      \
        in_lib = depth_;                                                               \
    } while (0)

void wrap_begin(uint64_t seed)
{
    random_state = seed;
    refused.n = 0;
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_ftruncate(int fd, off_t n);
ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags);
int __real_fstat(int fd, struct stat *st);
int __real_fsync(int fd);
int __real_fallocate(int fd, int mode, off_t at, off_t n);

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
    const struct fault *f = due(CALL_pread);
    if (f && f->effect == NONE)
        return 0;
    if (f && f->effect == HALF)
        return plain_pread(fd, buf, n > 1 ? n / 2 : n, at);
    return f ? -1 : plain_pread(fd, buf, n, at);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    const struct fault *f = due(CALL_pwrite);
    ASIDE(image_written(fd, at, n));
    if (f)
        errno = f->code;
    if (f && f->effect == NONE)
        return 0;
    if (f && f->effect == HALF)
        return plain_pwrite(fd, buf, n > 1 ? n / 2 : n, at);
    if (f && f->effect == DONE)
        return late(f, (int)plain_pwrite(fd, buf, n, at));
    if (f)
        return -1;
    size_t room = space_for(n);
    if (n && !room)
        return errno = ENOSPC, -1;
    return plain_pwrite(fd, buf, room, at);
}

int __wrap_fdatasync(int fd)
{
    const struct fault *f = due(CALL_fdatasync);
    tally.syncs_failed += f != NULL;
    if (f && f->effect == LOSE)
        ASIDE(image_sync_failed(fd));
    if (f && f->effect == DONE)
        return late(f, plain_fdatasync(fd));
    if (f)
        return errno = f->code, -1;
    ASIDE(image_synced(fd));
    return plain_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
    const struct fault *f = due(CALL_fsync);
    if (f && f->effect == LOSE)
        ASIDE(image_sync_failed(fd));
    if (f && f->effect == DONE)
        return late(f, __real_fsync(fd));
    if (f)
        return errno = f->code, -1;
    ASIDE(image_synced(fd));
    return __real_fsync(fd);
}

/* Space that was asked for last, and refused. To store into a mapping of it is SIGBUS
 * on a disk that is full; here it is noted. */
static int refuse_space(int fd, off_t at, off_t n, int error)
{
    struct stat st;
    __real_fstat(fd, &st);
    refused = (struct refusal){st.st_ino, at, n};
    errno = error;
    return -1;
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t n)
{
    const struct fault *f = due(CALL_fallocate);
    if (f && f->effect == DONE)
        return late(f, __real_fallocate(fd, mode, at, n));
    if (f && f->code == EOPNOTSUPP)
        refused.n = 0; /* zeros will be written */
    if (f)
        return f->unseen ? -1 : refuse_space(fd, at, n, f->code);
    if (space_for((size_t)n) < (size_t)n)
        return refuse_space(fd, at, n, ENOSPC);
    refused.n = 0;
    return __real_fallocate(fd, mode, at, n);
}

int __wrap_ftruncate(int fd, off_t n)
{
    FAIL_AS(CALL_ftruncate, -1);
    return plain_ftruncate(fd, n);
}

/* The same bytes in every run, and never the same twice in one. */
ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags)
{
    const struct fault *f = due(CALL_getrandom);
    (void)flags;
    if (f && f->effect != HALF)
        return -1;
    n = f && n > 1 ? n / 2 : n;
    for (size_t i = 0; i < n; i++) {
        random_state =
            random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)buf)[i] = (uint8_t)(random_state >> 56);
    }
    return (ssize_t)n;
}

/* ---- mappings ---- */

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t n);
int __wrap_madvise(void *at, size_t n, int advice);
int __wrap_posix_fadvise(int fd, off_t at, off_t n, int advice);
int __real_munmap(void *at, size_t n);
int __real_madvise(void *at, size_t n, int advice);
void *__wrap_mremap(void *at, size_t old_n, size_t n, int flags, ...);
void *__real_mremap(void *at, size_t old_n, size_t n, int flags, ...);
int __wrap_mincore(void *at, size_t n, unsigned char *in);
int __real_mincore(void *at, size_t n, unsigned char *in);
int __wrap_mlock2(const void *at, size_t n, unsigned flags);
int __real_mlock2(const void *at, size_t n, unsigned flags);
int __wrap_munlock(const void *at, size_t n);
int __real_munlock(const void *at, size_t n);
int __real_posix_fadvise(int fd, off_t at, off_t n, int advice);
int __wrap_sync_file_range(int fd, off_t at, off_t n, unsigned flags);
int __real_sync_file_range(int fd, off_t at, off_t n, unsigned flags);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    FAIL_AS(CALL_mmap, MAP_FAILED);
    struct stat st;
    if (in_lib && refused.n && prot & PROT_WRITE && flags & MAP_SHARED &&
        __real_fstat(fd, &st) == 0 && st.st_ino == refused.inode &&
        offset < refused.at + refused.n && refused.at < offset + (off_t)n)
        tally.homeless = true;
    void *p = plain_mmap(at, n, prot, flags, fd, offset);
    tally.mappings += in_lib && p != MAP_FAILED;
    if (p != MAP_FAILED && prot & PROT_WRITE && flags & MAP_SHARED)
        ASIDE(image_mapped(fd, p, n, offset));
    return p;
}

int __wrap_munmap(void *at, size_t n)
{
    const struct fault *f = due(CALL_munmap);
    tally.mappings -= in_lib;
    ASIDE(image_unmapped(at));
    return late(f, __real_munmap(at, n));
}

int __wrap_madvise(void *at, size_t n, int advice)
{
    enum { POPULATE_READ = 22 };
    if (advice == POPULATE_READ)
        FAIL_AS(CALL_populate, -1);
    else
        FAIL_AS(CALL_madvise, -1);
    return __real_madvise(at, n, advice);
}

/* The library makes second mappings with it (old_n 0), and lets its own grow;
 * watch.c, which moves pages, does not call it by this name. */
void *__wrap_mremap(void *at, size_t old_n, size_t n, int flags, ...)
{
    FAIL_AS(CALL_mremap, MAP_FAILED);
    void *p = __real_mremap(at, old_n, n, flags, NULL);
    tally.mappings += in_lib && old_n == 0 && p != MAP_FAILED;
    return p;
}

int __wrap_mincore(void *at, size_t n, unsigned char *in)
{
    FAIL_AS(CALL_mincore, -1);
    return __real_mincore(at, n, in);
}

int __wrap_mlock2(const void *at, size_t n, unsigned flags)
{
    FAIL_AS(CALL_mlock2, -1);
    return __real_mlock2(at, n, flags);
}

int __wrap_munlock(const void *at, size_t n)
{
    FAIL_AS(CALL_munlock, -1);
    return __real_munlock(at, n);
}

int __wrap_posix_fadvise(int fd, off_t at, off_t n, int advice)
{
    const struct fault *f = due(CALL_posix_fadvise);
    return f ? f->code : __real_posix_fadvise(fd, at, n, advice);
}

int __wrap_sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
    FAIL_AS(CALL_sync_file_range, -1);
    return __real_sync_file_range(fd, at, n, flags);
}
