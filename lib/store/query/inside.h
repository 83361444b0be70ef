/* A query on its way: up to 64 keys at a time, on slices of up to 64 targets that lie
 * anywhere, and on windows of columns that lie side by side. */
#ifndef TAMIS_STORE_QUERY_INSIDE_H
#define TAMIS_STORE_QUERY_INSIDE_H

#include "lib/store/snapshot/snapshot.h"

enum { WORD = 64 }; /* keys at a time, and targets of a slice: a bit each */

struct asking {
    const struct tamis_query *q; /* of so many keys; no targets: all */
    struct tamis_snapshot *snapshot;
    size_t n_targets;     /* or numbers */
    struct sheet *sheet;  /* NULL: nothing is counted */
    uint64_t now;         /* origin_clock() for these keys; 0: not asked yet */
    size_t n_words;       /* of a row of answers */
    bool each_hit;        /* somebody is told of each segment that may have the key */
    size_t *n_candidates; /* so far, of each key; if somebody is told of them */
    uint8_t *reasons;     /* of all targets; NULL: nobody asks */
    uint8_t why[WORD];    /* of targets that were asked with care, by place % WORD */
    /* The keys at hand, a bit each in masks. */
    const struct tamis_key *keys;
    size_t n;
    uint64_t *rows; /* of these keys; NULL: none */
    uint64_t all;
    uint64_t plain;     /* of the snapshot's domain, while the store is the same */
    uint64_t ranged;    /* of the plain ones, those that a key range may exclude */
    uint64_t some;      /* those that a segment may have */
    uint64_t by_number; /* those whose candidates come in the order of numbers */
    const uint64_t *hash, *prefix;
    const uint64_t *listed; /* a bit for each number that is asked; NULL: all are */
    size_t listed_from;     /* the number of the first bit, modulo 2^64 */
};

static inline uint64_t first_bits(size_t n)
{
    return n < WORD ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* Does nobody ask which segments may have a key, but only whether any may? */
static inline bool asks_any(const struct asking *a)
{
    return !a->rows && !a->sheet && !a->each_hit;
}

/* Is all told that anybody asks for? */
static inline bool is_told(const struct asking *a)
{
    return a->some == a->all && asks_any(a);
}

/* The bits of 64 numbers from this one on: those that are asked. */
static inline uint64_t listed_word(const struct asking *a, size_t number)
{
    size_t at = (number - a->listed_from) / WORD, shift = number % WORD;
    uint64_t bits = a->listed[at] >> shift;
    return shift ? bits | a->listed[at + 1] << (WORD - shift) : bits;
}

static inline size_t n_bits(uint64_t mask)
{
    return (size_t)__builtin_popcountll(mask);
}

/* ==== target.c: one segment, with care ==== */

/* Looks at the store, if that is due: the snapshot may be quick from now on. Returns
 * the clock, for filters looked at next; 0 without a store. */
uint64_t look_at_store(struct tamis_snapshot *s);

/* Is the snapshot quick? Reads the time, and looks at the store, if that is due.
 * `clock`: quick_clock(), to be compared again when bits were read. */
bool quick_after_look(struct tamis_snapshot *s, uint64_t clock);

/* Is there nothing to be asked about n keys of the snapshot's domain but planes that
 * are ready, and rows? */
static inline bool snapshot_is_quick(struct tamis_snapshot *s, size_t n)
{
    uint64_t clock = quick_clock();
    quick_left -= (int)n;
    return __builtin_expect(quick_left >= 0 &&
                                atomic_load_explicit(&s->quick, memory_order_acquire) ==
                                    clock,
                            1) ||
           quick_after_look(s, clock);
}

/* The reason that refuses a target before any file is opened. */
enum tamis_reason target_reason(const struct tamis_snapshot *s,
                                const struct tamis_target *t, uint64_t tag);
/* `now`: origin_clock(). TAMIS_NO_REASON: absent; *by_range (false before): by a key
 * range. */
enum tamis_reason probe_target(struct tamis_snapshot *s, const struct tamis_target *t,
                               uint64_t now, const struct tamis_key *key,
                               bool *by_range);
/* Asks the keys of a mask. Returns which are absent. `at`: the target's place in the
 * row of answers. Tells reasons, and counts. */
uint64_t ask_with_care(struct asking *a, const struct tamis_target *t, size_t at,
                       uint64_t mask);
/* Brings what a probe of a target reads first. */
void prefetch_target(const struct tamis_snapshot *s, const struct tamis_target *t,
                     uint64_t h);

/* ==== slices.c: targets that lie anywhere ==== */

/* Up to 64 targets. Each of them is put into one class, once: ready ones are asked by
 * their bits, careful ones one by one. A target that is refused is a careful one, whose
 * reason needs no filter. */
struct slice {
    size_t at, n;                       /* place of the first in rows of answers */
    const struct tamis_target *targets; /* NULL: their numbers follow each other, */
    size_t first;                       /* from this one on */
    uint64_t epoch;                     /* stage_epoch() before they were classed */
    uint64_t asked, ready, careful;
    uint64_t filled; /* where planes are: those of ready ones, or in between */
    uint64_t ranges; /* whose range counts, if it is there */
    unsigned how;    /* TILE_NEXT, TILE_FAR */
    const struct plane *planes;
    const void *range_first, *range_last; /* prefixes of the ends of ranges */
    /* Copies, for targets whose numbers do not follow each other. */
    struct plane gathered[WORD];
    uint64_t first_ends[WORD], last_ends[WORD];
};

static inline size_t slice_number(const struct slice *t, size_t i)
{
    return t->targets ? t->targets[i].ordinal - 1U : t->first + i;
}

/* Is nothing asked of it but its bits, and its number in begin .. end - 1? */
static inline bool plain_between(const struct tamis_snapshot *s,
                                 const struct tamis_target *t, size_t begin, size_t end)
{
    return !((t->snapshot ^ s->serial) | t->min_watermark | t->refusal) &
           (t->ordinal - 1U - begin < end - begin);
}

void slice_begin(struct slice *t, const struct asking *a, size_t at, size_t n);
/* Asks n targets, at most 64, from this place on, but for some of them. */
void ask_slice(struct asking *a, size_t at, size_t n, uint64_t but);
/* The same of loose ones against which nothing speaks, and whose numbers follow each
 * other from `first` on. */
void ask_dense(struct asking *a, size_t at, size_t n, size_t first);

/* ==== stripes.c: segments that share files ==== */

/* Asks n numbers from `first` on: loose ones against which nothing speaks, and columns.
 * Their answers begin at place `at`. Answers that no row gives stay as they are. */
void ask_numbers(struct asking *a, size_t at, size_t first, size_t n);
/* The same of columns. */
void ask_columns(struct asking *a, size_t at, size_t first, size_t n);
/* Asks the columns among n targets, at most 64, but for some of them. Returns which of
 * them were asked. */
uint64_t ask_columns_apart(struct asking *a, size_t at, size_t n, uint64_t but);
/* If all segments are asked: reports the columns that no row answers for as MAYBE. */
void tell_of_mute_columns(struct asking *a);
/* How many of these numbers, one after the other, are loose, or answered for by rows,
 * or not asked? */
size_t numbers_alive(const struct asking *a, size_t first, size_t n);
/* The first stripe that ends behind a number. */
size_t stripes_before(const struct shared_files *p, size_t number);

/* ==== scattered.c: targets in no order ==== */

/* Where do n targets lie among n_numbers numbers from `first` on? False: some do not,
 * or something else is to be asked about them. */
static inline bool places_among(const struct tamis_snapshot *s,
                                const struct tamis_target *t, size_t n, size_t first,
                                size_t n_numbers, uint32_t *place)
{
    uint64_t odd = 0;
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t number = t[i].ordinal - 1U - first;
        odd |= (t[i].snapshot ^ s->serial) | t[i].min_watermark | t[i].refusal;
        most = number > most ? number : most;
        place[i] = (uint32_t)number;
    }
    return !odd && most < n_numbers;
}

