/* Weak stand-ins for functions that the library may not have yet (pending.h). */
#include "tests/bench/pending.h"

#define PENDING __attribute__((weak))

PENDING enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                                    const struct tamis_key *key,
                                                    uint32_t *segments, size_t max,
                                                    size_t *n)
{
    size_t all = tamis_snapshot_n_segments(snapshot);
    *n = 0;
    for (size_t i = 0; i < all; i++) {
        struct tamis_target target = tamis_snapshot_target(snapshot, i);
        if (tamis_snapshot_probe(snapshot, &target, key, NULL) == TAMIS_ABSENT)
            continue;
        if (*n < max)
            segments[*n] = (uint32_t)i;
        ++*n;
    }
    return *n || !all ? TAMIS_MAYBE : TAMIS_ABSENT;
}

PENDING size_t tamis_snapshot_probe_keys(struct tamis_snapshot *snapshot,
                                         const struct tamis_target *targets,
                                         size_t n_targets, const struct tamis_key *keys,
                                         size_t n_keys, uint64_t *absent)
{
    size_t n = targets ? n_targets : tamis_snapshot_n_segments(snapshot), n_absent = 0;
    size_t words = (n + 63) / 64;
    for (size_t i = 0; i < n_keys; i++) {
        uint64_t *row = absent + i * words;
        n_absent += targets ? tamis_snapshot_probe_list(snapshot, targets, n, &keys[i],
                                                        row, NULL)
                            : tamis_snapshot_probe_all(snapshot, &keys[i], row, NULL);
    }
    return n_absent;
}
