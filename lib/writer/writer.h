/* A writer as the store uses it beyond the public calls. */
#ifndef TAMIS_WRITER_WRITER_H
#define TAMIS_WRITER_WRITER_H

#include "lib/filter/header.h"
#include "lib/io/io.h"

/* Called by a writer inside commits that change the stage table, the state or the clean
 * flag, after both slots are durable. A failure does not undo the commit. Of a seal it
 * is the result; after opening and growth it is remembered, and `changed` called again
 * at the next commit or by writer_tell_again(); at close nobody hears of it.
 * `acknowledge` (may be NULL) runs after a commit of the caller's, and after a seal:
 * may it be told that its keys are in? */
struct writer_hooks {
    int (*changed)(void *ctx, const struct commit *c, struct tamis_diag *diag);
    void (*closed)(void *ctx);
    void *ctx;
    int (*acknowledge)(void *ctx, struct tamis_diag *diag);
    struct named *named; /* the file's, the writer's to free; or NULL */
};
/* Creates the file of a growing filter, durable but for the directory entry unless
 * sync_dir, and does not open it. *c is its first commit. */
int writer_format(int dir, const char *name, const struct tamis_writer_options *opt,
                  const uint8_t uuid[UUID_BYTES], bool sync_dir, struct commit *c,
                  struct tamis_diag *diag);
/* Opens it; takes over what was opened for reading and writing, on success and failure.
 * `path` is for messages. hooks may be NULL; hooks->closed runs on failure too. */
int writer_open_fd(struct io_guarded_fd *opened, const char *path,
                   const struct writer_hooks *hooks, struct tamis_writer **out,
                   struct tamis_diag *diag);

/* Calls hooks.changed again if its last call failed: its result. */
int writer_tell_again(struct tamis_writer *w, struct tamis_diag *diag);

/* With the file's lock held: makes a seal durable, and each slot the other's mirror
 * (R2); does nothing if there is none. *h is the header as of now. ERR_VERSION where a
 * feature of a newer tamis forbids to write. */
int seal_settle(int fd, const char *path, struct header *h, struct tamis_diag *diag);

#endif
