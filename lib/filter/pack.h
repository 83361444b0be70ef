/* An open pack: which columns may have a key? (SPEC.md §17)
 *
 *     h --> a block of each lane, and `words` bits in it --> as many rows
 *
 *     row       0 1 1 0 1 ...     column 2 may have the key: its bit is
 *     row       0 0 1 1 1 ...     set in all rows
 *     AND       0 0 1 0 1 ...
 *
 * A pack is opened as any filter is (tamis_filter_open(), filter_open_fd()), sealed at
 * birth, so that it has one view. Warning: nothing here knows which columns live. */
#ifndef TAMIS_FILTER_PACK_H
#define TAMIS_FILTER_PACK_H

#include "format/pack.h"
#include "lib/tamis.h"

struct view;

/* The bands; NULL if f is no pack, or if its table of bands failed a check. Then every
 * answer is MAYBE. */
const struct band *pack_bands(struct tamis_filter *f, uint32_t *n_bands);

/* Fetches the rows that a key's first lane has in this band. */
void pack_prefetch(struct tamis_filter *f, const struct band *b, uint64_t h);

/* Asks all columns of a band: bit c % 8 of hits[c / 8] is set if column c may have the
 * key. Writes row_bytes bytes, at least 8. Bits beyond the last column are 0. False:
 * none may. *damaged becomes true if a page that failed its check took part; it is not
 * cleared. Waits for nothing. */
bool pack_probe_band(struct tamis_filter *f, const struct band *b, uint64_t h,
                     uint8_t hits[ROW_MAX_BYTES], bool *damaged);

/* One column of a band: TAMIS_NO_REASON (absent), TAMIS_HIT or TAMIS_DAMAGED. */
enum tamis_reason pack_probe_column(struct tamis_filter *f, const struct band *b,
                                    uint32_t column, uint64_t h);

/* The same for at most 64 keys: bit i of *absent is set if the column lacks key i. */
void pack_probe_column_many(struct tamis_filter *f, const struct band *b,
                            uint32_t column, const uint64_t *hashes, size_t n,
                            uint64_t *absent);

#endif
