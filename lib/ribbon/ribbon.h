/* Ribbon pages made from hashes, one by one: for the builder. */
#ifndef TAMIS_RIBBON_RIBBON_H
#define TAMIS_RIBBON_RIBBON_H

#include "format/ribbon.h"

struct kernel;

/* A thread's memory for making pages of a stage. */
struct ribbon_desk;
struct ribbon_desk *ribbon_desk_create(const struct ribbon_geometry *g,
                                       const struct kernel *k); /* NULL: no memory */
void ribbon_desk_free(struct ribbon_desk *d);
uint64_t ribbon_desk_bytes(void);

/* Makes page `number` of all hashes that map to it. */
void ribbon_page_make(struct ribbon_desk *d, uint64_t number, const uint64_t *hashes,
                      size_t n, uint8_t page[PAGE_BYTES]);

#endif
