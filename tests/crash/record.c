/* Recording: the entries of io_calls replaced, and a look at the files' content before
 * and after each call, which shows what was stored through mappings meanwhile. */
#include "tests/crash/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct run *recording;
uint64_t run_seed, run_states;
static struct io_calls real;

_Noreturn void run_fail(const struct run *r, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "LOST: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr,
            "\n  again: explore --states %llu --seed %llu --workload %s --round %u\n",
            (unsigned long long)run_states, (unsigned long long)run_seed, r->workload,
            r->round);
    for (; r; r = r->parent) {
        const struct promise *p = &r->promise;
        fprintf(
            stderr,
            "  level %u, event %u; promised: created %d, sealed %d, watermark %llu, "
            "stages %u; asked %llu, added %zu; state:\n",
            r->level, r->event, p->created, p->sealed, (unsigned long long)p->watermark,
            p->stages, (unsigned long long)p->asked, p->n_keys);
        if (r->now)
            disk_describe(r->now, stderr);
    }
    fflush(stderr);
    _exit(3);
}

/* ---- looking ---- */

static uint8_t *look_buffer(size_t n_bytes)
{
    static uint8_t *buffer;
    static size_t room;
    if (n_bytes > room) {
        buffer = realloc(buffer, n_bytes);
        room = n_bytes;
    }
    if (!buffer)
        abort();
    return buffer;
}

static void look(struct run *r, bool by_mapping)
{
    if (r->tree)
        tree_note(r, false);
    for (size_t i = 0; i < r->disk.n_files; i++) {
        struct disk_file *f = &r->disk.files[i];
        uint64_t n;
        size_t got;
        if (f->is_dir)
            continue;
        if (io_size(r->fd[i], &n))
            abort();
        uint8_t *bytes = look_buffer((size_t)n + SECTOR_BYTES);
        if (io_read(r->fd[i], bytes, (size_t)n, 0, &got) || got != n)
            abort();
        disk_store(f, bytes, n, by_mapping && !f->lmdb);
        if (f->lmdb)
            tree_settle(f);
    }
    touch_take();
}

void record_look(struct run *r)
{
    look(r, true);
}

static void take_promises(struct run *r)
{
    if (!r->w)
        return;
    uint64_t watermark = tamis_writer_watermark(r->w);
    uint32_t stages = atomic_load(&r->w->n_stages);
    if (watermark > r->promise.watermark)
        r->promise.watermark = watermark;
    if (stages > r->promise.stages)
        r->promise.stages = stages;
}

static void event(struct run *r, bool by_mapping)
{
    recording = NULL;
    look(r, by_mapping);
    take_promises(r);
    r->event++;
    r->on_event(r);
    recording = r;
}

void record_event(struct run *r)
{
    event(r, true);
}

/* ---- files and names ---- */

/* The name of an open file, if it lies in the run's directory. */
static bool name_of(const struct run *r, int fd, char name[RUN_PATH_BYTES])
{
    char link[64], path[2 * RUN_PATH_BYTES];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    size_t dir = strlen(r->dir);
    if (n <= 0 || strncmp(path, r->dir, dir) != 0 || path[dir] != '/')
        return false;
    path[n] = 0;
    snprintf(name, RUN_PATH_BYTES, "%.250s", path + dir + 1);
    return strchr(name, '/') == NULL;
}

static struct disk_file *file_of(struct run *r, int fd)
{
    struct stat st;
    char name[RUN_PATH_BYTES], link[64];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    int file = disk_find_file(&r->disk, st.st_ino);
    if (file < 0 && r->tree) {
        tree_note(r, false);
        file = disk_find_file(&r->disk, st.st_ino);
    }
    if (file >= 0)
        return &r->disk.files[file];
    if (r->tree || !name_of(r, fd, name))
        return NULL;
    size_t fresh = disk_add_file(&r->disk, st.st_ino, NULL, 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    r->fd[fresh] = open(link, O_RDONLY | O_CLOEXEC);
    disk_set_name(&r->disk, DISK_ROOT, name, (int)fresh, false);
    return &r->disk.files[fresh];
}

void record_adopt(struct run *r, const void *bytes, size_t n_bytes)
{
    struct stat st;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    size_t file = disk_add_file(&r->disk, st.st_ino, bytes, n_bytes);
    r->fd[file] = fd;
    disk_set_name(&r->disk, DISK_ROOT, RUN_FILE, (int)file, true);
}

void record_lie(struct run *r)
{
    look(r, true);
    for (size_t i = 0; i < r->disk.n_files; i++)
        disk_lie(&r->disk.files[i], &r->rng);
}

/* ---- the calls ---- */

static ssize_t our_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    struct run *r = recording;
    struct disk_file *f = r ? file_of(r, fd) : NULL;
    if (!f)
        return real.pwrite(fd, buf, n, offset);
    look(r, true);
    helper_turn(r);
    ssize_t done = real.pwrite(fd, buf, n, offset);
    for (ssize_t at = 0; at < done; at += SECTOR_BYTES)
        if ((size_t)(offset + at) < f->capacity)
            disk_redirty(f, (uint64_t)(offset + at) / PAGE_BYTES);
    event(r, false);
    return done;
}

