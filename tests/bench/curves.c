/* Tables for gnuplot: a line of column names, then a row a point. */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct curve {
    FILE *file;
};

struct curve *curve_open(const char *name, const char *columns)
{
    char file[64];
    struct curve *curve = allocate(sizeof *curve);
    snprintf(file, sizeof file, "%s.dat", name);
    curve->file = fopen(path_in(file), "we");
    if (!curve->file)
        give_up("%s cannot be written", path_in(file));
    fprintf(curve->file, "%s\n", columns);
    return curve;
}

void curve_row(struct curve *curve, size_t n, const double *values)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i]))
            fprintf(curve->file, "%s%.9g", i ? " " : "", values[i]);
        else
            fprintf(curve->file, "%s?", i ? " " : "");
    fputc('\n', curve->file);
}

void curve_close(struct curve *curve)
{
    if (fclose(curve->file) != 0)
        give_up("a table for a plot cannot be written");
    free(curve);
}
