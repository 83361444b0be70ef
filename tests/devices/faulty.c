/* The server runs in a process of its own, so that a fault of the test's cannot wait
 * for itself; what is unreadable is in memory that both share. */
#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>

#include "faulty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

struct faulty_shared {
    _Atomic uint64_t begin, end, n_failures;
};

static struct faulty_shared *shared;
static int backing_dir;

static int result(long r)
{
    return r < 0 ? -errno : (int)r;
}

static const char *name_of(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static void *on_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    connection->max_readahead = 0; /* only what is asked for */
    config->nullpath_ok = 0;
    return NULL;
}

static int on_getattr(const char *path, struct stat *st, struct fuse_file_info *file)
{
    (void)file;
    return result(fstatat(backing_dir, name_of(path), st, AT_SYMLINK_NOFOLLOW));
}

static int on_open(const char *path, struct fuse_file_info *file)
{
    /* Pages that are written back are read first, so never for writing only. */
    int flags = (file->flags & ~(O_ACCMODE | O_EXCL | O_APPEND)) | O_RDWR | O_CLOEXEC;
    int fd = openat(backing_dir, name_of(path), flags);
    file->fh = (uint64_t)fd;
    return fd < 0 ? -errno : 0;
}

static int on_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
    int fd =
        openat(backing_dir, name_of(path), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    file->fh = (uint64_t)fd;
    return fd < 0 ? -errno : 0;
}

static int on_release(const char *path, struct fuse_file_info *file)
{
    (void)path;
    close((int)file->fh);
    return 0;
}

static int on_read(const char *path, char *to, size_t n, off_t at,
                   struct fuse_file_info *file)
{
    uint64_t begin = atomic_load(&shared->begin), end = atomic_load(&shared->end);
    (void)path;
    if ((uint64_t)at < end && (uint64_t)at + n > begin) {
        atomic_fetch_add(&shared->n_failures, 1);
        return -EIO;
    }
    return result(pread((int)file->fh, to, n, at));
}

static int on_write(const char *path, const char *from, size_t n, off_t at,
                    struct fuse_file_info *file)
{
    (void)path;
    return result(pwrite((int)file->fh, from, n, at));
}

static int on_fsync(const char *path, int data, struct fuse_file_info *file)
{
    (void)path, (void)data;
    return result(fdatasync((int)file->fh));
}

static int on_fsyncdir(const char *path, int data, struct fuse_file_info *file)
{
    (void)path, (void)data, (void)file;
    return 0;
}

static int on_truncate(const char *path, off_t n, struct fuse_file_info *file)
{
    (void)path;
    if (!file)
        return -EOPNOTSUPP;
    return result(ftruncate((int)file->fh, n));
}

static int on_fallocate(const char *path, int mode, off_t at, off_t n,
                        struct fuse_file_info *file)
{
    (void)path;
    return result(fallocate((int)file->fh, mode, at, n));
}

static int on_rename(const char *from, const char *to, unsigned flags)
{
    return result(
        renameat2(backing_dir, name_of(from), backing_dir, name_of(to), flags));
}

static int on_unlink(const char *path)
{
    return result(unlinkat(backing_dir, name_of(path), 0));
}

static const struct fuse_operations operations = {
    .init = on_init,
    .getattr = on_getattr,
    .open = on_open,
    .create = on_create,
    .release = on_release,
    .read = on_read,
    .write = on_write,
    .fsync = on_fsync,
    .fsyncdir = on_fsyncdir,
    .truncate = on_truncate,
    .fallocate = on_fallocate,
    .rename = on_rename,
    .unlink = on_unlink,
};

static int serve(const char *at, int ready)
{
    char *words[] = {strdup("faulty"), NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, words);
    struct fuse *fuse = fuse_new(&args, &operations, sizeof operations, NULL);
    if (!fuse || fuse_mount(fuse, at) != 0)
        return 1;
    if (write(ready, "", 1) != 1)
        return 1;
    close(ready);
    fuse_loop(fuse);
    return 0;
}

int faulty_mount(struct faulty *f, const char *backing, const char *at)
{
    int ready[2];
    char byte;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    backing_dir = open(backing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (shared == MAP_FAILED || backing_dir < 0 || pipe(ready) != 0) {
        perror(backing);
        return -1;
    }
    f->shared = shared;
    snprintf(f->mounted_at, sizeof f->mounted_at, "%s", at);
    f->server = fork();
    if (f->server == 0) {
        close(ready[0]);
        _exit(serve(at, ready[1]));
    }
    close(ready[1]);
    close(backing_dir);
    ssize_t got = read(ready[0], &byte, 1);
    close(ready[0]);
    if (f->server > 0 && got == 1)
        return 0;
    fprintf(stderr, "%s: cannot mount (FUSE)\n", at);
    return -1;
}

void faulty_unmount(struct faulty *f)
{
    umount2(f->mounted_at, MNT_DETACH);
    waitpid(f->server, NULL, 0);
    munmap(f->shared, sizeof *f->shared);
}

void faulty_break(struct faulty *f, uint64_t begin, uint64_t end)
{
    atomic_store(&f->shared->begin, begin);
    atomic_store(&f->shared->end, end);
}

void faulty_mend(struct faulty *f)
{
    faulty_break(f, 0, 0);
}

uint64_t faulty_failures(struct faulty *f)
{
    return atomic_load(&f->shared->n_failures);
}
