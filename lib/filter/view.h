/* An open filter from inside: shared by filter.c (open, close), view.c (what is
 * mapped), bloom.c (what a kind makes of it), probe.c, inline.c, info.c,
 * verify.c and residency.c. */
#ifndef TAMIS_FILTER_H
#define TAMIS_FILTER_H

#include "lib/filter/filter.h"
#include "lib/filter/kind.h"
#include "lib/io/io.h"

#include <stdlib.h>

struct ribbons;
struct view {
    struct plane_head head; /* here for the shortest way to it */
    /* Sealed for good, one stage, at the filter's watermark: once all pages are good, a
     * probe reads this plane only. */
    bool plain;
    struct mapping map;
    struct view *older;
    uint32_t n_older;
    uint64_t generation, shape; /* of the stage table */
    size_t n_mapped;            /* of this struct, from mmap(); 0: from malloc() */
    /* Slot A's sequence and checksum, in the mapping; NULL once sealed for good. */
    const uint64_t *live_sequence, *live_checksum;
    /* slot: slot A; zeros once sealed for good. quick: the slot's sum with the epoch
     * (quick.h), noted when a probe with all looks found nothing against the bits of
     * all planes, and the watermark high enough. 0: no probe has. */
    const uint8_t *slot;
    _Atomic uint64_t quick;
    /* kind_bloom's: asks one key of all planes, given the first. */
    enum tamis_answer (*answer)(const struct plane *plane, const struct tamis_key *key,
                                enum tamis_reason *why);
    /* These change with commits that keep the stage table. Any thread may write them at
     * any time, so believe two of them only if `seen` binds them. */
    _Atomic uint64_t seen;                /* slot_mark() of the slot and watermark */
    _Atomic uint64_t watermark, sequence; /* the highest found good */
    uint32_t n_stages;
    struct plane
        *planes;        /* kind_bloom's: of the stages, once nothing is left to check */
    struct band *bands; /* kind_pack's; NULL: the table of bands failed a check */
    uint32_t n_bands, bad_band;
    struct guide *_Atomic guide; /* where names are; NULL: few were sought */
    _Atomic uint32_t n_unguided; /* searches without the guide */
    struct list_map *list;       /* kind_list's */
    struct ribbons *ribbons;     /* kind_ribbon's */
    struct stage stages[];
};

/* The view of which this is the first plane. */
static inline struct view *view_of_plane(const struct plane *plane)
{
    return (struct view *)(uintptr_t)(const void *)plane;
}

