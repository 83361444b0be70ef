/* One question to a snapshot: which of these segments may have which of these keys?
 *
 *                  segments
 *     keys    0 1 2 3 ... 63 | 64 ...        a bit is set if the key is ABSENT
 *       0     1 1 0 1     1  | 1
 *       1     1 1 1 1     1  | 1       <---  absent from all
 *
 * Every public probe of a snapshot fills in a struct query, and calls query_ask(). How
 * the question is asked depends on how many keys and segments it has, and on where the
 * segments' bits lie, never on which function was called. */
#ifndef TAMIS_STORE_QUERY_QUERY_H
#define TAMIS_STORE_QUERY_QUERY_H

#include "lib/store/snapshot/snapshot.h"

struct query {
    struct tamis_snapshot *snapshot;
    const struct tamis_target *targets; /* NULL: all segments, by number */
    size_t n;                           /* targets; or numbers */
    const struct tamis_key *keys;
    size_t n_keys;
    /* Where the answers go; each may be NULL. Rows of bits, one a key. */
    uint64_t *absent;
    /* Of one key: a tamis_reason for each target. */
    uint8_t *reasons;
    /* Of one key: numbers of segments that may have it, the first of them by rank. */
    bool candidates; /* are they counted? */
    uint32_t *segments;
    size_t max_segments, n_segments;
    bool by_number; /* their order is that of numbers */
};

/* Returns how many keys are absent from all segments. */
size_t query_ask(struct query *q);

#endif
