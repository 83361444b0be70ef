/* tamis verify: verify.c checks filters, verify_packs.c packs and their columns,
 * verify_lists.c lists. */
#ifndef TAMIS_VERIFY_H
#define TAMIS_VERIFY_H

#include <jansson.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "tamis.h"

/* The packs that were checked; each is once. */
struct checked_packs {
    const char *store; /* its path */
    json_t *damaged;   /* of these an object each; NULL: text */
    struct checked *at;
    size_t n;
};
/* Checks a segment that is a column of `pack` and nothing else, and prints its result.
 * With the first one of a damaged pack it prints what is damaged there, and sets
 * *of_pack to the status of that. Returns the segment's own: a damaged page costs the
 * segments that have rows in it, and no others. */
int verify_column(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                  size_t index, struct tamis_filter *pack, const char *path,
                  json_t *list, int *of_pack);
/* The same for the pack of a segment that has a file of its own, too: prints nothing of
 * the segment. Returns whether all rows of its column are good. */
bool verify_kept(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                 size_t index, int *of_pack);
/* Tells of the last of these packs, which does not answer for segments with files of
 * their own. */
void verify_lost_pack(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                      const struct lost_packs *lost);

/* Checks the list of a segment, if it has one. A good list needs no line, since no
 * answer rests on it. */
int verify_its_list(const struct tamis_snapshot *snapshot, size_t index,
                    struct tamis_name name, const char *store, json_t *lines);
/* Asks a segment's filter for each hash of its list. A segment without a list of whole
 * hashes is refused if it was named, and else left out. */
int against_its_list(struct against *a, const struct tamis_snapshot *snapshot,
                     size_t index, struct tamis_name name, const struct options *o,
                     batch_fn *probe, void *ctx);

#endif
