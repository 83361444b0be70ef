/* Packs made, from inside: rows.c (blocks to rows, in their order, by several threads)
 * and index.c (the table of columns) for write.c. */
#ifndef TAMIS_PACK_INSIDE_H
#define TAMIS_PACK_INSIDE_H

#include "lib/pack/pack.h"

/* ==== rows.c ================================================================ */

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
