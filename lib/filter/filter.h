/* An open filter from inside: shared by filter.c (open, probe) and verify.c (facts,
 * scrub). */
#ifndef TAMIS_FILTER_H
#define TAMIS_FILTER_H

#include "lib/internal.h"

struct view {
    struct mapping map;
    struct view *older;
    uint32_t n_older;
    uint64_t generation, shape; /* of the stage table */
    uint64_t sequence;          /* the record's; read and raised by who refreshes */
    /* Slot A's sequence and checksum, in the mapping; NULL once sealed for good. */
    const uint64_t *live_sequence, *live_checksum;
    /* These follow commits that leave the stage table alone. */
    _Atomic uint64_t raw_sequence, raw_checksum;
    _Atomic bool watch_checksum; /* slot A was not whole */
    _Atomic uint64_t watermark;
    _Atomic uint32_t refusal; /* a reason for every probe, or 0 */
    uint32_t n_stages;
    struct stage stages[];
};

struct tamis_filter {
    struct view *_Atomic view;
    const struct kernel *kernel;
    uint64_t tag;
    uint64_t min_watermark;
    enum tamis_check mode;
    int fd; /* -1 if it was sealed when opened */
    uint64_t offset, limit;
    _Atomic unsigned refreshing; /* 1 + fork epoch of the thread that refreshes */
    struct identity identity;
    char *path; /* for messages */
};

/* The view as of now, after a look at slot A (R6). */
struct view *filter_view(struct tamis_filter *f);

#endif
