/* One edit of one store: what edit.c does with each of its cases, for packs.c as well.
 */
#ifndef TAMIS_FAULTS_EDIT_H
#define TAMIS_FAULTS_EDIT_H

#include "tests/faults/stores.h"

/* Makes a store with the segments of `before`, which the edit makes those of `after`.
 */
void begin_case(struct run *r, const struct segment *before,
                const struct segment *after, edit_fn *edit);
void edit_body(struct run *r);
/* All of the edit or nothing; then the next attempt, and no file too many. */
void edit_check(struct run *r);

#endif
