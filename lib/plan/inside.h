/* Dividing memory over a store's filters: store.c (runs, the public call), fit.c (using
 * the memory up) and shares.c (one filter). */
#ifndef TAMIS_PLAN_INSIDE_H
#define TAMIS_PLAN_INSIDE_H

#include "lib/plan/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ==== store.c: runs, and the public call ==== */

/* For more than FEW segments, plan first with rounded numbers of keys. */
enum { FEW = 4096 };

struct store_plan {
    const struct tamis_plan_segment *segments;
    size_t n;
    uint64_t n_runs;
    double *weights; /* the chance that a lookup meets the segment */
    double *runs;    /* keys of each run; that of an empty segment has one */
    bool uniform;    /* one error for all, and all have a filter or none */
    uint32_t kind;   /* of enum tamis_kind; 0: of each what takes less */
    bool rough;      /* numbers of keys are rounded up */
    struct memo *memos;
};

enum { N_MEMOS = 1 << 15 };

/* An earlier plan: sizes repeat, and a plan takes some 20 microseconds. */
struct memo {
    uint64_t n_keys;
    struct tamis_plan_share share; /* with the error as the other half of the key */
};

/* One way to divide the memory. */
struct division {
    struct tamis_plan_share *shares;
    double scale; /* of the errors: times scale_of() */
    struct tamis_plan_total total;
};

/* ==== fit.c: the memory that there is, used up ==== */

struct limit {
    bool by_reads;
    uint64_t bytes;
    double reads;
};
bool division_fits(const struct division *d, const struct limit *limit);
/* Is hardly anything left over? */
bool division_is_close(const struct division *d, const struct limit *limit);
/* Sets *best to the best division that fits: the least scale for limited memory, the
 * largest for limited reads. Searches from `guess`. *best comes without filters, and
 * stays so if none fit. *trial is scratch space. */
void division_fit(struct store_plan *p, const struct limit *limit, double guess,
                  struct division *best, struct division *trial);
/* Spends leftover bytes where they save most. */
int division_fill(const struct store_plan *p, uint64_t bytes, struct division *d);
/* The reverse, for limited reads: drops filters that save least for their size. */
int division_thin(const struct store_plan *p, double reads, struct division *d);

/* ==== shares.c: one filter of a store, real or ideal ==== */

extern const struct tamis_plan_share no_filter;
/* The keys of the segment's run; 1 if all errors are the same. */
double scale_of(const struct store_plan *p, size_t i);
/* Segment i with a filter of this error, or without if there is no such filter. */
struct tamis_plan_share share_at(const struct store_plan *p, size_t i, double error);
double reads_of(const struct tamis_plan_share *s);
void division_total(const struct store_plan *p, struct division *d);

/* An ideal Bloom filter of error e has -ln e / LN2_SQUARED bits a key. A ribbon comes
 * near to log2(1/e) bits, so a bit of its is worth 1 / ln 2 of a Bloom filter's. */
#define LN2_SQUARED 0.480453013918201424667
double worth_of_bits(const struct store_plan *p);
/* Wasted reads with `bits` bits for runs of these keys, which it sorts. A run's error
 * is *scale times its keys, at most 1. */
double plan_ideal(double *runs, size_t n, double bits, double *scale);
/* The same with one error for all. */
double plan_ideal_uniform(const double *runs, size_t n, double bits);

#endif
