/* A disk whose failed sync loses what it should have saved: of each file the bytes that
 * the disk has are kept, page by page, and put into the file at the end of the run, as
 * if the page cache had been dropped. A sync that succeeds after one that failed saves
 * only what changed in between: that is how disks lie (R4). */
#include "tests/faults/wrap.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_IMAGES = 16, PAGE = 4096 };

static struct image {
    ino_t inode;
    uint8_t *disk, *failed; /* as on the disk; as in memory when a sync failed */
    size_t n_disk, n_failed;
    bool lost;
} images[MAX_IMAGES];

static bool active(void)
{
    const struct plan *p = faults_plan();
    return p && p->fault->effect == LOSE;
}

static uint8_t *read_all(int fd, size_t *n)
{
    struct stat st;
    *n = 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    uint8_t *bytes = malloc((size_t)st.st_size + PAGE);
    if (!bytes || plain_pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size)
        abort();
    *n = (size_t)st.st_size;
    return bytes;
}

static struct image *image_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    for (size_t i = 0; i < MAX_IMAGES; i++) {
        if (images[i].inode == 0)
            images[i].inode = st.st_ino;
        if (images[i].inode == st.st_ino)
            return &images[i];
    }
    abort();
}

static void take_changes(struct image *m, const uint8_t *now, size_t n)
{
    if (n > m->n_disk) {
        m->disk = realloc(m->disk, n);
        if (!m->disk)
            abort();
        memset(m->disk + m->n_disk, 0, n - m->n_disk);
    }
    m->n_disk = n;
    for (size_t at = 0; at < n; at += PAGE) {
        size_t some = n - at < PAGE ? n - at : PAGE;
        if (at + some > m->n_failed || memcmp(now + at, m->failed + at, some) != 0)
            memcpy(m->disk + at, now + at, some);
    }
}

void image_synced(int fd)
{
    int depth = in_lib;
    in_lib = 0; /* what we call here does not count */
    struct image *m = active() ? image_of(fd) : NULL;
    if (m) {
        size_t n;
        uint8_t *now = read_all(fd, &n);
        take_changes(m, now, n);
        free(now);
    }
    in_lib = depth;
}

void image_sync_failed(int fd)
{
    int depth = in_lib;
    in_lib = 0;
    struct image *m = active() ? image_of(fd) : NULL;
    if (m) {
        free(m->failed);
        m->failed = read_all(fd, &m->n_failed);
        m->lost = true;
    }
    in_lib = depth;
}

static int lose_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)flag, (void)ftw;
    for (size_t i = 0; i < MAX_IMAGES; i++) {
        struct image *m = &images[i];
        if (!m->lost || m->inode != st->st_ino)
            continue;
        FILE *f = fopen(path, "w");
        if (!f || fwrite(m->disk, 1, m->n_disk, f) != m->n_disk || fclose(f) != 0)
            abort();
    }
    return 0;
}

void image_lose(const char *dir)
{
    nftw(dir, lose_one, 16, FTW_PHYS);
    image_clear();
}

void image_clear(void)
{
    for (size_t i = 0; i < MAX_IMAGES; i++) {
        free(images[i].disk);
        free(images[i].failed);
        images[i] = (struct image){0};
    }
}
