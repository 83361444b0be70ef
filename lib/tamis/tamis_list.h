#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- lists: the hashes of a segment's keys, kept in order --------------------------
 *
 * A list (SPEC.md section 18) is a sealed file of sorted hashes, cut to their top bits
 * or whole. tamis_filter_open() opens it; it answers probes, and has info (n_hashes,
 * hash_bits), verify and residency as any filter. The functions that combine filters
 * return ERR_UNFIT. A cursor gives its values, in order. A value is the number made of
 * the top hash_bits bits of a hash, so with 64 bits it is the hash. */

struct tamis_list_cursor;

/* Makes a cursor before the first value. It keeps the list mapped, even if the filter
 * is closed before the cursor is freed. It takes 40 KiB. ERR_UNFIT: it is no list.
 * ENOMEM. */
int tamis_list_cursor_create(struct tamis_filter *filter,
                             struct tamis_list_cursor **cursor,
                             struct tamis_diag *diag);
/* Gives the next values, at most n, which are greater than those before, and how many:
 * 0 at the end. Each page is checked before a value of it is given, whatever the
 * filter's mode. A page that fails its check, is not valid, or does not continue the
 * list is ERR_DAMAGED, and the diag has its offset: a cursor never skips. Later calls
 * return the same error; *got is then 0. With 3,583 or more values a call, pages are
 * decoded in place, some 30% faster. It reads pages through the mapping: see SIGBUS. */
int tamis_list_cursor_next(struct tamis_list_cursor *cursor, uint64_t *values, size_t n,
                           size_t *got, struct tamis_diag *diag);
/* Frees the cursor. */
void tamis_list_cursor_free(struct tamis_list_cursor *cursor);
