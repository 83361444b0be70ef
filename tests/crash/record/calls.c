/* Recording: the entries of io_calls replaced, and the call by which LMDB syncs. */
#include "lib/store/catalog/lmdb.h"
#include "tests/crash/record/record.h"

#include <sys/syscall.h>
#include <time.h>

static struct io_calls real;

static ssize_t our_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    struct run *r = recording;
    struct disk_file *f = r ? record_file(r, fd) : NULL;
    if (!f)
        return real.pwrite(fd, buf, n, offset);
    record_look(r);
    helper_turn(r);
    ssize_t done = real.pwrite(fd, buf, n, offset);
    for (ssize_t at = 0; at < done; at += SECTOR_BYTES)
        if ((size_t)(offset + at) < f->capacity)
            disk_redirty(f, (uint64_t)(offset + at) / PAGE_BYTES);
    record_call(r, false);
    return done;
}

static int sync_file(struct run *r, struct disk_file *f)
{
    record_call(r, true);
    if (r->die_sync && --r->die_sync == 0) { /* does nothing, nor does its writer now */
        r->is_killed = true;
        return errno = EIO, -1;
    }
    if (r->fail_sync && --r->fail_sync == 0) {
        disk_lie(f, &r->rng);
        r->sync_failed = true;
        record_call(r, true);
        return errno = EIO, -1;
    }
    disk_sync_begin(f);
    if (r->helper) {
        helper_turn(r);
        record_call(r, true);
    }
    disk_sync_end(f);
    record_call(r, true);
    return 0;
}

static int our_fdatasync(int fd)
{
    struct run *r = recording;
    struct disk_file *f = r ? record_file(r, fd) : NULL;
    return f ? sync_file(r, f) : 0;
}

/* LMDB's, which calls no io_calls: it writes pages, syncs, and then writes a meta page
 * through a descriptor that syncs by itself. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    struct run *r = recording;
    struct disk_file *f = r ? record_file(r, fd) : NULL;
    if (!f || !f->lmdb)
        return (int)syscall(SYS_fdatasync, fd);
    record_call(r, false);
    disk_sync_begin(f);
    disk_sync_end(f);
    record_call(r, false);
    return 0;
}

static int our_fsync(int fd)
{
    struct run *r = recording;
    int dir;
    if (!record_dir(r, fd, &dir))
        return our_fdatasync(fd);
    record_call(r, true);
    disk_sync_names(&r->disk, dir);
    record_call(r, true);
    return 0;
}

/* A creation ends with an opening. It locks the registry, so no state could be opened,
 * to be checked, before its end. It begins with a lock file. */
static bool is_opening(const struct run *r, off_t n)
{
    char path[2 * RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%s/store/catalog.lmdb", r->dir);
    return r->promises.store == COMING && n == LOCK_FILE_BYTES &&
           access(path, F_OK) == 0;
}

static int our_fallocate(int fd, int mode, off_t offset, off_t n)
{
    struct run *r = recording;
    if (r && is_opening(r, n)) {
        r->opening = true;
        r = recording = NULL;
    }
    struct disk_file *f = r ? record_file(r, fd) : NULL;
    if (f)
        record_look(r);
    int result = real.fallocate(fd, mode, offset, n), saved = errno;
    if (f)
        record_call(r, false); /* which checks states, and so makes calls of its own */
    errno = saved;
    return result;
}

static int our_ftruncate(int fd, off_t n)
{
    struct run *r = recording;
    struct disk_file *f = r ? record_file(r, fd) : NULL;
    if (f)
        record_look(r);
    int result = real.ftruncate(fd, n), saved = errno;
    if (f)
        record_call(r, false); /* which checks states, and so makes calls of its own */
    errno = saved;
    return result;
}

static int our_renameat2(int old_dir, const char *old_name, int new_dir,
                         const char *new_name, unsigned flags)
{
    int from, to;
    struct run *r = record_dir(recording, new_dir, &to) ? recording : NULL;
    if (r)
        record_call(r, true);
    int result = real.renameat2(old_dir, old_name, new_dir, new_name, flags);
    if (!r || result != 0 || !record_dir(r, old_dir, &from))
        return result;
    int file = disk_live_name(&r->disk, from, old_name);
    disk_set_name(&r->disk, to, new_name, file, false);
    disk_set_name(&r->disk, from, old_name, -1, false);
    record_call(r, false);
    return result;
}

static int our_linkat(int old_dir, const char *old_name, int new_dir,
                      const char *new_name, int flags)
{
    int from, to;
    bool known = record_dir(recording, old_dir, &from);
    struct run *r = known && record_dir(recording, new_dir, &to) ? recording : NULL;
    if (r)
        record_call(r, true);
    int result = real.linkat(old_dir, old_name, new_dir, new_name, flags);
    if (!r || result != 0)
        return result;
    disk_set_name(&r->disk, to, new_name, disk_live_name(&r->disk, from, old_name),
                  false);
    record_call(r, false);
    return result;
}

static int our_unlinkat(int dir, const char *name, int flags)
{
    int from;
    struct run *r = record_dir(recording, dir, &from) ? recording : NULL;
    if (r)
        record_call(r, true);
    int result = real.unlinkat(dir, name, flags);
    if (!r || result != 0 || disk_live_name(&r->disk, from, name) < 0)
        return result;
    disk_set_name(&r->disk, from, name, -1, false);
    record_call(r, false);
    return result;
}

static void *our_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    void *p = real.mmap(at, n, prot, flags, fd, offset);
    struct disk_file *f = recording && fd >= 0 ? record_file(recording, fd) : NULL;
    if (f && f->has_lied && p != MAP_FAILED && (prot & PROT_WRITE))
        touch_watch(p, n, offset, f);
    return p;
}

static struct rng random_aside;

static void our_random(void *buf, size_t n)
{
    struct rng *from = recording ? &recording->rng : &random_aside;
    uint8_t *p = buf;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)rng_next(from);
}

void calls_seed(uint64_t seed)
{
    random_aside.state = seed;
}

static uint64_t our_now(void)
{
    return recording ? ++recording->clock : 1;
}

/* Nobody else writes: a reader that waits for a writer to finish waits for nothing. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time, (void)left;
    return 0;
}

void record_install(void)
{
    touch_install();
    real = io_calls;
    io_calls.pwrite = our_pwrite;
    io_calls.fdatasync = our_fdatasync;
    io_calls.fsync = our_fsync;
    io_calls.fallocate = our_fallocate;
    io_calls.ftruncate = our_ftruncate;
    io_calls.renameat2 = our_renameat2;
    io_calls.linkat = our_linkat;
    io_calls.unlinkat = our_unlinkat;
    io_calls.mmap = our_mmap;
    io_calls.random = our_random;
    io_calls.now = our_now;
}
