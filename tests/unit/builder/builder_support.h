/* What tests of the builder share: many hashes, their domain, and builders of it. */
#ifndef TAMIS_TESTS_BUILDER_SUPPORT_H
#define TAMIS_TESTS_BUILDER_SUPPORT_H

#include "tests/support/support.h"

enum { N_KEYS = 1000 * 1000 };
static uint64_t *keys;
static struct tamis_domain domain;

static UNUSED int set_up(void **state)
{
    keys = malloc(N_KEYS * sizeof *keys);
    tamis_domain_init(&domain, 1, 0x5eed);
    random_hashes(keys, N_KEYS);
    return keys ? test_dir_create(state) : -1;
}

static UNUSED int tear_down(void **state)
{
    free(keys);
    return test_dir_remove(state);
}

static UNUSED struct tamis_builder *new_builder(double error, uint64_t memory_limit)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &domain,
        .error = error,
        .memory_limit = memory_limit,
        .spool_dir = test_dir,
    };
    struct tamis_builder *b;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    return b;
}

static UNUSED void finish(struct tamis_builder *b, const char *path)
{
    struct tamis_diag diag;
    if (tamis_builder_finish_file(b, path, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    tamis_builder_free(b);
}

static UNUSED struct tamis_builder *builder_of(double error, size_t n)
{
    struct tamis_builder *b = new_builder(error, 0);
    assert_int_equal(tamis_builder_add_hashes(b, domain.tag, keys, n), 0);
    return b;
}

#endif
