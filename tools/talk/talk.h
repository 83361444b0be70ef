/* How each of our programs talks to people, and how it ends. One banner per source
 * file; terminals and progress are in screen.h. */
#ifndef TAMIS_TALK_H
#define TAMIS_TALK_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tamis.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit statuses; never 1, for too many runtimes exit 1 when they break. */
enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 2,
    EXIT_DAMAGE = 3, /* not a filter, damage, a lost file, newer version, mismatch */
    EXIT_IO = 4,
    EXIT_NONE = 5, /* no such segment, list or store */
    EXIT_BUSY = 6,
    EXIT_ABSENT = 10 /* only of probe --quiet */
};

static inline int first_failure(int status, int next)
{
    return status != EXIT_DONE ? status : next;
}

/* A segment's. */
struct name {
    const void *bytes;
    size_t n_bytes;
};

static inline struct name name_of_text(const char *text)
{
    return (struct name){text, strlen(text)};
}

/* ==== process.c: the start and the end of each of our programs =================== */

/* `name` is the program's, printed before each message. */
void process_begin(const char *name);
/* From here on the work is done and durable. A lost report says so, and the status is
 * still 4. */
void work_is_done(void);
/* Flushes and closes stdout. A failed write turns success into 4. */
int finish_output(int status);
/* Flushes stdout. False once it has failed, which it reports: stop working. */
bool output_works(void);
/* Writes to stdout and flushes it. Reports a failure; returns the status. */
int print_whole(const char *bytes, size_t n);

/* ==== advice.c: exit statuses, and what would work ================================ */

int status_of_error(int error);
bool is_wrong_type(int error); /* something other than a file is in its place */
/* A file that a store names cannot be read. 3 if it is missing, or something other than
 * a file is in its place; 4 for an error, which says nothing about the file's bytes. */
int status_unread(int error);
const char *usual_advice(int error); /* may be NULL, as those below */
const char *advice_memory(void);
extern const char advice_flipped[]; /* where --check found that memory changed */
/* A file that a store names cannot be used, as the library says; a pack or its
 * tombstones. */
const char *advice_unread(int error, const char *what);
const char *pack_advice(int error, const char *what);
extern const char advice_pack[];
const char *advice_list(int error); /* a segment's list that cannot be used */
/* How to mend the store at `path`, whose catalog cannot be used. NULL if no remedy is
 * known, or if `path` is no directory. */
const char *store_advice(int error, const char *path);

/* ==== text.c: bytes for people =================================================== */

/* Length of the valid UTF-8 sequence at s that may be printed as it is, else 0. */
size_t printable(const uint8_t *s, size_t n);
/* Prints printable ASCII but the backslash, and valid UTF-8 from U+00A0 on but codes
 * that reorder text, as they are; every other byte as \xHH. Two texts are equal only if
 * their bytes are. */
void print_escaped(FILE *to, const void *bytes, size_t n); /* NULL: "-" */
void print_message(FILE *to, const char *text); /* the same, backslashes kept */
/* Bytes of hex digits into out[max]; the number of them, or -1. */
long parse_hex(const char *digits, size_t n_digits, uint8_t *out, size_t max);
/* "1.5 MiB": into a buffer of the caller's, which is returned. The macros bring a
 * buffer that lasts as long as the block in which they stand. */
enum { TEXT_BYTES = 32, COUNTED_BYTES = 64 };
const char *size_text(char text[TEXT_BYTES], double n_bytes);
const char *percent_text(char text[TEXT_BYTES], double fraction);
const char *time_text(char text[TEXT_BYTES], uint64_t microseconds);
/* "1 key", "2 keys", "2 hashes". */
const char *counted_text(char text[COUNTED_BYTES], uint64_t n, const char *noun);
#define LLU(n)             (unsigned long long)(n) /* for %llu */
#define SIZE(n_bytes)      size_text((char[TEXT_BYTES]){0}, (double)(n_bytes))
#define PERCENT(fraction)  percent_text((char[TEXT_BYTES]){0}, fraction)
#define TIME(microseconds) time_text((char[TEXT_BYTES]){0}, microseconds)
#define COUNTED(n, noun)   counted_text((char[COUNTED_BYTES]){0}, n, noun)
/* Two hex digits a byte. The macro is for UUIDs and bindings. */
const char *hex_into(char *text, const void *bytes, size_t n);
#define HEX(bytes, n) hex_into((char[2 *TAMIS_BINDING_MAX + 1]){0}, bytes, n)

