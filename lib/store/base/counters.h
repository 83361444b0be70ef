/* Counters of the probes of a snapshot, and where they are kept.
 *
 * A thread counts in its own sheet of each snapshot, by load, add and store, in lines
 * that no other thread writes: exact without a locked instruction. It takes one of
 * N_OWN_SHEETS numbers of sheets at its first count, and returns it when it ends.
 * Threads without a number share one sheet, by atomic adds. Any thread may read.
 *
 * Counters never decide an answer. */
#ifndef TAMIS_STORE_COUNTS_H
#define TAMIS_STORE_COUNTS_H

#include "lib/store/base/base.h"
#include "lib/page/page.h"

enum { N_REASONS = TAMIS_UNREADABLE + 1 };

/* The counters of one segment, or of none. [TAMIS_NO_REASON]: ABSENTs of single probes;
 * the rest: MAYBEs by reason. */
enum {
    /* Absents of probes of many, minus those in sheet.all, plus sheet.hits; wraps below
     * 0. */
    COUNT_MANY = N_REASONS,
    COUNT_FALSE, /* false positives that were reported */
    N_COUNTS
};
struct count_row {
    _Atomic uint64_t n[N_COUNTS];
};

struct sheet {
    uint8_t before[64]; /* the neighbour's line */
    bool shared;
    _Atomic uint64_t absent;   /* of probes of many, by bits */
    _Atomic uint64_t excluded; /* absent by a key range; no segment's */
    /* One per 64 segments: absents of each of them, added in one step. COUNT_MANY
     * corrects it. */
    _Atomic uint64_t *all;
    /* By ordinal: hits of probes of many segments, for which `all` has an absent too
     * much. Most counts of many segments are such hits: the segments' rows stay
     * untouched, and take no memory. */
    _Atomic uint32_t *hits;
    /* One per 64 segments: may a row of theirs have a count? */
    _Atomic uint8_t *touched;
    struct count_row rows[]; /* by the ordinal of a target: [0] is of no segment */
};

enum { N_OWN_SHEETS = 63, NO_SHEET = 0, SHARED_SHEET = N_OWN_SHEETS + 1 };

struct counters {
    atomic_bool on;
    _Atomic(struct sheet *)
        sheets[N_OWN_SHEETS + 2]; /* by number; [NO_SHEET] stays NULL */
};

/* The sum of sheets for one segment, or of none. */
struct segment_sum {
    uint64_t absent, n[N_REASONS], n_false;
};

/* The counts of a segment's file, across snapshots. */
struct account {
    atomic_size_t refs;
    struct page_counts pages;
    struct segment_sum sum; /* under the ledger's lock */
};
struct account *account_new(struct page_counts *sum); /* NULL: no memory */
void account_release(struct account *t);

/* The counts of a store in this process; snapshots outlive stores. */
struct ledger {
    atomic_size_t refs;
    unsigned fork_epoch; /* forked children leave it alone: its lock may be held */
    pthread_mutex_t lock;
    bool on;
    struct tamis_snapshot *live; /* not released yet */
    struct tamis_stats gone;     /* of released ones */
    struct page_counts pages;
};
struct ledger *ledger_new(void);
void ledger_release(struct ledger *l);
/* Locks its lock. False in a forked child and without a ledger: nothing to share. */
bool ledger_lock(struct ledger *l);

/* ---- counting ---- */

extern _Thread_local unsigned counters_own_sheet
    __attribute__((tls_model("initial-exec")));

struct sheet *sheet_new(size_t n_segments, bool shared); /* NULL: no memory */
/* Adds the counts of n segments, from `first` on, which is a multiple of 64. */
void sheet_fold(struct sheet *to, const struct sheet *from, size_t first, size_t n);
struct sheet *counters_sheet_slowly(struct counters *c, size_t n_segments);
/* Makes the shared sheet; ENOMEM. Then any thread may count. */
int counters_begin(struct counters *c, size_t n_segments);
void counters_free(struct counters *c);

static inline bool counters_on(struct counters *c)
{
    return atomic_load_explicit(&c->on, memory_order_acquire);
}

/* This thread's sheet; NULL before its first count in the snapshot. */
static inline struct sheet *counters_mine(struct counters *c)
{
    return atomic_load_explicit(&c->sheets[counters_own_sheet], memory_order_acquire);
}

static inline struct sheet *counters_sheet(struct counters *c, size_t n_segments)
{
    struct sheet *sheet = counters_mine(c);
    return sheet ? sheet : counters_sheet_slowly(c, n_segments);
}

static inline uint64_t count_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void sheet_add(const struct sheet *sheet, _Atomic uint64_t *counter,
                             uint64_t n)
{
    if (__builtin_expect(sheet->shared, 0))
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    else
        atomic_store_explicit(counter, n + count_read(counter), memory_order_relaxed);
}

/* Which word of `all` and mark of `touched` an ordinal has; ordinal 0 has those of
 * ordinal 1. */
static inline size_t sheet_word(size_t ordinal)
{
    return (ordinal - (ordinal > 0)) / 64;
}

/* The next ordinal, from this one to the last, that may have a count of its own; else
 * one beyond. Rows of a big sheet are many, and most were never touched. */
static inline size_t sheet_next(const struct sheet *sheet, size_t ordinal, size_t last)
{
    while (ordinal <= last &&
           !atomic_load_explicit(&sheet->touched[sheet_word(ordinal)],
                                 memory_order_relaxed) &&
           !count_read(&sheet->all[sheet_word(ordinal)]))
        ordinal = sheet_word(ordinal) * 64 + 65;
    return ordinal;
}

/* The row of an ordinal, to count in. */
static inline struct count_row *sheet_row(struct sheet *sheet, size_t ordinal)
{
    _Atomic uint8_t *touched = &sheet->touched[sheet_word(ordinal)];
    if (__builtin_expect(!atomic_load_explicit(touched, memory_order_relaxed), 0))
        atomic_store_explicit(touched, 1, memory_order_relaxed);
    return &sheet->rows[ordinal];
}

/* A full number begins again at 0, and the row takes over its count. */
static inline void sheet_hit(struct sheet *sheet, size_t ordinal, uint32_t n)
{
    _Atomic uint32_t *hits = &sheet->hits[ordinal];
    uint32_t was = atomic_load_explicit(hits, memory_order_relaxed);
    if (__builtin_expect(sheet->shared, 0))
        was = atomic_fetch_add_explicit(hits, n, memory_order_relaxed);
    else if (n)
        atomic_store_explicit(hits, was + n, memory_order_relaxed);
    if (__builtin_expect(was > UINT32_MAX - n, 0)) {
        sheet_add(sheet, &sheet_row(sheet, ordinal)->n[TAMIS_HIT], UINT64_C(1) << 32);
        sheet_add(sheet, &sheet_row(sheet, ordinal)->n[COUNT_MANY],
                  -(UINT64_C(1) << 32));
    }
}

#endif
