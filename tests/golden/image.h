/* A filter in memory, put together from SPEC.md's records: the header, then each
 * stage's bits and its floors or digests, in whole pages. For golden files that the
 * library does not write by itself. */
#ifndef TAMIS_TESTS_GOLDEN_IMAGE_H
#define TAMIS_TESTS_GOLDEN_IMAGE_H

#include "format/commit.h"
#include "format/identity.h"
#include "format/integrity.h"

struct image {
    struct identity id;
    struct commit c;
    uint8_t *bytes;
    uint64_t n_bytes;
};

/* Begins a filter named "golden", sealed at birth or growing. The caller frees it. */
void image_begin(struct image *m, int growing);
/* Room for n_bytes more, in zeroed pages; returns where they begin. */
uint64_t image_area(struct image *m, uint64_t n_bytes);
/* Adds a stage with the next n_keys keys, and its floors or digests. */
void image_stage(struct image *m, struct geometry g, unsigned n_keys);
/* Digests a stage as it is: sets its root, and digests if it has several pages. */
void image_digest(struct image *m, struct stage_desc *s);
/* Settles the first stage that is not (SPEC.md R17). */
void image_settle(struct image *m);
/* Makes the checksum of the floor sector at this offset good. */
void image_seal_floors(struct image *m, uint64_t at);
/* Writes the header. */
void image_finish(struct image *m);

#endif
