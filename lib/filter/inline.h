/* Values for inline probes, for other rooms: snapshots make values, too. */
#ifndef TAMIS_FILTER_INLINE_H
#define TAMIS_FILTER_INLINE_H

#include <stdbool.h>

#include "lib/tamis_inline.h"

/* The calls that a value makes to its maker: a filter alone, or a snapshot. */
struct tamis_inline_calls {
    enum tamis_answer (*ask)(const struct tamis_inline *value,
                             const struct tamis_key *key, enum tamis_reason *why);
    size_t (*ask_few)(const struct tamis_inline *value, uint64_t tag,
                      const uint64_t *hashes, size_t n, uint64_t *absent,
                      enum tamis_reason *why);
    void (*release)(struct tamis_inline *value);
};

/* Zeroes *out; ERR_RANGE, ERR_VERSION (then nothing is written). */
int inline_begin(const void *object, uint32_t version, struct tamis_inline *out);
/* Points the value to the filter, and holds it. Quick only at this watermark. */
void inline_filter(struct tamis_inline *value, struct tamis_filter *f,
                   uint64_t min_watermark);
/* Gives back the filter, if there is one. */
void inline_release_filter(struct tamis_inline *value);

#endif
