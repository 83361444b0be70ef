/* The identity of a filter as callers give it (struct tamis_identity): checked, written
 * into a header, and compared with one. */
#ifndef TAMIS_FILTER_IDENTITY_H
#define TAMIS_FILTER_IDENTITY_H

#include "format/commit.h"
#include "format/identity.h"
#include "lib/tamis.h"

/* ERR_RANGE unless name and binding have legal lengths; without a pointer 0. */
int identity_check(const struct tamis_identity *of, struct tamis_diag *diag);
void identity_write(const struct tamis_identity *of, struct identity *id,
                    struct commit *c);
/* NULL if the header has this identity; else how it differs. A NULL part fits any. */
const char *identity_differs(const struct tamis_identity *of, const struct identity *id,
                             const struct commit *c);

#endif
