/* Terminals: their width, colours and characters. Output is complete without them. */
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "screen.h"

static enum { AUTO, NEVER, ALWAYS } colours;

bool colour_choose(const char *when)
{
    if (strcmp(when, "auto") == 0)
        colours = AUTO;
    else if (strcmp(when, "never") == 0)
        colours = NEVER;
    else if (strcmp(when, "always") == 0)
        colours = ALWAYS;
    else
        return false;
    return true;
}

bool is_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) == 1 && term != NULL && term[0] != '\0' &&
           strcmp(term, "dumb") != 0;
}

/* no-color.org: set to anything but nothing. */
static bool coloured(void)
{
    const char *no_color = getenv("NO_COLOR");
    if (colours != AUTO)
        return colours == ALWAYS;
    return (no_color == NULL || no_color[0] == '\0') && is_terminal(STDOUT_FILENO);
}

static const char *const begin[] = {
    [TINT_NONE] = "",
    [TINT_GOOD] = "\033[32m",
    [TINT_DOUBT] = "\033[33m",
    [TINT_BAD] = "\033[1;31m",
};

void print_tinted(enum tint tint, const char *format, ...)
{
    bool tinted = tint != TINT_NONE && coloured();
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

/* The user's locale is asked, and not taken: numbers are printed as they are
 * everywhere.
 */
static bool is_utf8(void)
{
    locale_t user = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool utf8 = user && strcmp(nl_langinfo_l(CODESET, user), "UTF-8") == 0;
    if (user)
        freelocale(user);
    return utf8;
}

/* Blocks of one to eight eighths of a column. */
static const char *const eighths[] = {"",       "\u258f", "\u258e", "\u258d", "\u258c",
                                      "\u258b", "\u258a", "\u2589", "\u2588"};

void print_bar(double fraction, unsigned width, enum tint tint)
{
    bool utf8 = is_utf8();
    unsigned inner = width > 2 ? width - 2 : 1, steps = utf8 ? 8 : 1, full, rest, used;
    char text[4 * 1024] = "", *at = text;
    inner = inner > 1000 ? 1000 : inner;
    fraction = fraction > 0 ? fraction < 1 ? fraction : 1 : 0;
    full = (unsigned)(fraction * inner * steps + 0.5);
    /* A little is not nothing. */
    full += full == 0 && fraction > 0;
    rest = full % steps;
    full /= steps;
    used = full + (rest > 0);
    for (unsigned i = 0; i < full; i++)
        at = stpcpy(at, utf8 ? eighths[8] : "#");
    stpcpy(at, eighths[rest]);
    fputs(utf8 ? "\u2595" : "[", stdout);
    print_tinted(tint, "%s", text);
    printf("%*s%s", (int)(inner - used), "", utf8 ? "\u258f" : "]");
}
