/* For tests of the builder: many hashes, their domain, builders of it, and files that
 * compare equal. */
#ifndef TAMIS_TESTS_BUILDER_SUPPORT_H
#define TAMIS_TESTS_BUILDER_SUPPORT_H

#include "tests/support/filters.h"

enum { N_KEYS = 1000 * 1000 };
static uint64_t keys[N_KEYS];
static struct tamis_domain domain;

SET_UP(test_dir_create, domain = domain_of(0x5eed), random_hashes(keys, N_KEYS))

/* Files compare equal only if UUIDs and times do. */
static UNUSED void same_bytes(void *buf, size_t n)
{
    memset(buf, 0x42, n);
}

static UNUSED uint64_t same_time(void)
{
    return 1700000000000000;
}

static UNUSED int repeatable(void **state)
{
    faults_on(state);
    io_calls.random = same_bytes;
    io_calls.now = same_time;
    return 0;
}

static UNUSED void assert_same_file(const char *a, const char *b)
{
    size_t n;
    FREED uint8_t *bytes = file_read(a, &n);
    file_has(b, bytes, n);
}

/* A builder that has the first n hashes. */
static UNUSED struct tamis_builder *
threaded_builder_of(double error, size_t n, uint32_t n_threads, uint64_t memory_limit)
{
    struct tamis_builder *b =
        BUILDER_AS(.domain = &domain, .error = error, .memory_limit = memory_limit,
                   .spool_dir = test_dir, .n_threads = n_threads);
    OK(tamis_builder_add_hashes(b, domain.tag, keys, n));
    IS(builder_facts(b).n_keys, n);
    return b;
}

static UNUSED struct tamis_builder *builder_of(double error, size_t n)
{
    return threaded_builder_of(error, n, 0, 0);
}

static UNUSED struct tamis_builder *new_builder(double error, uint64_t memory_limit)
{
    return threaded_builder_of(error, 0, 0, memory_limit);
}

static UNUSED void finish(struct tamis_builder *b, const char *path)
{
    struct tamis_diag diag;
    unlink(path);
    if (tamis_builder_finish(b, path, NULL, NULL, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    tamis_builder_free(b);
}

#endif
