/* For tests of many segments: their names, how they grow, and how far their planes are.
 */
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
    struct tamis_filter *f;
    struct tamis_verify report;
    for (size_t i = 0; i < tamis_snapshot_n_segments(s); i++)
        if (tamis_snapshot_filter(s, i, &f, NULL) == 0)
            tamis_filter_verify(f, &report, NULL);
}

static UNUSED size_t n_ready(const struct tamis_snapshot *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += atomic_load(&s->planes.ready[i / 64]) >> (i % 64) & 1;
    return n;
}

/* Lets segment i grow over several stages. */
static UNUSED void grow_or_seal(struct tamis_store *s, size_t i, bool seal)
{
    WRITER w = writer_of(s, name_of(i));
    add_keys(w, i * 50, 300); /* the first capacity is 100 */
    if (seal)
        OK(tamis_writer_seal(w, 2, NULL, NULL));
    else
        OK(tamis_writer_commit(w, 2, NULL));
}

static UNUSED void store_end(struct tamis_store *s)
{
    tamis_store_close(s);
    remove_tree("s");
}

static UNUSED void check_planes_differ(const struct tamis_snapshot *s)
{
    uint32_t lanes = 0, words = 0;
    for (size_t i = 0; i < s->n; i++) {
        lanes |= 1U << s->planes.plane[i].lanes;
        words |= 1U << s->planes.plane[i].words;
    }
    assert_true(__builtin_popcount(lanes) > 1 && __builtin_popcount(words) > 1);
}

#endif
