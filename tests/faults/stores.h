/* Stores of numbered keys, and what a list of segments must be (stores.c). */
#ifndef TAMIS_FAULTS_STORES_H
#define TAMIS_FAULTS_STORES_H

#include "tests/faults/run.h"

/* Keys 0 .. n - 1 of a segment differ from those of others by its name. A list ends
 * with a zero. */
struct segment {
    const char *name;
    enum tamis_segment_state state;
    uint64_t n;
};

extern struct tamis_store *store; /* of the run; NULL while closed */

const char *store_path(const struct run *r);
int open_store(struct run *r);
void close_store(void);
/* After a fault, once it is gone: does the store that the body has left open still
 * work, without being opened anew? It must, but for the few faults that LMDB, or our
 * knowledge of what may be written, does not survive. Closes it if it does not. */
bool goes_on(struct run *r);
/* A store with these segments, closed. */
void make_store(struct run *r, const struct segment *list);

/* The file of a segment, while the store is closed. */
const char *path_of_segment(struct run *r, const char *name);

/* Parts of an edit. Each returns what the first call that failed did. */
/* Into a packer, or NULL: a file of its own. */
int put_into(struct run *r, struct tamis_edit *e, struct tamis_packer *p,
             const struct segment *s);
int put_built(struct run *r, struct tamis_edit *e, const struct segment *s);
int put_listed(struct run *r, struct tamis_edit *e, const struct segment *list);
/* An edit with this content, committed; aborted if part of it fails. */
typedef int edit_fn(struct run *r, struct tamis_edit *e);
int do_edit(struct run *r, edit_fn *fn);
int drop(struct run *r, struct tamis_edit *e, const char *name);

struct tamis_key key_of(const char *segment, uint64_t i, char text[64]);
int add_to(struct run *r, struct tamis_writer *w, const char *segment, uint64_t from,
           uint64_t to);

/* The store, open: is this its list, with all keys? The hash says whether it is. */
bool lists(struct run *r, const struct segment *list);
void expect_list(struct run *r, const struct segment *list);
/* Nothing of these segments' keys is ABSENT; for a snapshot under faults. */
void expect_nothing_absent(struct run *r, struct tamis_snapshot *snapshot,
                           const struct segment *list);
/* After the next edit's sweep filters/ holds what the list names and nothing else. */
void expect_swept(struct run *r);
/* Makes an empty file. */
void touch(const char *path);
/* Changes the catalog `behind` bytes after each place that has this: pages that are no
 * longer in use have it too. */
void spoil_catalog(const struct run *r, const void *what, size_t n, size_t behind);

#endif
