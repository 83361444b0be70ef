/* tamis file equal: have two filters the same bits? */
#include <stdlib.h>

#include "tool.h"

static int ask(const struct options *o, struct tamis_filter **f)
{
    struct tamis_diag diag = {0};
    int equal;
    int err = tamis_filter_equal(f[0], f[1], &equal, &diag);

    if (err != 0)
        return derive_error(err, &diag, o->args[0]);
    if (!given(o, OPT_QUIET))
        puts(equal ? "EQUAL" : "DIFFERENT");
    return given(o, OPT_QUIET) && !equal ? EXIT_ABSENT : EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct tamis_filter **f = need(calloc(2, sizeof(*f)));
    struct options o;
    int status;

    parse_options(argc, argv, WITH(OPT_QUIET), 2, 2, &o);
    status = files_open(&o, 0, 2, f);
    if (status == EXIT_DONE)
        status = ask(&o, f);
    files_close(f, 2);
    return status;
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
