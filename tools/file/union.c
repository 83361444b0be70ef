/* tamis file union: one filter file of the keys of several. */
#include "../tool.h"

static int run(int argc, char **argv)
{
    return derive_files(argc, argv, DERIVED_UNION);
}

const struct command cmd_file_union = {
    "file union",
    "OUT FILE...",
    "one filter of the keys of several",
    "Makes a new sealed filter, OUT, that has every key of every FILE, without the\n"
    "keys. FILEs are sealed and of one seed. Stages of equal size become one, as if\n"
    "built from all the keys; others stay stages, and their errors add up. Damaged\n"
    "pages count as all ones: no key is lost, and it exits 3.\n"
    "\n" DERIVE_FILE_HELP "\n"
    "Examples:\n"
    "  tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
    "  tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
    "  tamis file union both.tamis words.tamis more.tamis\n",
    run,
};
