/* Shared by all rooms of the store: names, the directory of filters, other copies of
 * the library, and the system's headers that most files need. counters.h has the
 * counters of probes. */
#ifndef TAMIS_STORE_BASE_BASE_H
#define TAMIS_STORE_BASE_BASE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/record.h"
#include "lib/filter/header.h"
#include "lib/io/io.h"

/* The bounds that the catalog keeps for a filter that grows (R5). */
static inline struct bounds record_bounds(const struct record *r)
{
    return (struct bounds){.sequence = r->min_sequence,
                           .generation = r->generation,
                           .watermark = r->watermark,
                           .n_stages = r->min_stages};
}

/* files.c: the record of a filter with this commit record, without its range. */
struct record record_of_commit(const struct commit *c, double target_error,
                               uint64_t created, uint32_t rank);

/* The record of a segment's list, or of a file that many segments share, as if that
 * were a segment's filter. In no catalog a record has these states. */
enum { RECORD_OF_LIST = RECORD_SEALED + 1, RECORD_OF_PACK };
static inline struct record record_of_list(const struct record *r)
{
    struct record list = {.state = RECORD_OF_LIST, .table_digest = r->list_digest};
    memcpy(list.uuid, r->list_uuid, UUID_BYTES);
    return list;
}

/* ==== names.c: a map from names to numbers ==== */

/* Keeps pointers to names, no copies. All zeros: empty. */
struct names {
    struct name_bucket *buckets;
    size_t n, n_buckets;
};
int names_set(struct names *s, const void *name, size_t n_bytes, uint32_t value);
uint32_t names_get(const struct names *s, const void *name, size_t n_bytes); /* or 0 */
/* Then names_set() cannot fail for a new name; ENOMEM. */
int names_reserve(struct names *s);
void names_clear(struct names *s);

/* ==== files.c: the directory of filters ==== */

enum { FILTER_NAME_BYTES = 2 * UUID_BYTES + 7, STORE_PATH_BYTES = 4096 };

/* STORE/filters, one shared descriptor. Snapshots outlive stores. */
struct filters_dir {
    atomic_size_t refs;
    int fd;
    struct named *named; /* by its absolute path, for looks */
    char path[];
};
/* `named` leads from the directory `at`, or is absolute. */
int filters_dir_open(int store_fd, const char *store_path, int at, const char *named,
                     struct filters_dir **out);
void filters_dir_release(struct filters_dir *d);

void filter_file_name(const uint8_t uuid[UUID_BYTES], char name[FILTER_NAME_BYTES]);
/* Has the first draft of the format written this file, a filter or tombstones? Or does
 * its header name another store than this one (NULL: any will do)? */
bool filter_file_is_alien(int dir, const char *name, const uint8_t *store);
/* Is this "<uuid>.tamis", or "<uuid>.dead" (*dead), and `rest`: that of a temporary, or
 * nothing? */
bool filter_name_parse(const char *name, uint8_t uuid[UUID_BYTES], bool *dead,
                       const char **rest);
/* Is `rest` that of a temporary file? */
bool filter_rest_temporary(const char *rest);
/* "DIR/NAME" for messages, cut if too long. */
void filters_dir_path(const struct filters_dir *d, const char *name,
                      char path[STORE_PATH_BYTES]);
/* Opens a directory to be locked. Forked children must not keep the lock. */
int dir_open_guarded(int dir, const char *name, struct io_guarded_fd *g);
/* Unlocks first: a child may still have its copy. */
void dir_close_guarded(struct io_guarded_fd *g);
/* flock() through signals; others can tell which process has the lock. An errno. */
int dir_lock(int fd, int how);
void dir_unlock(int fd);
/* Unlocks, and waits for 0 to 10 ms: processes that try in step would fail for ever. */
void dir_step_back(int fd);
/* The same, waiting. ERR_BUSY: the wait is over; somebody is `doing`. */
int dir_wait(int fd, int how, struct io_wait *wait, const char *path, const char *doing,
             struct tamis_diag *diag);
/* Calls fn for each name in a directory, in no order, until fn returns non-zero, and
 * returns that. An errno: the directory was not read to its end. Follows no link. */
typedef int dir_each_fn(void *ctx, int dir, const char *name);
int dir_each(int dir, const char *name, dir_each_fn *fn, void *ctx);
/* 1: an empty directory; 0: not empty; else -1. */
int dir_is_empty(int dir, const char *name);
/* An errno; 0 also if it is not there. */
int filter_file_unlink(int dir, const uint8_t uuid[UUID_BYTES]);
void uuid_random(uint8_t uuid[UUID_BYTES]);
/* Copies n_bytes of a file into an empty one; ERR_DAMAGED if it has fewer. *unreadable:
 * the source failed. */
int filter_file_copy(int from, int to, uint64_t n_bytes, bool *unreadable);

/* ---- tombstones of files that many segments share ---- */

/* Removes the file with this UUID, and its tombstones; as filter_file_unlink(). */
int pack_files_unlink(int dir, const uint8_t uuid[UUID_BYTES]);
/* "<uuid>.dead" */
void dead_file_name(const uint8_t uuid[UUID_BYTES], char name[FILTER_NAME_BYTES]);
/* Reads the tombstones of the file with this UUID, table digest and number of bits
 * (0: any). *file is malloc'd; its bits begin at DEAD_HEAD_BYTES. An errno, or the code
 * of tombstones that are not good. */
int dead_load(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest, uint8_t **file,
              uint32_t *n_columns);
/* Are the tombstones, byte for byte, a file of this head, bits and checksum? */
bool dead_is(int dir, const uint8_t uuid[UUID_BYTES], const uint8_t *head,
             const uint8_t *bits, const uint8_t *checksum, uint32_t n_columns);
/* A new one with these bits, over another if `replace`; synced, but for the directory.
 */
int dead_create(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                uint32_t n_columns, const uint8_t *bits, bool replace);
/* Sets these bits, too. The caller is in a write transaction (R18), and syncs the
 * directory even if they are set already: somebody may have died before his sync. */
int dead_bury(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest,
              const uint8_t *bits, uint32_t n_columns);

/* ==== memory and paths ==== */

/* The array with room for n elements; *max are there already. NULL: no memory, and the
 * array is as it was. */
void *room_for(void *array, size_t n, size_t *max, size_t element_bytes);

/* The path without slashes at its end, so that it has a parent; malloc'd. */
char *plain_path(const char *path);

#endif
