/* Filters, a line each: built, grown, opened as told or refused, and asked why. */
#ifndef TAMIS_TESTS_FILTERS_H
#define TAMIS_TESTS_FILTERS_H

#include "support.h"

/* A set_up() that does this first; `create` makes the directory. */
#define SET_UP(create, ...)                                                            \
    static int set_up(void **state)                                                    \
    {                                                                                  \
        __VA_ARGS__;                                                                   \
        return create(state);                                                          \
    }

static UNUSED struct tamis_domain domain_of(uint64_t seed)
{
    struct tamis_domain d;
    OK(tamis_domain_init(&d, 1, seed));
    return d;
}

/* ---- made ---- */

/* BUILDER_AS(.error = 0.01), WRITER_AS(path, .domain = &d): with these options. */
#define BUILDER_AS(...)                                                                \
    builder_made(&(struct tamis_builder_options){                                      \
        .size = sizeof(struct tamis_builder_options), __VA_ARGS__})
#define WRITER_AS(path, ...)                                                           \
    writer_made(path, &(struct tamis_writer_options){                                  \
                          .size = sizeof(struct tamis_writer_options), __VA_ARGS__})

static UNUSED void build_as(const char *path, const uint64_t *hashes, size_t n,
                            const struct tamis_builder_options *opt)
{
    unlink(path);
    BUILDER b = builder_made(opt);
    OK(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, hashes, n));
    OK(tamis_builder_finish(b, path, NULL, NULL, NULL));
}

/* BUILD(path, hashes, n, .error = 0.01): the rest are options. */
#define BUILD(path, hashes, n, ...)                                                    \
    build_as(path, hashes, n,                                                          \
             &(struct tamis_builder_options){                                          \
                 .size = sizeof(struct tamis_builder_options), __VA_ARGS__})

static UNUSED void commit_and_close(struct tamis_writer *w, uint64_t watermark)
{
    OK(tamis_writer_commit(w, watermark, NULL));
    OK(tamis_writer_close(w, NULL));
}

static UNUSED void seal_and_close(struct tamis_writer *w, uint64_t watermark)
{
    OK(tamis_writer_seal(w, watermark, NULL, NULL));
    OK(tamis_writer_close(w, NULL));
}

/* A new filter that grows, and is closed. */
static UNUSED void grow_to(const char *path, uint64_t first_capacity,
                           const uint64_t *hashes, size_t n, uint64_t watermark)
{
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, first_capacity);
    add_hashes(w, hashes, n);
    commit_and_close(w, watermark);
}

/* The same record into both slots of a filter that grows. */
static UNUSED void put_slots(const char *path, const struct commit *c)
{
    uint8_t raw[SLOT_BYTES];
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        commit_encode(c, slot, raw);
        file_poke(path, commit_slot_offset(slot), raw, sizeof raw);
    }
}

/* ---- opened, or refused ---- */

/* OPEN_AS(path, .check = TAMIS_CHECK_FULL): the rest are options. */
#define OPEN_AS(path, ...) open_as(path, INSIDE(__VA_ARGS__))

/* These two say what the diagnosis was. */
static UNUSED struct tamis_diag
reader_refused(const char *path, const struct tamis_filter_options *opt, int code)
{
    struct tamis_filter *f = (void *)1;
    struct tamis_diag diag;
    IS(tamis_filter_open(path, opt, &f, &diag), code);
    IS(diag.code, code);
    assert_null(f);
    return diag;
}

static UNUSED struct tamis_diag writer_refused(const char *path, int code)
{
    struct tamis_writer *w = (void *)1;
    struct tamis_diag diag;
    IS(tamis_writer_open(path, NULL, &w, &diag), code);
    IS(diag.code, code);
    assert_null(w);
    return diag;
}

static UNUSED int open_to_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* ---- asked ---- */

static UNUSED enum tamis_reason why_of(struct tamis_filter *f, uint64_t hash)
{
    enum tamis_reason why;
    enum tamis_answer a = ask(f, hash, &why);
    assert_true((a == TAMIS_ABSENT) == (why == TAMIS_NO_REASON));
    return why;
}

/* A hash that it lacks. */
static UNUSED uint64_t absent_key(struct tamis_filter *f)
{
    uint64_t h = 1;
    while (ask(f, h, NULL) != TAMIS_ABSENT)
        h = h * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return h;
}

/* No key lost, for who opens it now. */
static UNUSED void all_there(const char *path, const uint64_t *hashes, size_t n)
{
    FILTER f = open_filter(path);
    IS(count_absent(f, hashes, n), 0);
}

/* Verified, and found damaged. */
static UNUSED struct tamis_verify damage_of(struct tamis_filter *f)
{
    struct tamis_verify report;
    IS(tamis_filter_verify(f, &report, NULL), TAMIS_ERR_DAMAGED);
    return report;
}

static UNUSED void *run_in_thread(void *(*fn)(void *), void *ctx)
{
    pthread_t thread;
    void *result;
    OK(pthread_create(&thread, NULL, fn, ctx));
    OK(pthread_join(thread, &result));
    return result;
}

#endif
