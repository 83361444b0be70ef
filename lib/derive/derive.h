/* Filters made from filters, for the store. */
#ifndef TAMIS_DERIVE_DERIVE_H
#define TAMIS_DERIVE_DERIVE_H

#include "lib/builder/builder.h"

/* Where it goes: to `path`; or, with a name, into the open directory `dir`, which is
 * not synced. */
struct derive_to {
    const char *path, *name;
    int dir;
    const uint8_t *uuid; /* NULL: a random one */
    struct built *made;  /* may be NULL */
};
int derive(struct tamis_filter *const *sources, size_t n,
           const struct tamis_derivation *what, const struct tamis_derive_options *opt,
           const struct derive_to *to, struct tamis_derive_report *report,
           struct tamis_diag *diag);

/* The share of n_probes random keys, made from `seed`, that the filter, of any kind,
 * has not ABSENT. */
void filter_measure(struct tamis_filter *filter, uint64_t n_probes, uint64_t seed,
                    struct tamis_interval *out);

#endif
