/* A disk whose failed sync loses what it should have saved, while the page cache goes
 * on showing it, and marks it clean: how Linux and its disks lie (R4). Of each file the
 * bytes that the disk has are kept, and which pages are dirty: those written, and those
 * stored to through a mapping, which is kept write-protected so that the first store is
 * seen. A sync that succeeds saves the dirty pages; one that fails saves none and
 * forgets that they were dirty. At the end the files get what the disk has. */
#include "tests/faults/wrap/wrap.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_IMAGES = 16, MAX_MAPPED = 64, PAGE = 4096, MAX_PAGES = 512 };

static struct image {
    ino_t inode;
    uint8_t *disk;
    size_t n_disk;
    bool dirty[MAX_PAGES];
    bool lost;
} images[MAX_IMAGES];

static struct mapped {
    uint8_t *at;
    size_t n;
    uint64_t first_page;
    struct image *image;
} mapped[MAX_MAPPED];

static bool active(void)
{
    const struct plan *p = faults_plan();
    return p && p->fault->effect == LOSE;
}

/* The image of a regular file, while images are kept; else NULL. */
static struct image *image_of(int fd, size_t *n_bytes)
{
    struct stat st;
    if (!active() || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    *n_bytes = (size_t)st.st_size;
    for (size_t i = 0; i < MAX_IMAGES; i++) {
        if (images[i].inode == 0)
            images[i].inode = st.st_ino;
        if (images[i].inode == st.st_ino)
            return &images[i];
    }
    abort();
}

static void mark(struct image *m, uint64_t page)
{
    if (page >= MAX_PAGES)
        abort(); /* scenarios are small */
    m->dirty[page] = true;
}

static void protect(const struct image *m)
{
    for (size_t i = 0; i < MAX_MAPPED; i++)
        if (mapped[i].image == m)
            mprotect(mapped[i].at, mapped[i].n, PROT_READ);
}

static void on_store(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    for (size_t i = 0; i < MAX_MAPPED; i++) {
        const struct mapped *m = &mapped[i];
        size_t at = (size_t)((uint8_t *)info->si_addr - m->at);
        if (!m->image || (uint8_t *)info->si_addr < m->at || at >= m->n)
            continue;
        mark(m->image, m->first_page + at / PAGE);
        mprotect(m->at + at / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE);
        return;
    }
    signal(signal_number, SIG_DFL); /* not ours: it strikes again, for good */
}

void image_mapped(int fd, void *at, size_t n, off_t offset)
{
    size_t n_bytes;
    struct image *m = image_of(fd, &n_bytes);
    struct sigaction action = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO};
    for (size_t i = 0; m && i < MAX_MAPPED; i++) {
        if (mapped[i].image)
            continue;
        mapped[i] = (struct mapped){at, n, (uint64_t)offset / PAGE, m};
        sigaction(SIGSEGV, &action, NULL);
        mprotect(at, n, PROT_READ);
        return;
    }
    if (m)
        abort();
}

void image_unmapped(const void *at)
{
    for (size_t i = 0; i < MAX_MAPPED; i++)
        if (mapped[i].image && mapped[i].at == at)
            mapped[i] = (struct mapped){0};
}

void image_written(int fd, off_t at, size_t n)
{
    size_t n_bytes;
    struct image *m = n ? image_of(fd, &n_bytes) : NULL;
    for (uint64_t p = (uint64_t)at / PAGE; m && p <= ((uint64_t)at + n - 1) / PAGE; p++)
        mark(m, p);
}

void image_synced(int fd)
{
    size_t n;
    struct image *m = image_of(fd, &n);
    if (!m)
        return;
    protect(m);
    m->disk = realloc(m->disk, n + 1);
    if (!m->disk)
        abort();
    if (n > m->n_disk)
        memset(m->disk + m->n_disk, 0, n - m->n_disk);
    m->n_disk = n;
    for (size_t page = 0; page < MAX_PAGES; page++) {
        size_t at = page * PAGE, some = at >= n ? 0 : n - at < PAGE ? n - at : PAGE;
        if (m->dirty[page] && some &&
            plain_pread(fd, m->disk + at, some, (off_t)at) != (ssize_t)some)
            abort();
        m->dirty[page] = false;
    }
}

void image_sync_failed(int fd)
{
    size_t n;
    struct image *m = image_of(fd, &n);
    if (!m)
        return;
    protect(m);
    memset(m->dirty, 0, sizeof m->dirty);
    m->lost = true;
}

void image_seed(int fd)
{
    size_t n;
    struct image *m = image_of(fd, &n);
    if (m)
        image_written(fd, 0, n);
    image_synced(fd);
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
        images[i] = (struct image){0};
    }
    memset(mapped, 0, sizeof mapped);
    signal(SIGSEGV, SIG_DFL);
}
