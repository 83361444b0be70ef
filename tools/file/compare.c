/* tamis file contains, equal, compare: relations of two filter files. */
#include "file.h"

/* Prints a yes or no; with --quiet the exit status tells it. */
static int print_answer(const struct options *o, bool is_yes, const char *yes,
                        const char *no)
{
    if (!given(o, OPT_QUIET))
        puts(is_yes ? yes : no);
    return given(o, OPT_QUIET) && !is_yes ? EXIT_ABSENT : EXIT_DONE;
}

/* Reports how many pages of the two fail their check. */
static int complain_pages(struct tamis_filter **f)
{
    unsigned long long n = 0;
    for (int i = 0; i < 2; i++) {
        struct tamis_verify report;
        tamis_filter_verify(f[i], &report, NULL); /* the report is always whole */
        n += report.n_damaged;
    }
    if (n == 0)
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%llu page%s check and prove%s nothing: 'tamis file verify' tells "
                    "which",
                    n, n == 1 ? " fails its" : "s fail their", n == 1 ? "s" : "");
}

/* An ABSENT rests only on the pages that it has read. */
static int ask_contains(const struct options *o, struct tamis_filter **f)
{
    struct tamis_diag diag = {0};
    struct tamis_comparison c;
    int status, err = tamis_filter_compare(f[0], f[1], &c, &diag);
    if (err != 0)
        return derive_error(err, &diag, o->args[0]);
    status = print_answer(o, c.in[1] != TAMIS_ABSENT, "MAYBE", "ABSENT");
    return c.in[1] == TAMIS_ABSENT || !output_works() ? status : complain_pages(f);
}

static int ask_equal(const struct options *o, struct tamis_filter **f)
{
    struct tamis_diag diag = {0};
    int equal;
    int err = tamis_filter_equal(f[0], f[1], &equal, &diag);
    if (err != 0)
        return derive_error(err, &diag, o->args[0]);
    return print_answer(o, equal != 0, "EQUAL", "DIFFERENT");
}

/* Two lists are counted only if both have whole hashes of one seed. */
static int check_lists(const struct options *o, struct tamis_filter **f)
{
    const struct tamis_diag other_seed = {
        .code = TAMIS_ERR_MISMATCH,
        .what = "another hash or seed than the first one's"};
    struct tamis_filter_info info[2];
    for (size_t i = 0; i < 2; i++)
        tamis_filter_info(f[i], &info[i], NULL);
    if (!info[0].hash_bits || !info[1].hash_bits)
        return EXIT_DONE;
    if (info[0].domain.tag != info[1].domain.tag)
        return derive_error(TAMIS_ERR_MISMATCH, &other_seed, o->args[1]);
    for (size_t i = 0; i < 2; i++)
        if (info[i].hash_bits != 64)
            return complain(EXIT_USAGE,
                            "%s: has %u bits of each hash: compare lists of all 64",
                            o->args[i], info[i].hash_bits);
    return EXIT_DONE;
}

static int ask_compare(const struct options *o, struct tamis_filter **f)
{
    struct tamis_diag diag = {0};
    struct compared c;
    int err, status = check_lists(o, f);
    if (status != EXIT_DONE)
        return status;
    err = compare_filters(f, &c, &diag);
    if (err != 0)
        return derive_error(err, &diag, o->args[0]);
    return print_comparison(o, &c, (const char *const[]){o->args[0], o->args[1]});
}

enum question { CONTAINS, EQUAL, COMPARE };

/* Opens the two files that the arguments name, and asks. */
static int run(int argc, char **argv)
{
    static int (*const ask[])(const struct options *o, struct tamis_filter **f) = {
        [CONTAINS] = ask_contains, [EQUAL] = ask_equal, [COMPARE] = ask_compare};
    struct tamis_filter *f[2] = {NULL, NULL};
    struct options o;
    parse_options(argc, argv, 2, 2, &o);
    int status = files_open(&o, 0, 2, f);
    if (status == EXIT_DONE)
        status = ask[this_command->variant](&o, f);
    files_close(f, 2);
    return status;
}

const struct command cmd_file_contains = {
    .name = "file contains",
    .arguments = "WHOLE PART",
    .summary = "tell whether a filter may have all keys of another",
    .about = "Prints MAYBE, or ABSENT if a bit of PART is missing in WHOLE. PART then "
             "has a key that WHOLE lacks, unless PART is an intersection, which has "
             "bits of no key. To ask for one key, build PART from it. Both filters "
             "are sealed, of one seed and of one stage. They are folded to the "
             "greatest size that divides both, and MAYBE says less then. A damaged "
             "page proves nothing: MAYBE then exits 3, and ABSENT stays a proof.\n",
    .options = {OPTION(QUIET, "print nothing: exit 0 if it may, 10 if not")},
    .examples = TWO_FILTERS "tamis file contains words.tamis more.tamis\n",
    .run = run,
    .variant = CONTAINS,
};

const struct command cmd_file_equal = {
    .name = "file equal",
    .arguments = "FILE OTHER",
    .summary = "tell whether two filters have the same bits",
    .about = "Prints EQUAL if two sealed filters have the same stages with the same "
             "bits, else DIFFERENT. Names, bindings and dates may differ. A damaged "
             "page exits 3, because its bits are unknown.\n",
    .options = {OPTION(QUIET, "print nothing: exit 0 if they are equal, 10 if not")},
    .examples = TWO_FILTERS "tamis file equal words.tamis more.tamis\n",
    .run = run,
    .variant = EQUAL,
};

const struct command cmd_file_compare = {
    .name = "file compare",
    .arguments = "FILE OTHER",
    .summary = "count or estimate how many keys two files share",
    .about = "Says how many distinct keys two files have, together and in common, and "
             "the Jaccard index, common / together. It counts the hashes of two lists "
             "of whole hashes ('tamis file build --list'). For two sealed filters it "
             "estimates from the bits alone, with bounds that hold 19 times in 20. The "
             "filters are of one seed and of one stage, as for 'tamis file intersect', "
             "and are folded as there, which makes the bounds wider. They do not hold "
             "for an intersection, which has bits of no key.\n",
    .options = {OPTION(JSON)},
    .examples = TWO_FILTERS "tamis file compare words.tamis more.tamis\n",
    .run = run,
    .variant = COMPARE,
};
