/* A store of many segments of numbered keys, for figures/segments.c and the driver. */
#ifndef TAMIS_TESTS_BENCH_SEGMENTS_H
#define TAMIS_TESTS_BENCH_SEGMENTS_H

#include <tamis.h>

/* Replaces whatever is at `path`. */
struct tamis_store *segments_store(const char *path, uint64_t n, uint64_t keys_each);
/* Puts segment i anew, with the same keys, in an edit of its own. */
void segments_replace(struct tamis_store *store, uint64_t i, uint64_t keys_each);
/* Segment i of a name by its number, with n keys from number `first` on. */
void segments_put(struct tamis_edit *edit, uint64_t i, uint64_t first, uint64_t n);
void segments_drop(struct tamis_edit *edit, uint64_t i);
void tree_remove(const char *path);

#endif
