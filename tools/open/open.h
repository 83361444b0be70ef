/* Finds and opens the stores, segments and files that a command names, and reports
 * failures. One banner per source file. */
#ifndef TAMIS_OPEN_H
#define TAMIS_OPEN_H

#include "../input/input.h"

struct stat;

/* ==== segment.c: stores, their packs and segments ================================ */

/* Opens it, and takes a snapshot; on failure the process ends. */
void store_snapshot(const char *path, struct tamis_store **store,
                    struct tamis_snapshot **snapshot);
/* Is the path inside the store's directory, or would it be? */
bool lies_inside(const char *path, const char *store);

/* The disk space of the segment's file: a file with holes takes less than its
 * length. If the file cannot be asked: its length in the catalog; of a column: its
 * share of the pack. */
uint64_t allocated_bytes(const char *store, struct tamis_snapshot *snapshot, size_t i,
                         const struct tamis_segment_info *s);
/* Reports `diag` under the segment's name: the name of the file is internal. */
int segment_error(int err, const struct tamis_diag *diag, const char *path,
                  struct name name, const char *advice);
/* Finds the segments that are named, each once; all if none is named. Their numbers go
 * into *list (malloc'd). An unknown name is reported. */
int pick_segments(const struct tamis_snapshot *snapshot, const char *path,
                  char *const *names, size_t n_names, size_t **list, size_t *n);
/* The same, but all cost no memory: then *list is NULL. */
int pick_named(const struct tamis_snapshot *snapshot, const char *path,
               char *const *names, size_t n_names, size_t **list, size_t *n);
/* The next of these: its number into *segment. *at is 0 at first. */
bool next_picked(const struct tamis_snapshot *snapshot, const size_t *list, size_t n,
                 size_t *at, size_t *segment);
/* As pick_segments(), with up to 1024 filters open: those that are not where the
 * snapshot has them are looked for in newer ones. */
int pick_open_segments(struct tamis_store *store, struct tamis_snapshot **snapshot,
                       const char *path, char *const *names, size_t n_names,
                       size_t **list, size_t *n);
/* Reports a segment that tamis_snapshot_find() or an edit's drop did not find, with a
 * suggestion. Returns the status. */
int not_found(int err, const struct tamis_snapshot *snapshot, const char *path,
              struct name name);
int not_dropped(int err, struct tamis_store *store, const char *path, const char *name,
                const struct tamis_diag *diag);
/* Finds a segment of an older snapshot again. It still has the same filter in the same
 * place, or nothing newer is known; or another process has dropped, replaced or packed
 * it. *fresh, to be released, is a newer snapshot, *index its segment of that name,
 * SIZE_MAX if there is none. */
enum fate { SEGMENT_STAYS, SEGMENT_DROPPED, SEGMENT_MOVED };
enum fate segment_now(struct tamis_store *store, const struct tamis_segment_info *old,
                      struct tamis_snapshot **fresh, size_t *index);
/* The same, where only this matters. */
enum fate segment_fate(struct tamis_store *store, const struct tamis_segment_info *old);
/* Takes a newer snapshot if files are not where this one has them: other processes pack
 * and drop. False: there is none, or *tries (first 0) are up. */
bool newer_snapshot(struct tamis_store *store, struct tamis_snapshot **snapshot,
                    unsigned *tries);
/* Reports that the name is taken, with the option that replaces its segment. Returns
 * the status. */
int exists_already(const char *path, struct name name);
const char *state_name(enum tamis_segment_state state);
void segment_options(const struct options *o, struct tamis_segment_options *out);
/* stat() of a file in the store's directory. False: errno has the reason. */
bool stat_in(const char *store, const char *file, struct stat *st);
void pack_file_name(const uint8_t *uuid, char file[64]); /* in the store */
struct pack {
    struct tamis_filter *filter;         /* the snapshot's */
    char file[64];                       /* in the store */
    char name[2 * TAMIS_UUID_BYTES + 1]; /* the UUID in hex digits */
    uint64_t file_bytes, allocated, n_segments, n_columns, n_bands;
};
/* Lists the packs that answer for segments; malloc'd. */
struct pack *packs_list(struct tamis_snapshot *snapshot, const char *store, size_t *n);
/* Is the segment a column of a pack? *place (may be NULL) is its place. */
bool is_column(struct tamis_snapshot *snapshot, size_t i,
               struct tamis_pack_place *place);
