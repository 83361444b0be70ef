/* An open filter from inside: shared by filter.c (open, close), view.c (what is
 * mapped), probe.c and verify.c (facts, scrub). */
#ifndef TAMIS_FILTER_H
#define TAMIS_FILTER_H

#include "lib/internal.h"

struct view {
    struct plane plane; /* the first; here, where the way to it is shortest */
    /* Sealed for good, of one stage, at the filter's watermark: once its pages are all
     * good, a probe is nothing but a look at this plane. */
    bool plain;
    struct mapping map;
    struct view *older;
    uint32_t n_older;
    uint64_t generation, shape; /* of the stage table */
    uint64_t sequence;          /* the record's; read and raised by who refreshes */
    /* Slot A's sequence and checksum, in the mapping; NULL once sealed for good. */
    const uint64_t *live_sequence, *live_checksum;
    /* These follow commits that leave the stage table alone. */
    _Atomic uint64_t raw_sequence, raw_checksum;
    _Atomic uint64_t watermark;
    _Atomic uint32_t refusal; /* a reason for every probe, or 0 */
    uint32_t n_stages, n_settled;
    struct plane *planes; /* of the stages, for when nothing is left to check */
    struct stage stages[];
};

struct tamis_filter {
    struct view *_Atomic view;
    uint64_t tag;
    /* The kernel's. */
    enum tamis_answer (*answer)(const struct plane *plane, const struct tamis_key *key,
                                enum tamis_reason *why);
    const struct kernel *kernel;
    uint64_t min_watermark;
    enum tamis_check mode;
    int fd; /* -1 if it was sealed when opened */
    uint64_t offset, limit;
    _Atomic unsigned refreshing; /* 1 + fork epoch of the thread that refreshes */
    struct page_counts own_counts, *counts; /* `counts` is where they are counted */
    struct identity identity;
    char *path; /* for messages */
};

/* ---- verify.c ---- */
/* The header as of now. */
int filter_header(struct tamis_filter *f, struct header *h, struct tamis_diag *diag);

/* ---- view.c ---- */
/* Maps the stages of this header; view_remember_slot() goes with it. */
int view_create(const struct tamis_filter *f, int fd, const struct header *h,
                struct view **out);
void view_free(struct view *v);
/* Are its stages those of this record, and has it digests for all that are settled? */
bool view_shows(const struct view *v, const struct commit *c);
/* From here on the view is current as long as slot A is as this header found it. */
void view_remember_slot(struct view *v, const struct header *h);
/* The view as of now, a new one if slot A has changed. */
struct view *view_refresh(struct tamis_filter *f);

static inline bool view_is_current(const struct view *v)
{
    if (!v->live_sequence)
        return true;
    if (__atomic_load_n(v->live_sequence, __ATOMIC_ACQUIRE) !=
        atomic_load_explicit(&v->raw_sequence, memory_order_acquire))
        return false;
    /* Both ends of the slot: an older first sector may have come back alone. */
    return __atomic_load_n(v->live_checksum, __ATOMIC_ACQUIRE) ==
           atomic_load_explicit(&v->raw_checksum, memory_order_acquire);
}

/* The view as of now, after a look at slot A (R6): inline, for every probe takes it. */
static inline struct view *filter_view(struct tamis_filter *f)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    return view_is_current(v) ? v : view_refresh(f);
}

#endif
