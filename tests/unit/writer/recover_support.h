/* Checks after a writer came to no good end. */
#ifndef TAMIS_TESTS_RECOVER_SUPPORT_H
#define TAMIS_TESTS_RECOVER_SUPPORT_H

#include "tests/support/filters.h"

enum { N_KEYS = 100 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

/* All must hold after reopening: the first n keys are there, the watermark is at
 * least so much, more can be added, and in the end all are sealed and sound. */
static UNUSED void expect_recovery(const char *path, size_t n, uint64_t watermark)
{
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, n), 0); /* as found */
    struct tamis_writer *w = open_writer(path);
    assert_true(w->watermark >= watermark);
    IS(count_absent(f, keys, n), 0);
    for (size_t from = N_KEYS - 5000; from < N_KEYS; from += 1000) {
        add_hashes(w, keys + from, 1000);
        uint64_t next = w->watermark + 1;
        OK(tamis_writer_commit(w, next, NULL));
        IS(w->watermark, next);
    }
    OK(tamis_writer_close(w, NULL));
    IS(count_absent(f, keys, n), 0);
    IS(count_absent(f, keys + N_KEYS - 5000, 5000), 0);

    uint64_t n_damaged;
    w = open_writer(path);
    OK(tamis_writer_seal(w, UINT64_MAX, &n_damaged, NULL));
    IS(n_damaged, 0);
    OK(tamis_writer_close(w, NULL));
    verified(f);
    IS(count_absent(f, keys, n), 0);
}

#endif
