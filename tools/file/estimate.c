/* tamis file estimate: how many keys a filter has, and its error, from its bits. */
#include "file.h"

enum { PROBES = 1000000 };

static void print(const struct options *o, const struct tamis_estimate *now)
{
    const struct tamis_interval *measured = &now->measured;
    const char *name = o->args[0];
    if (given(o, OPT_JSON)) {
        json_print(json_of("file", json_text(name), "keys", interval_json(&now->keys),
                           "error", json_number(now->error), "measured",
                           interval_json(measured), "probes", json_count(PROBES),
                           "damaged", json_count(now->n_damaged)));
        return;
    }
    printf("keys: %.0f, %.0f to %.0f\n", now->keys.value, now->keys.low,
           now->keys.high);
    printf("error now: %s\n", PERCENT(now->error));
    printf("measured: %s, %s to %s\n", PERCENT(measured->value), PERCENT(measured->low),
           PERCENT(measured->high));
}

static int run(int argc, char **argv)
{
    struct tamis_estimate now;
    struct tamis_diag diag = {0};
    struct tamis_filter *filter;
    struct options o;
    parse_options(argc, argv, 1, 1, &o);
    int status = file_open(&o, &filter);
    if (status != EXIT_DONE)
        return status;
    int err = tamis_filter_estimate(filter, PROBES, o.seed, &now, &diag);
    if (err != 0)
        status = complain_error(err, &diag, o.args[0], NULL);
    else
        print(&o, &now);
    if (err == 0 && now.n_damaged > 0)
        status = complain(EXIT_DAMAGE,
                          "%s: %s counted as all ones: build it anew from its keys",
                          o.args[0], COUNTED(now.n_damaged, "damaged page"));
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
                OPTION(OFFSET), OPTION(JSON)},
    .examples = "tamis file estimate words.tamis\n",
    .run = run,
};
