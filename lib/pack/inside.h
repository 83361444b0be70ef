/* Packs made, from inside: rows.c (blocks to rows) for chunks.c (chunks of rows, in
 * their order, by several threads) for write.c, and index.c (the table of columns). */
#ifndef TAMIS_PACK_INSIDE_H
#define TAMIS_PACK_INSIDE_H

#include "lib/kernel/kernel.h"
#include "lib/pack/pack.h"

/* ==== rows.c ================================================================ */

/* Neighbouring blocks of a band, whose rows are made together. */
struct chunk {
    uint32_t band, lane;
    uint64_t first;
    uint32_t n; /* blocks */
};
uint32_t chunk_blocks(const struct band *b); /* at most so many */

/* Where one thread makes rows. */
struct rows {
    struct pack_job *job;
    const struct kernel *kernel;
    unsigned thread;
    bool alone;      /* no other thread makes rows of this job */
    uint8_t *blocks; /* of 64 columns, as they are in the band: their chunks */
    uint8_t *source; /* of one column, before its fold */
};
/* Memory for any band, about 320 KiB; ENOMEM. */
int rows_create(struct rows *r, struct pack_job *job, unsigned thread);
void rows_free(struct rows *r);
/* Makes the rows of a chunk. False: blocks cannot be read. If the thread is alone, they
 * are ones instead, from there on, and it is never false. */
bool rows_make(struct rows *r, const struct chunk *c, uint8_t *out);

/* ==== chunks.c ============================================================== */

/* Makes all rows of the plan, and puts them one chunk after the other, all of this in
 * the caller's thread. ENOMEM, or what `put` returned. */
typedef int put_fn(void *to, const uint8_t *rows, size_t n_bytes);
int chunks_make(struct pack_job *job, put_fn *put, void *to);

/* ==== index.c =============================================================== */

struct stage_writer;
/* Sets job->index, with its pages counted, unless it is set; ENOMEM, or what facts()
 * returned. */
int pack_index_new(struct pack_job *job);
uint64_t pack_index_bytes(const struct pack_index *x);
/* All keys of the columns, and the largest of their target errors. */
uint64_t pack_index_keys(const struct pack_index *x, double *target_error);
const struct le32 *pack_index_places(const struct pack_index *x); /* the directory */
/* Writes all pages: once, when the blocks of all columns have been read. */
int pack_index_write(struct pack_index *x, struct stage_writer *to);

#endif
