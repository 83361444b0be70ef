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

/* Notes a terminating signal from here on; grow_ended() tells. */
void grow_catch(void);
/* Opens the list of keys. A signal ends the wait for them, too. */
int grow_keys(const struct options *o, struct key_reader **keys);
/* Has a signal come before any key was added? Reports it, and returns a status. */
int grow_ended(const struct grow *g);
/* Obeys the signal and does not return. Returns `status` if no signal came. */
int grow_end(int status);
/* Reports a failed library call and returns the status. */
int grow_failed(const struct grow *g, int err, const struct tamis_diag *diag);
/* Adds all keys, commits, closes the writer and reports the filter. A terminating
 * signal is obeyed when the keys so far are committed and reported: then it does not
 * return. */
int grow_add(const struct grow *g);

#endif
