/* Short forms of tamis_snapshot_query(): ASK(snapshot, ALL, KEYS(&key, 1)). */
#ifndef TAMIS_TESTS_ASKS_H
#define TAMIS_TESTS_ASKS_H

#define QUERY(...)                                                                     \
    (&(const struct tamis_query){.size = sizeof(struct tamis_query), __VA_ARGS__})
#define ASK(s, ...)             tamis_snapshot_query(s, QUERY(__VA_ARGS__), NULL)
#define ALL                     .all = 1
#define LIST(t, n)              .targets = (t), .n_targets = (n)
#define KEYS(k, n)              .keys = (k), .n_keys = (n)
#define HASHES(h, n, their_tag) .hashes = (h), .n_keys = (n), .tag = (their_tag)
#define FOUND(f, max, n)        .candidates = (f), .max_candidates = (max), .n_candidates = (n)

#endif
