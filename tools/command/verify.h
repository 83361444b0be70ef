/* tamis verify: verify.c checks filters, verify_packs.c packs and their columns. */
#ifndef TAMIS_VERIFY_H
#define TAMIS_VERIFY_H

#include <jansson.h>

#include "../open/open.h"

/* The packs that were checked; each is once. */
struct checked_packs {
    const char *store; /* its path */
    json_t *damaged;   /* of these an object each; NULL: text */
    struct checked *at;
    size_t n;
};
/* Checks a segment that is a column of `pack`, and prints its result.
 * With the first column of a damaged pack it prints the pack's damage, and sets
 * *of_pack to its status. Returns the segment's own: a damaged page costs the segments
 * that have rows in it, and no others. */
int verify_column(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                  size_t index, struct tamis_filter *pack, const char *path,
                  json_t *list, int *of_pack);
/* Names the packs on which the catalog does not agree: no line of a segment tells of
 * them. */
int verify_unlisted(const struct checked_packs *packs, struct tamis_store *store,
                    struct tamis_snapshot *snapshot);

#endif
