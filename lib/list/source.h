/* Lists read in order, for merges and builders.
 *
 *     list_source_open(), list_source_next() until *n is 0, list_source_close()
 *
 * Warning: a page that fails its check ends the reading with ERR_DAMAGED. What is made
 * of the hashes before it lacks keys, and must not be kept. */
#ifndef TAMIS_LIST_SOURCE_H
#define TAMIS_LIST_SOURCE_H

#include "lib/error.h"
#include "lib/filter/filter.h"

struct list_source;
/* The filter must be a list (else ERR_UNFIT), and stay open. ENOMEM. */
int list_source_open(struct tamis_filter *list, struct list_source **out,
                     struct tamis_diag *diag);
void list_source_close(struct list_source *s);
/* The values of the next page, as of a struct merge_source; `source` is the source. */
int list_source_next(void *source, const uint64_t **block, size_t *n);
uint64_t list_source_n_values(const struct list_source *s); /* in all */
uint64_t list_source_n_pages(const struct list_source *s);
uint64_t list_source_pages_read(const struct list_source *s);
uint32_t list_source_hash_bits(const struct list_source *s);
bool list_source_is_bad(const struct list_source *s); /* list_source_next() failed */
/* cursor.c: decodes the next page of a cursor that is asked by nothing else: 0 values
 * at the end. `values` has room for LIST_PAGE_MAX_HASHES. ERR_DAMAGED. */
int list_cursor_page(struct tamis_list_cursor *c, uint64_t *values, size_t *n);
/* Says why list_source_next() failed with this error. Returns it. */
int list_source_failed(const struct list_source *s, int err, struct tamis_diag *diag);

#endif
