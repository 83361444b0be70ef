/* One filter's reason for one hash, and a hash that it lacks. */
#ifndef TAMIS_TESTS_REASON_H
#define TAMIS_TESTS_REASON_H

#include "support.h"

static UNUSED enum tamis_reason reason_of(struct tamis_filter *f, uint64_t hash)
{
    enum tamis_reason why;
    enum tamis_answer a = ask(f, hash, &why);
    assert_true((a == TAMIS_ABSENT) == (why == TAMIS_NO_REASON));
    return why;
}

static UNUSED uint64_t absent_key(struct tamis_filter *f)
{
    uint64_t h = 1;
    while (ask(f, h, NULL) != TAMIS_ABSENT)
        h = h * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return h;
}

#endif