static inline enum tamis_answer answer_of(enum tamis_reason reason,
                                          enum tamis_reason *why)
{
    if (why)
        *why = reason;
    return reason == TAMIS_NO_REASON ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* The most threads that map one filter anew at a time. Others answer MAYBE. */
enum { MAX_MAKERS = 16 };

struct unmapped;
struct tamis_filter {
    struct view *_Atomic view;
    uint64_t tag;
    /* The kernel's. */
    kind_answer_fn *answer;
    kind_answer_few_fn *answer_few;
    const struct kernel *kernel;
    uint64_t min_watermark;
    struct named *named; /* NULL: it was sealed when opened, or not opened by a name */
    /* Copied from the row of its kind, to save a load in probes. */
    kind_probe_fn *probe;
    kind_probe_many_fn *probe_many;
    kind_prefetch_fn *prefetch;
    const struct filter_kind *kind;
    enum tamis_check mode;
    int fd;                    /* -1 if it was sealed when opened */
    struct unmapped *unmapped; /* NULL: it is mapped */
    uint64_t offset, limit;
    /* Views that a refresh is making: close() frees those left by a jump out of a
     * probe. */
    struct view *_Atomic making[MAX_MAKERS];
    struct page_counts own_counts, *counts; /* counted in `counts` */
    struct identity identity;
    char *path;         /* for messages */
    atomic_size_t refs; /* the owner's, until it closes, and those of values */
    atomic_bool closed;
    bool kept;          /* its owner closes it by filter_close(); nobody else does */
    atomic_size_t lent; /* so often: each is closed, too */
};

/* The view as it is: that of a filter sealed at birth never changes. */
static inline struct view *view_of(struct tamis_filter *f)
{
    return atomic_load_explicit(&f->view, memory_order_acquire);
}

/* Where a page of a stage is in the filter, and in its file. */
static inline uint64_t stage_page_offset(const struct stage *s, uint64_t nth)
{
    return (uint64_t)(s->bits - s->map->base) + nth * PAGE_BYTES;
}
static inline uint64_t filter_page_offset(const struct tamis_filter *f,
                                          const struct stage *s, uint64_t nth)
{
    return f->offset + stage_page_offset(s, nth);
}

/* This page breaks a rule, and has failed from now on. `from`: where the filter begins
 * in the file. */
static inline void stage_blame(struct stage *s, uint64_t from, uint64_t nth,
                               struct tamis_verify *report)
{
    uint64_t at = from + stage_page_offset(s, nth);
    if (stage_is_bad(s, nth))
        return; /* and counted */
    stage_mark_bad(s, nth);
    if (report->n_damaged++ == 0 || at < report->first_damaged)
        report->first_damaged = at;
}
/* For the check of a kind. */
static inline void verify_blame(struct tamis_filter *f, size_t stage, uint64_t nth,
                                struct tamis_verify *report)
{
    stage_blame(&view_of(f)->stages[stage], f->offset, nth, report);
}

/* ---- filter.c ---- */
/* One more, or one less, who keeps the filter from being freed. */
void filter_hold(struct tamis_filter *f);
void filter_release(struct tamis_filter *f);

/* ---- unmapped.c ---- */
/* From now on its views have no mapping, and pages are read from this file. `at` is
 * open longer than the filter. ENOMEM. */
int unmapped_new(struct tamis_filter *f, const struct commit *c, int at,
                 const char *name);
struct page_reader *unmapped_reader(struct tamis_filter *f);
/* A mapping that maps nothing: all of its pages are read. */
struct mapping mapping_of_reader(struct page_reader *r);
void unmapped_free(struct tamis_filter *f);
/* Around a question: it opens the file of an unmapped filter, and does nothing for
 * others. An error says why the file cannot be asked. Threads may nest them. */
struct question {
    int fd, cancel, saved_errno;
};
int question_begin(struct tamis_filter *f, struct question *r);
void question_end(struct tamis_filter *f, struct question *r);

/* ---- info.c ---- */
/* The header as of now. */
int filter_header(struct tamis_filter *f, struct header *h, struct tamis_diag *diag);

/* ---- view.c ---- */
/* Maps the stages of this header; call view_remember_slot(), too. If the filter has a
 * view already: ENOMEM, EAGAIN; call view_made() then; calls no malloc(). */
int view_create(struct tamis_filter *f, int fd, const struct header *h,
                struct view **out);
/* The view was published, or will be freed. */
void view_made(struct tamis_filter *f, struct view *v);
void view_free(struct view *v);
/* Has it the stages of this record, and digests of all settled ones? */
bool view_shows(const struct view *v, const struct commit *c);
/* From now on the view is current while slot A is as in this header. */
void view_remember_slot(struct view *v, const struct header *h);

/* A view's standing, by the look at slot A that chose the view. */
struct standing {
    enum tamis_reason refusal; /* why every probe is MAYBE, or NO_REASON */
    uint64_t watermark;
};
/* The current view, a new one if slot A has changed. Waits for no thread, keeps errno,
 * is no cancellation point. */
struct view *view_refresh(struct tamis_filter *f, struct standing *now);

/* A mark of both ends of slot A and the record's watermark. If one of the three
 * differs, so does the mark; if more differ, it is the same with chance 2^-64, since
 * the checksum is a hash. */
static inline uint64_t slot_mark(uint64_t sequence, uint64_t checksum,
                                 uint64_t watermark)
{
    return (sequence * UINT64_C(0x9E3779B97F4A7C15) +
            watermark * UINT64_C(0xD6E8FEB86659FD93)) ^
           checksum;
}

static inline uint64_t slot_word(const uint8_t *slot, size_t at)
{
    return __atomic_load_n((const uint64_t *)(const void *)(slot + at),
                           __ATOMIC_ACQUIRE);
}

/* A probe compares these in one: both ends of slot A, the epoch, the keys' domain. If
 * one of them is another, so is the sum; if several are, it is the same with chance
 * 2^-64, as in slot_mark(). */
enum {
    SLOT_SEQUENCE_AT = offsetof(struct commit_disk, sequence),
    SLOT_CHECKSUM_AT = SLOT_BYTES - 8,
};
static inline uint64_t quick_sum(const uint8_t *slot, uint64_t epoch, uint64_t tag)
{
    return slot_word(slot, SLOT_SEQUENCE_AT) + slot_word(slot, SLOT_CHECKSUM_AT) +
           epoch + tag;
}

static inline bool view_was_offered(const struct view *v, uint64_t tag)
{
    return quick_sum(v->slot, quick_now(), tag) ==
           atomic_load_explicit(&v->quick, memory_order_acquire);
}

/* Do the bits of the view's planes decide for keys of this tag, as long as no more than
 * the filter's own watermark is required? False also when it is time for quick_tick():
 * call that, then view_was_offered(). Without a call, so that it saves no registers. */
static inline bool view_is_quick(const struct view *v, uint64_t tag)
{
    return __builtin_expect(--quick_left >= 0, 1) && view_was_offered(v, tag);
}

/* Call it when all looks, begun after `epoch` was read by quick_now(), found nothing
 * against the view: it may be quick from now on. */
void view_offer(struct tamis_filter *f, struct view *v, uint64_t epoch);

/* Is slot A as it was when the view was last found good? Only then *now holds. */
static inline bool view_is_current(const struct view *v, struct standing *now)
{
    /* Acquire: the bits are loaded after the watermark that vouches for them. */
    now->watermark = atomic_load_explicit(&v->watermark, memory_order_acquire);
    now->refusal = TAMIS_NO_REASON;
    if (!v->live_sequence)
        return true;
    /* Both ends: an older first sector may have come back alone. */
    uint64_t sequence = __atomic_load_n(v->live_sequence, __ATOMIC_ACQUIRE);
    uint64_t checksum = __atomic_load_n(v->live_checksum, __ATOMIC_ACQUIRE);
    return slot_mark(sequence, checksum, now->watermark) ==
           atomic_load_explicit(&v->seen, memory_order_acquire);
}

/* The current view, after a look at slot A (R6). Inline: every probe calls it. */
static inline struct view *filter_look(struct tamis_filter *f, struct standing *now)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    return view_is_current(v, now) ? v : view_refresh(f, now);
}

/* Has a copy taken the file's name? Asked while a writer may have the file. `now` is
 * look_clock(), or 0. A reason against ABSENT, or NO_REASON. */
static inline enum tamis_reason name_reason(const struct tamis_filter *f,
                                            const struct view *v, uint64_t now)
{
    struct named *n = f->named;
    if (!n || !v->live_sequence)
        return TAMIS_NO_REASON;
    if (!now)
        now = look_clock();
    enum tamis_reason before = looks_known(&n->looks), known = before;
    if (look_is_due(&n->looks, now)) {
        named_look_if_due(n, f->fd, now);
        known = looks_known(&n->looks);
    }
    if (known != before && known != TAMIS_NO_REASON)
        quick_end(); /* other threads have it from the next probe on, too */
    return known;
}

/* The current view, for facts about mapped stages; probes may be refused. */
static inline struct view *filter_view(struct tamis_filter *f)
{
    struct standing now;
    return filter_look(f, &now);
}

#endif
