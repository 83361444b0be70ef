/* The picture of `tamis stat --svg`, and how any picture comes into its file. One
 * banner per source file; svg.h has the tools to draw. */
#ifndef TAMIS_PICTURE_H
#define TAMIS_PICTURE_H

#include <stdio.h>

#include "tamis.h"

struct options;

/* ==== store.c: a store =========================================================== */

int store_picture(struct tamis_snapshot *snapshot, const struct options *o);

/* ==== file.c: files that appear whole or not at all ============================== */

/* Exits if --svg names a file of `store`, or `list` ("-": standard input). Each may be
 * NULL. */
void check_picture(const struct options *o, const char *store, const char *list);
/* A drawing to the stream replaces the file `path` in the end, or leaves it as it is;
 * "-" is standard output. Reports failures; returns the status. */
struct drawing {
    FILE *to;
    char *bytes;
    size_t n;
};
FILE *drawing_begin(struct drawing *d);
int drawing_end(struct drawing *d, const char *path);

#endif
