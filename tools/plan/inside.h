/* The filters of a store, planned. One banner per source file. */
#ifndef TAMIS_PLAN_INSIDE_H
#define TAMIS_PLAN_INSIDE_H

#include "../output/output.h"
#include "plan.h"

/* ==== list.c: the segments, and which of them are a run ========================== */

struct planned {
    char *name; /* escaped; NULL: a list gave none */
    uint64_t keys;
    uint32_t rank;
    bool has_rank;
    /* Only for a segment of a store: */
    char *word;   /* the name, for a command */
    size_t index; /* in the snapshot */
    enum tamis_segment_state state;
    const uint8_t *first_key, *last_key;
    size_t first_key_bytes, last_key_bytes;
    uint64_t bytes_now, length_now; /* allocated for its file; the file's length */
    double error_now;               /* expected; 1: it does not open */
    double error_folded;            /* the least after a fold; 1: no fold is possible */
    struct tamis_stage_info only;   /* its stage; zero for several or none */
    bool is_ribbon;
    char *unread; /* why it does not open; NULL: it opens */
};
struct store_plan {
    struct planned *segments;
    size_t n;
    uint64_t *keys; /* with --pack: of each segment, and nothing else of it */
    size_t n_keys;
    uint64_t n_bare;   /* without a filter: their keys are unknown */
    uint64_t n_packed; /* left out: columns, which have no file to divide */
    uint64_t n_unread; /* with a filter that does not open */
    int unread_status; /* of the first of them */
    struct tamis_plan_segment *sizes; /* as the segments */
    struct tamis_plan_share *shares;
    struct tamis_plan_summary summary;
    struct tamis_plan_summary bloom, smaller; /* the same by kinds: both are shown */
    uint64_t bytes_now, length_now;           /* of all, as above */
    bool is_tight; /* no room for filters that stay a little larger than planned */
    double reads_now;
};
/* Reads --sizes, or the STORE, which it opens. Reports failures, returns the status. */
int plan_read(const struct options *o, struct tamis_store **store,
              struct tamis_snapshot **snapshot, struct store_plan *p);
void plan_free(struct store_plan *p);

/* ==== apply.c: what a filter needs; and what needs no keys, done ================== */

/* The planned action for a segment's filter. */
enum plan_action {
    PLAN_KEEP,    /* it is as planned, as far as folding goes */
    PLAN_SHRINK,  /* it has memory to give back */
    PLAN_REBUILD, /* it needs its keys: for less error, or a size no fold has */
    PLAN_REMOVE,  /* its memory is worth more elsewhere */
    PLAN_SEAL,    /* it still grows */
    PLAN_UNREAD   /* unknown: it does not open */
};
enum plan_action plan_action(const struct store_plan *p, size_t i);
/* Is a file larger than planned for segment i? A 64th more counts as none, unless
 * p->is_tight. */
bool plan_is_larger(const struct store_plan *p, uint64_t n_bytes, size_t i);
/* Has it a filter in the plan, and is that a ribbon? */
static inline bool plan_is_ribbon(const struct tamis_plan_share *to)
{
    return to->plan.file_bytes > 0 && to->plan.lanes == 0;
}
const char *plan_action_name(enum plan_action action); /* "rebuild" */
int plan_apply(struct tamis_store *store, struct tamis_snapshot *snapshot,
               const struct options *o, const struct store_plan *p);

/* ==== picture.c: errors by size ================================================== */

int plan_picture(const struct options *o, const struct store_plan *p);

#endif
