/* The only system calls that write, and the seam at which tests inject faults and
 * record what was written. */
#include "lib/io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

static void random_bytes(void *buf, size_t n)
{
    uint8_t *p = buf;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno != EINTR)
            abort(); /* no entropy source: no unique names, no safe seed */
        if (got > 0)
            p += got, n -= (size_t)got;
    }
}

static uint64_t now_microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct io_calls io_calls = {
    .pread = pread,
    .pwrite = pwrite,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .fallocate = fallocate,
    .ftruncate = ftruncate,
    .renameat2 = renameat2,
    .unlinkat = unlinkat,
    .linkat = linkat,
    .mmap = mmap,
    .madvise = madvise,
    .random = random_bytes,
    .now = now_microseconds,
};

/* ---- reading and writing ---- */

int io_read(int fd, void *buf, size_t n, uint64_t offset, size_t *got)
{
    *got = 0;
    while (*got < n) {
        ssize_t r =
            io_calls.pread(fd, (uint8_t *)buf + *got, n - *got, (off_t)(offset + *got));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return errno;
        if (r == 0)
            return 0;
        *got += (size_t)r;
    }
    return 0;
}

int io_write(int fd, const void *buf, size_t n, uint64_t offset)
{
    const uint8_t *p = buf;
    while (n > 0) {
        ssize_t w = io_calls.pwrite(fd, p, n, (off_t)offset);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return errno;
        if (w == 0)
            return EIO;
        p += w, offset += (uint64_t)w, n -= (size_t)w;
    }
    return 0;
}

/* Begins to write cached bytes to the disk: a later fsync waits for less. It waits for
 * nothing, so it takes no error away from that fsync (R4). Its errors are ignored. */
void io_start_writing(int fd, uint64_t offset, uint64_t n)
{
    sync_file_range(fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

int io_size(int fd, uint64_t *n_bytes)
{
    struct stat st;
    *n_bytes = 0;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    *n_bytes = (uint64_t)st.st_size;
    return 0;
}

static int write_zeros(int fd, uint64_t offset, uint64_t n)
{
    static const uint8_t zeros[65536];
    while (n > 0) {
        size_t step = n < sizeof zeros ? (size_t)n : sizeof zeros;
        int err = io_write(fd, zeros, step, offset);
        if (err)
            return err;
        offset += step, n -= step;
    }
    return 0;
}

int io_fallocate(int fd, int mode, uint64_t offset, uint64_t n)
{
    int r;
    do
        r = io_calls.fallocate(fd, mode, (off_t)offset, (off_t)n);
    while (r != 0 && errno == EINTR);
    if (r == 0)
        return 0;
    return errno == ENOSYS ? EOPNOTSUPP : errno;
}

int io_allocate(int fd, uint64_t offset, uint64_t n)
{
    int err = io_fallocate(fd, 0, offset, n);
    return err == EOPNOTSUPP ? write_zeros(fd, offset, n) : err;
}

/* ---- R13: create under a temporary name, then publish ---- */

int io_create_temp(int dir, const char *name, char temp[IO_TEMP_NAME_BYTES], int *fd)
{
    for (int tries = 0; tries < 16; tries++) {
        uint32_t tag;
        io_calls.random(&tag, sizeof tag);
        snprintf(temp, IO_TEMP_NAME_BYTES, "%.240s.%08x.tmp", name, tag);
        *fd =
            openat(dir, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*fd >= 0)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

/* The owner last: after that the process may not be allowed to change the file. */
void io_adopt(int dir, const char *store, int fd)
{
    struct stat of, is;
    if (fstatat(dir, store, &of, 0) != 0 || fstat(fd, &is) != 0)
        return;
    mode_t mode = of.st_mode & (S_ISDIR(is.st_mode) ? 07777 : 0666);
    if (is.st_gid != of.st_gid && fchown(fd, (uid_t)-1, of.st_gid) != 0)
        mode = (mode & ~(mode_t)070) | (mode & 07) << 3; /* no group of the store's */
    if ((is.st_mode & 07777) != mode)
        fchmod(fd, mode);
    if (is.st_uid != of.st_uid && geteuid() == 0 &&
        fchown(fd, of.st_uid, (gid_t)-1) != 0)
        return; /* it stays root's */
}

int io_make_dir(int store, const char *name)
{
    if (mkdirat(store, name, 0777) != 0)
        return errno;
    int fd = openat(store, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        io_adopt(store, ".", fd);
        close(fd);
    }
    return 0;
}

int io_rename(int dir, const char *temp, const char *name)
{
    if (io_calls.renameat2(dir, temp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* A file system without RENAME_NOREPLACE: link() refuses an existing name too. */
    if (io_calls.linkat(dir, temp, dir, name, 0) != 0)
        return errno;
    io_calls.unlinkat(dir, temp, 0);
    return 0;
}

int io_replace(int dir, const char *temp, const char *name)
{
    return io_calls.renameat2(dir, temp, dir, name, 0) == 0 ? 0 : errno;
}

int io_sync_dir(int dir)
{
    return io_calls.fsync(dir) == 0 ? 0 : errno;
}

int io_open_nameless(const char *path, int *fd)
{
    char name[4096];
    *fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return errno;
    if (snprintf(name, sizeof name, "%s/tamis.XXXXXX", path) >= (int)sizeof name)
        return ENAMETOOLONG;
    *fd = mkostemp(name, O_CLOEXEC);
    if (*fd < 0)
        return errno;
    unlink(name);
    return 0;
}

int io_publish(int dir, const char *temp, const char *name, int fd, bool sync_dir)
{
    if (!sync_dir)
        io_adopt(dir, "..", fd);
    if (io_calls.fsync(fd) != 0)
        return errno;
    int err = io_rename(dir, temp, name);
    if (err || !sync_dir)
        return err;
    err = io_sync_dir(dir);
    if (err)
        io_calls.unlinkat(dir, name, 0);
    return err;
}

void io_discard(int dir, const char *temp, int fd)
{
    if (fd >= 0)
        close(fd);
    io_calls.unlinkat(dir, temp, 0);
}

int io_finish(int err, int dir, const char *temp, const char *name, int fd,
              bool sync_dir)
{
    if (!err)
        err = io_publish(dir, temp, name, fd, sync_dir);
    if (err)
        io_discard(dir, temp, fd);
    else
        close(fd); /* synced and named: closing can lose nothing any more */
    return err;
}
