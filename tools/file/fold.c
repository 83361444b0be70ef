/* tamis file fold: a smaller filter file of the same keys. */
#include "../tool.h"

static int run(int argc, char **argv)
{
    return derive_files(argc, argv, DERIVED_FOLD);
}

const struct command cmd_file_fold = {
    "file fold",
    "OUT FILE --by F | OUT FILE --fpr P",
    "a smaller filter of the same keys",
    "Makes a new sealed filter, OUT, of the keys of the sealed FILE in less space,\n"
    "without the keys, as if built at that size. Its error is larger. Damaged pages\n"
    "count as all ones: no key is lost, and it exits 3.\n"
    "\n"
    "  --by F            in 1/F of the space; F divides the pages of each lane\n"
    "  --fpr P           as far as the error stays at most P, 1e-8..0.5 or with %:\n"
    "                    each stage by the largest factor that does\n" DERIVE_FILE_HELP
    "\n"
    "Examples:\n"
    "  tamis file build large.tamis keys.txt --fpr 1e-8\n"
    "  tamis file fold small.tamis large.tamis --fpr 1%\n",
    run,
};
