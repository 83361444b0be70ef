/* tamis union: a segment of the keys of others. */
#include "../tool.h"

static int run(int argc, char **argv)
{
    return derive_segments(argc, argv, DERIVED_UNION);
}

const struct command cmd_union = {
    "union",
    "STORE NEW SEGMENT... [--replaces OLD]...",
    "a segment of the keys of others, without the keys",
    "Registers the segment NEW with a sealed filter of all keys of the sealed\n"
    "SEGMENTs, as for a merge of them: 'tamis help file union'. Its error is above\n"
    "that of a filter built from the keys.\n"
    "\n" DERIVE_SEGMENT_HELP "\n"
    "Example:\n"
    "  tamis union store 000013.sst 000007.sst 000009.sst --replaces 000007.sst\n",
    run,
};
