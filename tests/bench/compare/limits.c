/* The limits of the machine, measured in the same run on the same memory: random lines,
 * bandwidth, copying, reading a file, hashing its pages. */
#include "tests/bench/bench.h"
#include "format/integrity.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The line of a hash, over all bits of the stage: of every lane. */
static inline const uint64_t *line_of(const uint8_t *base, uint64_t n_lines, uint64_t h)
{
    return (const uint64_t *)(const void *)(base + 64 * geometry_block(h, n_lines));
}

double lap_lines(void *probing)
{
    const struct probing *p = probing;
    const uint8_t *base = p->bits->base;
    uint64_t n_lines = p->bits->n_bytes / 64, sum = 0;
    uint64_t began = now_ns();
    for (size_t i = 0; i < p->n && i < WINDOW; i++)
        __builtin_prefetch(line_of(base, n_lines, p->hashes[i]));
    size_t ahead = p->n > WINDOW ? p->n - WINDOW : 0;
    for (size_t i = 0; i < ahead; i++) {
        __builtin_prefetch(line_of(base, n_lines, p->hashes[i + WINDOW]));
        sum += *line_of(base, n_lines, p->hashes[i]);
    }
    for (size_t i = ahead; i < p->n; i++)
        sum += *line_of(base, n_lines, p->hashes[i]);
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)p->n;
}

double lap_loads(void *probing)
{
    const struct probing *p = probing;
    const uint8_t *base = p->bits->base;
    uint64_t n_lines = p->bits->n_bytes / 64, sum = 0;
    uint64_t began = now_ns();
    for (size_t i = 0; i < p->n; i++)
        sum += *line_of(base, n_lines, p->hashes[i]);
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)p->n;
}

/* A probe's instructions, less those of this loop, that do nothing. */
#define EIGHT_NOPS "nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\n"
#define A_PROBE                                                                        \
    EIGHT_NOPS EIGHT_NOPS EIGHT_NOPS EIGHT_NOPS EIGHT_NOPS EIGHT_NOPS EIGHT_NOPS

double lap_spaced_loads(void *probing)
{
    const struct probing *p = probing;
    const uint8_t *base = p->bits->base;
    uint64_t n_lines = p->bits->n_bytes / 64, sum = 0;
    uint64_t began = now_ns();
    for (size_t i = 0; i < p->n; i++) {
        sum += *line_of(base, n_lines, p->hashes[i]);
        __asm__ volatile(A_PROBE);
    }
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)p->n;
}

double copy_ns(void *to, const void *from, size_t n_bytes)
{
    uint64_t began = now_ns();
    memcpy(to, from, n_bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
    return (double)(now_ns() - began);
}

/* By a mebibyte at a time into the same memory: nothing reads a file sooner. */
double read_file_ns(const char *path)
{
    enum { CHUNK = 1 << 20 };
    static char *chunk;
    if (!chunk)
        chunk = allocate(CHUNK);
    uint64_t began = now_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        give_up("%s cannot be opened", path);
    ssize_t got;
    while ((got = read(fd, chunk, CHUNK)) > 0)
        sink += (uint64_t)chunk[got - 1];
    close(fd);
    if (got < 0)
        give_up("%s cannot be read", path);
    return (double)(now_ns() - began);
}

/* The pages of the first lane that these hashes fall into, in their order. */
double xxh3_pages_ns(const struct bits *bits, const uint64_t *hashes, size_t n)
{
    uint64_t sum = 0, began = now_ns();
    for (size_t i = 0; i < n; i++) {
        uint64_t block = geometry_block(hashes[i], bits->geometry.n_blocks);
        sum += page_digest(bits->base + block / BLOCKS_PER_PAGE * PAGE_BYTES);
    }
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns;
}

/* Every page of the file, in its order. */
double xxh3_file_ns(const struct bits *bits)
{
    uint64_t sum = 0, began = now_ns();
    for (size_t at = 0; at + PAGE_BYTES <= bits->map_bytes; at += PAGE_BYTES)
        sum += page_digest(bits->map + at);
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns;
}

struct stream {
    uint64_t *from, *to;
    size_t n_bytes;
};

static double lap_copy(void *ctx)
{
    struct stream *s = ctx;
    return copy_ns(s->to, s->from, s->n_bytes) / (double)s->n_bytes;
}

static double lap_read(void *ctx)
{
    struct stream *s = ctx;
    uint64_t a = 0, b = 0, c = 0, d = 0, began = now_ns();
    for (size_t i = 0; i + 32 <= s->n_bytes / 8; i += 32) /* four lines a turn */
        a += s->from[i], b += s->from[i + 8], c += s->from[i + 16],
            d += s->from[i + 24];
    double ns = (double)(now_ns() - began);
    sink += a + b + c + d;
    return ns / (double)s->n_bytes;
}

static double lap_xxh3(void *ctx)
{
    struct stream *s = ctx;
    uint64_t sum = 0, began = now_ns();
    for (size_t at = 0; at + PAGE_BYTES <= s->n_bytes; at += PAGE_BYTES)
        sum += page_digest((const uint8_t *)s->from + at);
    double ns = (double)(now_ns() - began);
    sink += sum;
    return ns / (double)s->n_bytes;
}

void limits_measure(void)
{
    struct stream s = {.n_bytes = bench.sizes.stream};
    s.from = allocate(s.n_bytes);
    s.to = allocate(s.n_bytes);
    memset(s.from, 1, s.n_bytes);
    memset(s.to, 2, s.n_bytes);
    struct lap laps[] = {
        {.run = lap_copy, .ctx = &s},
        {.run = lap_read, .ctx = &s},
        {.run = lap_xxh3, .ctx = &s},
    };
    race(laps, 3, bench.sizes.reps);
    limit("memcpy", 1 / laps[0].ns, "GB/s copied");
    limit("memory_read", 1 / laps[1].ns, "GB/s read");
    limit("xxh3_pages", 1 / laps[2].ns, "GB/s hashed, page by page");
    free(s.from);
    free(s.to);
}
