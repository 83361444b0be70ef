/* Merges of lists, for rooms that choose where the result lies. */
#ifndef TAMIS_LIST_MERGE_H
#define TAMIS_LIST_MERGE_H

#include "lib/list/list.h"
#include "lib/tamis.h"

struct list_target {
    int dir;
    const char *name;
    uint8_t uuid[UUID_BYTES];
    bool sync_dir;
};
/* tamis_list_merge() to a file in an open directory. */
int list_merge(struct tamis_filter *const *lists, size_t n,
               const struct tamis_merge_options *opt, const struct list_target *to,
               struct tamis_merge_report *report, struct list_written *out,
               struct tamis_diag *diag);

#endif
