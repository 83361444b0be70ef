/* Terminals: their width and colours. Output is complete without them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "screen.h"

enum { AUTO, NEVER, ALWAYS };
static int colours; /* AUTO */

bool colour_choose(const char *when)
{
    static const char *const names[] = {"auto", "never", "always"};
    for (int i = AUTO; i <= ALWAYS; i++)
        if (strcmp(when, names[i]) == 0) {
            colours = i;
            return true;
        }
    return false;
}

bool is_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) == 1 && term != NULL && term[0] != '\0' &&
           strcmp(term, "dumb") != 0;
}

static const char *const begin[] = {
    [TINT_NONE] = "",
    [TINT_GOOD] = "\033[32m",
    [TINT_DOUBT] = "\033[33m",
    [TINT_BAD] = "\033[1;31m",
};

void print_tinted(enum tint tint, const char *format, ...)
{
    const char *no_color = getenv("NO_COLOR"); /* no-color.org: anything but nothing */
    bool wanted = colours == AUTO ? (no_color == NULL || no_color[0] == '\0') &&
                                        is_terminal(STDOUT_FILENO)
                                  : colours == ALWAYS;
    bool tinted = tint != TINT_NONE && wanted;
    va_list args;
    if (tinted)
        fputs(begin[tint], stdout);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    if (tinted)
        fputs("\033[0m", stdout);
}

unsigned screen_width(int fd)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    long n = columns ? strtol(columns, NULL, 10) : 0;
    return n > 0 && n <= 1000 ? (unsigned)n : 80;
}
