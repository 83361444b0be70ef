/* tamis grow: grow.c finds the filter or makes it, grow_add.c adds the keys. */
#ifndef TAMIS_GROW_H
#define TAMIS_GROW_H

#include <stdbool.h>

#include "tamis.h"

struct options;

struct grow {
    const struct options *o;
    const char *path, *name; /* of the store; of the segment */
    struct key_reader *keys;
    struct tamis_store *store;
    struct tamis_writer *writer;
    bool created; /* the segment, by this very command */
};

/* A library call failed: says so, and returns the status. */
int grow_failed(const struct grow *g, int err, const struct tamis_diag *diag);
/* Adds all keys, commits, closes the writer, and says what there is now. A signal to
 * end is obeyed when the keys so far are committed, and that is said: it does not
 * return. */
int grow_add(const struct grow *g);

#endif
