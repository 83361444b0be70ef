/* Hashes in order: a sort in place, and a merge of sorted sources.
 *
 *     sort_hashes()    one array
 *     merge_create()   sources that are sorted, block by block
 *     merge_next()     the next block of all of them, each hash once
 *
 * and how they are kept apart, and found whole.
 *
 * Hashes are expected to be uniform. Others cost more time, never order: both are
 * linear in the number of hashes, whatever these are. */
#ifndef TAMIS_SORT_SORT_H
#define TAMIS_SORT_SORT_H

#include "format/geometry.h"

/* Sorts in place, in ascending order; repeats stay. */
void sort_hashes(uint64_t *hashes, size_t n);

/* Copies hashes without those that repeat the one before; `last` is before the first.
 * `to` may be `from`. Returns how many. Without a branch. */
size_t hashes_distinct(uint64_t *to, const uint64_t *from, size_t n, uint64_t last);

/* A running check of hashes that wait in a file. Each step is a bijection of check and
 * hash, so one wrong hash is certainly found. */
static inline uint64_t hashes_check(uint64_t check, const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check = geometry_next_lane(check ^ hashes[i]);
    return check;
}

/* A source of sorted hashes. */
struct merge_source {
    /* Sets *block to the next hashes, *n to their number; 0 at the end, and whenever
     * it is called after that. They stay valid until the next call. An error ends the
     * merge. */
    int (*next)(void *ctx, const uint64_t **block, size_t *n);
    void *ctx;
};

struct merge;
/* ENOMEM. `sources` are copied; n may be 0. A merge takes up to `memory` bytes, and is
 * slower with less than 16 KiB a source; but never less than 256 bytes a source. */
int merge_create(const struct merge_source *sources, size_t n, size_t memory,
                 struct merge **out);
/* The next hashes in order, none twice; *n is 0 at the end. They are valid until the
 * next call. */
int merge_next(struct merge *m, const uint64_t **block, size_t *n);
/* How many hashes of the sources were dropped so far, as repeats of others. */
uint64_t merge_repeats(const struct merge *m);
void merge_free(struct merge *m);

#endif
