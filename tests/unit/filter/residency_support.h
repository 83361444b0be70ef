/* Filters of some size, cold or warm, and how much of them is in memory. */
#ifndef TAMIS_TESTS_RESIDENCY_SUPPORT_H
#define TAMIS_TESTS_RESIDENCY_SUPPORT_H

#include "tests/support/guard_support.h"
#include "tests/support/locked.h"
#include "lib/filter/view.h"

enum { N_KEYS = 500000, N_ASKED = 2000 };

static uint64_t *keys;
static size_t page; /* of the machine's */

static const char *build(const char *name, size_t n, double error)
{
    const char *path = path_of(name);
    unlink(path);
    build_with_error(path, keys, n, error);
    return path;
}

/* Has some 3 MiB of bits, which begin at 2 MiB. */
static const char *build_large(void)
{
    const char *path = build("large", N_KEYS, 1e-8);
    open_a_hole(path);
    return path;
}

static UNUSED void make_cold(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

static UNUSED struct tamis_residency residency(struct tamis_filter *f)
{
    struct tamis_residency r;
    assert_int_equal(tamis_filter_residency(f, &r), 0);
    assert_true(r.n_resident <= r.n_pages);
    return r;
}

static UNUSED uint64_t round_up(uint64_t n)
{
    return (n + page - 1) / page * page;
}

static UNUSED int setup(void **state)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    keys = malloc(N_KEYS * sizeof *keys);
    if (!keys || test_dir_create(state) != 0)
        return -1;
    random_hashes(keys, N_KEYS);
    return 0;
}

static UNUSED int teardown(void **state)
{
    free(keys);
    return test_dir_remove(state);
}

#endif