/* Does the segment's record name a pack that does not answer? */
bool is_in_lost_pack(struct tamis_snapshot *snapshot, size_t i);
/* Is there no answer for the pack's segments, in a newer snapshot either? */
bool pack_is_lost(struct tamis_store *store, const struct tamis_pack_info *info);
/* Is the catalog at odds with the pack? Then its segments are unknown. */
bool pack_is_unlisted(const struct tamis_pack_info *info);
#define PACK_UNLISTED                                                                  \
    "the catalog does not agree on this pack's columns: 'tamis repair' lists them "    \
    "anew"

/* ==== edit.c: edits ============================================================== */

/* Begins it, and says at once how many filters that removed. diag: not NULL. */
int edit_begin(struct tamis_store *store, bool dry, struct tamis_edit **edit,
               struct tamis_diag *diag);
/* Begins an edit, does the `work`, and commits it. If the work fails or is `dry`, the
 * edit is aborted. A terminating signal makes it fail, so that it leaves no file.
 * `failed` reports why it was not committed. Returns the status. */
typedef int not_committed_fn(void *ctx, int err, const struct tamis_diag *diag);
int edit_store(struct tamis_store *store, const char *path, struct tamis_edit **edit,
               int (*work)(void *ctx), void *ctx, bool dry, not_committed_fn *failed);
/* Reports a failed commit: 6 if a segment was replaced or dropped meanwhile. */
int replaced_error(int err, const struct tamis_diag *diag, const char *store);
/* An edit for named segments of the first argument's store, or for all. */
struct segments_edit {
    const struct options *o;
    void *made;              /* the command's own */
    int (*work)(void *edit); /* of a struct segments_edit, as that of edit_store() */
    int (*put_error)(const struct segments_edit *e, int err,
                     const struct tamis_diag *diag); /* for ERR_EXISTS; or NULL */
    int (*print)(struct segments_edit *e);           /* when it is done */
    bool open;                                       /* as pick_open_segments() */
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_edit *edit;
    size_t *segments, n;
};
int edit_segments(struct segments_edit *e, char *const *names, size_t n_names);
/* Drops the segments of --replaces. Returns the status. */
int drop_replaced(struct tamis_edit *edit, struct tamis_store *store,
                  const struct options *o);
/* Commits it, and warns of dropped files that could not be removed. A signal that ends
 * the wait for another process aborts the edit. diag: not NULL. */
int edit_commit(struct tamis_edit *edit, struct tamis_diag *diag);

/* ==== file.c: files outside stores =============================================== */

uint64_t regular_bytes(const char *path); /* 0: no regular file */
/* Can a file be created there? Fails early where the library would fail late. */
int check_new_file(const char *path);
/* Reports a directory, device or the like in place of a file. Nothing is damaged. */
int not_a_file(const char *path);
/* Reports why the first argument's file could not be read. Returns the status. */
int file_error(const struct options *o, int err, const struct tamis_diag *diag);
/* The filter at its --offset. */
int file_open(const struct options *o, struct tamis_filter **filter);
/* The name that it has, else the file's; and its info. */
struct name filter_name(struct tamis_filter *filter, const char *path,
                        struct tamis_filter_info *info);
/* Opens files, from args[first] on; files_close() closes them. */
int files_open(const struct options *o, size_t first, size_t n,
               struct tamis_filter **filters);
void files_close(struct tamis_filter **filters, size_t n);

#endif
