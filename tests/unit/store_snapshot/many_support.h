/* For tests of many segments: their names, and how far their planes are. */
#ifndef TAMIS_TESTS_MANY_SUPPORT_H
#define TAMIS_TESTS_MANY_SUPPORT_H

#include "tests/support/store_kinds.h"

static UNUSED const char *name_of(size_t i)
{
    static char name[16];
    snprintf(name, sizeof name, "s%03d", (int)(i * 7919 % 1000)); /* not by age */
    return name;
}

static UNUSED void verify_all(struct tamis_snapshot *s)
{
    struct tamis_verify report;
    for (size_t i = 0; tamis_snapshot_next(s, &i); i++) {
        FILTER f;
        if (tamis_snapshot_filter(s, i, &f, NULL) == 0)
            tamis_filter_verify(f, &report, NULL);
    }
}

static UNUSED size_t n_ready(const struct tamis_snapshot *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_loose; i++)
        n += plane_is_ready(s, i, stage_epoch());
    return n;
}

#endif
