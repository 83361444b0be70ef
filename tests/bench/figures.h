/* The figures: marks.c has their table, figures.c fills them, report.c writes them. */
#ifndef TAMIS_TESTS_BENCH_FIGURES_H
#define TAMIS_TESTS_BENCH_FIGURES_H

#include <stdbool.h>
#include <stddef.h>

enum bound {
    MOST,    /* ours / other is at most the mark */
    LEAST,   /* other / ours is at least the mark */
    RECORDED /* no mark: to be compared with another run */
};

struct figure {
    const char *id, *what, *ours_is, *other_is, *unit;
    enum bound bound;
    double mark;
    double ours, other, value; /* NaN until measured */
    char detail[200];          /* sizes, kernel and the like; or why it is missing */
    bool missing;
    bool pairs; /* the value is the median of ratios, not the ratio of medians */
};

extern struct figure figures[];
extern const size_t n_figures;
bool figure_met(const struct figure *f);

struct limit {
    const char *id, *unit;
    double value;
};
extern struct limit limits[];
extern size_t n_limits;

extern char wrongs[16][200]; /* the first of n_wrong() */

#endif
