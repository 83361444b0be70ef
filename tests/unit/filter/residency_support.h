/* Filters of some size, cold or warm, and how much of them is in memory. */
#ifndef TAMIS_TESTS_RESIDENCY_SUPPORT_H
#define TAMIS_TESTS_RESIDENCY_SUPPORT_H

#include "tests/support/filters.h"
#include "tests/support/guard_support.h"
#include "tests/support/locked.h"

enum { N_KEYS = 500000, N_ASKED = 2000 };

static uint64_t keys[N_KEYS];
static size_t page; /* of the machine's */

static const char *build(const char *name, size_t n, double error)
{
    const char *path = path_of(name);
    BUILD(path, keys, n, .error = error);
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
    FD fd = open_to_read(path);
    OK(fdatasync(fd));
    OK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* Locks and reads as much of its beginning as the budget has room for; the rest is let
 * go. */
static UNUSED int lock_within(struct tamis_filter *filter, uint64_t *budget_bytes)
{
    struct warming w = {0};
    uint64_t locked;
    int err = filter_unlock_beyond(filter, *budget_bytes / page * page);
    if (err)
        return err;
    err = filter_lock_first(filter, *budget_bytes, &locked);
    *budget_bytes -= locked;
    int unread = filter_warm_first(filter, locked, &w);
    return err ? err : unread;
}

static UNUSED struct tamis_residency residency(struct tamis_filter *f)
{
    struct tamis_residency r;
    OK(tamis_filter_residency(f, &r));
    assert_true(r.n_resident <= r.n_pages);
    return r;
}

static UNUSED uint64_t round_up(uint64_t n)
{
    return (n + page - 1) / page * page;
}

SET_UP(test_dir_create, page = (size_t)sysconf(_SC_PAGESIZE),
       random_hashes(keys, N_KEYS))

#endif
