/* Trees of directories: noting the names that no recorded call has made, and writing a
 * state down as files and directories. */
#include "tests/crash/record/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREE_PATH_BYTES = 2 * RUN_PATH_BYTES + DISK_NAME_BYTES };

/* ---- noting ---- */

static uint8_t *contents(int fd, size_t n)
{
    uint8_t *bytes = malloc(n + 1);
    if (!bytes || (n && pread(fd, bytes, n, 0) != (ssize_t)n))
        abort();
    return bytes;
}

static int add_file(struct run *r, const char *path, const char *name, bool durable)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    bool is_dir = S_ISDIR(st.st_mode);
    size_t n = durable && !is_dir ? (size_t)st.st_size : 0;
    uint8_t *bytes = contents(fd, n);
    size_t file = disk_add_file(&r->disk, st.st_ino, bytes, n);
    free(bytes);
    r->fd[file] = fd; /* kept: no other file gets its inode number */
    r->disk.files[file].is_dir = is_dir;
    r->disk.files[file].lmdb = strncmp(name, "catalog.lmdb", 12) == 0;
    return (int)file;
}

static void note_dir(struct run *r, int dir, const char *path, bool durable)
{
    char one[TREE_PATH_BYTES];
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || strstr(e->d_name, "-lock"))
            continue;
        snprintf(one, sizeof one, "%.500s/%.79s", path, e->d_name);
        int file = disk_find_file(&r->disk, e->d_ino);
        if (file < 0)
            file = add_file(r, one, e->d_name, durable);
        if (disk_live_name(&r->disk, dir, e->d_name) != file)
            disk_set_name(&r->disk, dir, e->d_name, file, durable);
        if (r->disk.files[file].is_dir)
            note_dir(r, file, one, durable);
    }
    if (d)
        closedir(d);
}

void tree_note(struct run *r, bool durable)
{
    note_dir(r, DISK_ROOT, r->dir, durable);
}

/* The pages of LMDB's file that are not synced yet are pages that no meta page names.
 * Its meta pages, the first two, are written through a descriptor that syncs, after
 * them. (Were they written without a sync of the others, nothing would be durable
 * here.) */
void tree_settle(struct disk_file *f)
{
    for (size_t i = 0; i < f->n_dirty; i++)
        if (f->dirty[i].at >= 2 * PAGE_BYTES / SECTOR_BYTES)
            return;
    disk_sync_begin(f);
    disk_sync_end(f);
}

/* ---- writing ---- */

struct putting {
    const struct disk_state *state;
    char first[DISK_MAX_FILES][TREE_PATH_BYTES]; /* name of a file */
};

static void put_file_at(struct putting *p, int file, const char *path)
{
    char *first = p->first[file];
    if (first[0]) {
        if (link(first, path) != 0)
            abort();
        return;
    }
    snprintf(first, TREE_PATH_BYTES, "%s", path);
    uint8_t *bytes = malloc(p->state->disk->files[file].capacity);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!bytes || fd < 0)
        abort();
    size_t n = (size_t)disk_image(p->state, (size_t)file, bytes);
    if (write(fd, bytes, n) != (ssize_t)n)
        abort();
    close(fd);
    free(bytes);
}

static void put_dir(struct putting *p, int dir, const char *path)
{
    const struct disk *d = p->state->disk;
    char one[TREE_PATH_BYTES];
    if (mkdir(path, 0700) != 0)
        abort();
    for (size_t i = 0; i < d->n_names; i++) {
        int file = disk_state_file(p->state, i);
        if (d->names[i].dir != dir || file < 0)
            continue;
        snprintf(one, sizeof one, "%.500s/%s", path, d->names[i].text);
        if (d->files[file].is_dir)
            put_dir(p, file, one);
        else
            put_file_at(p, file, one);
    }
}

void tree_put(const struct disk_state *s, const char *path)
{
    static struct putting p;
    memset(&p, 0, sizeof p);
    p.state = s;
    tree_remove(path);
    put_dir(&p, DISK_ROOT, path);
}
