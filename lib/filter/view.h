/* An open filter from inside: shared by filter.c (open, close), view.c (what is
 * mapped), bloom.c (what a kind makes of it), probe.c, explain.c, info.c, verify.c and
 * residency.c. */
#ifndef TAMIS_FILTER_H
#define TAMIS_FILTER_H

#include "lib/filter/filter.h"
#include "format/commit.h"
#include "lib/filter/kind.h"
#include "lib/io/io.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"

struct view {
    struct plane plane; /* the first; here, where the way to it is shortest */
    /* Sealed for good, of one stage, at the filter's watermark: once its pages are all
     * good, a probe is nothing but a look at this plane. */
    bool plain;
    struct mapping map;
    struct view *older;
    uint32_t n_older;
    uint64_t generation, shape; /* of the stage table */
    size_t n_mapped;            /* of this struct, from mmap(); 0: from malloc() */
    /* Slot A's sequence and checksum, in the mapping; NULL once sealed for good. */
    const uint64_t *live_sequence, *live_checksum;
    /* These follow commits that leave the stage table alone. Any thread may write them
     * at any time, so no two of them are believed together unless `seen` binds them. */
    _Atomic uint64_t seen;                /* slot_mark() of the slot and watermark */
    _Atomic uint64_t watermark, sequence; /* the highest that were found good */
    uint32_t n_stages, n_settled;
    struct plane
        *planes; /* kind_bloom's: of the stages, when nothing is left to check */
    struct stage stages[];
};

/* So many threads map one filter anew at a time; the others answer MAYBE meanwhile. */
enum { MAX_MAKERS = 16 };

struct tamis_filter {
    struct view *_Atomic view;
    uint64_t tag;
    /* The kernel's. */
    enum tamis_answer (*answer)(const struct plane *plane, const struct tamis_key *key,
                                enum tamis_reason *why);
    const struct kernel *kernel;
    uint64_t min_watermark;
    struct named *named; /* NULL: it was sealed when opened, or not opened by a name */
    /* Copied from the row of its kind: a probe saves a look there. */
    kind_probe_fn *probe;
    kind_probe_many_fn *probe_many;
    kind_prefetch_fn *prefetch;
    const struct filter_kind *kind;
    enum tamis_check mode;
    int fd; /* -1 if it was sealed when opened */
    uint64_t offset, limit;
    /* Views that a refresh is making, for close() to free what a jump out of a probe
     * has left behind. */
    struct view *_Atomic making[MAX_MAKERS];
    struct page_counts own_counts, *counts; /* `counts` is where they are counted */
    struct identity identity;
    char *path; /* for messages */
};

/* ---- info.c ---- */
/* The header as of now. */
int filter_header(struct tamis_filter *f, struct header *h, struct tamis_diag *diag);

/* ---- view.c ---- */
/* Maps the stages of this header; view_remember_slot() goes with it. Once the filter
 * has a view: ENOMEM, EAGAIN; view_made() is due, and it calls no malloc(). */
int view_create(struct tamis_filter *f, int fd, const struct header *h,
                struct view **out);
/* The view has been published, or is going to be freed. */
void view_made(struct tamis_filter *f, struct view *v);
void view_free(struct view *v);
/* Are its stages those of this record, and has it digests for all that are settled? */
bool view_shows(const struct view *v, const struct commit *c);
/* From here on the view is current as long as slot A is as this header found it. */
void view_remember_slot(struct view *v, const struct header *h);

/* A view's standing, by the look at slot A that chose the view. */
struct standing {
    enum tamis_reason refusal; /* why every probe is MAYBE, or NO_REASON */
    uint64_t watermark;
};
/* The view as of now, a new one if slot A has changed. Waits for no other thread, keeps
 * errno, and is no cancellation point. */
struct view *view_refresh(struct tamis_filter *f, struct standing *now);

/* Both ends of slot A, and the watermark of the record: two that differ in one of the
 * three have different marks, two that differ in more have the same by a chance of
 * 2^-64, for the checksum is a hash. */
static inline uint64_t slot_mark(uint64_t sequence, uint64_t checksum,
                                 uint64_t watermark)
{
    return (sequence * UINT64_C(0x9E3779B97F4A7C15) +
            watermark * UINT64_C(0xD6E8FEB86659FD93)) ^
           checksum;
}

/* Is slot A what it was when the view was last found good? Only then does *now hold. */
static inline bool view_is_current(const struct view *v, struct standing *now)
{
    /* Acquire: the bits are loaded after the watermark that vouches for them. */
    now->watermark = atomic_load_explicit(&v->watermark, memory_order_acquire);
    now->refusal = TAMIS_NO_REASON;
    if (!v->live_sequence)
        return true;
    /* Both ends of the slot: an older first sector may have come back alone. */
    uint64_t sequence = __atomic_load_n(v->live_sequence, __ATOMIC_ACQUIRE);
    uint64_t checksum = __atomic_load_n(v->live_checksum, __ATOMIC_ACQUIRE);
    return slot_mark(sequence, checksum, now->watermark) ==
           atomic_load_explicit(&v->seen, memory_order_acquire);
}

/* The view as of now, after a look at slot A (R6): inline, for every probe takes it. */
static inline struct view *filter_look(struct tamis_filter *f, struct standing *now)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    return view_is_current(v, now) ? v : view_refresh(f, now);
}

/* Has a copy taken the name of the file? Only of a file that a writer may have: `now`
 * is look_clock(), or 0. A reason against every answer of ABSENT, or NO_REASON. */
static inline enum tamis_reason name_reason(const struct tamis_filter *f,
                                            const struct view *v, uint64_t now)
{
    struct named *n = f->named;
    if (!n || !v->live_sequence)
        return TAMIS_NO_REASON;
    if (!now)
        now = look_clock();
    if (look_is_due(&n->looks, now))
        named_look_if_due(n, f->fd, now);
    return looks_known(&n->looks);
}

/* The same, for facts about the stages that are mapped, whatever probes say of them. */
static inline struct view *filter_view(struct tamis_filter *f)
{
    struct standing now;
    return filter_look(f, &now);
}

#endif
