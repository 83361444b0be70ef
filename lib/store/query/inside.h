/* A query on its way: up to 64 keys at a time, on slices of up to 64 targets that lie
 * anywhere, and on windows of columns that lie side by side. */
#ifndef TAMIS_STORE_QUERY_INSIDE_H
#define TAMIS_STORE_QUERY_INSIDE_H

#include "lib/store/query/query.h"
#include "lib/filter/pack.h"
#include "lib/kernel/kernel.h"

enum { WORD = 64 }; /* keys at a time, and targets of a slice: a bit each */

struct asking {
    struct query *q;
    struct tamis_snapshot *snapshot;
    struct sheet *sheet; /* NULL: nothing is counted */
    uint64_t now;        /* origin_clock() before these keys; 0: of no store */
    size_t n_words;      /* of a row of answers */
    bool each_hit;       /* somebody is told of each segment that may have the key */
    bool proven;         /* the list, or what is asked of it, proves something */
    /* The keys at hand, a bit each in masks. */
    const struct tamis_key *keys; /* NULL: the caller has none */
    size_t n;
    uint64_t *rows; /* of these keys; NULL: none */
    uint64_t all;
    uint64_t plain;  /* of the snapshot's domain, while the store is the same */
    uint64_t ranged; /* of the plain ones, those that a key range may exclude */
    uint64_t some;   /* those that a segment may have */
    uint64_t hash[WORD], prefix[WORD];
};

static inline const struct tamis_key *asked_key(const struct asking *a, size_t i)
{
    return a->keys ? &a->keys[i] : NULL;
}

static inline uint64_t first_bits(size_t n)
{
    return n < WORD ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

static inline size_t n_bits(uint64_t mask)
{
    return (size_t)__builtin_popcountll(mask);
}

/* ==== target.c: one segment, with care ==== */

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

/* Up to 64 targets. Each of them is put into one class, once: ready ones and those of
 * shared files are asked by their bits, careful ones one by one. A target that is
 * refused is a careful one, whose reason needs no filter. */
struct slice {
    size_t at;                          /* place of the first in rows of answers */
    const struct tamis_target *targets; /* NULL: their numbers follow each other, */
    size_t first;                       /* from this one on */
    uint64_t epoch;                     /* stage_epoch() before they were classed */
    uint64_t asked, ready, shared, careful;
    uint64_t ranges; /* whose range counts, if it is there */
    bool more;       /* as many planes lie behind, ready, too */
    const struct plane *planes;
    const void *range_first, *range_last; /* prefixes of the ends of ranges */
    /* Of targets whose numbers do not follow each other: gathered. */
    struct plane gathered[WORD];
    uint64_t first_ends[WORD], last_ends[WORD];
};

static inline size_t slice_number(const struct slice *t, size_t i)
{
    return t->targets ? t->targets[i].slot - 1U : t->first + i;
}

/* Asks n targets, at most 64, from this place on. */
void ask_slice(struct asking *a, size_t at, size_t n);
/* The same of loose ones against which nothing speaks, and whose numbers follow each
 * other from `first` on. */
void ask_dense(struct asking *a, size_t at, size_t n, size_t first);

/* ==== stripes.c: columns of packs ==== */

/* All columns of all packs, and what is to be said of numbers without an answer. */
void ask_all_columns(struct asking *a);
/* n targets from a place on, against which nothing speaks, and whose numbers follow
 * each other from `first` on. */
void ask_columns(struct asking *a, size_t at, size_t first, size_t n);
/* The stripe that may answer for a number; NULL: none. */
const struct stripe *stripe_of_number(const struct tamis_snapshot *s, size_t number);
/* Asks those targets of a slice that share files. Adds to a word for each key those
 * that are absent, and those that were asked by bits. */
void ask_shared(struct asking *a, const struct slice *t, uint64_t *absent,
                uint64_t *by_bits);

/* ==== answers.c: answers are delivered and counted ==== */

/* Key i, whose answers about a slice are whole: those that are absent, and which of
 * these answers ranges or bits gave. */
void deliver(struct asking *a, size_t i, const struct slice *t, uint64_t absent,
             uint64_t by_range, uint64_t by_bits);
/* The same of up to 64 columns, bit 0 of which has this place and number. Hits were
 * looked at one by one: `late` ones are absent, and `sure` ones are to be counted. */
void deliver_columns(struct asking *a, size_t i, ptrdiff_t at, size_t number,
                     uint64_t absent, uint64_t late, uint64_t sure);
/* One target that was asked with care for keys of a mask. */
void deliver_alone(struct asking *a, size_t at, uint64_t mask, uint64_t absent);
/* One more segment that may have the key. */
void add_candidate(struct query *q, size_t number);
/* In the order of their ranks. */
void sort_candidates(struct query *q);

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
