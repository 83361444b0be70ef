/* The commands that work on a store: one a file, three in derive.c. A command parses
 * its options first; mistakes exit there, before anything is open. Then it works and
 * returns its exit status. */
#ifndef TAMIS_COMMAND_H
#define TAMIS_COMMAND_H

#include "../output/output.h"

extern const struct command cmd_attach, cmd_backup, cmd_build, cmd_compare, cmd_drop,
    cmd_fold, cmd_grow, cmd_init, cmd_intersect, cmd_ls, cmd_merge, cmd_pack, cmd_plan,
    cmd_probe, cmd_repair, cmd_seal, cmd_stat, cmd_union, cmd_unpack, cmd_verify;

/* tamis build STORE SEGMENT --from-list, in merge.c. */
int build_from_list(const struct options *o);

#endif
