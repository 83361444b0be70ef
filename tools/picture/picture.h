/* Pictures as files: what `tamis stat --svg` draws, and how a picture comes into its
 * file. One banner per source file; svg.h is for who draws. */
#ifndef TAMIS_PICTURE_H
#define TAMIS_PICTURE_H

#include <stddef.h>

#include "tamis.h"

struct options;

/* ==== store.c: a store =========================================================== */

int store_picture(struct tamis_snapshot *snapshot, const struct options *o);

/* ==== file.c: files that appear whole or not at all ============================== */

/* Is the --svg file none of what the picture is of: the store's, or the list, "-" on
 * standard input? NULL: there is none. If it is: a usage error. */
void check_picture(const struct options *o, const char *store, const char *list);
/* Puts a whole file in the place of `path`, or leaves it as it is; "-" is standard
 * output. Complains; returns the status. */
int replace_file(const char *path, const char *bytes, size_t n);

#endif
