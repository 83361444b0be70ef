/* tamis file compare: how many keys two filter files have, and share. */
#include "../tool.h"

static int ask(const struct options *o, struct tamis_filter **f)
{
    return print_comparison(o, f[0], f[1],
                            (const char *const[]){o->args[0], o->args[1]});
}

static int run(int argc, char **argv)
{
    return ask_two_files(argc, argv, WITH(OPT_JSON), ask);
}

const struct command cmd_file_compare = {
    "file compare",
    "FILE OTHER",
    "how many keys two filters share",
    "Estimates from the bits alone how many distinct keys two sealed filters have,\n"
    "together and in common, and the Jaccard index, common / together: each with the\n"
    "bounds between which the truth lies 19 times of 20. They are of one seed, of one\n"
    "stage, and of sizes that divide each other, as for 'tamis file intersect'. An\n"
    "intersection has bits of no key: the bounds do not hold of it.\n"
    "\n"
    "  --json    'tamis help json'\n"
    "\n"
    "Examples:\n"
    "  tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
    "  tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
    "  tamis file compare words.tamis more.tamis\n",
    run,
};
