/* Stores, segments and files that a command names: opens them, finds them, and says why
 * it cannot. One banner per source file. */
#ifndef TAMIS_OPEN_H
#define TAMIS_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tamis.h"

struct options;
struct stat;

/* ==== store.c: stores ============================================================ */

int store_open(const char *path, struct tamis_store **store);
int store_snapshot(const char *path, struct tamis_store **store,
                   struct tamis_snapshot **snapshot);
/* Is the path, or would it be, in the store's directory? */
bool lies_inside(const char *path, const char *store);

/* ==== segment.c: segments of a store ============================================= */

/* A file in the store's directory. False: errno says why. */
bool stat_in(const char *store, const char *file, struct stat *st);
/* The disk space of the segment's file: a file with holes takes less than its
 * length. If the file cannot be asked: its length in the catalog. */
uint64_t allocated_bytes(const char *store, const struct tamis_segment_info *s);
/* `diag` of a call about this segment's filter: by its name, for the file's is ours. */
int segment_error(int err, const struct tamis_diag *diag, const char *path,
                  struct tamis_name name, const char *advice);
/* The segments that are named, each once, all if none is: numbers into *list
 * (malloc'd). An unknown one is complained about. */
int pick_segments(const struct tamis_snapshot *snapshot, const char *path,
                  char *const *names, size_t n_names, size_t **list, size_t *n);
/* A segment that tamis_snapshot_find() or an edit's drop did not find: says so, and
 * which one may be meant. Returns the status. */
int not_found(int err, const struct tamis_snapshot *snapshot, const char *path,
              struct tamis_name name);
int not_dropped(int err, struct tamis_store *store, const char *path, const char *name,
                const struct tamis_diag *diag);
/* Finds a segment of an older snapshot again: the same filter still (0), another
 * one or none any more (ERR_NO_SEGMENT). *fresh, to be released, is a newer snapshot
 * and *index its segment of that name, SIZE_MAX if there is none. */
int segment_now(struct tamis_store *store, const struct tamis_segment_info *old,
                struct tamis_snapshot **fresh, size_t *index);
const char *state_name(enum tamis_segment_state state);
void segment_options(const struct options *o, struct tamis_segment_options *out);

/* ==== file.c: files of their own ================================================= */

uint64_t regular_bytes(const char *path); /* 0: no regular file */
/* May a file be made there? Looks early what the library says late. */
int check_new_file(const char *path);
/* It is a directory, a device, ...: says so. Nothing is damaged. */
int not_a_file(const char *path);
/* Why the file that is the first argument could not be read, and the status. */
int file_error(const struct options *o, int err, const struct tamis_diag *diag);
/* The filter at its --offset. */
int file_open(const struct options *o, struct tamis_filter **filter);
/* Files, from args[first] on; to be closed by files_close(). */
int files_open(const struct options *o, size_t first, size_t n,
               struct tamis_filter **filters);
void files_close(struct tamis_filter **filters, size_t n);

#endif
