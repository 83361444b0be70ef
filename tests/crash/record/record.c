/* Recording: which files and names a run has, and a look at the files' content before
 * and after each call, which shows what was stored through mappings meanwhile. */
#include "tests/crash/record/record.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct run *recording;
uint64_t run_seed, run_states;

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

void record_call(struct run *r, bool by_mapping)
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
    record_call(r, true);
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

struct disk_file *record_file(struct run *r, int fd)
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

bool record_dir(struct run *r, int fd, int *dir)
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

void record_begin(struct run *r, const char *workload, const char *dir, uint64_t seed)
{
    r->workload = workload;
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    snprintf(r->path, sizeof r->path, "%s/%s", dir, RUN_FILE);
    r->rng.state = seed;
    struct stat st;
    r->dir_inode = stat(dir, &st) == 0 ? st.st_ino : 0;
    r->clock = 1000;
    calls_seed(mix64(seed, 3));
}

void record_end(struct run *r)
{
    for (size_t i = 0; i < r->disk.n_files; i++)
        close(r->fd[i]);
    disk_free(&r->disk);
}
