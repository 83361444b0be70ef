/* tamis file estimate: how many keys a filter has, and its error, from its bits. */
#include "file.h"

enum { PROBES = 1000000 };

struct facts_of_bits {
    struct tamis_estimate now;
    struct tamis_interval measured;
};

static void print_json_of(const char *name, const struct facts_of_bits *f)
{
    json_print(json_of("file", json_escaped(name, strlen(name)), "keys",
                       interval_json(&f->now.keys), "error", json_number(f->now.error),
                       "measured", interval_json(&f->measured), "probes",
                       json_count(PROBES), "damaged", json_count(f->now.n_damaged)));
}

static void print_text_of(const struct facts_of_bits *f)
{
    printf("keys: %.0f, %.0f to %.0f\n", f->now.keys.value, f->now.keys.low,
           f->now.keys.high);
    printf("error now: %s\n", PERCENT(f->now.error));
    printf("measured: %s, %s to %s\n", PERCENT(f->measured.value),
           PERCENT(f->measured.low), PERCENT(f->measured.high));
}

static int tell_damage(const char *file, uint64_t n_damaged)
{
    return complain(EXIT_DAMAGE,
                    "%s: %s counted as all ones: build it anew from its keys",
                    PATH(file), COUNTED(n_damaged, "damaged page"));
}

static int run(int argc, char **argv)
{
    struct facts_of_bits facts;
    struct tamis_diag diag = {0};
    struct tamis_filter *filter;
    struct options o;
    parse_options(argc, argv, 1, 1, &o);
    int status = file_open(&o, &filter);
    if (status != EXIT_DONE)
        return status;
    int err = tamis_filter_estimate(filter, &facts.now, &diag);
    if (err == 0)
        err = tamis_filter_measure(filter, PROBES, o.seed, &facts.measured);
    if (err != 0)
        status = complain_error(err, &diag, o.args[0], NULL);
    else if (given(&o, OPT_JSON))
        print_json_of(o.args[0], &facts);
    else
        print_text_of(&facts);
    if (err == 0 && facts.now.n_damaged > 0)
        status = tell_damage(o.args[0], facts.now.n_damaged);
    tamis_filter_close(filter);
    return status;
}

const struct command cmd_file_estimate = {
    .name = "file estimate",
    .arguments = "FILE [--seed HEX] [--offset N] [--json]",
    .summary = "estimate keys and error from the bits",
    .about = "Reads every page and estimates the number of distinct keys, the error "
             "from the fill of each block, and the error as measured with 1000000 "
             "random keys. Estimate and measurement have bounds that hold 19 times in "
             "20. Damaged pages are left out of the keys, and "
             "count as all ones for the error.\n"
             "\n"
             "The bounds hold for one stage built from keys, or a union or fold of "
             "such. With several stages, a key counts in each that has it. A union of "
             "filters of several sizes counts shared keys several times, and its error "
             "looks higher. A filter that grew lacks keys that it took for present. An "
             "intersection has bits of no key, so the estimate is too high.\n",
    .options = {OPTION(SEED, "other random keys, 16 hex digits; default: 0"),
                OPTION(OFFSET, NULL), OPTION(JSON, NULL)},
    .examples = "tamis file estimate words.tamis\n",
    .run = run,
};
