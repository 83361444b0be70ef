/* Files: built, opened, checked and committed, each against what the machine takes for
 * the bytes alone: written, read, hashed, flushed. */
#include "tests/bench/bench.h"
#include "format/integrity.h"

enum { PIECE = 1 << 20 };

struct file {
    char path[512];
    uint64_t n_keys, n_bytes, *hashes;
};

static int open_or_give_up(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd < 0)
        give_up("%s cannot be opened", path);
    return fd;
}

/* ---- building: hashes in, a durable file out ---- */

static double build(void *file)
{
    struct file *f = file;
    struct tamis_builder *builder = builder_of(0, 0.01, 0, 0);
    struct tamis_diag diag = {0};
    unlink(f->path);
    uint64_t began = now_ns();
    must(tamis_builder_add_hashes(builder, bench.domain.tag, f->hashes, f->n_keys),
         NULL, "adding to a builder");
    must(tamis_builder_finish(builder, f->path, NULL, NULL, &diag), &diag, f->path);
    double ns = (double)(now_ns() - began);
    tamis_builder_free(builder);
    return ns;
}

/* As many bytes, copied, written and durable. */
static double write_memory(void *file)
{
    return write_durably_ns(((struct file *)file)->n_bytes);
}

/* ---- the first answer of a file in the page cache ---- */

static double first_answer(void *file)
{
    const struct file *f = file;
    struct tamis_filter *filter;
    struct tamis_key key = {.tag = bench.domain.tag, .hash = f->hashes[0]};
    uint64_t began = now_ns();
    must(tamis_filter_open(f->path, NULL, &filter, NULL), NULL, f->path);
    bool absent = tamis_filter_probe(filter, &key, NULL) == TAMIS_ABSENT;
    double ns = (double)(now_ns() - began);
    tamis_filter_close(filter);
    if (absent)
        wrong("file_first: a present key is ABSENT");
    return ns;
}

/* Its header read, its pages mapped, and one of them touched. */
static double first_byte(void *file)
{
    const struct file *f = file;
    char header[PAGE_BYTES];
    struct stat st;
    uint64_t began = now_ns();
    int fd = open_or_give_up(f->path, O_RDONLY);
    if (fstat(fd, &st) != 0 || pread(fd, header, sizeof header, 0) != sizeof header)
        give_up("%s cannot be read", f->path);
    uint8_t *map = mmap(NULL, f->n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || madvise(map, f->n_bytes, MADV_RANDOM) != 0)
        give_up("%s cannot be mapped", f->path);
    sink += map[f->n_bytes / 2];
    double ns = (double)(now_ns() - began);
    munmap(map, f->n_bytes);
    close(fd);
    return ns;
}

/* ---- checks of every page ---- */

static void evict(const struct file *f)
{
    int fd = open_or_give_up(f->path, O_RDONLY);
    if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        give_up("%s cannot be evicted", f->path);
    close(fd);
}

static double check_cold(void *file)
{
    const struct file *f = file;
    struct tamis_filter *filter;
    struct tamis_filter_options options = {.size = sizeof options,
                                           .check = TAMIS_CHECK_FULL};
    struct tamis_diag diag = {0};
    evict(f);
    uint64_t began = now_ns();
    must(tamis_filter_open(f->path, &options, &filter, &diag), &diag, f->path);
    double ns = (double)(now_ns() - began);
    tamis_filter_close(filter);
    return ns;
}

static double hash_cold(void *file)
{
    const struct file *f = file;
    static uint8_t piece[PIECE];
    uint64_t sum = 0;
    ssize_t got;
    evict(f);
    uint64_t began = now_ns();
    int fd = open_or_give_up(f->path, O_RDONLY);
    while ((got = read(fd, piece, sizeof piece)) > 0)
        for (ssize_t at = 0; at + PAGE_BYTES <= got; at += PAGE_BYTES)
            sum += page_digest(piece + at);
    close(fd);
    sink += sum;
    return (double)(now_ns() - began);
}

void room_files(void)
{
    static const struct {
        const char *id;
        work_fn *ours, *peer;
    } rows[] = {
        {"file_build", build, write_memory},
        {"file_first", first_answer, first_byte},
        {"file_check_cold", check_cold, hash_cold},
    };
    struct tamis_plan plan;
    struct file f = {.n_keys = bench.sizes.large};
    snprintf(f.path, sizeof f.path, "%s", path_in("built.tamis"));
    f.hashes = hashes_of(0, f.n_keys);
    must(tamis_plan_filter(f.n_keys, 0.01, NULL, &plan), NULL, "plan");
    f.n_bytes = plan.file_bytes;
    build(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compare(rows[i].id, rows[i].ours, &f, rows[i].peer, &f);
        figure_detail(rows[i].id, "%.3g M keys, %llu MiB", (double)f.n_keys / 1e6,
                      (unsigned long long)f.n_bytes >> 20);
    }
    free(f.hashes);
    unlink(f.path);
}

/* ---- commits of an open file ---- */

struct open_file {
    char path[512], other[512];
    struct tamis_writer *writer;
    uint64_t next, log;
    size_t n_keys; /* between two commits: enough to dirty every page */
    int fd;        /* a plain file */
    size_t n_bytes;
};

static double commit(void *file)
{
    struct open_file *o = file;
    struct tamis_diag diag = {0};
    uint64_t *hashes = hashes_of(o->next, o->n_keys);
    must(tamis_writer_add_hashes(o->writer, bench.domain.tag, hashes, o->n_keys), NULL,
         "adding");
    o->next += o->n_keys;
    free(hashes);
    uint64_t began = now_ns();
    must(tamis_writer_commit(o->writer, ++o->log, &diag), &diag, "commit");
    return (double)(now_ns() - began);
}

/* A byte of every page is written, then all are flushed. The file is allocated as a
 * stage is, and written page by page from the first time on: the page cache keeps a
 * file that was written in one go in larger pieces, and flushes these sooner. */
static double flush(void *file)
{
    struct open_file *o = file;
    for (size_t at = 0; at < o->n_bytes; at += PAGE_BYTES)
        if (pwrite(o->fd, "", 1, (off_t)(at + at / PAGE_BYTES % PAGE_BYTES)) != 1)
            give_up("%s cannot be written", o->other);
    uint64_t began = now_ns();
    if (fdatasync(o->fd) != 0)
        give_up("fdatasync failed");
    return (double)(now_ns() - began);
}

void room_commits(void)
{
    struct tamis_plan plan;
    struct open_file o = {0};
    uint64_t capacity = bench.sizes.large / 2;
    snprintf(o.path, sizeof o.path, "%s", path_in("open.tamis"));
    snprintf(o.other, sizeof o.other, "%s", path_in("plain"));
    must(tamis_plan_filter(capacity, 0.0015, NULL, &plan), NULL, "plan"); /* P0 at 1% */
    o.n_bytes = plan.bits_bytes;
    o.n_keys = 8 * o.n_bytes / PAGE_BYTES;
    o.writer = writer_new(o.path, capacity);
    unlink(o.other);
    o.fd = open_or_give_up(o.other, O_RDWR | O_CREAT);
    if (posix_fallocate(o.fd, 0, (off_t)o.n_bytes) != 0)
        give_up("%s cannot be allocated", o.other);
    compare("file_commit", commit, &o, flush, &o);
    figure_detail("file_commit", "%zu dirty pages", o.n_bytes / PAGE_BYTES);
    must(tamis_writer_close(o.writer, NULL), NULL, "close");
    close(o.fd);
    unlink(o.path), unlink(o.other);
}
