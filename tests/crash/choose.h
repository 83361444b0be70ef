/* Choosing states: choose.c. */
#ifndef TAMIS_TESTS_CRASH_CHOOSE_H
#define TAMIS_TESTS_CRASH_CHOOSE_H

#include "tests/crash/record/record.h"

/* The cost that one level of cuts may have at one event. */
struct budget {
    uint64_t exhaustive; /* so many combinations are all tried */
    unsigned n_random;
    unsigned deep; /* one state in so many is recorded and cut again */
};

/* Calls consider() with each chosen state in r->state. */
void choose_states(struct run *r, const struct budget *b,
                   void (*consider)(struct run *r));

#endif
