/* Sorted values of many shapes, and lists of them, for the tests of lists. */
#ifndef TAMIS_TESTS_LIST_SUPPORT_H
#define TAMIS_TESTS_LIST_SUPPORT_H

#include "tests/support/support.h"
#include "format/area.h"
#include "lib/kernel/list/list_spot.h"
#include "lib/list/list.h"

enum shape {
    EVEN,    /* random hashes */
    DENSE,   /* neighbours, now and then with a gap */
    CLUSTER, /* half of them in one narrow range */
    POWERS,  /* gaps of all sizes */
    EQUAL,   /* the same low bits again and again */
    N_SHAPES
};

static UNUSED bool has_value(const uint64_t *v, size_t n, uint64_t value)
{
    return bsearch(&value, v, n, sizeof *v, compare_u64) != NULL;
}

static uint64_t one_value(enum shape shape, size_t i, uint32_t hash_bits)
{
    uint64_t h = random_u64();
    switch (shape) {
    case DENSE:
        return (UINT64_C(1) << (hash_bits - 1)) + i + i / 97 * 5;
    case CLUSTER:
        return i % 2 ? (list_max(hash_bits) / 3) + (h >> 50) : list_cut(h, hash_bits);
    case POWERS:
        return list_cut(h >> h % 61, hash_bits);
    case EQUAL:
        return list_cut(h, hash_bits) & ~UINT64_C(0xffff);
    case EVEN:
    case N_SHAPES:
        break;
    }
    return list_cut(h, hash_bits);
}

/* Makes at most n values, sorted, each once; returns how many. */
static UNUSED size_t make_values(enum shape shape, uint64_t *v, size_t n,
                                 uint32_t hash_bits)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        v[i] = one_value(shape, i, hash_bits);
    qsort(v, n, sizeof *v, compare_u64);
    for (size_t i = 0; i < n; i++)
        if (v[i] <= list_max(hash_bits) && (!kept || v[i] != v[kept - 1]))
            v[kept++] = v[i];
    return kept;
}

static const struct tamis_domain list_domain = {1, 77, 0};

/* Writes a list of n values into the test's directory. */
static UNUSED struct list_written write_list(const char *name, const uint64_t *v,
                                             size_t n, uint32_t hash_bits)
{
    struct list_options o = {.domain = list_domain, .hash_bits = hash_bits};
    struct list_writer *w;
    struct list_written out;
    uint8_t uuid[UUID_BYTES] = {1, 2, 3};
    FD dir = open(test_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unlink(path_of(name));
    IS(list_writer_create(&o, uuid, dir, name, &w, NULL), 0);
    for (size_t done = 0, some; done < n; done += some) {
        some = random_below(100000) + 1;
        some = some < n - done ? some : n - done;
        IS(list_writer_add(w, v + done, some), 0);
    }
    IS(list_writer_finish(w, true, &out, NULL), 0);
    return out;
}

/* The hash of a value: the lower bits are of no account. */
static UNUSED uint64_t hash_of(uint64_t value, uint32_t hash_bits)
{
    uint64_t noise = hash_bits < 64 ? random_u64() >> hash_bits : 0;
    return value << (64 - hash_bits) | noise;
}

#endif
