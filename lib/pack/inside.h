/* Packs made, from inside: rows.c (blocks to rows) for write.c. */
#ifndef TAMIS_PACK_INSIDE_H
#define TAMIS_PACK_INSIDE_H

#include "lib/kernel/kernel.h"
#include "lib/pack/pack.h"

/* The rows of a band, some blocks at a time. */
struct rows {
    struct pack_job *job;
    const struct kernel *kernel;
    const struct band *band;
    uint32_t chunk_blocks; /* so many at a time */
    uint8_t *blocks;       /* of 64 columns, as they are in the band: their chunks */
    uint8_t *source;       /* of one column, before its fold */
    uint8_t *rows;         /* the result, chunk_blocks * 512 rows */
};
/* Memory for any band of the plan, about 2 MiB; ENOMEM. */
int rows_create(struct rows *r, struct pack_job *job);
void rows_free(struct rows *r);
void rows_begin(struct rows *r, const struct band *b);
/* Makes the rows of blocks [first, first + n) of a lane, n <= chunk_blocks. */
void rows_make(struct rows *r, uint32_t lane, uint64_t first, uint32_t n);

#endif
