/* A commit against one fdatasync of a file with as many dirty pages, and how often it
 * flushes. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct committing {
    struct tamis_writer *writer;
    uint64_t next;
    size_t n_keys;  /* between two commits: enough to dirty every page */
    uint64_t log;   /* watermark */
    uint8_t *pages; /* the plain file, mapped */
    size_t n_bytes;
    int fd;
};

static double lap_commit(void *ctx)
{
    struct committing *c = ctx;
    struct tamis_diag diag = {0};
    uint64_t *hashes = hashes_of(c->next, c->n_keys);
    c->next += c->n_keys;
    must(tamis_writer_add_hashes(c->writer, bench.domain.tag, hashes, c->n_keys), NULL,
         "adding");
    free(hashes);
    uint64_t began = now_ns();
    must(tamis_writer_commit(c->writer, ++c->log, &diag), &diag, "commit");
    return (double)(now_ns() - began);
}

static double lap_fdatasync(void *ctx)
{
    struct committing *c = ctx;
    for (size_t at = 0; at < c->n_bytes; at += PAGE_BYTES)
        c->pages[at + at / PAGE_BYTES % PAGE_BYTES]++;
    uint64_t began = now_ns();
    if (fdatasync(c->fd) != 0)
        give_up("fdatasync failed");
    return (double)(now_ns() - began);
}

/* A file of as many bytes, mapped for writing. Allocated as a stage is, and first
 * written through its mapping page by page, here and there: the page cache holds a file
 * that was written in one go in large folios, of which one dirty page makes all dirty.
 * This is faster where every page is dirty, as here, and eight times slower where one
 * page in 64 is. */
static void plain_file(struct committing *c, const char *path, size_t n_pages)
{
    file_remove(path);
    c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    c->n_bytes = n_pages * PAGE_BYTES;
    if (c->fd < 0 || posix_fallocate(c->fd, 0, (off_t)c->n_bytes) != 0)
        give_up("%s cannot be allocated", path);
    c->pages = mmap(NULL, c->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (c->pages == MAP_FAILED || madvise(c->pages, c->n_bytes, MADV_RANDOM) != 0)
        give_up("%s cannot be mapped", path);
    uint64_t *hashes = hashes_of(0, 8 * n_pages);
    for (size_t i = 0; i < 8 * n_pages; i++)
        c->pages[geometry_block(hashes[i], n_pages) * PAGE_BYTES]++;
    free(hashes);
    lap_fdatasync(c);
}

static void time_of_commits(void)
{
    char path[512], plain[512];
    snprintf(path, sizeof path, "%s", path_in("commit.tamis"));
    snprintf(plain, sizeof plain, "%s", path_in("plain"));
    struct committing c = {.writer = writer_new(path, bench.sizes.large)};
    struct bits bits = bits_map(path);
    size_t n_pages = bits.n_bytes / PAGE_BYTES;
    unsigned reps = bench.sizes.reps;
    c.n_keys = 8 * n_pages;
    bits_unmap(&bits);
    plain_file(&c, plain, n_pages);
    struct lap laps[] = {{.run = lap_commit, .ctx = &c},
                         {.run = lap_fdatasync, .ctx = &c}};
    race(laps, 2, reps);
    figure("commit_time", laps[0].ns / 1e6, laps[1].ns / 1e6,
           "%zu dirty pages, %zu keys a commit", n_pages, c.n_keys);
    limit("fdatasync", laps[1].ns / 1e6, "ms, of the same dirty pages");
    munmap(c.pages, c.n_bytes);
    close(c.fd);
    must(tamis_writer_close(c.writer), NULL, "close");
    file_remove(path), file_remove(plain);
}

static unsigned flushes_of_commit(struct tamis_writer *writer, uint64_t watermark)
{
    struct tamis_diag diag = {0};
    unsigned before = n_flushes();
    must(tamis_writer_commit(writer, watermark, &diag), &diag, "commit");
    return n_flushes() - before;
}

static void flushes(void)
{
    enum { FIRST = 1000 };
    char path[512];
    uint64_t hashes[2 * FIRST];
    snprintf(path, sizeof path, "%s", path_in("commit.tamis"));
    struct tamis_writer *writer = writer_new(path, FIRST);
    hashes_fill(0, 2 * FIRST, hashes);
    must(tamis_writer_add_hashes(writer, bench.domain.tag, hashes, FIRST / 2), NULL,
         "adding");
    flushes_of_commit(writer, 1);
    must(tamis_writer_add_hashes(writer, bench.domain.tag, hashes + FIRST / 2, 10),
         NULL, "adding");
    figure("commit_flushes", flushes_of_commit(writer, 2), 0, "10 keys added");
    unsigned before = n_flushes();
    must(tamis_writer_add_hashes(writer, bench.domain.tag, hashes + FIRST, FIRST), NULL,
         "adding");
    unsigned growing = n_flushes() - before;
    figure("commit_flushes_table", flushes_of_commit(writer, 3), 0,
           "the first commit after a stage was added; the add itself flushed %u times",
           growing);
    must(tamis_writer_close(writer), NULL, "close");
    file_remove(path);
}

void figures_commit(void)
{
    time_of_commits();
    flushes();
}
