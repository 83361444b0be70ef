/* Objects of a test, closed where their block ends: FILTER f = open_filter(path). Such
 * a variable needs a value by then, and may get others. The last one declared is closed
 * first. A failed assert leaves all open. Then calls that must succeed, as values. */
#ifndef TAMIS_TESTS_UNIT_CLOSED_H
#define TAMIS_TESTS_UNIT_CLOSED_H

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/tamis.h"
#include "unit.h"

#define CLOSED_BY(fn, type) __attribute__((cleanup(fn), unused)) __typeof__(type)

static UNUSED void filter_ends(struct tamis_filter **f)
{
    tamis_filter_close(*f);
}

static UNUSED void builder_ends(struct tamis_builder **b)
{
    tamis_builder_free(*b);
}

static UNUSED void writer_ends(struct tamis_writer **w)
{
    OK(tamis_writer_close(*w, NULL));
}

static UNUSED void fd_ends(int *fd)
{
    close(*fd);
}

static UNUSED void memory_ends(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

#define FILTER  CLOSED_BY(filter_ends, struct tamis_filter *)
#define BUILDER CLOSED_BY(builder_ends, struct tamis_builder *)
#define WRITER  CLOSED_BY(writer_ends, struct tamis_writer *)
#define FD      CLOSED_BY(fd_ends, int)
#define FREED   __attribute__((cleanup(memory_ends), unused))

static UNUSED struct tamis_builder *
builder_made(const struct tamis_builder_options *opt)
{
    struct tamis_builder *b;
    OK(tamis_builder_create(opt, &b, NULL));
    return b;
}

static UNUSED struct tamis_writer *writer_made(const char *path,
                                               const struct tamis_writer_options *opt)
{
    struct tamis_writer *w;
    OK(tamis_writer_create(path, opt, &w, NULL));
    return w;
}

static UNUSED struct tamis_filter_info writer_info(struct tamis_writer *w)
{
    struct tamis_filter_info info;
    OK(tamis_writer_info(w, &info, NULL));
    return info;
}

static UNUSED struct tamis_filter_info filter_info(struct tamis_filter *f)
{
    struct tamis_filter_info info;
    OK(tamis_filter_info(f, &info, NULL));
    return info;
}

/* Verified, and found whole. */
static UNUSED struct tamis_verify verified(struct tamis_filter *f)
{
    struct tamis_verify report;
    OK(tamis_filter_verify(f, &report, NULL));
    return report;
}

static UNUSED struct stat stat_of(const char *path)
{
    struct stat st;
    OK(stat(path, &st));
    return st;
}

#endif
