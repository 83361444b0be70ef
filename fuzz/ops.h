/* Shared by the files of the target `ops`.
 *
 *   fuzz_ops.c    an input's bytes become steps of tests/steps
 *   ops_files.c   files of the store put back, and damaged */
#ifndef TAMIS_FUZZ_OPS_H
#define TAMIS_FUZZ_OPS_H

#include "fuzz/fuzz.h"

/* ==== fuzz_ops.c ==== */

extern struct player player;
extern bool is_hurt; /* a file was damaged: answers may be MAYBE for any reason */

void check_now(void);

/* ==== ops_files.c ==== */

void step_files(uint8_t what, uint8_t arg);
void files_end(void);

#endif
