/* Figures as they are measured: found in the table (marks.c), filled in, and compared
 * with their marks. */
#include "tests/bench/figures.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct limit limits[64];
size_t n_limits;
char wrongs[16][200];
static unsigned wrong_count;

static struct figure *find(const char *id)
{
    for (size_t i = 0; i < n_figures; i++)
        if (strcmp(figures[i].id, id) == 0)
            return &figures[i];
    give_up("no figure is called %s", id);
}

void figure(const char *id, double ours, double other, const char *format, ...)
{
    struct figure *f = find(id);
    va_list list;
    va_start(list, format);
    vsnprintf(f->detail, sizeof f->detail, format, list);
    va_end(list);
    f->ours = ours;
    f->other = *f->other_is ? other : NAN;
    f->value = !*f->other_is ? ours : f->bound == LEAST ? other / ours : ours / other;
    f->missing = !isfinite(f->value);
}

void figure_pairs(const char *id, const double *ours, const double *other, unsigned n)
{
    struct figure *f = find(id);
    double ratios[MAX_REPS];
    for (unsigned i = 0; i < n; i++)
        ratios[i] = f->bound == LEAST ? other[i] / ours[i] : ours[i] / other[i];
    f->value = median(ratios, n);
    f->pairs = true;
}

void figure_mark(const char *id, double mark)
{
    find(id)->mark = mark;
}

void figure_without(const char *id, const char *why)
{
    struct figure *f = find(id);
    snprintf(f->detail, sizeof f->detail, "%s", why);
    f->missing = false;
}

bool figure_met(const struct figure *f)
{
    return f->bound == LEAST ? f->value >= f->mark : f->value <= f->mark;
}

unsigned figures_missing(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < n_figures; i++)
        if (figures[i].missing) {
            say("not measured: %s\n", figures[i].id);
            n++;
        }
    return n;
}

void limit(const char *id, double value, const char *unit)
{
    if (n_limits < sizeof limits / sizeof limits[0])
        limits[n_limits++] = (struct limit){id, unit, value};
}

void wrong(const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say("WRONG: %s\n", text);
    if (wrong_count < sizeof wrongs / sizeof wrongs[0])
        memcpy(wrongs[wrong_count], text, sizeof text);
    wrong_count++;
}

unsigned n_wrong(void)
{
    return wrong_count;
}
