/* How each of our programs talks to people, and how it ends. One banner per source
 * file; terminals and progress are in screen.h. */
#ifndef TAMIS_TALK_H
#define TAMIS_TALK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tamis.h"

/* Exit statuses; never 1, for too many runtimes exit 1 when they break. */
enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 2,
    EXIT_DAMAGE = 3, /* not a filter, damage, newer version, mismatch */
    EXIT_IO = 4,
    EXIT_NONE = 5, /* no such segment or store */
    EXIT_BUSY = 6,
    EXIT_ABSENT = 10 /* only of probe --quiet */
};

/* ==== status.c: errors as exit statuses ========================================== */

int status_of_error(int error);
/* Of a file that cannot be read: something else in a filter's place is no filter (3),
 * and an error says nothing about its bytes (4). */
bool is_wrong_type(int error);
int status_unread(int error);

/* ==== advice.c: what would work ================================================== */

const char *usual_advice(int error); /* may be NULL, as those below */
const char *advice_memory(void);
extern const char advice_flipped[]; /* where --check found that memory changed */
const char *advice_unread(int error);
/* What mends the store at `path`, where its catalog cannot be used; NULL: nothing that
 * is known, or it is no directory. */
const char *store_advice(int error, const char *path);

/* ==== text.c: bytes for people =================================================== */

/* Length of the valid UTF-8 sequence at s that may be printed as it is, else 0. */
size_t printable(const uint8_t *s, size_t n);
/* Printable ASCII but the backslash, and valid UTF-8 from U+00A0 on but what turns the
 * text around, stand for themselves; every other byte is \xHH. Two texts are equal only
 * if their bytes are. */
void print_escaped(FILE *to, const void *bytes, size_t n);
void print_message(FILE *to, const char *text); /* the same, backslashes kept */
/* Bytes of hex digits into out[max]; the number of them, or -1. */
long parse_hex(const char *digits, size_t n_digits, uint8_t *out, size_t max);
/* "1.5 MiB", "12 keys": into a buffer of the caller's, which is returned. */
enum { TEXT_BYTES = 32 };
const char *size_text(char text[TEXT_BYTES], double n_bytes);
const char *percent_text(char text[TEXT_BYTES], double fraction);
const char *time_text(char text[TEXT_BYTES], uint64_t microseconds);

/* ==== complain.c: the one line that says why ===================================== */

extern const char *program; /* its name, before each message; process_begin() sets it */
/* Prints `PROGRAM: ...` on stderr, the first time only: one error line a run. Returns
 * its first argument. Thread-safe. */
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From here on the first line waits for a second one, and both are printed as one: the
 * second says what has become of the work. */
void complain_later(void);
void complain_now(void);    /* the line that waits; finish_output() calls it */
bool complained_here(void); /* was it this thread's line that was printed? */
/* Returns the pointer. If it is NULL, says that memory is short and exits. */
void *memory_or_exit(void *pointer);

/* ==== escape.c: the same bytes, as texts in memory =============================== */

char *escape(const void *bytes, size_t n); /* malloc'd, NUL-terminated */
char *hex(const void *bytes, size_t n);    /* the same */

/* ==== fail.c: a call that failed ================================================= */

/* `tamis: FILE: what (offset N): what would work` for a failed library call. `file`
 * stands in where the diag knows none; `advice` NULL: the usual one for the code; "":
 * none. */
int complain_error(int error, const struct tamis_diag *diag, const char *file,
                   const char *advice);
int complain_errno(int os_errno, const char *file, const char *doing);
/* For a builder whose add failed. `file` is what it builds; it may well be the spool
 * directory that is at fault. */
int complain_add(int error, const char *file);

/* ==== stdout.c: standard output ================================================== */

/* From here on a report that cannot be written is told as that: what it reports is done
 * and durable, and the status is 4 all the same. */
void work_is_done(void);
/* Flushes and closes stdout; what could not be written turns success into 4. */
int finish_output(int status);
/* Flushes stdout. False once it has failed: time to stop. Says so. */
bool output_works(void);
/* Writes to stdout and flushes it. Says why it cannot; returns the status. */
int print_whole(const char *bytes, size_t n);

#endif
