/* What the programs that write golden files share: random numbers and a time that never
 * differ, and the directory that they write to. */
#ifndef TAMIS_TESTS_GOLDEN_MAKE_H
#define TAMIS_TESTS_GOLDEN_MAKE_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/internals.h"

static uint64_t random_state;

static void fixed_random(void *buf, size_t n)
{
    uint8_t *p = buf;
    while (n--) {
        random_state =
            random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
        *p++ = (uint8_t)(random_state >> 56);
    }
}

static uint64_t fixed_now(void)
{
    return UINT64_C(1789000000) * 1000000 + 123456;
}

static void check(int err, const struct tamis_diag *diag)
{
    if (err) {
        fprintf(stderr, "make_golden: %s: %s\n", diag->file, diag->what);
        exit(1);
    }
}

static char directory[4000];

static const char *at(const char *name)
{
    static char paths[4][4400];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", directory, name);
    return p;
}

static inline void make_in(const char *to)
{
    snprintf(directory, sizeof directory, "%s", to);
    io_calls.random = fixed_random;
    io_calls.now = fixed_now;
}

#endif