static int sync_file(struct run *r, struct disk_file *f)
{
    event(r, true);
    if (r->fail_sync && --r->fail_sync == 0) {
        disk_lie(f, &r->rng);
        event(r, true);
        return errno = EIO, -1;
    }
    disk_sync_begin(f);
    if (r->helper) {
        helper_turn(r);
        event(r, true);
    }
    disk_sync_end(f);
    event(r, true);
    return 0;
}

static int our_fdatasync(int fd)
{
    struct run *r = recording;
    struct disk_file *f = r ? file_of(r, fd) : NULL;
    return f ? sync_file(r, f) : 0;
}

/* LMDB's, which calls no io_calls: it writes pages, syncs, and then writes a meta page
 * through a descriptor that syncs by itself. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    struct run *r = recording;
    struct disk_file *f = r && r->tree ? file_of(r, fd) : NULL;
    if (!f || !f->lmdb)
        return (int)syscall(SYS_fdatasync, fd);
    event(r, false);
    disk_sync_begin(f);
    disk_sync_end(f);
    event(r, false);
    return 0;
}

/* Is the directory recorded? */
static bool is_ours(struct run *r, int fd, int *dir)
{
    struct stat st;
    *dir = DISK_ROOT;
    if (!r || fstat(fd, &st) != 0)
        return false;
    if (st.st_ino == r->dir_inode)
        return true;
    if (!r->tree || !S_ISDIR(st.st_mode))
        return false;
    *dir = disk_find_file(&r->disk, st.st_ino);
    if (*dir < 0) {
        tree_note(r, false);
        *dir = disk_find_file(&r->disk, st.st_ino);
    }
    return *dir >= 0;
}

static int our_fsync(int fd)
{
    struct run *r = recording;
    int dir;
    if (!is_ours(r, fd, &dir))
        return our_fdatasync(fd);
    event(r, true);
    disk_sync_names(&r->disk, dir);
    event(r, true);
    return 0;
}

static int our_fallocate(int fd, int mode, off_t offset, off_t n)
{
    struct run *r = recording;
    struct disk_file *f = r ? file_of(r, fd) : NULL;
    if (f)
        look(r, true);
    int result = real.fallocate(fd, mode, offset, n);
    if (f)
        event(r, false);
    return result;
}

static int our_ftruncate(int fd, off_t n)
{
    struct run *r = recording;
    struct disk_file *f = r ? file_of(r, fd) : NULL;
    if (f)
        look(r, true);
    int result = real.ftruncate(fd, n);
    if (f)
        event(r, false);
    return result;
}

static int our_renameat2(int old_dir, const char *old_name, int new_dir,
                         const char *new_name, unsigned flags)
{
    int from, to;
    struct run *r = is_ours(recording, new_dir, &to) ? recording : NULL;
    if (r)
        event(r, true);
    int result = real.renameat2(old_dir, old_name, new_dir, new_name, flags);
    if (!r || result != 0 || !is_ours(r, old_dir, &from))
        return result;
    int file = disk_live_name(&r->disk, from, old_name);
    disk_set_name(&r->disk, to, new_name, file, false);
    disk_set_name(&r->disk, from, old_name, -1, false);
    event(r, false);
    return result;
}

static int our_linkat(int old_dir, const char *old_name, int new_dir,
                      const char *new_name, int flags)
{
    int from, to;
    bool known = is_ours(recording, old_dir, &from);
    struct run *r = known && is_ours(recording, new_dir, &to) ? recording : NULL;
    if (r)
        event(r, true);
    int result = real.linkat(old_dir, old_name, new_dir, new_name, flags);
    if (!r || result != 0)
        return result;
    disk_set_name(&r->disk, to, new_name, disk_live_name(&r->disk, from, old_name),
                  false);
    event(r, false);
    return result;
}

static int our_unlinkat(int dir, const char *name, int flags)
{
    int from;
    struct run *r = is_ours(recording, dir, &from) ? recording : NULL;
    if (r)
        event(r, true);
    int result = real.unlinkat(dir, name, flags);
    if (!r || result != 0 || disk_live_name(&r->disk, from, name) < 0)
        return result;
    disk_set_name(&r->disk, from, name, -1, false);
    event(r, false);
    return result;
}

static void *our_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    void *p = real.mmap(at, n, prot, flags, fd, offset);
    struct disk_file *f = recording && fd >= 0 ? file_of(recording, fd) : NULL;
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

void record_begin(struct run *r, const char *workload, const char *dir, uint64_t seed)
{
    r->workload = workload;
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    snprintf(r->path, sizeof r->path, "%s/%s", dir, RUN_FILE);
    r->rng.state = seed;
    struct stat st;
    r->dir_inode = stat(dir, &st) == 0 ? st.st_ino : 0;
    r->clock = 1000;
    random_aside.state = mix64(seed, 3);
}

void record_end(struct run *r)
{
    for (size_t i = 0; i < r->disk.n_files; i++)
        close(r->fd[i]);
    disk_free(&r->disk);
}
