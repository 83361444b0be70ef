/* tamis fold: a segment's filter in less space. */
#include "../tool.h"

static int run(int argc, char **argv)
{
    return derive_segments(argc, argv, DERIVED_FOLD);
}

const struct command cmd_fold = {
    "fold",
    "STORE NEW SEGMENT --by F | STORE NEW SEGMENT --fpr P",
    "a segment's filter in less space",
    "Registers the segment NEW with a smaller filter of the keys of the sealed\n"
    "SEGMENT: 'tamis help file fold'. With --replaces SEGMENT, NEW may have the same\n"
    "name; --bind, --rank and --watermark are to be given again.\n"
    "\n"
    "  --by F            in 1/F of the space; F divides the pages of each lane\n"
    "  --fpr P           as far as the error stays at most P, 1e-8..0.5 or with %\n"
    "                    each stage by the largest factor that "
    "does\n" DERIVE_SEGMENT_HELP "\n"
    "Example:\n"
    "  tamis fold store 000012.sst 000012.sst --fpr 2% --replaces 000012.sst\n",
    run,
};
