/* tamis file equal: have two filters the same bits? */
#include "../tool.h"

static int ask(const struct options *o, struct tamis_filter **f)
{
    struct tamis_diag diag = {0};
    int equal;
    int err = tamis_filter_equal(f[0], f[1], &equal, &diag);

    if (err != 0)
        return derive_error(err, &diag, o->args[0]);
    return print_answer(o, equal != 0, "EQUAL", "DIFFERENT");
}

static int run(int argc, char **argv)
{
    return ask_two_files(argc, argv, WITH(OPT_QUIET), ask);
}

const struct command cmd_file_equal = {
    "file equal",
    "FILE OTHER",
    "have two filters the same bits?",
    "Prints EQUAL if two sealed filters have the same stages with the same bits,\n"
    "else DIFFERENT. Names, bindings, dates and the like may differ. A damaged page\n"
    "exits 3: nobody knows what its bits were.\n"
    "\n"
    "  -q, --quiet    print nothing: exit 0 if they are equal, 10 if not\n"
    "\n"
    "Examples:\n"
    "  tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
    "  tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
    "  tamis file equal words.tamis more.tamis\n",
    run,
};
