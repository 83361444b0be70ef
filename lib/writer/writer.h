/* Writers, for the store: what the public calls lack. */
#ifndef TAMIS_WRITER_WRITER_H
#define TAMIS_WRITER_WRITER_H

#include "lib/filter/header.h"
#include "lib/io/io.h"

/* A writer calls `changed` in commits that change stage table, state or clean flag,
 * once both slots are durable. A failure does not undo the commit. It is the result of
 * a seal, and ignored at close. After opening and growth `changed` is retried, by the
 * next commit or writer_tell_again(). `acknowledge` (may be NULL) runs after the
 * caller's commits and after a seal: may they be acknowledged? */
struct writer_hooks {
    int (*changed)(void *ctx, const struct commit *c, struct tamis_diag *diag);
    void (*closed)(void *ctx);
    void *ctx;
    int (*acknowledge)(void *ctx, struct tamis_diag *diag);
    struct named *named; /* the file's name; the writer frees it; or NULL */
};
/* Creates the file of a growing filter, and does not open it. It is durable, and its
 * directory entry once the caller has synced that. *c is its first commit. */
int writer_format(int dir, const char *name, const struct tamis_writer_options *opt,
                  const uint8_t uuid[UUID_BYTES], struct commit *c,
                  struct tamis_diag *diag);
/* Opens a writer on a descriptor opened for reading and writing, and takes it over,
 * also on failure. `path` is for messages. hooks may be NULL; hooks->closed runs on
 * failure, too. */
int writer_open_fd(struct io_guarded_fd *opened, const char *path,
                   const struct writer_hooks *hooks, struct tamis_writer **out,
                   struct tamis_diag *diag);

/* From now on it is the calling thread's. No other call may run. */
void writer_own(struct tamis_writer *w);
/* Retries hooks.changed if its last call failed, and returns its result. */
int writer_tell_again(struct tamis_writer *w, struct tamis_diag *diag);

/* With the file's lock held: makes a seal durable in both slots (R2). Does nothing
 * without a seal. *h is the header now. ERR_VERSION: a feature forbids writing. */
int seal_settle(int fd, const char *path, struct header *h, struct tamis_diag *diag);

#endif
