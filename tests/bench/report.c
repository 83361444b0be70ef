/* Figures as they are measured (table.c lists them), and the report: a table in
 * Markdown, a row a figure. */
#include "tests/bench/bench.h"

static unsigned n_wrong;
static char wrongs[16][200]; /* the first ones */

void wrong(const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say("WRONG: %s\n", text);
    if (n_wrong < sizeof wrongs / sizeof wrongs[0])
        memcpy(wrongs[n_wrong], text, sizeof text);
    n_wrong++;
}

static struct figure *figure_of(const char *id)
{
    for (size_t i = 0; i < n_figures; i++)
        if (strcmp(figures[i].id, id) == 0)
            return &figures[i];
    give_up("no figure is called %s", id);
}

void figure_detail(const char *id, const char *format, ...)
{
    struct figure *f = figure_of(id);
    va_list list;
    va_start(list, format);
    vsnprintf(f->detail, sizeof f->detail, format, list);
    va_end(list);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *samples, unsigned n)
{
    double sorted[MOST_ROUNDS];
    memcpy(sorted, samples, n * sizeof *samples);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

static double unit_of(const struct figure *f)
{
    return strcmp(f->unit, "us") == 0 ? 1e3 : strcmp(f->unit, "ms") == 0 ? 1e6 : 1;
}

void figure_set(const char *id, unsigned which, const double *ours, const double *peer,
                unsigned rounds)
{
    struct figure *f = figure_of(id);
    double ratios[MOST_ROUNDS];
    for (unsigned i = 0; i < rounds; i++)
        ratios[i] = ours[i] / peer[i];
    f->ours[which] = median(ours, rounds) / unit_of(f);
    f->peer[which] = median(peer, rounds) / unit_of(f);
    f->ratio[which] = median(ratios, rounds);
    f->n = which + 1;
}

/* ---- the report ---- */

static int decimals(double value)
{
    return fabs(value) < 10 ? 2 : fabs(value) < 1000 ? 1 : 0;
}

/* One value, or two, of absent and of present keys; "-" for want of one. */
static const char *cell(const double *values, unsigned n, const char *unit)
{
    static char cells[4][64];
    static unsigned next;
    char *c = cells[next++ % 4];
    size_t at = 0, n_bytes = sizeof cells[0];
    for (unsigned i = 0; i < n; i++)
        if (isnan(values[i]))
            at += (size_t)snprintf(c + at, n_bytes - at, "%s-", i ? " / " : "");
        else
            at += (size_t)snprintf(c + at, n_bytes - at, "%s%.*f", i ? " / " : "",
                                   decimals(values[i]), values[i]);
    snprintf(c + at, n_bytes - at, "%s%s", *unit ? " " : "", unit);
    return c;
}

static const char *asked_cell(const struct figure *f)
{
    bool asked = false, missed = false;
    for (unsigned i = 0; i < f->n; i++) {
        asked = asked || !isnan(f->asked[i]);
        missed = missed || f->ratio[i] > f->asked[i];
    }
    return asked ? cell(f->asked, f->n, missed ? "**missed**" : "") : "";
}

static void write_row(FILE *out, const struct figure *f)
{
    if (f->n == 0)
        fprintf(out, "| %s | %s | | | | not measured: %s |\n", f->id, f->what,
                *f->detail ? f->detail : "nobody did");
    else
        fprintf(out, "| %s | %s%s%s | %s: %s | %s: %s | %s | %s |\n", f->id, f->what,
                *f->detail ? "; " : "", f->detail, f->ours_is,
                cell(f->ours, f->n, f->unit), f->peer_is, cell(f->peer, f->n, f->unit),
                cell(f->ratio, f->n, ""), asked_cell(f));
}

static const char heading[] =
    "Two values are those of absent and of present keys. A time is the median of the\n"
    "rounds; a ratio, ours to theirs, is the median of each round's. Asked is the "
    "most\n"
    "that a ratio may be.\n\n"
    "| figure | on what | ours | peer or limit | ratio | asked |\n"
    "|---|---|---|---|---|---|\n";

unsigned report_write(void)
{
    unsigned n_missing = 0;
    const char *path = path_in("bench.md");
    FILE *out = fopen(path, "we");
    if (!out)
        give_up("%s cannot be written", path);
    fprintf(out, "# tamis bench, %s form, seed %llu\n\n", bench.sizes.form,
            (unsigned long long)bench.seed);
    machine_write(out);
    fprintf(out, "\n%s", heading);
    for (size_t i = 0; i < n_figures; i++) {
        if (!wanted(figures[i].id))
            continue;
        write_row(out, &figures[i]);
        if (figures[i].n == 0 && !*figures[i].detail) {
            say("not measured: %s\n", figures[i].id);
            n_missing++;
        }
    }
    if (shapes_table)
        fputs(shapes_table, out);
    for (unsigned i = 0; i < n_wrong && i < sizeof wrongs / sizeof wrongs[0]; i++)
        fprintf(out, "\nWRONG: %s\n", wrongs[i]);
    if (strcmp(bench.sizes.form, "full") != 0)
        fprintf(out, "\nWhat is asked is meant for the full form: the filters of this\n"
                     "one are smaller, and in part in a cache.\n");
    if (fclose(out) != 0)
        give_up("%s cannot be written", path);
    return n_wrong + n_missing;
}
