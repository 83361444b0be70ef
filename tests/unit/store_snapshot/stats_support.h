/* For tests of counting: a small store and its sums. */
#ifndef TAMIS_TESTS_STATS_SUPPORT_H
#define TAMIS_TESTS_STATS_SUPPORT_H

#include "tests/support/store_support.h"

static UNUSED struct tamis_store *small_store(void)
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 100);
    put_segment(s, "b", 100, 100);
    put_growing(s, "g");
    return s;
}

static UNUSED struct tamis_stats stats_of(struct tamis_store *s)
{
    struct tamis_stats stats;
    SNAPSHOT snap = snapshot_of(s);
    OK(tamis_snapshot_stats(snap, 1, &stats));
    return stats;
}

#endif
