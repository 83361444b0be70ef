/* tamis intersect: a segment of the keys that others share. */
#include "../tool.h"

static int run(int argc, char **argv)
{
    return derive_segments(argc, argv, DERIVED_INTERSECTION);
}

const struct command cmd_intersect = {
    "intersect",
    "STORE NEW SEGMENT... [--replaces OLD]...",
    "a segment of the keys that others share",
    "Registers the segment NEW with a sealed filter of the keys that all the sealed\n"
    "SEGMENTs have: 'tamis help file intersect'.\n"
    "\n" DERIVE_SEGMENT_HELP "\n"
    "Example:\n"
    "  tamis intersect store common 000007.sst 000009.sst\n",
    run,
};
