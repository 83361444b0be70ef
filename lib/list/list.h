/* Lists of sorted hashes, for other rooms: a writer, merges, and a reader in order.
 * lib/filter/list.c answers probes.
 *
 *     list_writer_create()
 *     list_writer_add()      again and again
 *     list_writer_finish(), or list_writer_abort()
 *
 *     tamis_list_cursor_create(), list_source_next() until *n is 0
 *
 * Warning: values are not hashes, but their top hash_bits bits (list_cut()). They come
 * in rising order, each once, and no page is better than that order. */
#ifndef TAMIS_LIST_LIST_H
#define TAMIS_LIST_LIST_H

#include "format/list.h"
#include "lib/error.h"
#include "lib/filter/filter.h"

struct list_writer;

struct list_options {
    struct tamis_domain domain;
    uint32_t hash_bits;               /* 1..64; 0: 64 */
    const struct tamis_identity *who; /* NULL: of no segment and no store */
    const uint8_t *set_id;            /* NULL: a new one */
    uint64_t watermark;
    uint64_t n_keys; /* that the hashes come from; 0: as many as hashes */
};

struct list_written {
    uint64_t n_hashes, file_bytes, table_digest;
};

/* Begins a list in a temporary file for `name` in the directory `dir` (R13), with this
 * uuid. `dir` stays open until the list is finished. The writer takes 3 MiB, and 16
 * bytes for each page of 4096. The strings of `who` are used during the call only.
 * ENOMEM, an errno of creating, ERR_NETWORK, ERR_RANGE for wrong options. */
int list_writer_create(const struct list_options *o, const uint8_t uuid[UUID_BYTES],
                       int dir, const char *name, struct list_writer **out,
                       struct tamis_diag *diag);
/* Adds n values, all greater than those before. ERR_RANGE: they are not, or have more
 * than hash_bits bits; the error stays, as every other does: the errno of a write, or
 * ERR_TOO_LARGE for more than 2^28 pages. */
int list_writer_add(struct list_writer *w, const uint64_t *values, size_t n);
/* Writes what is left, and the header last. The file is synced, and gets its name
 * (ERR_EXISTS if that is taken); the directory is synced, too, if sync_dir. Frees the
 * writer, whatever happens. */
int list_writer_finish(struct list_writer *w, bool sync_dir, struct list_written *out,
                       struct tamis_diag *diag);
/* Discards the file, and frees the writer. NULL is none. */
void list_writer_abort(struct list_writer *w);

struct list_target {
    int dir;
    const char *name;
    uint8_t uuid[UUID_BYTES];
    bool sync_dir;
};
/* tamis_list_merge() to a file in an open directory. */
int list_merge(struct tamis_filter *const *lists, size_t n,
               const struct tamis_merge_options *opt, const struct list_target *to,
               struct tamis_merge_report *report, struct list_written *out,
               struct tamis_diag *diag);

/* ==== cursor.c: read in order, for merges and builders ====
 *
 * Warning: a page that fails its check ends the reading with ERR_DAMAGED. A filter made
 * of the hashes before that page lacks keys, and must not be kept. */

struct tamis_list_cursor {
    struct tamis_filter *filter;
    const struct list_map *list;
    int failed;
    uint64_t failed_at; /* offset in the file */
    uint32_t n, next;   /* in `values`; the next to be given */
    uint64_t values[LIST_PAGE_MAX_HASHES];
    struct list_order order;
};

/* The values of the next page, as of a struct merge_source; `source` is the cursor.
 * ERR_DAMAGED stays, in `failed`. */
int list_source_next(void *source, const uint64_t **block, size_t *n);
/* Says at which page it failed, if it did. ERR_DAMAGED, or 0. */
int list_source_failed(const struct tamis_list_cursor *c, struct tamis_diag *diag);

#endif
