/* Writes what was measured: bench.json for programs, bench.md for people. */
#include "tests/bench/figures.h"
#include "tests/bench/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- JSON ---- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* NULL, true or false: nothing to meet, or nothing measured. */
static json_t *met(const struct figure *f)
{
    if (f->bound == RECORDED || !isfinite(f->value) || !isfinite(f->mark))
        return json_null();
    return json_boolean(figure_met(f));
}

static json_t *json_of_figure(const struct figure *f)
{
    static const char *const bounds[] = {"at most", "at least", "recorded"};
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:b, s:o, s:s, s:o, s:s, s:s, s:s}",
                     "what", f->what, "value", real(f->value), "bound",
                     bounds[f->bound], "mark", real(f->mark), "met", met(f), "pairs",
                     (int)f->pairs, "ours", real(f->ours), "ours_is", f->ours_is,
                     "other", real(f->other), "other_is", f->other_is, "unit", f->unit,
                     "detail", f->detail);
}

static json_t *json_of_sizes(void)
{
    const struct sizes *s = &bench.sizes;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "small",
                     (json_int_t)s->small, "large", (json_int_t)s->large, "probes",
                     (json_int_t)s->probes, "stage_keys", (json_int_t)s->stage_keys,
                     "segments", (json_int_t)s->segments, "segment_keys",
                     (json_int_t)s->segment_keys, "first_max_bytes",
                     (json_int_t)s->first_max, "build", (json_int_t)s->build, "adds",
                     (json_int_t)s->adds, "reps", (int)s->reps);
}

static void write_json(json_t *machine)
{
    json_t *all = json_object(), *figures_ = json_object(), *limits_ = json_object();
    json_t *wrongs_ = json_array();
    for (size_t i = 0; i < n_figures; i++)
        json_object_set_new(figures_, figures[i].id, json_of_figure(&figures[i]));
    for (size_t i = 0; i < n_limits; i++)
        json_object_set_new(limits_, limits[i].id,
                            json_pack("{s:o, s:s}", "value", real(limits[i].value),
                                      "unit", limits[i].unit));
    for (unsigned i = 0; i < n_wrong() && i < sizeof wrongs / sizeof wrongs[0]; i++)
        json_array_append_new(wrongs_, json_string(wrongs[i]));
    json_object_set_new(all, "form", json_string(bench.sizes.form));
    json_object_set_new(all, "seed", json_integer((json_int_t)bench.seed));
    json_object_set(all, "machine", machine);
    json_object_set_new(all, "load", load_notes());
    json_object_set_new(all, "busy", json_boolean(machine_busy()));
    json_object_set_new(all, "sizes", json_of_sizes());
    json_object_set_new(all, "figures", figures_);
    json_object_set_new(all, "limits", limits_);
    json_object_set_new(all, "wrong", wrongs_);
    if (json_dump_file(all, path_in("bench.json"), JSON_INDENT(2)) != 0)
        give_up("%s cannot be written", path_in("bench.json"));
    json_decref(all);
}

/* ---- Markdown ---- */

static const char *cell(double value, const char *unit)
{
    static char cells[4][64];
    static unsigned next;
    char *c = cells[next++ % 4];
    if (!isfinite(value))
        c[0] = 0;
    else
        snprintf(c, sizeof cells[0], "%.*f%s%s",
                 fabs(value) < 10     ? 2
                 : fabs(value) < 1000 ? 1
                                      : 0,
                 value, *unit ? " " : "", unit);
    return c;
}

static const char *verdict(const struct figure *f)
{
    if (!isfinite(f->value))
        return "not measured";
    if (f->bound == RECORDED || !isfinite(f->mark))
        return "recorded";
    return figure_met(f) ? "met" : "**missed**";
}

static void write_row(FILE *out, const struct figure *f)
{
    char mark[64] = "";
    if (f->bound != RECORDED)
        snprintf(mark, sizeof mark, "%s %s", f->bound == MOST ? "at most" : "at least",
                 cell(f->mark, ""));
    fprintf(out, "| %s | %s %s | %s %s | %s | %s | %s | %s |\n", f->what, f->ours_is,
            cell(f->ours, f->unit), f->other_is, cell(f->other, f->unit),
            cell(f->value, ""), mark, verdict(f), f->detail);
}

static void write_machine(FILE *out, json_t *machine)
{
    const char *name;
    json_t *value;
    fprintf(out, "# tamis bench, %s form, seed %llu\n\n", bench.sizes.form,
            (unsigned long long)bench.seed);
    json_object_foreach(machine, name, value)
    {
        if (json_is_string(value))
            fprintf(out, "- %s: %s\n", name, json_string_value(value));
        else
            fprintf(out, "- %s: %lld\n", name, (long long)json_integer_value(value));
    }
    json_t *load = load_notes();
    json_object_foreach(load, name, value)
        fprintf(out, "- load %s: %s\n", name, json_string_value(value));
    json_decref(load);
    if (machine_busy())
        fprintf(out, "\n**Others used the machine: these figures mean little.**\n");
}

static void write_markdown(json_t *machine)
{
    unsigned n_met = 0, n_missed = 0, n_not = 0;
    FILE *out = fopen(path_in("bench.md"), "we");
    if (!out)
        give_up("%s cannot be written", path_in("bench.md"));
    write_machine(out, machine);
    fprintf(out, "\n| figure | ours | limit or peer | ratio | mark | | measured on |\n"
                 "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n_figures; i++) {
        const struct figure *f = &figures[i];
        write_row(out, f);
        if (f->bound == RECORDED)
            continue;
        bool measured = isfinite(f->value);
        n_met += measured && figure_met(f);
        n_missed += measured && !figure_met(f);
        n_not += !measured;
    }
    fprintf(out, "\nMarks: %u met, %u missed, %u not measured.%s\n", n_met, n_missed,
            n_not,
            strcmp(bench.sizes.form, "full") == 0
                ? ""
                : " They are meant for the full form: this one's filters are smaller, "
                  "and in part in a cache.");
    fprintf(out, "A ratio of two that ran pair by pair is the median of their ratios, "
                 "not the ratio of the medians beside it.\n"
                 "\n| the machine | | |\n|---|---|---|\n");
    for (size_t i = 0; i < n_limits; i++)
        fprintf(out, "| %s | %s | %s |\n", limits[i].id, cell(limits[i].value, ""),
                limits[i].unit);
    for (unsigned i = 0; i < n_wrong() && i < sizeof wrongs / sizeof wrongs[0]; i++)
        fprintf(out, "\nWRONG: %s\n", wrongs[i]);
    if (fclose(out) != 0)
        give_up("%s cannot be written", path_in("bench.md"));
}

void report_write(void)
{
    json_t *machine = machine_facts();
    write_json(machine);
    write_markdown(machine);
    json_decref(machine);
}
