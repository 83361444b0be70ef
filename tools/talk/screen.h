/* Output for people only: colours, progress. One banner per source file. */
#ifndef TAMIS_SCREEN_H
#define TAMIS_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ==== screen.c: terminals ======================================================== */

/* `when` is "never", "auto" or "always"; false for another word. The default, "auto",
 * means a terminal that is not TERM=dumb, unless NO_COLOR is set. */
bool colour_choose(const char *when);
enum tint { TINT_NONE, TINT_GOOD, TINT_DOUBT, TINT_BAD };
/* To stdout, coloured where colours are wanted. */
void print_tinted(enum tint tint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Columns of the terminal, 80 where there is none. */
unsigned screen_width(int fd);
bool is_terminal(int fd); /* one that can move its cursor */

/* ==== progress.c: a line on stderr =============================================== */

/* `total` bytes to come, 0 if unknown. One at a time; advance from any thread. Without
 * keys the rate is in bytes. */
void progress_start(const char *what, uint64_t total_bytes);
void progress_advance(uint64_t n_keys, uint64_t n_bytes);
void progress_end(void);
/* The closing line of a command, on stderr, in place of the progress. */
void progress_close(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_wipe(void);  /* before a line on stdout, which may be the same terminal */
void progress_clear(void); /* the same, for good */

#endif
