/* The closed form of Monkey (Dayan, Athanassoulis, Idreos, SIGMOD 2017, section 4):
 * what ideal filters of a given sum of bits can do for the reads of absent keys,
 * filters of any size, with no header.
 *
 * n keys at the error e take -n ln e / ln^2 2 bits. Over runs of N_j keys the sum of
 * errors is least where each is scale * N_j: then a bit more saves the same anywhere.
 * Where that would be 1 and more the run has no filter, and its bits go to the others;
 * those are the largest runs. */
#include "lib/internal.h"

#include <math.h>
#include <stdlib.h>

static int smaller_first(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The scale at which the smallest runs, as many as have a filter, take these bits;
 * infinite if none has one. */
static double ideal_scale(double *runs, size_t n, double bits)
{
    double keys = 0, weighted = 0; /* sums of N and of N ln N */
    double scale = INFINITY;
    qsort(runs, n, sizeof *runs, smaller_first);
    for (size_t i = 0; i < n; i++) {
        if (runs[i] <= 0)
            continue;
        keys += runs[i];
        weighted += runs[i] * log(runs[i]);
        double log_scale = -(bits * LN2_SQUARED + weighted) / keys;
        if (log_scale + log(runs[i]) <= 0)
            scale = exp(log_scale);
    }
    return scale;
}

double plan_ideal(double *runs, size_t n, double bits, double *scale)
{
    double sum = 0;
    *scale = ideal_scale(runs, n, bits);
    for (size_t i = 0; i < n; i++)
        sum += isinf(*scale) ? 1 : fmin(1, *scale * runs[i]);
    return sum;
}

double plan_ideal_uniform(const double *runs, size_t n, double bits)
{
    double keys = 0;
    for (size_t i = 0; i < n; i++)
        keys += runs[i];
    return keys > 0 ? (double)n * exp(-bits * LN2_SQUARED / keys) : (double)n;
}
