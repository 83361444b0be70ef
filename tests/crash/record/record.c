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
    char text[2 * SAID_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    script_failed(text);
    fprintf(stderr, "LOST: %s\n  workload %s, round %u, seed %llu\n", text, r->workload,
            r->round, (unsigned long long)run_seed);
    for (; r; r = r->parent) {
        fprintf(stderr, "  level %u, event %u, step %zu; promised:", r->level, r->event,
                r->player.at + 1);
        for (size_t i = 0; i < r->promises.n_objects; i++) {
            const struct object *o = &r->promises.object[i];
            fprintf(stderr, " %s (%d", o->name, o->standing);
            if (o->grows)
                fprintf(stderr, ", watermark %u of %u, stages %u, seal %d",
                        o->watermark, o->asked, o->stages, o->seal);
            fprintf(stderr, ")");
        }
        fprintf(stderr, "; state:\n");
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

/* What a commit has made durable is promised before it returns. */
static void take_promises(struct run *r)
{
    for (size_t i = 0; i < r->promises.n_objects; i++) {
        struct object *o = &r->promises.object[i];
        struct tamis_writer *w = r->player.writer[i];
        if (!w)
            continue;
        uint64_t watermark = tamis_writer_watermark(w);
        uint32_t stages = atomic_load(&w->n_stages);
        if (watermark > o->watermark)
            o->watermark = (uint32_t)watermark;
        if (stages > o->stages)
            o->stages = stages;
    }
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

struct disk_file *record_file(struct run *r, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    int file = disk_find_file(&r->disk, st.st_ino);
    if (file < 0) {
        tree_note(r, false);
        file = disk_find_file(&r->disk, st.st_ino);
    }
    return file < 0 ? NULL : &r->disk.files[file];
}

bool record_has_lied(const struct run *r)
{
    for (size_t i = 0; i < r->disk.n_files; i++)
        if (r->disk.files[i].has_lied)
            return true;
    return false;
}

void record_lie(struct run *r)
{
    look(r, true);
    for (size_t i = 0; i < r->disk.n_files; i++)
        if (!r->disk.files[i].is_dir)
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
    if (!S_ISDIR(st.st_mode))
        return false;
    *dir = disk_find_file(&r->disk, st.st_ino);
    if (*dir < 0) {
        tree_note(r, false);
        *dir = disk_find_file(&r->disk, st.st_ino);
    }
    return *dir >= 0;
}

void record_begin(struct run *r, const char *dir, uint64_t seed)
{
    snprintf(r->dir, sizeof r->dir, "%s", dir);
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
