/* Packs made, from inside: rows.c (blocks to rows, in their order, by several threads)
 * and index.c (the table of columns) for write.c. */
#ifndef TAMIS_PACK_INSIDE_H
#define TAMIS_PACK_INSIDE_H

#include "lib/pack/pack.h"

/* ==== rows.c ================================================================ */

/* Makes all rows of the plan, and puts them one slab after the other, all of this in
 * the caller's thread. ENOMEM, or what `put` returned. */
typedef int put_fn(void *to, const uint8_t *rows, size_t n_bytes);
int slabs_make(struct pack_job *job, put_fn *put, void *to);

/* ==== index.c =============================================================== */

struct stage_writer;
struct pack_index {
    struct pack_job *job;
    uint32_t *order;     /* numbers of sources, by name */
    uint32_t *firsts;    /* in `order`: the first entry below each page of a level */
    struct le32 *places; /* the directory */
    struct stage_writer *to; /* NULL: pages are only counted */
    uint32_t n_pages;        /* so far */
    uint64_t keys;           /* of all columns */
    double target_error;     /* the largest */
    int item;                /* the number of the one that was added */
    struct facts now, before;
    uint8_t page[PAGE_BYTES];
};
/* Sets job->index, with its pages counted, unless it is set; ENOMEM, or what facts()
 * returned. */
int pack_index_new(struct pack_job *job);
/* Writes all pages: once, when the blocks of all columns have been read. */
int pack_index_write(struct pack_index *x, struct stage_writer *to);

#endif