/* ==== complain.c: the one error line ============================================= */

extern const char *program; /* its name, before each message; process_begin() sets it */
/* Prints `PROGRAM: ...` on stderr, the first time only: one error line a run. Returns
 * its first argument. Thread-safe. A path is escaped where the format begins with "%s:"
 * or "%s/". */
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line of its own, as often as it is called: about one thing of many. */
void say_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* After a signal that was noted (endings.h) complain() prints nothing, unless this was
 * called. For work that a signal does not make fail, or whose end needs a word. */
void complain_despite_signals(void);
/* Holds the first line back until a second one states what became of the work. Both are
 * printed as one. */
void complain_later(void);
void complain_now(void); /* prints the line held back; finish_output() calls it */
/* For an edit that is done, but not as it should be: printed at the end, the first one
 * only, if nothing else is wrong. The path is escaped already. */
void remark(const char *path, const char *what);
void remark_now(void);      /* the end; finish_output() calls it */
bool complained_here(void); /* did this thread print the line? */
/* For the library while it waits. After a second it says for whom, with --quiet, too. A
 * signal to end (endings.h), held off or noted, ends the wait. */
tamis_waiting_fn wait_ends;
extern double wait_limit; /* of each wait, in seconds; INFINITY: none */
/* Returns the pointer. If it is NULL, reports a memory shortage and exits. */
void *memory_or_exit(void *pointer);

/* ==== escape.c: the same bytes, as texts in memory =============================== */

char *escape(const void *bytes, size_t n); /* malloc'd, NUL-terminated */
/* The same into a buffer of the caller's, cut to it. The macros bring one, as SIZE()
 * does: of a segment's name, of a path. */
enum { ESCAPED_BYTES = 4 * 255 + 1, PATH_TEXT_BYTES = 4 * 4096 + 1 };
const char *escape_into(char *text, size_t room, const void *bytes, size_t n);
#define NAME(bytes, n)    escape_into((char[ESCAPED_BYTES]){0}, ESCAPED_BYTES, bytes, n)
#define TEXT(name)        NAME(name, strlen(name))
#define NAME_OR(bytes, n) ((bytes) != NULL ? NAME(bytes, n) : "-") /* for stdout */
#define PATH(path)                                                                     \
    escape_into((char[PATH_TEXT_BYTES]){0}, PATH_TEXT_BYTES, path, strlen(path))
/* As one word of a command line, quoted for every shell; as $'...', for bash and its
 * like, if it has bytes that are not printed. The same. */
char *shell_quoted(const void *bytes, size_t n);
char *shell_word(const void *bytes, size_t n); /* without quotes if it needs none */
/* A path as an operand: ./ comes before a dash. */
char *path_word(const char *path);

/* ==== fail.c: a call that failed ================================================= */

/* Prints `tamis: FILE: what (offset N): remedy` for a failed library call. `file` is
 * used if the diag names none. `advice` NULL: the usual one of the code; "": none. */
int complain_error(int error, const struct tamis_diag *diag, const char *file,
                   const char *advice);
/* The same of a store, with advice that fits what is there. */
int complain_store(int error, const struct tamis_diag *diag, const char *path);
/* Opens a store, or reports why not. The library says meanwhile for whom it waits. */
int store_open(const char *path, struct tamis_store **store);
int complain_errno(int os_errno, const char *file, const char *doing);
/* Reports a failed add of a builder. `file` is its result; the spool directory may
 * be at fault instead. */
int complain_add(int error, const char *file);

#ifdef __cplusplus
}
#endif

#endif
