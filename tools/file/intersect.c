/* tamis file intersect: one filter file of the keys that several share. */
#include "../tool.h"

static int run(int argc, char **argv)
{
    return derive_files(argc, argv, DERIVED_INTERSECTION);
}

const struct command cmd_file_intersect = {
    "file intersect",
    "OUT FILE...",
    "one filter of the keys that several share",
    "Makes a new sealed filter, OUT, that has every key that all FILEs have. It may\n"
    "find more of other keys than one built from the common keys. FILEs are sealed,\n"
    "of one seed, of one stage, and of sizes that divide each other: build them for\n"
    "the same error. Damaged pages count as all ones: no key is lost, it exits 3.\n"
    "\n" DERIVE_FILE_HELP "\n"
    "Examples:\n"
    "  tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
    "  tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
    "  tamis file intersect common.tamis words.tamis more.tamis\n",
    run,
};
