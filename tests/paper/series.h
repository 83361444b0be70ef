/* Growing filters as numbers: the stages of a series, and what the paper (Almeida,
 * Baquero, Preguica, Hutchison, *Scalable Bloom Filters*, IPL 101, 2007) says of them.
 *
 * Sizes are keys. `growth` is a size over that of the first stage. Relative space is
 * the bits of all stages that a size needs over those of a static filter of that size
 * and error; its mean over a range is that of sizes whose logarithms are uniform. */
#ifndef TAMIS_TESTS_PAPER_SERIES_H
#define TAMIS_TESTS_PAPER_SERIES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/internals.h"

enum {
    SERIES_MAX = 320,    /* s = 1 to 25,000 keys takes 282 stages */
    LANES_FIRST = 65536, /* keys of our first stage: a page more or less is 4% there */
    PAPER_FIRST_M = 128, /* bits of a slice of the paper's first stage */
};
#define PAPER_ERROR 1e-6

/* The layout of a stage's bits. */
enum layout {
    LAYOUT_SLICES, /* the paper's: whole slices, half full */
    LAYOUT_IDEAL,  /* the same with any real number of slices */
    LAYOUT_LANES,  /* ours, whole pages, as files have it */
};

struct series {
    uint32_t n;
    double total_keys, total_bits;
    double keys[SERIES_MAX], bits[SERIES_MAX]; /* of the first i + 1 stages */
};

uint32_t n_slices(double error);
double formula_bits_per_key(double error);
/* Bits a key of a static filter for `keys`: the paper's formula, or our own plan. */
double static_bits_per_key(enum layout layout, double keys, double error);

/* The stages of a geometric growth that `size` keys need. Whole slices begin with those
 * of growth->first_capacity / ln 2 bits. False: more stages than there may be. */
bool series_grow(enum layout layout, const struct tamis_growth *growth, double size,
                 struct series *out);

uint32_t series_stages(const struct series *s, double size);
double series_bits(const struct series *s, double size);
/* Both over sizes from `from` to `to`; bits against so many a key. */
double series_mean_space(const struct series *s, double from, double to,
                         double bits_per_key);
double series_mean_stages(const struct series *s, double from, double to);

/* For each of n rising growths the r of the range that gives the least mean space up to
 * it. */
struct tightening_range {
    double low, high, step;
};
struct optimum {
    double growth, r, space;
};
void best_tightenings(enum layout layout, struct tamis_growth growth,
                      const struct tightening_range *range, struct optimum *out,
                      size_t n);

/* Ends the program unless the call succeeded. */
void must(int err, const char *what);
/* A CSV file in a directory, with its heading; exits if there is none to be had. */
FILE *csv_create(const char *dir, const char *name, const char *heading);
void csv_close(FILE *f);

int paper_figures(const char *dir);
int paper_defaults(const char *dir);
int paper_measure(const char *dir);
int paper_kinds(const char *dir);
int paper_check(void);

/* A growing filter of ours, measured when each of its stages is just full. */
enum { MEASURED_STAGES = 10, MEASURED_SEEDS = 12 };
struct measured {
    double keys;
    double error, half_width; /* mean over the seeds, and of its 99% interval */
    double planned;           /* of the geometries that the writer chose */
    double bound;             /* the sum of the stages' targets */
};
void measure_growth(const struct tamis_growth *growth,
                    struct measured out[MEASURED_STAGES]);
extern const struct tamis_growth measured_growths[2];

/* The first growths that defaults.c compares; it has more. */
enum growth_choice { GROWTH_DEFAULT, GROWTH_BEFORE, GROWTH_PAPER };
struct growth_mean {
    double bits_per_key, stages;
};
void mean_growth(size_t which, double error, double from, double to,
                 struct growth_mean *out);

#endif
