/* Results of public calls, and their messages. */
#ifndef TAMIS_ERROR_H
#define TAMIS_ERROR_H

#include <stdbool.h>
#include <string.h>

#include "format/verdict.h"
#include "lib/tamis.h"

/* ==== error.c: codes and words ============================================== */

int verdict_error(enum verdict_code code); /* the public code for a verdict */
/* Each fills *diag (if not NULL) and returns `code`. */
int diag_fail(struct tamis_diag *diag, int code, const char *file, const char *format,
              ...) __attribute__((format(printf, 4, 5)));
int diag_errno(struct tamis_diag *diag, int os_errno, const char *file,
               const char *doing);
/* Says the code's own words. */
int diag_own(struct tamis_diag *diag, int code, const char *file);
/* For a file that could not be made: EEXIST becomes ERR_EXISTS; ERR_* say all. */
int diag_made(struct tamis_diag *diag, int err, const char *file, const char *doing);
/* The same for open(): says why it cannot be a filter. */
int diag_open(struct tamis_diag *diag, int os_errno, const char *file,
              const char *doing);
int diag_verdict(struct tamis_diag *diag, struct verdict v, const char *file,
                 uint64_t record_offset);
void diag_at(struct tamis_diag *diag, uint64_t offset);
void diag_in(struct tamis_diag *diag, const char *file); /* names the file anew */
void diag_clear(struct tamis_diag *diag);
/* The reason for probes of a filter whose open failed with this code. */
enum tamis_reason reason_of_error(int code);

/* Copies the caller's option struct into ours. Fields unknown to an older caller stay
 * zero. ERR_RANGE if the size is impossible. */
int options_copy(void *ours, size_t ours_bytes, const void *theirs);

/* A name for messages: unprintable bytes as \xHH, cut with "..." if long. */
enum { NAME_TEXT_BYTES = 72 };
const char *name_text(char text[NAME_TEXT_BYTES], const void *name, size_t n_bytes);

#endif
