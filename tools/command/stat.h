/* tamis stat: stat.c shows a store and its segments, stat_totals.c adds them up. */
#ifndef TAMIS_STAT_H
#define TAMIS_STAT_H

#include <jansson.h>

#include "../open/open.h"

/* free() the list of lost packs. */
struct totals {
    uint64_t n[4]; /* by state */
    uint64_t keys, bytes, allocated, catalog_file, over_target, unreadable, lost;
    uint64_t n_packs, n_packed, n_dead, pack_bytes;
    uint64_t unusable_lists;
    uint64_t files, unmapped; /* filters that open; those beyond what a process maps */
    uint64_t lost_packs, unread_packs; /* unread: by an error, they may be whole */
    bool moved;                        /* a segment is not where it was */
    int status; /* of files that do not open; damage ranks before I/O errors */
};

/* Adds the named segments, or all; in a newer snapshot if one has moved. */
int add_segments(struct totals *t, struct tamis_store *store,
                 struct tamis_snapshot **snapshot, const char *path, char *const *names,
                 size_t n_names);
void add_packs(struct totals *t, struct tamis_snapshot *snapshot, const char *path);
json_t *totals_json(const struct totals *t, const struct tamis_store_info *info,
                    const char *path);
void print_totals_text(const struct totals *t, const struct tamis_store_info *info,
                       const char *path);
/* Says how many filters, packs and lists do not open. Returns the status. */
int complain_totals(const struct totals *t, const char *path);

#endif