/* The bits of a row at n places, at most 64. */
static inline uint64_t look_up(const uint64_t *row, const uint32_t *place, size_t n)
{
    uint64_t bits = 0;
    while (n-- > 0)
        bits = bits * 2 + (row[place[n] / WORD] >> place[n] % WORD & 1);
    return bits;
}

/* n targets from a place on, which lie anywhere: columns, loose ones, or both together,
 * and others as slices. False: nothing was asked, each is better asked by itself. */
bool look_up_targets(struct asking *a, size_t at, size_t n);

/* ==== answers.c: answers are delivered and counted ==== */

/* Delivers the answers about a slice for key i: the absent ones, and the ones that
 * ranges or bits gave. */
void deliver(struct asking *a, size_t i, const struct slice *t, uint64_t absent,
             uint64_t by_range, uint64_t by_bits);
/* The same of up to 64 columns, bit 0 of which has this place and number. Hits were
 * looked at one by one: `late` ones are absent, and `sure` ones are to be counted. */
void deliver_columns(struct asking *a, size_t i, ptrdiff_t at, size_t number,
                     uint64_t absent, uint64_t late, uint64_t sure);
/* One more segment that may have key i. */
void add_candidate(struct asking *a, size_t i, size_t number, enum tamis_reason why);
/* In the order of their ranks, each with its reason. */
void finish_candidates(const struct asking *a);

/* Sets bits of a row from a place on. Bits before the row are not set. */
static inline void put_bits(uint64_t *row, ptrdiff_t at, uint64_t bits)
{
    if (at < 0) {
        bits >>= -at;
        at = 0;
    }
    size_t word = (size_t)at / WORD, shift = (size_t)at % WORD;
    if (bits << shift)
        row[word] |= bits << shift;
    if (shift && bits >> (WORD - shift)) /* else there may be no next word */
        row[word + 1] |= bits >> (WORD - shift);
}

/* Counted if counters_on(): n keys, one segment, of the snapshot or not, one answer. */
void count_alike(struct tamis_snapshot *s, const struct tamis_target *t,
                 enum tamis_reason reason, size_t n);
void count_excluded(struct tamis_snapshot *s, uint64_t mask);
static inline void count_one(struct tamis_snapshot *s, const struct tamis_target *t,
                             enum tamis_reason reason, bool by_range)
{
    if (by_range)
        count_excluded(s, 1);
    else
        count_alike(s, t, reason, 1);
}

#endif
