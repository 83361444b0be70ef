/* The commands that work on one filter file, without a store: `tamis file ...`. */
#ifndef TAMIS_FILE_H
#define TAMIS_FILE_H

#include "../output/output.h"

/* The first lines of the examples that take two filters. */
#define TWO_FILTERS                                                                    \
    "tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"                   \
    "tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"

extern const struct command cmd_file_build, cmd_file_compare, cmd_file_contains,
    cmd_file_equal, cmd_file_estimate, cmd_file_fold, cmd_file_intersect,
    cmd_file_merge, cmd_file_probe, cmd_file_show, cmd_file_union, cmd_file_verify;

#endif
